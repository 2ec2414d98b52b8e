//===- Precision.cpp - Which paths compute and store in bf16 ---------------===//

#include "lib/Planner/Precision.h"
#include "dialects/Interfaces/Interfaces.h"
#include "dialects/NN/NN.h"
#include "lib/Planner/Chunks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/Base/Suggest.h"

using namespace mlir;
namespace cleave {

static bool isFloat(Value v) { return isa<FloatType>(getElementTypeOrSelf(v)); }

namespace {
/// What of a kind of layer stays in f32.
class KindPrecision {
public:
  explicit KindPrecision(func::FuncOp kind) {
    Block &body = kind.getBody().front();
    for (Operation &op : llvm::reverse(body)) {
      visitSum(&op);
      visitChoice(&op);
    }
    for (Operation &op : body)
      followScores(&op);
  }

  /// Whether the product `op` makes scores that something is chosen by.
  bool isScore(Operation *op) const { return choosing.contains(op); }

  bool mayStore(Operation *op) const {
    return !scores.contains(op) && llvm::any_of(op->getResults(), isFloat) &&
           llvm::none_of(op->getResults(), [&](Value v) { return stream.contains(v); });
  }

private:
  /// Terms of what is returned, through sums of any depth: of several values, and over a
  /// dimension of one (the results of a token's experts).
  void visitSum(Operation *op) {
    if (op->hasTrait<OpTrait::IsTerminator>()) {
      stream.insert(op->operand_begin(), op->operand_end());
      return;
    }
    auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
    if (!sharded || llvm::none_of(op->getResults(), [&](Value v) { return stream.contains(v); }))
      return;
    const auto floats = llvm::count_if(op->getOperands(), isFloat);
    for (const auto &group : sharded.getShardingRule().linear)
      if (group.size() > 1 || floats == 1) // together, that is as a sum
        for (int i : group)
          stream.insert(op->getOperand(i));
  }

  /// What integers are made of, back to the products before.
  void visitChoice(Operation *op) {
    auto chooses = [](Value v) { return !isFloat(v); };
    auto isChosenBy = [&](Operation *user) { return choosing.contains(user); };
    if (op->hasTrait<OpTrait::IsTerminator>() ||
        !(llvm::any_of(op->getResults(), chooses) ||
          llvm::any_of(op->getUsers(), [&](Operation *user) {
            return isChosenBy(user) && !isa<ContractionOpInterface>(user);
          })))
      return;
    choosing.insert(op);
  }

  /// What is made of scores alone.
  void followScores(Operation *op) {
    auto isOfScores = [&](Value v) {
      return v.getDefiningOp() && scores.contains(v.getDefiningOp());
    };
    auto floats = llvm::make_filter_range(op->getOperands(), isFloat);
    if (choosing.contains(op) || (!floats.empty() && llvm::all_of(floats, isOfScores)))
      scores.insert(op);
  }

  llvm::DenseSet<Value> stream;
  llvm::DenseSet<Operation *> choosing, scores;
};
} // namespace

static bool isBelow(StringRef path, StringRef pinned) {
  return path == pinned || (path.starts_with(pinned) && path[pinned.size()] == '.');
}

/// Whether `path` is to be bf16: as the pin with the longest name says, else the request.
static bool isNarrow(StringRef path, const PlanRequest &request) {
  bool narrow = request.narrow;
  size_t longest = 0;
  for (const auto &[pinned, value] : request.pins.narrow)
    if (isBelow(path, pinned) && pinned.size() >= longest) {
      longest = pinned.size();
      narrow = value;
    }
  return narrow;
}

std::optional<int> pinnedWidth(StringRef path, const PlanRequest &request) {
  const bool narrow = isNarrow(path, request);
  return narrow == request.narrow ? std::nullopt : std::optional(narrow ? 16 : 32);
}

static rt::Status checkPins(ModuleOp model, const PlanRequest &request) {
  std::vector<std::string> known;
  for (auto kind : model.getOps<func::FuncOp>())
    if (kind->hasAttr("nn.kind"))
      for (Operation &op : kind.getBody().getOps())
        if (auto path = op.getAttrOfType<StringAttr>("nn.path"))
          for (StringRef name : {path.getValue().split('.').first, path.getValue()})
            if (!llvm::is_contained(known, name))
              known.push_back(name.str());
  for (const auto &[pinned, value] : request.pins.narrow)
    if (llvm::none_of(known, [&](const std::string &path) { return isBelow(path, pinned); })) {
      auto near = rt::nearestName(pinned, known);
      return rt::userError("plan.unknown_path", "the model has no operator at '" + pinned + "'")
          .withGiven("precision." + pinned + (value ? "=bf16" : "=fp32"))
          .withRule("precision.PATH names a path of --emit=nn, or its beginning up to a dot")
          .suggest("precision." + near.value_or("mlp") + (value ? "=bf16" : "=fp32"));
    }
  return rt::Status::success();
}

static void writeKind(OpBuilder &b, Location loc, func::FuncOp kind, bool isLast,
                      const PlanRequest &request) {
  TypeAttr bf16 = TypeAttr::get(b.getBF16Type());
  KindPrecision precision(kind);
  struct Types {
    bool compute = false, store = true;
  };
  llvm::MapVector<StringAttr, Types> paths;
  for (Operation &op : kind.getBody().getOps())
    if (auto path = op.getAttrOfType<StringAttr>("nn.path");
        path && isNarrow(path.getValue(), request)) {
      Types &types = paths[path];
      types.compute |= isa<MixedPrecisionOpInterface>(op) && !precision.isScore(&op);
      types.store &= !isLast && precision.mayStore(&op);
    }
  for (auto [path, types] : paths)
    if (types.compute || types.store)
      plan::PrecisionOp::create(b, loc, b.getStringAttr(kind.getName()), path,
                                types.compute ? bf16 : TypeAttr(), types.store ? bf16 : TypeAttr());
}

rt::Status writePrecision(OpBuilder &b, Location loc, ModuleOp model, const PlanRequest &request) {
  if (rt::Status s = checkPins(model, request); !s.ok())
    return s;
  for (auto kind : model.getOps<func::FuncOp>())
    if (kind->hasAttr("nn.kind"))
      writeKind(b, loc, kind, kind.getName() == lastKind(model), request);
  return rt::Status::success();
}

} // namespace cleave
