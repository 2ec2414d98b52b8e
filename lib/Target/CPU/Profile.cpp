//===- Profile.cpp - instruction-set profiles -----------------------------===//

#include "cleave/Target/CPU/KernelCompiler.h"

namespace cleave::cpu {

Profile Profile::avx2() { return {"avx2", "haswell", "+avx2,+fma,+bmi2,+f16c", 8}; }

// LLVM prefers 256-bit vectors on this processor unless told otherwise; kernels
// are bound by memory, and run long enough for the wide units to pay.
Profile Profile::avx512() {
  return {"avx512", "skylake-avx512",
          "+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512cd,+fma,-prefer-256-bit", 16,
          /*narrowProducts=*/true};
}

mlir::FailureOr<Profile> Profile::byName(llvm::StringRef name) {
  if (name == "avx2")
    return avx2();
  if (name == "avx512")
    return avx512();
  return mlir::failure();
}

} // namespace cleave::cpu
