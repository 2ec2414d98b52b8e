//===- Activity.cpp - What depends on a trained parameter ------------------===//

#include "cleave/Transforms/Autodiff/Passes.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
namespace cleave {

/// Marks what depends on active values within `block`; calls use `kinds`.
static void propagate(Block &block, llvm::DenseSet<Value> &active, llvm::StringMap<Activity> &kinds,
                      SymbolTable &symbols);

/// Joins a call's active operands into its callee and runs the callee's body.
static Activity &enterCall(func::CallOp call, llvm::DenseSet<Value> &active,
                           llvm::StringMap<Activity> &kinds, SymbolTable &symbols) {
  auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
  Activity &known = kinds[call.getCallee()];
  bool fresh = known.arguments.size() != callee.getNumArguments();
  if (fresh) {
    known.arguments.assign(callee.getNumArguments(), false);
    known.results.assign(callee.getNumResults(), false);
  }
  bool changed = fresh;
  for (auto [i, operand] : llvm::enumerate(call.getOperands()))
    if (active.contains(operand) && !known.arguments[i])
      known.arguments[i] = changed = true;
  if (!changed || callee.isExternal())
    return known;
  llvm::DenseSet<Value> inside;
  for (auto [argument, on] : llvm::zip(callee.getArguments(), known.arguments))
    if (on)
      inside.insert(argument);
  propagate(callee.getBody().front(), inside, kinds, symbols);
  Operation *end = callee.getBody().back().getTerminator();
  for (auto [i, v] : llvm::enumerate(end->getOperands()))
    kinds[call.getCallee()].results[i] |= inside.contains(v);
  return kinds[call.getCallee()];
}

/// Marks `to` where `from` is active; whether that is new for any.
static bool copyActivity(ValueRange from, ValueRange to, llvm::DenseSet<Value> &active) {
  bool changed = false;
  for (auto [source, target] : llvm::zip(from, to))
    if (active.contains(source))
      changed |= active.insert(target).second;
  return changed;
}

/// What an iteration makes active of the carried values is so in the next one.
static void enterRepeat(RepeatOpInterface repeat, llvm::DenseSet<Value> &active,
                        llvm::StringMap<Activity> &kinds, SymbolTable &symbols) {
  Block &block = repeat.getRepeatedBlock();
  copyActivity(repeat->getOperands(), block.getArguments(), active);
  Operation *end = block.getTerminator();
  unsigned carried = repeat.getNumCarried();
  do
    propagate(block, active, kinds, symbols);
  while (copyActivity(end->getOperands().take_front(carried),
                      block.getArguments().take_front(carried), active));
  copyActivity(end->getOperands(), repeat->getResults(), active);
}

static void propagate(Block &block, llvm::DenseSet<Value> &active, llvm::StringMap<Activity> &kinds,
                      SymbolTable &symbols) {
  for (Operation &op : block) {
    if (auto state = dyn_cast<StateOpInterface>(op)) {
      if (state.getStateAccess() == StateAccess::Read &&
          symbols.lookup<nn::ParameterOp>(state.getStateSymbol()))
        active.insert(op.getResult(0));
      continue;
    }
    if (auto repeat = dyn_cast<RepeatOpInterface>(op)) {
      enterRepeat(repeat, active, kinds, symbols);
      continue;
    }
    if (auto call = dyn_cast<func::CallOp>(op)) {
      Activity &callee = enterCall(call, active, kinds, symbols);
      for (auto [result, on] : llvm::zip(call.getResults(), callee.results))
        if (on)
          active.insert(result);
      continue;
    }
    if (llvm::any_of(op.getOperands(), [&](Value v) { return active.contains(v); }))
      for (Value result : op.getResults())
        if (isa<FloatType>(getElementTypeOrSelf(result)))
          active.insert(result);
  }
}

/// No gradient goes through sums over the whole batch.
static LogicalResult checkWholeBatch(func::FuncOp function, const llvm::DenseSet<Value> &active) {
  WalkResult walk = function.walk([&](WholeBatchOpInterface op) {
    if (!active.contains(op.getContribution()))
      return WalkResult::advance();
    op->emitOpError("is of what depends on a trained parameter: it would need the gradients of "
                    "all micro-batches before those of the first");
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

FailureOr<llvm::StringMap<Activity>> analyzeActivity(ModuleOp module) {
  llvm::StringMap<Activity> kinds;
  SymbolTable symbols(module);
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr("nn.entry")) {
      // Activity only grows along the chain of layers; a second walk lets a
      // layer that became active late reach the calls before it.
      for (int walk = 0; walk < 2; ++walk) {
        llvm::DenseSet<Value> active;
        propagate(function.getBody().front(), active, kinds, symbols);
        if (failed(checkWholeBatch(function, active)))
          return failure();
      }
    }
  return kinds;
}

} // namespace cleave
