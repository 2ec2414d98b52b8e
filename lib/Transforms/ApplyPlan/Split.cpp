//===- Split.cpp - A joint graph cut into forward and backward -------------===//

#include "lib/Transforms/ApplyPlan/Split.h"
#include "cleave/Analysis/Blocks.h"
#include "dialects/NN/NN.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
namespace cleave {

static func::FuncOp makeFunction(func::FuncOp joint, StringRef name, TypeRange inputs,
                                 TypeRange results) {
  OpBuilder b(joint);
  auto function = func::FuncOp::create(b, joint.getLoc(), name, b.getFunctionType(inputs, results));
  function.setPrivate();
  function.addEntryBlock();
  return function;
}

/// Clones the operators of `ops`, in order, into `function` and returns `values`.
static void fill(func::FuncOp function, Block &from, const llvm::DenseSet<Operation *> &ops,
                 IRMapping &map, ValueRange values) {
  OpBuilder b = OpBuilder::atBlockEnd(&function.getBody().front());
  for (Operation &op : from.without_terminator())
    if (ops.contains(&op))
      b.clone(op, map);
  SmallVector<Value> returned = llvm::map_to_vector(values, [&](Value v) { return map.lookup(v); });
  func::ReturnOp::create(b, function.getLoc(), returned);
}

SplitKind splitJoint(func::FuncOp joint, const std::optional<llvm::StringSet<>> &saved,
                     StringRef unsaved) {
  SplitKind split;
  auto list = [&](StringRef name) {
    return SmallVector<int64_t>(joint->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef());
  };
  split.activeResults = list("nn.joint.results");
  split.activeArguments = list("nn.joint.arguments");
  Block &body = joint.getBody().front();
  Operation *end = body.getTerminator();
  unsigned gradients = split.activeResults.size();
  unsigned arguments = body.getNumArguments() - gradients;
  split.results = end->getNumOperands() - split.activeArguments.size();
  ValueRange results = end->getOperands().take_front(split.results);
  ValueRange wanted = end->getOperands().drop_front(split.results);

  llvm::DenseSet<Operation *> forward = dependenciesOf(results), backward = dependenciesOf(wanted);
  for (Operation *op : forward)
    backward.erase(op);

  // What the backward reads: arguments, results, and other forward values. What is
  // not saved becomes part of the backward, which then reads its operands.
  auto isSaved = [&](Operation *op) {
    auto path = op->getAttrOfType<StringAttr>("nn.path");
    auto has = [&](Type type) { return !unsaved.empty() && nn::findDim(type, unsaved) >= 0; };
    if (llvm::any_of(op->getResultTypes(), has))
      return false;
    if (llvm::any_of(op->getOperandTypes(), has))
      return true; // else the backward would go through the dimension twice
    return !saved || (path && saved->contains(path.getValue()));
  };
  llvm::SmallSetVector<Value, 16> reads;
  llvm::DenseSet<Operation *> again;
  SmallVector<Value> work(wanted);
  auto read = [&](Value v) {
    Operation *op = v.getDefiningOp();
    if (!op) {
      if (cast<BlockArgument>(v).getArgNumber() < arguments)
        reads.insert(v);
    } else if (forward.contains(op) && isSaved(op)) {
      reads.insert(v);
    } else if (forward.contains(op) && again.insert(op).second) {
      work.append(op->operand_begin(), op->operand_end());
    }
  };
  for (Operation &op : body.without_terminator())
    if (backward.contains(&op))
      llvm::for_each(op.getOperands(), read);
  while (!work.empty())
    read(work.pop_back_val());
  backward.insert(again.begin(), again.end());

  SmallVector<Value> forwardResults(results);
  for (Value v : reads) {
    if (auto argument = dyn_cast<BlockArgument>(v)) {
      split.inputs.push_back({BackwardInput::Argument, argument.getArgNumber()});
    } else if (auto it = llvm::find(results, v); it != results.end()) {
      split.inputs.push_back({BackwardInput::Result, unsigned(it - results.begin())});
    } else {
      split.inputs.push_back(
          {BackwardInput::Saved, unsigned(forwardResults.size() - split.results)});
      forwardResults.push_back(v);
    }
  }

  StringRef kind = joint->getAttrOfType<FlatSymbolRefAttr>("nn.joint").getValue();
  split.forward = makeFunction(joint, (kind + ".forward").str(),
                               TypeRange(ValueRange(body.getArguments().take_front(arguments))),
                               TypeRange(ValueRange(forwardResults)));
  IRMapping map;
  map.map(body.getArguments().take_front(arguments), split.forward.getArguments());
  fill(split.forward, body, forward, map, forwardResults);
  for (unsigned i = 0; i < arguments; ++i)
    split.forward.setArgAttrs(i, joint.getArgAttrDict(i));

  SmallVector<Value> inputs(reads.begin(), reads.end());
  llvm::append_range(inputs, body.getArguments().drop_front(arguments));
  split.backward = makeFunction(joint, (kind + ".backward").str(), TypeRange(ValueRange(inputs)),
                                TypeRange(wanted));
  IRMapping backwardMap;
  backwardMap.map(inputs, split.backward.getArguments());
  fill(split.backward, body, backward, backwardMap, wanted);
  return split;
}

} // namespace cleave
