//===- InsertCasts.cpp - Types of a plan become casts ----------------------===//
//
// A kept value is one operator, the cast to bf16 behind what makes it. Readers that
// compute in f32 get a cast back of their own: then the halves of a kind share the
// narrow value alone, and every kernel that reads it widens it in registers.
//
//===----------------------------------------------------------------------===//

#include "cleave/Analysis/Blocks.h"
#include "cleave/Transforms/Precision/Precision.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_INSERTCASTSPASS
#include "lib/Transforms/Precision/Passes.h.inc"

namespace {
class Caster {
public:
  Caster(func::FuncOp joint, const llvm::StringMap<plan::PrecisionOp> &types)
      : joint(joint), types(types) {
    Operation *end = joint.getBody().front().getTerminator();
    auto active = joint->getAttrOfType<DenseI64ArrayAttr>("nn.joint.arguments");
    forward = dependenciesOf(end->getOperands().drop_back(active.size()));
  }

  unsigned run() {
    SmallVector<Operation *> ops = llvm::map_to_vector(joint.getBody().front().without_terminator(),
                                                       [](Operation &op) { return &op; });
    for (Operation *op : ops)
      if (forward.contains(op))
        keepNarrow(op);
    for (Operation *op : ops)
      if (computesNarrow(op))
        for (unsigned i : cast<MixedPrecisionOpInterface>(op).getNarrowOperands())
          op->setOperand(i, narrow(op->getOperand(i), op));
    // What only the products read is needed in one type.
    for (auto &[value, cast] : stored)
      for (Operation *reader : llvm::make_early_inc_range(cast->getUsers()))
        if (isa<nn::CastOp>(reader) && reader->use_empty()) {
          reader->erase();
          --count;
        }
    return count;
  }

private:
  plan::PrecisionOp typesOf(Operation *op) const {
    auto path = op->getAttrOfType<StringAttr>("nn.path");
    return path ? types.lookup(path.getValue()) : plan::PrecisionOp();
  }

  bool computesNarrow(Operation *op) const {
    auto own = typesOf(op);
    return isa<MixedPrecisionOpInterface>(op) && own && own.getCompute();
  }

  /// Whether a rounded result costs no more than another: then it is half the bytes for all
  /// that read it, kept or not.
  bool roundsItself(Operation *op, OpResult result) const {
    return computesNarrow(op) &&
           cast<MixedPrecisionOpInterface>(op).canRound(result.getResultNumber());
  }

  /// Whether `op` takes what was made, not what is kept of it: a product in f32 of the forward
  /// half, as the scores by which experts are chosen. A choice is no continuous function, so
  /// that each rounding less is fewer tokens that go elsewhere. Nothing that the other half
  /// computes again depends on it.
  bool readsUnrounded(Operation *op) const {
    return isa<ContractionOpInterface>(op) && forward.contains(op) && !computesNarrow(op);
  }

  /// Results with fewer dimensions than others of the operator are statistics of rows.
  static bool isStatistic(OpResult result) {
    auto rank = [](Type type) { return cast<RankedTensorType>(type).getRank(); };
    return llvm::any_of(result.getOwner()->getResultTypes(),
                        [&](Type other) { return rank(other) > rank(result.getType()); });
  }

  /// Rounds what `op` makes, if it is to be kept so.
  void keepNarrow(Operation *op) {
    auto own = typesOf(op);
    if (!own || !own.getStore())
      return;
    for (OpResult result : op->getResults()) {
      auto isKept = [&](Operation *user) {
        return computesNarrow(user) || !forward.contains(user);
      };
      if (!cast<RankedTensorType>(result.getType()).getElementType().isF32() ||
          isStatistic(result) ||
          !(roundsItself(op, result) || llvm::any_of(result.getUsers(), isKept)))
        continue;
      SmallVector<OpOperand *> uses =
          llvm::map_to_vector(result.getUses(), [](OpOperand &use) { return &use; });
      Value kept = narrow(result, op->getNextNode());
      for (OpOperand *use : uses) {
        if (readsUnrounded(use->getOwner()))
          continue;
        OpBuilder b(use->getOwner());
        use->set(nn::CastOp::create(b, use->getOwner()->getLoc(), result.getType(), kept));
        // The reader's half is the cast's.
        if (forward.contains(use->getOwner()))
          forward.insert(use->get().getDefiningOp());
        ++count;
      }
    }
  }

  /// `value` in bf16, for `reader`. What an operator makes is rounded once, behind it;
  /// what the kind is given, once in each half.
  Value narrow(Value value, Operation *reader) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getElementType().isBF16())
      return value;
    auto back = value.getDefiningOp<nn::CastOp>();
    if (back && !back.isNarrowing())
      return back.getInput();
    Operation *producer = value.getDefiningOp();
    Operation *&made = producer ? stored[value] : given[forward.contains(reader)][value];
    if (!made) {
      OpBuilder b(reader);
      if (producer)
        b.setInsertionPointAfter(producer);
      made = nn::CastOp::create(b, value.getLoc(), nn::withElement(type, b.getBF16Type()), value);
      if (producer)
        if (Attribute path = producer->getAttr("nn.path"))
          made->setAttr("nn.path", path);
      if (forward.contains(producer ? producer : reader))
        forward.insert(made);
      ++count;
    }
    return made->getResult(0);
  }

  func::FuncOp joint;
  const llvm::StringMap<plan::PrecisionOp> &types;
  llvm::DenseSet<Operation *> forward;
  llvm::MapVector<Value, Operation *> stored;
  /// Of what the kind is given: in the backward half, in the forward half.
  llvm::DenseMap<Value, Operation *> given[2];
  unsigned count = 0;
};

struct InsertCastsPass : impl::InsertCastsPassBase<InsertCastsPass> {
  void runOnOperation() override {
    auto plans = getOperation().getOps<plan::SolutionOp>();
    if (!llvm::hasSingleElement(plans)) {
      getOperation().emitError("needs one plan.solution");
      return signalPassFailure();
    }
    numCasts += insertCasts(getOperation(), *plans.begin());
  }
};
} // namespace

unsigned insertCasts(ModuleOp module, plan::SolutionOp solution) {
  llvm::StringMap<llvm::StringMap<plan::PrecisionOp>> types;
  for (auto precision : solution.getOps<plan::PrecisionOp>())
    types[precision.getKind()][precision.getPath()] = precision;
  unsigned count = 0;
  for (auto joint : module.getOps<func::FuncOp>())
    if (auto of = joint->getAttrOfType<FlatSymbolRefAttr>("nn.joint"))
      if (auto own = types.find(of.getValue()); own != types.end())
        count += Caster(joint, own->second).run();
  return count;
}

} // namespace cleave
