//===- ShardingRule.h - How an operator may be split over ranks ------------===//
//
// An operator's dimensions are grouped into *factors*: every dimension of every
// operand and result belongs to exactly one factor, and cutting a factor cuts
// all the dimensions that belong to it. `contract(x[b,s,d], w[f,d]) -> y[b,s,f]`
// has the factors b, s, d, f. Cutting f over an axis is a column split; cutting
// d, which no result has, leaves y *partial* over the axis: each rank holds a
// term of a sum. A factor that the operator cannot have cut (the width of a
// norm) is not shardable.
//
// A partial value may flow into an operator only through operands in which the
// operator is linear. `linear` lists groups of operands: all the operands of a
// group must be partial together (`add`: {0,1}; `contract`: {0} and {1}).
//
// Results may lack a factor and still hold no real sum: where an index picks the
// rank that computes an element (a token's expert), all other ranks hold zero. Such
// a result is *apart*. That is a partial value, and more: an operator that makes
// zeros of zeros may take it as it is, element by element, linear or not. `zeros`
// lists groups of operands that must then be apart together.
//
// This header knows neither meshes nor any operator.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>
#include <string>

namespace cleave {

enum class ReductionKind { Sum, Max };

struct Factor {
  /// The dimension's name, as plans spell it ("batch", "ffn").
  std::string name;
  /// Elements along the factor, or ShapedType::kDynamic.
  int64_t size = 0;
  /// Whether the operator can be split along it at all.
  bool shardable = true;
  /// How results that lack this factor combine over ranks; absent: the operator
  /// completes them itself when it is made local (`buildLocal`).
  std::optional<ReductionKind> reduction;
  /// What the padding of an uneven block must hold in `neutralOperand`, where a
  /// result lacks the factor; absent: padding is harmless.
  std::optional<double> neutral;
  /// The operand whose padding matters; -1: the first that has this factor.
  int neutralOperand = -1;
  /// The operand that picks, for each of its elements, the one index of the factor
  /// that is computed; results that lack the factor and have the dimensions of that
  /// operand are apart. -1: there is none.
  int pickedBy = -1;
  /// Operands of which only elements are read whose index the rank holds: they may be
  /// apart over the axes of the factor.
  llvm::SmallVector<int> pickedOperands = {};
};

struct ShardingRule {
  llvm::SmallVector<Factor> factors;
  /// Factor index of each dimension of each operand and result.
  llvm::SmallVector<llvm::SmallVector<int>> operands, results;
  /// Groups of operand indices in which the operator is jointly linear.
  llvm::SmallVector<llvm::SmallVector<int>> linear;
  /// Groups of operand indices: an element of the results is zero where those of the
  /// group are, and depends on no other elements of theirs. Large groups first.
  llvm::SmallVector<llvm::SmallVector<int>> zeros;

  /// Index of the factor called `name`, or -1.
  int find(llvm::StringRef name) const {
    for (size_t i = 0; i < factors.size(); ++i)
      if (factors[i].name == name)
        return static_cast<int>(i);
    return -1;
  }
  /// The operand whose padding along `factor` must hold the factor's `neutral`,
  /// or -1 if no operand has the factor.
  int neutralOperand(int factor) const {
    if (factors[factor].neutralOperand >= 0)
      return factors[factor].neutralOperand;
    for (size_t i = 0; i < operands.size(); ++i)
      if (llvm::is_contained(operands[i], factor))
        return static_cast<int>(i);
    return -1;
  }
};

/// What an operator may ask for while its local (one rank's) form is built. The
/// partitioner implements it, so that an operator never sees a mesh.
class LocalContext {
public:
  virtual ~LocalContext() = default;
  /// True if `factor` is cut over at least one axis.
  virtual bool isSharded(unsigned factor) = 0;
  /// Global index of the first element of this rank's block, tensor<i32>.
  virtual mlir::Value offset(unsigned factor) = 0;
  /// `value` combined over the ranks that share `factor`.
  virtual mlir::Value allReduce(mlir::Value value, unsigned factor, ReductionKind kind) = 0;
};

} // namespace cleave
