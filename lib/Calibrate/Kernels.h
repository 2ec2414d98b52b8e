//===- Kernels.h - Kernels that are measured ----------------------------------===//
//
// Compiled once, as the compiler emits kernels for a training binary, and loaded into this process.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Calibrate/Calibrate.h"
#include "cleave/Target/CPU/AttentionKernel.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include <memory>

namespace cleave::calibrate {

using Entry = void (*)(void *const *args, int64_t begin, int64_t end);

/// The three kernels of attention for one size.
struct AttentionKernels {
  cpu::AttentionSizes sizes;
  /// Forward, gradient of queries, of keys and values.
  std::array<Entry, 3> entries = {};
  std::array<int64_t, 3> extents = {};
};

struct FunctionKernel {
  std::string name;
  Entry entry = nullptr;
};

class Kernels {
public:
  /// Numbers that each of the pass kernels takes at most, and those of a row of `shortRows`.
  static constexpr int64_t kNumbers = int64_t(1) << 25;
  static constexpr int64_t kShortRow = 4, kLongRow = 64;
  /// Multiply-adds on each number of `chains`, and operations on each of the rows.
  static constexpr int kMultiplyAdds = 32, kRowOperations = 4 + 1 + 2 * (6 + 12) + 3;

  static rt::StatusOr<std::unique_ptr<Kernels>> compile(const Options &options);

  std::vector<AttentionKernels> attention;
  /// y = a·c + b over numbers; the update of AdamW (g, p, m, v).
  Entry stream = nullptr, update = nullptr;
  /// y = f(a), the first one f(a) = a·c.
  std::vector<FunctionKernel> functions;
  /// Chains of multiply-adds; a loop over rows that fill vectors, and over short ones.
  Entry chains = nullptr, longRows = nullptr, shortRows = nullptr;

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace cleave::calibrate
