//===- Parts.cpp - The parts of a stage's work as functions of their own ---===//

#include "lib/Transforms/ApplyPlan/Parts.h"
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
  Cutter(func::FuncOp whole, MutableArrayRef<EntryPart> parts)
      : whole(whole), original(whole.getBody().front()), b(whole.getContext()) {
    b.setInsertionPointAfter(whole);
    for (EntryPart &part : parts) {
      auto function = func::FuncOp::create(b, whole.getLoc(), part.name, b.getFunctionType({}, {}));
      function->setAttr("nn.entry", b.getStringAttr(part.name));
      Made &one = made.emplace_back();
      one.part = &part;
      one.function = function;
      OpBuilder::InsertionGuard guard(b);
      one.body = b.createBlock(&function.getBody());
      partOf[one.body] = made.size() - 1;
    }
  }

  void run() {
    for (Made &one : made) {
      for (auto [v, name] : llvm::zip(one.part->results, one.part->names))
        addResult(one, v, name, /*isTape=*/false);
      if (one.part->last)
        one.body->getOperations().splice(one.body->end(), original.getOperations(),
                                         original.begin(),
                                         std::next(Block::iterator(one.part->last)));
    }
    for (auto [number, one] : llvm::enumerate(made)) {
      for (unsigned i = one.part->firstArgument; i < one.part->endArgument; ++i)
        seen(number, original.getArgument(i));
      one.body->walk([&, number = number](Operation *op) {
        for (OpOperand &operand : op->getOpOperands())
          operand.set(seen(number, operand.get()));
      });
      // A part may return what it is given.
      for (Value &v : one.results)
        v = seen(number, v);
    }
    for (Made &one : made)
      finish(one);
    whole.erase();
  }

private:
  struct Made {
    EntryPart *part = nullptr;
    func::FuncOp function;
    Block *body = nullptr;
    /// What it takes of the whole's arguments and of other parts, as it calls that.
    llvm::MapVector<Value, Value> known;
    SmallVector<NamedAttrList> arguments;
    SmallVector<Value> results;
    SmallVector<NamedAttrList> resultAttributes;
    llvm::DenseMap<Value, unsigned> numbers;
  };

  unsigned addResult(Made &one, Value v, const Twine &name, bool isTape) {
    auto [it, fresh] = one.numbers.insert({v, one.results.size()});
    if (!fresh && isTape)
      return it->second;
    one.results.push_back(v);
    NamedAttrList &attributes = one.resultAttributes.emplace_back();
    attributes.set("nn.name", b.getStringAttr(name));
    if (isTape) {
      attributes.set("nn.tape", b.getUnitAttr());
      ++taped;
    }
    return one.results.size() - 1;
  }

  /// What part `number` knows `v` as.
  Value seen(size_t number, Value v) {
    Made &one = made[number];
    if (Value known = one.known.lookup(v))
      return known;
    const bool isArgument = v.getParentBlock() == &original;
    auto source = partOf.find(v.getParentBlock());
    if (!isArgument && (source == partOf.end() || source->second == number))
      return v;
    if (Operation *op = v.getDefiningOp(); op && isMadeAgain(op)) {
      OpBuilder start = OpBuilder::atBlockBegin(one.body);
      Value again = start.clone(*op)->getResult(cast<OpResult>(v).getResultNumber());
      return one.known[v] = again;
    }
    NamedAttrList attributes;
    if (isArgument) {
      attributes = whole.getArgAttrDict(cast<BlockArgument>(v).getArgNumber());
    } else {
      Made &other = made[source->second];
      const unsigned result = addResult(other, v, "tape." + Twine(taped), /*isTape=*/true);
      attributes.set("nn.name", other.resultAttributes[result].get("nn.name"));
      attributes.set("dist.as",
                     b.getArrayAttr({FlatSymbolRefAttr::get(other.function.getNameAttr()),
                                     b.getI64IntegerAttr(result)}));
    }
    one.arguments.push_back(attributes);
    return one.known[v] = one.body->addArgument(v.getType(), v.getLoc());
  }

  void finish(Made &one) {
    b.setInsertionPointToEnd(one.body);
    func::ReturnOp::create(b, whole.getLoc(), one.results);
    one.function.setType(
        b.getFunctionType(one.body->getArgumentTypes(), TypeRange(ValueRange(one.results))));
    for (auto [i, attributes] : llvm::enumerate(one.arguments))
      one.function.setArgAttrs(i, attributes.getDictionary(b.getContext()));
    for (auto [i, attributes] : llvm::enumerate(one.resultAttributes))
      one.function.setResultAttrs(i, attributes.getDictionary(b.getContext()));
  }

  func::FuncOp whole;
  Block &original;
  OpBuilder b;
  std::vector<Made> made;
  llvm::DenseMap<Block *, size_t> partOf;
  unsigned taped = 0;
};
} // namespace

void cutInParts(func::FuncOp whole, MutableArrayRef<EntryPart> parts) {
  Cutter(whole, parts).run();
}

} // namespace cleave
