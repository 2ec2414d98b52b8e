//===- Prepare.cpp - Operators in the form that grouping wants -------------===//

#include "Prepare.h"
#include "Rows.h"
#include "cleave/Transforms/Fusion/Fusion.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::fusion;

/// Replaces `op` by its stages, if it has any.
static bool stage(FusionOpInterface op) {
  OpBuilder b(op);
  SmallVector<Value> results = op.buildStages(b);
  if (results.empty())
    return false;
  for (StringRef name : {StringRef("nn.path"), StringRef(kFusionApartAttr)})
    if (Attribute attribute = op->getAttr(name))
      for (Value v : results)
        for (Operation *made = v.getDefiningOp(); made && made->getBlock() == op->getBlock();) {
          if (made->hasAttr(name))
            break;
          made->setAttr(name, attribute);
          made = made->getNumOperands() ? made->getOperand(0).getDefiningOp() : nullptr;
        }
  op->replaceAllUsesWith(results);
  op->erase();
  return true;
}

/// What tells the rows of results apart: the first dimension, if it can be one.
static StringAttr rowKey(FusionOpInterface op, OpResult result) {
  auto names = nn::dimNames(result);
  FusionDims dims = op.getFusionDims(result.getResultNumber());
  return names.empty() || llvm::is_contained(dims.mixed, 0) ? StringAttr() : names[0];
}

/// Leaves `op` the results with the rows of the first one; copies make the others.
static void splitByRows(FusionOpInterface op) {
  llvm::MapVector<StringAttr, SmallVector<OpResult>> parts;
  for (OpResult r : usedResults(op))
    parts[rowKey(op, r)].push_back(r);
  OpBuilder b(op->getContext());
  b.setInsertionPointAfter(op);
  for (auto &[key, results] : llvm::drop_begin(parts, parts.empty() ? 0 : 1)) {
    Operation *copy = b.clone(*op);
    for (OpResult r : results)
      r.replaceAllUsesWith(copy->getResult(r.getResultNumber()));
  }
}

/// Whether `op` makes a larger value of one that it could be made of again at no cost: of
/// the same elements in a wider type.
static bool isWidening(FusionOpInterface op) {
  auto elements = [](Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); };
  return op->getNumOperands() == 1 && op->getNumResults() == 1 &&
         elements(op->getOperand(0)).isBF16() && elements(op->getResult(0)).isF32() &&
         nn::dimNames(op->getOperand(0)) == nn::dimNames(op->getResult(0));
}

/// Gives every reader but the first a copy of its own.
static void copyToReaders(Operation *constant) {
  SmallVector<Operation *> readers;
  for (Operation *user : constant->getUsers())
    if (!llvm::is_contained(readers, user))
      readers.push_back(user);
  for (Operation *reader : llvm::drop_begin(readers, readers.empty() ? 0 : 1)) {
    OpBuilder b(reader);
    Operation *copy = b.clone(*constant);
    reader->replaceUsesOfWith(constant->getResult(0), copy->getResult(0));
  }
}

void cleave::fusion::prepare(Block &block) {
  SmallVector<FusionOpInterface> ops;
  for (FusionOpInterface op : block.getOps<FusionOpInterface>())
    if (!op->hasAttr(kFusionGroupAttr))
      ops.push_back(op);
  for (FusionOpInterface op : ops) {
    if (stage(op))
      continue;
    if ((op->getNumOperands() == 0 && op->getNumResults() == 1) || isWidening(op))
      copyToReaders(op);
    else
      splitByRows(op);
  }
}
