//===- NarrowMoves.cpp - Values move in the narrower of two types ----------===//
//
// What changes the type of each element alone commutes with whatever moves elements:
//
//   %whole = reshard %w [[data]] to [[]]  f32         %n = cast %w               bf16
//   call @layer(%whole)                          →    %whole = reshard %n …      bf16
//     %n = cast %arg  bf16                            call @layer(%whole)
//
// so a rank rounds its own block, and half the bytes are sent. The other way round for
// what is widened before it is moved. Bits stay the same.
//
//===----------------------------------------------------------------------===//

#include "cleave/Transforms/Sharding/Sharding.h"
#include "dialects/Interfaces/Interfaces.h"
#include "lib/Transforms/Sharding/Notes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_NARROWMOVESPASS
#include "lib/Transforms/Sharding/Passes.h.inc"

using dist::ReshardOp;
using dist::ShardingAttr;

static unsigned bitsOf(Value v) { return getElementTypeOrSelf(v).getIntOrFloatBitWidth(); }

/// Whether `op` makes each element of its result of that element of its one operand.
static bool mapsEachElement(Operation *op) {
  auto fusable = dyn_cast_or_null<FusionOpInterface>(op);
  if (!fusable || op->getNumOperands() != 1 || op->getNumResults() != 1 || !isPure(op))
    return false;
  auto from = dyn_cast<RankedTensorType>(op->getOperand(0).getType()),
       to = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!from || !to || from.clone(to.getElementType()) != to)
    return false;
  FusionDims dims = fusable.getFusionDims(0);
  return dims.mixed.empty() && dims.apart.empty() && fusable.getBodyInputs().empty();
}

static bool isNarrowing(Operation *op) {
  return mapsEachElement(op) && bitsOf(op->getResult(0)) < bitsOf(op->getOperand(0));
}

/// Whether `reshard` sends elements as they are: some dimension is cut less or otherwise
/// than before, and no sum is completed on the way.
static bool sendsElements(ReshardOp reshard) {
  ShardingAttr from = reshard.getSource(), to = reshard.getTarget();
  if (!from.getPartial().empty() || !to.getPartial().empty())
    return false;
  for (unsigned d = 0; d < from.getDims().size(); ++d) {
    auto before = from.axes(d), after = to.axes(d);
    if (before.size() > after.size() || !std::equal(before.begin(), before.end(), after.begin()))
      return true;
  }
  return false;
}

/// A copy of `op`, which maps each element, for `operand`, which lies as `placement` says.
static Value applied(OpBuilder &b, Operation *op, Value operand, ShardingAttr placement) {
  Operation *copy = b.clone(*op);
  copy->setOperand(0, operand);
  Attribute note = b.getArrayAttr({placement});
  copy->setAttr("dist.in", note);
  copy->setAttr("dist.out", note);
  return copy->getResult(0);
}

/// `reshard` of `value`, which lies as the operand of that.
static Value moved(OpBuilder &b, ReshardOp reshard, Value value) {
  auto copy = cast<ReshardOp>(b.clone(*reshard));
  copy.getInputMutable().assign(value);
  copy.getResult().setType(cast<RankedTensorType>(value.getType()));
  return copy;
}

namespace {
/// Arguments of functions that are only read rounded, and what rounds them.
class NarrowArguments {
public:
  explicit NarrowArguments(ModuleOp module) {
    module.walk([&](CallOpInterface call) {
      if (auto callee = dyn_cast_or_null<FunctionOpInterface>(call.resolveCallable()))
        calls[callee].push_back(call);
    });
  }

  unsigned run() {
    for (auto &[callee, sites] : calls)
      for (unsigned i = 0; i < callee.getNumArguments(); ++i)
        if (Operation *rounds = roundingOf(callee.getArgument(i)))
          if (llvm::any_of(sites, [&](CallOpInterface call) { return movable(call, i); }))
            wanted.push_back({callee, i, rounds});
    for (auto [callee, i, rounds] : wanted)
      for (CallOpInterface call : calls[callee])
        narrowOperand(call, i, rounds);
    for (auto [callee, i, rounds] : wanted)
      narrowArgument(callee, i);
    for (auto &[key, value] : made)
      if (ReshardOp reshard = key.first; reshard->use_empty())
        reshard->erase();
    return made.size();
  }

private:
  /// What rounds `argument`, if nothing else reads it.
  static Operation *roundingOf(BlockArgument argument) {
    Operation *first = argument.use_empty() ? nullptr : *argument.user_begin();
    for (Operation *user : argument.getUsers())
      if (!isNarrowing(user) || user->getName() != first->getName() ||
          user->getResult(0).getType() != first->getResult(0).getType())
        return nullptr;
    return first;
  }

