//===- Rows.h - The rows that operators share ------------------------------===//
//
// Finds out whether operators can be one kernel, by the names of dimensions:
// names that always occur side by side are merged into one dimension, and the
// merged dimension that leads all results is what the kernel runs over.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Interfaces/Interfaces.h"
#include "dialects/NN/NN.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace cleave::fusion {

/// The dimensions of some operators as one kernel sees them.
class Rows {
public:
  /// Plans `ops` as one kernel. Results that nobody uses do not count. On failure
  /// `why` (if given) says what does not fit.
  static std::optional<Rows> plan(llvm::ArrayRef<mlir::Operation *> ops,
                                  std::string *why = nullptr);

  /// Iterations of the kernel; 1 for scalars.
  int64_t extent() const { return count; }
  /// True if the results have no rows: each is one value, or mixed throughout.
  bool none() const { return lead.empty(); }
  /// A result without rows that is more than a scalar: it shares no kernel.
  bool alone() const { return single; }

  /// `type` with merged dimensions; names are joined by dots.
  mlir::RankedTensorType merged(mlir::RankedTensorType type) const;
  /// The same for a result: without rows it has a dimension of size 1 in front.
  mlir::RankedTensorType mergedResult(mlir::RankedTensorType type) const;
  /// Whether the merged `type` has the rows, and where (-1: not).
  int rowDim(mlir::RankedTensorType type) const;

private:
  bool addTypes(llvm::ArrayRef<mlir::Operation *> ops, std::string *why);
  bool addType(mlir::Type type, std::string *why);
  bool findLead(llvm::ArrayRef<mlir::Operation *> ops, std::string *why);
  void keepApart(mlir::StringAttr name);

  llvm::MapVector<mlir::StringAttr, int64_t> sizes;
  /// What follows and precedes each name everywhere; null: nothing, or not always
  /// the same.
  llvm::DenseMap<mlir::StringAttr, mlir::StringAttr> next, previous;
  mlir::StringAttr one;                     ///< name of the dimension in front of scalars
  llvm::SmallVector<mlir::StringAttr> lead; ///< the rows' names
  int64_t count = 1;
  bool single = false;
};

/// The results of `op` that somebody uses.
llvm::SmallVector<mlir::OpResult> usedResults(mlir::Operation *op);

} // namespace cleave::fusion
