//===- Kernel.h - what a kernel function computes, as loop nests -*- C++ -*-===//
//
// The plan of a kernel. Values that must exist in memory or as a per-row scalar
// are *roots*: the results, every reduction, and few costly values used in more
// than one place. All other values are computed where they are used, in
// registers. Roots are put into *nests*: loop nests inside one row (one index of
// the outer dimension) that run one after another; roots that walk the same
// space share a nest.
//
//   y = x * rsqrt(mean(x * x))      nest 0: reduction of x * x     (row scalar)
//                                   nest 1: elementwise y
//
// Inside a root, dimensions are numbered: 0 is the outer one, i + 1 is
// `extents[i]`. Nothing here emits code.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "lib/Target/Kernel/LinearExpr.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallSet.h"
#include <deque>
#include <optional>

namespace cleave::target {

/// A tensor seen inside an argument: element i is at offset + sum i_k * strides_k.
struct StridedView {
  unsigned arg = 0;
  int64_t offset = 0;
  llvm::SmallVector<int64_t, 4> strides;

  LinearExpr address(llvm::ArrayRef<LinearExpr> index) const;
};

/// A read of an argument while a root is computed, in the root's dimensions.
struct Load {
  unsigned arg = 0;
  LinearExpr address;
  /// Dimensions on which a data-dependent part of the address depends.
  llvm::SmallSet<unsigned, 4> irregular;
};

/// One value of a root and where it is stored.
struct RootValue {
  mlir::Value value;
  IndexList index;                 ///< the element computed, in the root's dimensions
  std::optional<StridedView> dest; ///< in an argument, or
  std::optional<unsigned> buffer;  ///< in a stack buffer, or (neither) a scalar per row
  llvm::SmallVector<int64_t, 4> bufferStrides;
  int64_t bufferSize = 0; ///< elements it needs for one row if it gets a buffer
};

struct Root {
  llvm::SmallVector<RootValue, 2> values;
  mlir::linalg::GenericOp reduction; ///< null if the value is computed by elements
  IndexList loops;                   ///< of a reduction: its loops in the root's dimensions
  bool reassociable = true;          ///< the reduction may be split into lanes
  bool scatter = false;              ///< adds rows picked by an index, see `matchScatter`
  bool overRows = true;              ///< depends on the outer dimension
  llvm::SmallVector<int64_t, 4> extents;
  unsigned firstReduction = 0; ///< extents[firstReduction...] are reduced
  unsigned level = 0;          ///< nests of lower levels must have run
  unsigned heavyOps = 0;       ///< exp and its like in one element
  std::vector<Load> loads;
};

struct Nest {
  llvm::SmallVector<Root *, 4> roots;
  llvm::SmallVector<int64_t, 4> extents;
  unsigned firstReduction = 0;
  bool overRows = true;
  bool scatter = false;
  std::optional<unsigned> laneDim; ///< position in extents that runs over vector lanes
};

/// Whether a value is a reduction (it has a reduced loop).
bool isReduction(mlir::linalg::GenericOp op);

/// Named linalg ops become generic ones (a fill stays: it is a constant), and
/// reshapes move to the edges of the kernel by giving the ops between them more
/// loops, so that indices stay linear. A plan is made of such a kernel.
mlir::LogicalResult normalizeKernel(mlir::func::FuncOp func);

/// What plans depend on besides the kernel.
struct PlanSettings {
  unsigned lanes = 8; ///< neighbours that read memory together
  /// What one row may keep in buffers, over all of a kernel.
  int64_t rowBytes = 256 * 1024;
};

class Kernel {
public:
  /// Reads and plans `func`; reports an error at the op that cannot be compiled.
  static mlir::FailureOr<std::unique_ptr<Kernel>> plan(mlir::func::FuncOp func,
                                                       const PlanSettings &settings);

  mlir::func::FuncOp func;
  unsigned numOutputs = 0;
  int64_t space = 0;
  std::deque<Root> roots; ///< a deque: nests and maps point into it
  std::vector<Nest> nests;
  bool lanesOverRows = false;                ///< vector lanes run over the outer dimension
  unsigned lanes = 8;                        ///< neighbours that read memory together
  int64_t rowBytes = 0;                      ///< see PlanSettings
  llvm::SmallVector<int64_t, 2> bufferSizes; ///< elements of each stack buffer
  /// The root and the position in it that hold a value.
  llvm::DenseMap<mlir::Value, std::pair<Root *, unsigned>> rootOf;

private:
  friend class Planner;
};

/// An element of a value: the tensor and its index.
struct Element {
  mlir::Value value;
  IndexList index;
};

/// Follows slices and reshapes to the tensor that really holds the element;
/// reports an error if the index has no linear form.
mlir::FailureOr<Element> resolveElement(Element element);

/// The argument that `value` is all of, in another shape; null if it is not.
mlir::BlockArgument denseArgument(mlir::Value value);

/// The loops of an elementwise `op` that make element `index` of result `resultNo`.
mlir::FailureOr<IndexList> loopsOfElement(mlir::linalg::GenericOp op, unsigned resultNo,
                                          llvm::ArrayRef<LinearExpr> index);

/// The index of operand `operandNo` of `op` at `loops`.
mlir::FailureOr<IndexList> operandIndex(mlir::linalg::LinalgOp op, unsigned operandNo,
                                        llvm::ArrayRef<LinearExpr> loops);

/// The op that folds a new element into the accumulator `acc` (a block argument
/// of a reduction's body) if lanes may accumulate on their own: a sum, product,
/// minimum or maximum in which `acc` occurs once and whose result is yielded.
mlir::Operation *matchCombiner(mlir::linalg::GenericOp op, unsigned resultNo);

/// Whether `op` is a sum over tokens t of `select(ids[t] == row, x, 0)`, in which
/// `row` is the loop `outerLoop` and t all reduced loops: it then touches row ids[t]
/// only, and needs no search. Returns the operand that holds the ids.
struct Scatter {
  unsigned idsOperand = 0;
};
std::optional<Scatter> matchScatter(mlir::linalg::GenericOp op, unsigned outerLoop);

/// How many exp-like ops one run of the body takes.
unsigned countHeavyOps(mlir::linalg::GenericOp op);

} // namespace cleave::target
