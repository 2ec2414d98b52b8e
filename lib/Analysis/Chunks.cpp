//===- Chunks.cpp - Can a kind of layer run piece by piece? ----------------===//

#include "cleave/Analysis/Chunks.h"
#include "dialects/Interfaces/Interfaces.h"
#include "dialects/NN/NN.h"

using namespace mlir;
namespace cleave {

namespace {
/// What one piece has of a value: all of it, its part, or a term of a sum.
enum class Share { Whole, Part, Term };

class ChunkAnalysis {
public:
  ChunkAnalysis(func::FuncOp joint, StringRef dim) : joint(joint), dim(dim) {}

  std::optional<ChunkObstacle> run() {
    for (Value argument : joint.getArguments())
      shares[argument] = nn::findDim(argument.getType(), dim) >= 0 ? Share::Part : Share::Whole;
    for (Operation &op : joint.getBody().front().without_terminator())
      if (auto obstacle = visit(&op))
        return obstacle;
    return checkResults();
  }

private:
  ChunkObstacle at(Operation *op, const Twine &reason) { return {op, reason.str()}; }

  std::optional<ChunkObstacle> visit(Operation *op) {
    auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
    if (!sharded)
      return at(op, "has no sharding rule");
    ShardingRule rule = sharded.getShardingRule();
    int factor = rule.find(dim);
    if (factor >= 0 && !rule.factors[factor].shardable)
      return at(op, "needs all of '" + dim + "' at once");
    auto terms = termOperands(op, rule);
    if (!terms)
      return at(op, "is not linear in a value that is a sum over pieces");
    for (auto [result, dims] : llvm::zip(op->getResults(), rule.results)) {
      bool has = factor >= 0 && llvm::is_contained(dims, factor);
      if (factor >= 0 && *terms)
        return at(op, "mixes a sum over pieces with pieces");
      if (factor >= 0 && !has && rule.factors[factor].reduction != ReductionKind::Sum)
        return at(op, "reduces '" + dim + "' by something other than a sum");
      shares[result] = has ? Share::Part : factor >= 0 || *terms ? Share::Term : Share::Whole;
    }
    return std::nullopt;
  }

  /// Whether operands are terms: those of one linear group, or none. Nothing where
  /// the operator may not take terms.
  std::optional<bool> termOperands(Operation *op, const ShardingRule &rule) {
    SmallVector<int> terms;
    for (auto [i, v] : llvm::enumerate(op->getOperands()))
      if (shares.lookup(v) == Share::Term)
        terms.push_back(static_cast<int>(i));
    if (terms.empty())
      return false;
    for (const auto &group : rule.linear)
      if (group.size() == terms.size() && std::equal(group.begin(), group.end(), terms.begin()))
        return true;
    return std::nullopt;
  }

  /// Results of the kind, then the gradients of its active arguments.
  std::optional<ChunkObstacle> checkResults() {
    auto active = joint->getAttrOfType<DenseI64ArrayAttr>("nn.joint.arguments").asArrayRef();
    ValueRange returned = joint.getBody().front().getTerminator()->getOperands();
    size_t results = returned.size() - active.size();
    for (Value v : returned.take_front(results))
      if (shares.lookup(v) != Share::Term)
        return at(joint, "returns a value that is no sum over pieces");
    for (auto [argument, gradient] : llvm::zip(active, returned.drop_front(results))) {
      Share wanted =
          shares.lookup(joint.getArgument(argument)) == Share::Part ? Share::Part : Share::Term;
      if (shares.lookup(gradient) != wanted)
        return at(joint, "has a gradient that no piece can give its share of");
    }
    return std::nullopt;
  }

  func::FuncOp joint;
  StringRef dim;
  llvm::DenseMap<Value, Share> shares;
};
} // namespace

std::optional<ChunkObstacle> findChunkObstacle(func::FuncOp joint, StringRef dim) {
  return ChunkAnalysis(joint, dim).run();
}

} // namespace cleave
