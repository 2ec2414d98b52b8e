//===- Policy.h - Which dimension takes which axis -------------------------===//
//
// The fixed choice that stands in where nothing is pinned: lists of dimension
// names in order of preference. The sequence takes the context axis wherever it can be cut. A group
// of names shares an axis: the first name takes the largest part that divides it, the next the
// rest.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Planner/Planner.h"
#include "dialects/Interfaces/Interfaces.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace cleave {

/// Factor (dimension) name → axis names, in a fixed order.
using Assignment = llvm::MapVector<llvm::StringRef, llvm::SmallVector<std::string>>;

/// How the tensor axis is laid over dimension names.
struct Policy {
  /// Parts of the tensor axis, major to minor ({4} or {2, 2}).
  llvm::SmallVector<int64_t> tensorParts{1};
  /// Which parts each of the heads' dimensions takes.
  Assignment heads;
  bool tensor = false, data = false, context = false, sequence = false, vocabulary = false;
  /// Parts of the data axis, major to minor; the experts, or groups of ZeRO, take the last
  /// one of several. Of the context axis the experts do.
  llvm::SmallVector<int64_t> dataParts{1}, contextParts{1};
  /// The axes that the experts of a layer take, and whether the tensor axis is one.
  llvm::SmallVector<std::string> experts;
  bool expertsOverTensor = false;
  /// Stage of ZeRO over `zeroRanks` ranks: those of context, and of data or a part of it.
  int64_t zero = 0, zeroRanks = 1;
  std::string zeroData = "data";

  /// The axes that the factors of an operator take.
  Assignment assign(const ShardingRule &rule) const;
  /// `placement` of a parameter of `type`, cut further over data × context: along the
  /// first dimension that divides evenly, else along the longest.
  Assignment overTokens(Assignment placement, mlir::RankedTensorType type) const;

private:
  /// Those of an operator on values that have a row for each choice of a token.
  Assignment assignRouted(const ShardingRule &rule) const;
  /// What of the data axis, and of the context axis, the experts leave.
  llvm::SmallVector<std::string> dataLeft() const;
  llvm::SmallVector<std::string> contextLeft() const;
};

/// The sizes of the dimensions called `kv_head` and `group` in a model. No key
/// heads at all: there is no attention, and any number of ranks splits the heads.
struct HeadSizes {
  int64_t keyHeads = 0, groups = 1;
};
HeadSizes headSizes(mlir::ModuleOp model);

/// Whether `tp` ranks can split the heads evenly, key heads repeated if need be.
bool headsDivide(HeadSizes sizes, int64_t tp);

/// The number of experts in a layer of a model; 0: there are none.
int64_t countExperts(mlir::ModuleOp model);

/// How many rows of products with experts a rank may have for each of its tokens: the choices
/// of a token, times the ranks whose sequences it sees as one of those that share experts.
/// 1 without experts.
int64_t rowsOfToken(mlir::ModuleOp model, plan::SolutionOp solution);

/// The degrees of parallelism that a request leaves, and its micro-batch.
struct Degrees {
  int64_t dp = 1, cp = 1, tp = 1, micro = 1;
};

/// How many ranks along each axis the experts are dealt out over: a divisor of the data and
/// of the context ranks, and all or one of the tensor ranks.
struct ExpertSpread {
  int64_t data = 1, context = 1, tensor = 1;
};
/// The spread over `ranks` ranks: over as few of the context axis as can be, and then without
/// the tensor axis if that can be. None where no such product is `ranks`.
std::optional<ExpertSpread> spreadExperts(int64_t ranks, const Degrees &degrees);

/// Whether some ranks that share parameters stand on several nodes, of `ranksPerNode` each (0:
/// there is one), in a pipeline of `pp` places.
bool crossesNodes(const Degrees &degrees, int64_t pp, const cost::AxisOrder &order,
                  int64_t ranksPerNode);

/// Whether the pins on who shares state fit the degrees. Error: `plan.bad_pin`.
rt::Status checkStatePins(const Degrees &degrees, const Pins &pins);

/// The policy for a request with its degrees settled, and its pin of the experts.
Policy makePolicy(HeadSizes sizes, const Degrees &degrees, const Pins &pins);

} // namespace cleave
