//===- Interpret.cpp - Runs a function and writes its results down ---------===//

#include "cleave/Interpreter/Interpreter.h"
#include "cleave/Interpreter/Passes.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace cleave {
#define GEN_PASS_DEF_INTERPRETPASS
#include "lib/Interpreter/Passes.h.inc"
} // namespace cleave

using namespace cleave;

static constexpr StringLiteral kValue = "cleave.value";
static constexpr StringLiteral kState = "cleave.state";

/// A value from its attribute: one constant for every rank, or one for each.
static FailureOr<RankTensors> readValue(Operation *op, Attribute attr, unsigned ranks) {
  SmallVector<Attribute> list(ranks, attr);
  if (auto array = dyn_cast_or_null<ArrayAttr>(attr)) {
    list.assign(array.begin(), array.end());
    if (list.size() != ranks)
      return op->emitError() << "has a '" << kValue << "' for " << list.size() << " ranks, not for "
                             << ranks;
  }
  RankTensors out;
  for (Attribute element : list) {
    auto dense = dyn_cast_or_null<DenseElementsAttr>(element);
    FailureOr<HostTensor> tensor = dense ? toHostTensor(dense) : FailureOr<HostTensor>(failure());
    if (failed(tensor))
      return op->emitError() << "needs a '" << kValue << "' of dense numbers";
    out.push_back(std::move(*tensor));
  }
  return out;
}

static ArrayAttr writeValue(MLIRContext *context, const RankTensors &value) {
  SmallVector<Attribute> list;
  for (const HostTensor &tensor : value)
    list.push_back(toAttribute(context, tensor));
  return ArrayAttr::get(context, list);
}

/// Fills the store from the symbols that have a value.
static FailureOr<StateStore> readState(ModuleOp module, unsigned ranks) {
  StateStore state;
  for (Operation &op : *module.getBody()) {
    auto name = op.getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName());
    Attribute attr = op.getDiscardableAttr(kValue);
    if (!name || !attr)
      continue;
    FailureOr<RankTensors> value = readValue(&op, attr, ranks);
    if (failed(value))
      return failure();
    state.set(name.getValue(), "value", std::move(*value));
  }
  return state;
}

static void writeState(ModuleOp module, const StateStore &state) {
  MLIRContext *context = module.getContext();
  std::map<std::string, NamedAttrList> bySymbol;
  for (const auto &[key, value] : state.contents())
    bySymbol[key.first].set(key.second, writeValue(context, value));
  for (auto &[symbol, slots] : bySymbol)
    if (Operation *op = SymbolTable::lookupSymbolIn(module, symbol))
      op->setDiscardableAttr(kState, slots.getDictionary(context));
}

namespace {
struct InterpretPass : cleave::impl::InterpretPassBase<InterpretPass> {
  using InterpretPassBase::InterpretPassBase;

  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }

  LogicalResult run() {
    auto entry = getOperation().lookupSymbol<FunctionOpInterface>(function);
    if (!entry)
      return getOperation().emitError() << "has no function @" << function << " to interpret";
    std::vector<RankTensors> arguments;
    for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
      FailureOr<RankTensors> value = readValue(entry, entry.getArgAttr(i, kValue), ranks);
      if (failed(value))
        return failure();
      arguments.push_back(std::move(*value));
    }
    FailureOr<StateStore> state = readState(getOperation(), ranks);
    if (failed(state))
      return failure();
    InterpreterOptions options;
    options.ranks = ranks;
    auto results = interpret(entry, arguments, *state, options);
    if (failed(results))
      return failure();
    for (auto [i, value] : llvm::enumerate(*results))
      entry.setResultAttr(i, kValue, writeValue(&getContext(), value));
    writeState(getOperation(), *state);
    return success();
  }
};
} // namespace
