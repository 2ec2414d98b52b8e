//===- LinearExpr.h - index expressions of kernels --------------*- C++ -*-===//
//
// A sum of loop dimensions times constants, plus a constant: how the kernel
// compiler writes every index of a tensor and every address. Kept in one form
// (sorted, no zero terms), so that equal expressions compare equal. Affine maps
// with real divisions or remainders have no such form.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <utility>

namespace cleave::target {

class LinearExpr {
public:
  using Term = std::pair<unsigned, int64_t>;

  LinearExpr() = default;
  /*implicit*/ LinearExpr(int64_t constant) : constantPart(constant) {}
  static LinearExpr dim(unsigned id, int64_t coefficient = 1);

  llvm::ArrayRef<Term> terms() const { return termList; }
  int64_t constant() const { return constantPart; }
  bool isConstant() const { return termList.empty(); }
  /// The factor of dimension `id`, 0 if it does not occur.
  int64_t coefficient(unsigned id) const;
  /// Whether this is just the dimension `id`.
  bool isDim(unsigned id) const;

  LinearExpr operator+(const LinearExpr &other) const;
  LinearExpr operator*(int64_t factor) const;
  bool operator==(const LinearExpr &other) const = default;
  bool operator<(const LinearExpr &other) const;

  /// Puts `values[id]` in the place of each dimension `id`.
  LinearExpr substitute(llvm::ArrayRef<LinearExpr> values) const;

private:
  llvm::SmallVector<Term, 4> termList;
  int64_t constantPart = 0;
};

using IndexList = llvm::SmallVector<LinearExpr, 4>;

/// `expr` with `dims[i]` in the place of dimension i; failure if the result is
/// not linear.
mlir::FailureOr<LinearExpr> applyAffine(mlir::AffineExpr expr, llvm::ArrayRef<LinearExpr> dims);

/// The row-major address (in elements) of `index` in a dense tensor of `shape`.
LinearExpr denseAddress(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<LinearExpr> index);

} // namespace cleave::target
