//===- Profile.cpp - instruction-set profiles -----------------------------===//

#include "cleave/Target/CPU/KernelCompiler.h"

namespace cleave::cpu {

Profile Profile::avx2() {
  return {.name = "avx2",
          .machine = "x86-64-v3",
          .cpu = "haswell",
          .features = "+avx2,+fma,+bmi2,+f16c",
          .lanes = 8};
}

// LLVM prefers 256-bit vectors on this processor unless told otherwise; kernels
// are bound by memory, and run long enough for the wide units to pay.
Profile Profile::avx512() {
  return {.name = "avx512",
          .machine = "x86-64-v4",
          .cpu = "skylake-avx512",
          .features = "+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512cd,+fma,-prefer-256-bit",
          .lanes = 16};
}

Profile Profile::avx512Bf16() {
  Profile profile = avx512();
  profile.name = "avx512-bf16";
  profile.machine += "+avx512bf16";
  profile.features += ",+avx512bf16";
  profile.roundsToBF16 = true;
  return profile;
}

mlir::FailureOr<Profile> Profile::byName(llvm::StringRef name) {
  for (const Profile &profile : {avx2(), avx512(), avx512Bf16()})
    if (profile.name == name)
      return profile;
  return mlir::failure();
}

} // namespace cleave::cpu