  /// The reshard of operand `i`, if that sends elements to nobody who reads them unrounded.
  static ReshardOp movable(CallOpInterface call, unsigned i) {
    auto reshard = call->getOperand(i).getDefiningOp<ReshardOp>();
    auto isRounded = [](OpOperand &use) {
      auto user = dyn_cast<CallOpInterface>(use.getOwner());
      auto callee = user ? dyn_cast_or_null<FunctionOpInterface>(user.resolveCallable())
                         : FunctionOpInterface();
      return callee && roundingOf(callee.getArgument(use.getOperandNumber()));
    };
    return reshard && sendsElements(reshard) && llvm::all_of(reshard->getUses(), isRounded)
               ? reshard
               : ReshardOp();
  }

  void narrowOperand(CallOpInterface call, unsigned i, Operation *rounds) {
    OpBuilder b(call);
    Value operand = call->getOperand(i);
    ReshardOp reshard = movable(call, i);
    if (!reshard) {
      auto placement = cast<ShardingAttr>(call->getAttrOfType<ArrayAttr>("dist.in")[i]);
      call->setOperand(i, applied(b, rounds, operand, placement));
      return;
    }
    Value &value = made[{reshard, rounds->getResult(0).getType()}];
    if (!value) {
      b.setInsertionPoint(reshard);
      value = moved(b, reshard, applied(b, rounds, reshard.getInput(), reshard.getSource()));
    }
    call->setOperand(i, value);
  }

  static void narrowArgument(FunctionOpInterface callee, unsigned i) {
    BlockArgument argument = callee.getArgument(i);
    Type narrow = (*argument.user_begin())->getResult(0).getType();
    for (Operation *user : llvm::make_early_inc_range(argument.getUsers())) {
      user->getResult(0).replaceAllUsesWith(argument);
      user->erase();
    }
    argument.setType(narrow);
    SmallVector<Type> types(callee.getArgumentTypes());
    types[i] = narrow;
    callee.setFunctionTypeAttr(TypeAttr::get(callee.cloneTypeWith(types, callee.getResultTypes())));
  }

  struct Wanted {
    FunctionOpInterface callee;
    unsigned number;
    Operation *rounds;
  };
  llvm::MapVector<FunctionOpInterface, SmallVector<CallOpInterface>> calls;
  SmallVector<Wanted> wanted;
  llvm::MapVector<std::pair<ReshardOp, Type>, Value> made;
};
} // namespace

/// Moves what is widened right before a reshard, and widens it behind.
static bool widenBehind(ReshardOp reshard) {
  Operation *widens = reshard.getInput().getDefiningOp();
  if (!mapsEachElement(widens) || bitsOf(widens->getResult(0)) <= bitsOf(widens->getOperand(0)) ||
      !sendsElements(reshard))
    return false;
  OpBuilder b(reshard);
  Value narrow = moved(b, reshard, widens->getOperand(0));
  reshard.replaceAllUsesWith(applied(b, widens, narrow, reshard.getTarget()));
  reshard.erase();
  if (widens->use_empty())
    widens->erase();
  return true;
}

FailureOr<unsigned> narrowMoves(ModuleOp module) {
  auto mesh = findMesh(module);
  if (failed(mesh) || failed(checkNotes(module, *mesh)))
    return failure();
  unsigned count = NarrowArguments(module).run();
  SmallVector<ReshardOp> reshards;
  module.walk([&](ReshardOp reshard) { reshards.push_back(reshard); });
  for (ReshardOp reshard : reshards)
    count += widenBehind(reshard);
  return count;
}

namespace {
struct NarrowMovesPass : impl::NarrowMovesPassBase<NarrowMovesPass> {
  void runOnOperation() override {
    auto moves = narrowMoves(getOperation());
    if (failed(moves))
      return signalPassFailure();
    numMoves += *moves;
  }
};
} // namespace

} // namespace cleave
