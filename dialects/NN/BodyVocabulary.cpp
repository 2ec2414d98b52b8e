//===- BodyVocabulary.cpp - Bodies of embedding and cross entropy ----------===//

#include "dialects/NN/Body.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

using Types = ArrayRef<RankedTensorType>;

//===----------------------------------------------------------------------===//
// embedding
//===----------------------------------------------------------------------===//

bool EmbeddingOp::needsWholeOperand(unsigned operand) { return operand == 0; }

SmallVector<Value> EmbeddingOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Value table = operands[0];
  ValueRange ids = operands.drop_front();
  auto row = [&](const BodyPoint &p) {
    BodyScalar at = p[0] - offsetAt(p, 1, ids.size() - 1);
    BodyScalar known = (at >= 0.0).both(at < static_cast<double>(tensorType(table).getDimSize(0)));
    SmallVector<Value> index = {known.select(at, 0.0).toIndex()};
    for (StringAttr name : dimNames(table).drop_front())
      index.push_back(p.position(name).toIndex());
    BodyScalar element(p.builder, p.loc, tensor::ExtractOp::create(p.builder, p.loc, table, index));
    return known.select(element, 0.0);
  };
  return {Body(b, getLoc()).map(types[0], ids, row)};
}

FusionDims EmbeddingGradOp::getFusionDims(unsigned) { return {{}, {}, /*alone=*/true}; }

SmallVector<Value> EmbeddingGradOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Body body(b, getLoc());
  Value ids = operands[0], gradient = operands[1];
  if (operands.size() > 2)
    ids = body.map(tensorType(ids), {ids, operands[2]},
                   [](const BodyPoint &p) { return p[0] - p[1]; });
  // The row first: kernels know this form as "add rows by index".
  StringAttr rows;
  for (StringAttr name : dimNames(types[0]))
    if (findDim(gradient.getType(), name) < 0 && name == dimNames(getType())[0])
      rows = name;
  return {body.sum(types[0], {ids, gradient}, [&](const BodyPoint &p) {
    return (p[0] == p.position(rows)).select(p[1], 0.0);
  })};
}

//===----------------------------------------------------------------------===//
// cross_entropy
//===----------------------------------------------------------------------===//

/// A row's largest logit, the sum of exp(x − max), and the target's logit (0 if
/// the target is not among these columns). `operands`: logits, targets, offsets.
static SmallVector<Value> rowStatistics(Body &body, ValueRange operands, RankedTensorType row) {
  Value logits = operands[0];
  StringAttr vocabulary = dimNames(logits).back();
  Value max = body.max(row, logits, [](const BodyPoint &p) { return p[0]; });
  Value sum = body.sum(row, {logits, max}, [](const BodyPoint &p) { return (p[0] - p[1]).exp(); });
  Value target = body.sum(row, operands, [&](const BodyPoint &p) {
    BodyScalar at = p[1] - offsetAt(p, 2, operands.size() - 2);
    return (p.position(vocabulary) == at).select(p[0], 0.0);
  });
  return {max, sum, target};
}

static RankedTensorType firstOf(Types types) {
  return *llvm::find_if(types, [](RankedTensorType t) { return bool(t); });
}

/// Loss and log-sum-exp from `max`, `sum`, the target's logit and the targets.
static SmallVector<Value> combine(Body &body, ValueRange operands, Types types) {
  Value lse = body.map(firstOf(types), {operands[0], operands[1]},
                       [](const BodyPoint &p) { return p[0] + p[1].log(); });
  SmallVector<Value> out(2);
  if (types[0])
    out[0] = body.map(types[0], {lse, operands[2], operands[3]},
                      [](const BodyPoint &p) { return (p[2] >= 0.0).select(p[0] - p[1], 0.0); });
  if (types[1])
    out[1] = lse;
  return out;
}

SmallVector<Value> CrossEntropyOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Body body(b, getLoc());
  SmallVector<Value> parts = rowStatistics(body, operands, firstOf(types));
  parts.push_back(operands[1]);
  return combine(body, parts, types);
}

SmallVector<Value> CrossEntropyPartialOp::buildBody(OpBuilder &b, ValueRange operands,
                                                    Types types) {
  Body body(b, getLoc());
  RankedTensorType row = firstOf(types);
  SmallVector<Value> out = rowStatistics(body, operands.drop_back(getBefore().size()), row);
  if (ValueRange before = operands.take_back(getBefore().size()); !before.empty()) {
    Value max =
        body.map(row, {out[0], before[0]}, [](const BodyPoint &p) { return p[0].max(p[1]); });
    Value sums[] = {out[1], out[0], before[1], before[0], max};
    Value sum = body.map(row, sums, [](const BodyPoint &p) {
      return p[0] * (p[1] - p[4]).exp() + p[2] * (p[3] - p[4]).exp();
    });
    Value target =
        body.map(row, {out[2], before[2]}, [](const BodyPoint &p) { return p[0] + p[1]; });
    out = {max, sum, target};
  }
  for (auto [value, type] : llvm::zip(out, types))
    if (!type)
      value = Value();
  return out;
}

SmallVector<Value> RescaleSumOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return {Body(b, getLoc()).map(types[0], operands, [](const BodyPoint &p) {
    return p[0] * (p[1] - p[2]).exp();
  })};
}

SmallVector<Value> CrossEntropyCombineOp::buildBody(OpBuilder &b, ValueRange operands,
                                                    Types types) {
  Body body(b, getLoc());
  return combine(body, operands, types);
}

SmallVector<Value> CrossEntropyGradOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  StringAttr vocabulary = dimNames(types[0]).back();
  return {Body(b, getLoc()).map(types[0], operands, [&](const BodyPoint &p) {
    BodyScalar target = p[1], share = (p[0] - p[2]).exp();
    BodyScalar at = target - offsetAt(p, 4, operands.size() - 4);
    BodyScalar hit = (p.position(vocabulary) == at).select(p.number(1.0), 0.0);
    return (target >= 0.0).select((share - hit) * p[3], 0.0);
  })};
}

SmallVector<Value> CountValidOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return {Body(b, getLoc()).sum(types[0], operands, [](const BodyPoint &p) {
    return (p[0] >= 0.0).select(p.number(1.0), 0.0);
  })};
}
