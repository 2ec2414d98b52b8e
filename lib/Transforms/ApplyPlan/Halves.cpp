//===- Halves.cpp - The two halves of a stage as functions of their own ----===//

#include "lib/Transforms/ApplyPlan/Halves.h"
#include "dialects/Interfaces/Interfaces.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
namespace cleave {

/// Whether it is cheaper to make the value again than to keep it: what is read from
/// where it is kept anyway, and constants.
static bool isMadeAgain(Operation *op) {
  if (auto state = dyn_cast<StateOpInterface>(op))
    return state.getStateAccess() == StateAccess::Read;
  return op->getNumOperands() == 0 && op->getNumRegions() == 0 && isPure(op);
}

namespace {
class Cutter {
public:
  Cutter(func::FuncOp whole, StringRef name, const HalvesRequest &request)
      : whole(whole), request(request), b(whole.getContext()), first(whole.getBody().front()) {
    b.setInsertionPointAfter(whole);
    second = func::FuncOp::create(b, whole.getLoc(), name, b.getFunctionType({}, {}));
    second->setAttr("nn.entry", b.getStringAttr(name));
    body = b.createBlock(&second.getBody());
  }

  func::FuncOp run() {
    for (auto [v, name] : llvm::zip(request.firstResults, request.firstNames))
      addResult(v, name, /*isTape=*/false);
    for (BlockArgument argument : first.getArguments())
      if (argument.getArgNumber() >= request.secondArguments || isUsedBehind(argument))
        giveArgument(argument);
    auto from = std::next(Block::iterator(request.last));
    body->getOperations().splice(body->end(), first.getOperations(), from, first.end());
    body->walk([&](Operation *op) {
      for (OpOperand &operand : op->getOpOperands())
        operand.set(seen(operand.get()));
    });
    SmallVector<Value> returned =
        llvm::map_to_vector(request.secondResults, [&](Value v) { return seen(v); });
    finish(second, body, returned, request.secondNames);
    for (auto [i, name] : llvm::enumerate(argumentNames)) {
      second.setArgAttr(i, "nn.name", b.getStringAttr(name));
      if (sources[i] >= 0)
        second.setArgAttr(i, "dist.as",
                          b.getArrayAttr({FlatSymbolRefAttr::get(whole.getNameAttr()),
                                          b.getI64IntegerAttr(sources[i])}));
    }
    first.eraseArguments(request.secondArguments,
                         first.getNumArguments() - request.secondArguments);
    finish(whole, &first, results, names);
    for (auto [i, kept] : llvm::enumerate(tape))
      if (kept)
        whole.setResultAttr(i, "nn.tape", b.getUnitAttr());
    return second;
  }

private:
  bool isUsedBehind(Value v) {
    return llvm::is_contained(request.secondResults, v) ||
           llvm::any_of(v.getUsers(), [&](Operation *user) {
             return request.last->isBeforeInBlock(first.findAncestorOpInBlock(*user));
           });
  }

  void giveArgument(BlockArgument argument) {
    Value own = body->addArgument(argument.getType(), argument.getLoc());
    argumentNames.push_back(
        whole.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "nn.name").str());
    sources.push_back(-1);
    map[argument] = own;
  }

  unsigned addResult(Value v, const std::string &name, bool isTape) {
    auto [it, fresh] = numbers.insert({v, results.size()});
    if (!fresh && isTape)
      return it->second;
    results.push_back(v);
    names.push_back(name);
    tape.push_back(isTape);
    return results.size() - 1;
  }

  /// What the second half knows `v` as.
  Value seen(Value v) {
    if (Value known = map.lookup(v))
      return known;
    Operation *op = v.getDefiningOp();
    if (v.getParentBlock() != &first)
      return v;
    if (isMadeAgain(op)) {
      OpBuilder start = OpBuilder::atBlockBegin(body);
      Value again = start.clone(*op)->getResult(cast<OpResult>(v).getResultNumber());
      return map[v] = again;
    }
    const unsigned number = addResult(v, "tape." + std::to_string(taped), /*isTape=*/true);
    taped += tape[number];
    map[v] = body->addArgument(v.getType(), v.getLoc());
    argumentNames.push_back(names[number]);
    sources.push_back(static_cast<int64_t>(number));
    return map[v];
  }

  void finish(func::FuncOp function, Block *block, ArrayRef<Value> values,
              ArrayRef<std::string> resultNames) {
    b.setInsertionPointToEnd(block);
    func::ReturnOp::create(b, function.getLoc(), values);
    function.setType(b.getFunctionType(block->getArgumentTypes(), TypeRange(ValueRange(values))));
    for (auto [i, name] : llvm::enumerate(resultNames))
      function.setResultAttr(i, "nn.name", b.getStringAttr(name));
  }

  func::FuncOp whole, second;
  const HalvesRequest &request;
  OpBuilder b;
  Block &first;
  Block *body = nullptr;
  /// What the first half returns.
  SmallVector<Value> results;
  SmallVector<std::string> names;
  SmallVector<bool> tape;
  llvm::DenseMap<Value, unsigned> numbers;
  unsigned taped = 0;
  /// What the second half takes: names, and the result of the first that it is, or -1.
  SmallVector<std::string> argumentNames;
  SmallVector<int64_t> sources;
  llvm::DenseMap<Value, Value> map;
};
} // namespace

func::FuncOp cutInHalves(func::FuncOp whole, StringRef name, const HalvesRequest &request) {
  return Cutter(whole, name, request).run();
}

} // namespace cleave
