//===- Vocabulary.cpp - Embedding and cross entropy ------------------------===//

#include "dialects/NN/NN.h"
#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

/// What padding of a cut vocabulary holds: exp(kNoLogit − max) is 0, and a rank
/// that has padding alone yields a finite maximum.
static constexpr double kNoLogit = -1e30;

static int64_t offsetOf(ArrayRef<const HostTensor *> in, size_t operand) {
  return operand < in.size() ? static_cast<int64_t>(in[operand]->data[0]) : 0;
}

/// Operands with this rank's offset along `factor` added as the last one.
static SmallVector<Value> withOffset(ShardingRule rule, StringRef factor, ValueRange operands,
                                     LocalContext &context) {
  SmallVector<Value> out(operands);
  int f = rule.find(factor);
  if (f >= 0 && context.isSharded(f))
    out.push_back(context.offset(f));
  return out;
}

//===----------------------------------------------------------------------===//
// embedding
//===----------------------------------------------------------------------===//

/// `rows` has the dimensions of the ids, then those of a row of the table.
static LogicalResult verifyEmbedding(Operation *op, Value table, Value ids, Value rows,
                                     Value offset) {
  if (dimNames(table).size() < 2)
    return op->emitOpError("needs a table of at least two dimensions");
  SmallVector<StringAttr> want(dimNames(ids));
  llvm::append_range(want, dimNames(table).drop_front());
  if (failed(verifyDims(op, rows, want, "rows")) ||
      (offset && failed(verifyDims(op, offset, {}, "an offset"))))
    return failure();
  return verifySizesByName(op);
}

LogicalResult EmbeddingOp::verify() {
  return verifyEmbedding(*this, getTable(), getIds(), getResult(), getOffset());
}

LogicalResult EmbeddingGradOp::verify() {
  return verifyEmbedding(*this, getTableGradient(), getIds(), getGradient(), getOffset());
}

ShardingRule EmbeddingOp::getShardingRule() {
  ShardingRule rule = ruleByNames(*this);
  rule.factors[rule.operands[0][0]].neutral.reset(); // ids never point at padding
  rule.linear = {{0}};
  return rule;
}

SmallVector<Value> EmbeddingOp::buildLocal(OpBuilder &b, ValueRange operands, TypeRange types,
                                           LocalContext &context) {
  auto rows = dimNames(getTable())[0].getValue();
  auto local = withOffset(getShardingRule(), rows, operands, context);
  return {EmbeddingOp::create(b, getLoc(), types, local, (*this)->getAttrs())};
}

SmallVector<Value> EmbeddingOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool> wanted) {
  SmallVector<Value> out(getNumOperands());
  if (wanted[0])
    out[0] =
        EmbeddingGradOp::create(b, getLoc(), getTable().getType(), getIds(), g[0], getOffset());
  return out;
}

LogicalResult EmbeddingOp::interpret(ArrayRef<const HostTensor *> in,
                                     MutableArrayRef<HostTensor> out) {
  int64_t rows = in[0]->shape[0], width = in[0]->size() / rows, offset = offsetOf(in, 2);
  for (int64_t t = 0; t < in[1]->size(); ++t) {
    int64_t row = static_cast<int64_t>(in[1]->data[t]) - offset;
    for (int64_t i = 0; i < width; ++i)
      out[0].data[t * width + i] = row >= 0 && row < rows ? in[0]->data[row * width + i] : 0.0;
  }
  return success();
}

ShardingRule EmbeddingGradOp::getShardingRule() {
  ShardingRule rule = ruleByNames(*this);
  rule.linear = {{1}};
  setNeutralOperand(rule, 1); // a padded id is a row like any other
  return rule;
}

SmallVector<Value> EmbeddingGradOp::buildLocal(OpBuilder &b, ValueRange operands, TypeRange types,
                                               LocalContext &context) {
  auto rows = dimNames(getType())[0].getValue();
  auto local = withOffset(getShardingRule(), rows, operands, context);
  return {EmbeddingGradOp::create(b, getLoc(), types, local, (*this)->getAttrs())};
}

LogicalResult EmbeddingGradOp::interpret(ArrayRef<const HostTensor *> in,
                                         MutableArrayRef<HostTensor> out) {
  int64_t rows = out[0].shape[0], width = out[0].size() / rows, offset = offsetOf(in, 2);
  std::fill(out[0].data.begin(), out[0].data.end(), 0.0);
  for (int64_t t = 0; t < in[0]->size(); ++t) {
    int64_t row = static_cast<int64_t>(in[0]->data[t]) - offset;
    if (row >= 0 && row < rows)
      for (int64_t i = 0; i < width; ++i)
        out[0].data[row * width + i] += in[1]->data[t * width + i];
  }
  return success();
}

//===----------------------------------------------------------------------===//
// cross_entropy
//===----------------------------------------------------------------------===//

/// `values` have one element for each row of the logits.
static LogicalResult verifyRows(Operation *op, Value logits, ValueRange values) {
  if (dimNames(logits).empty())
    return op->emitOpError("needs logits with a dimension for the vocabulary");
  if (failed(verifyDims(op, values, dimNames(logits).drop_back(), "targets and row values")))
    return failure();
  return verifySizesByName(op);
}

LogicalResult CrossEntropyOp::verify() {
  return verifyRows(*this, getLogits(), {getTargets(), getLoss(), getLse()});
}

LogicalResult CrossEntropyPartialOp::verify() {
  if (failed(verifyDims(*this, getOffset(), {}, "an offset")))
    return failure();
  return verifyRows(*this, getLogits(), {getTargets(), getMax(), getSum(), getTarget()});
}

LogicalResult CrossEntropyGradOp::verify() {
  if (failed(verifyDims(*this, getLogitsGradient(), dimNames(getLogits()), "a gradient")) ||
      (getOffset() && failed(verifyDims(*this, getOffset(), {}, "an offset"))))
    return failure();
  return verifyRows(*this, getLogits(), {getTargets(), getLse(), getGradient()});
}

/// All operands and results have the dimensions of the first result.
static LogicalResult verifyAlike(Operation *op) {
  auto names = dimNames(op->getResult(0));
  if (failed(verifyDims(op, op->getOperands(), names, "operands")) ||
      failed(verifyDims(op, op->getResults(), names, "results")))
    return failure();
  return verifySizesByName(op);
}

LogicalResult RescaleSumOp::verify() { return verifyAlike(*this); }
LogicalResult CrossEntropyCombineOp::verify() { return verifyAlike(*this); }
LogicalResult CountValidOp::verify() { return verifyDims(*this, getCount(), {}, "a count"); }

/// The vocabulary may be cut; results are completed by the operator itself.
static ShardingRule vocabularyRule(Operation *op, bool completes) {
  ShardingRule rule = ruleByNames(op);
  Factor &vocabulary = rule.factors[rule.operands[0].back()];
  if (completes)
    vocabulary.reduction.reset();
  vocabulary.neutral = kNoLogit;
  return rule;
}

ShardingRule CrossEntropyOp::getShardingRule() { return vocabularyRule(*this, true); }

SmallVector<Value> CrossEntropyOp::buildLocal(OpBuilder &b, ValueRange operands, TypeRange types,
                                              LocalContext &context) {
  unsigned vocabulary = getShardingRule().operands[0].back();
  if (!context.isSharded(vocabulary))
    return SmallVector<Value>(
        CrossEntropyOp::create(b, getLoc(), types, operands, (*this)->getAttrs()).getResults());
  Value offset = context.offset(vocabulary);
  Type row = types[0];
  auto part =
      CrossEntropyPartialOp::create(b, getLoc(), row, row, row, operands[0], operands[1], offset);
  Value max = context.allReduce(part.getMax(), vocabulary, ReductionKind::Max);
  Value scaled = RescaleSumOp::create(b, getLoc(), row, part.getSum(), part.getMax(), max);
  Value sum = context.allReduce(scaled, vocabulary, ReductionKind::Sum);
  Value target = context.allReduce(part.getTarget(), vocabulary, ReductionKind::Sum);
  return SmallVector<Value>(
      CrossEntropyCombineOp::create(b, getLoc(), row, row, max, sum, target, operands[1])
          .getResults());
}

SmallVector<Value> CrossEntropyOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  Value grad = CrossEntropyGradOp::create(b, getLoc(), getLogits().getType(), getLogits(),
                                          getTargets(), getLse(), g[0], Value());
  return {grad, Value()};
}

/// Max and Σ exp(x − max) of one row.
static std::pair<double, double> rowStatistics(const double *x, int64_t n) {
  double max = *std::max_element(x, x + n), sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += std::exp(x[i] - max);
  return {max, sum};
}

LogicalResult CrossEntropyOp::interpret(ArrayRef<const HostTensor *> in,
                                        MutableArrayRef<HostTensor> out) {
  int64_t rows = in[1]->size(), n = in[0]->size() / rows;
  for (int64_t r = 0; r < rows; ++r) {
    const double *x = in[0]->data.data() + r * n;
    auto [max, sum] = rowStatistics(x, n);
    int64_t target = static_cast<int64_t>(in[1]->data[r]);
    if (target >= n)
      return emitOpError() << "has the target " << target << " in a vocabulary of " << n;
    out[1].data[r] = max + std::log(sum);
    out[0].data[r] = target >= 0 ? out[1].data[r] - x[target] : 0.0;
  }
  return success();
}

ShardingRule CrossEntropyPartialOp::getShardingRule() {
  ShardingRule rule = vocabularyRule(*this, true);
  rule.factors[rule.operands[0].back()].shardable = false; // it is one rank's share already
  return rule;
}

LogicalResult CrossEntropyPartialOp::interpret(ArrayRef<const HostTensor *> in,
                                               MutableArrayRef<HostTensor> out) {
  int64_t rows = in[1]->size(), n = in[0]->size() / rows, offset = offsetOf(in, 2);
  for (int64_t r = 0; r < rows; ++r) {
    const double *x = in[0]->data.data() + r * n;
    std::tie(out[0].data[r], out[1].data[r]) = rowStatistics(x, n);
    int64_t target = static_cast<int64_t>(in[1]->data[r]), at = target - offset;
    out[2].data[r] = target >= 0 && at >= 0 && at < n ? x[at] : 0.0;
  }
  return success();
}

ShardingRule RescaleSumOp::getShardingRule() { return ruleByNames(*this); }

LogicalResult RescaleSumOp::interpret(ArrayRef<const HostTensor *> in,
                                      MutableArrayRef<HostTensor> out) {
  for (int64_t i = 0; i < out[0].size(); ++i)
    out[0].data[i] = in[0]->data[i] * std::exp(in[1]->data[i] - in[2]->data[i]);
  return success();
}

ShardingRule CrossEntropyCombineOp::getShardingRule() { return ruleByNames(*this); }

LogicalResult CrossEntropyCombineOp::interpret(ArrayRef<const HostTensor *> in,
                                               MutableArrayRef<HostTensor> out) {
  for (int64_t i = 0; i < out[0].size(); ++i) {
    out[1].data[i] = in[0]->data[i] + std::log(in[1]->data[i]);
    out[0].data[i] = in[3]->data[i] >= 0 ? out[1].data[i] - in[2]->data[i] : 0.0;
  }
  return success();
}

ShardingRule CrossEntropyGradOp::getShardingRule() {
  ShardingRule rule = ruleByNames(*this);
  rule.linear = {{3}};
  return rule;
}

SmallVector<Value> CrossEntropyGradOp::buildLocal(OpBuilder &b, ValueRange operands,
                                                  TypeRange types, LocalContext &context) {
  auto vocabulary = dimNames(getType()).back().getValue();
  auto local = withOffset(getShardingRule(), vocabulary, operands, context);
  return {CrossEntropyGradOp::create(b, getLoc(), types, local, (*this)->getAttrs())};
}

LogicalResult CrossEntropyGradOp::interpret(ArrayRef<const HostTensor *> in,
                                            MutableArrayRef<HostTensor> out) {
  int64_t rows = in[1]->size(), n = in[0]->size() / rows, offset = offsetOf(in, 4);
  for (int64_t r = 0; r < rows; ++r) {
    int64_t target = static_cast<int64_t>(in[1]->data[r]);
    for (int64_t i = 0; i < n; ++i) {
      double p = std::exp(in[0]->data[r * n + i] - in[2]->data[r]);
      double hit = target - offset == i ? 1.0 : 0.0;
      out[0].data[r * n + i] = target >= 0 ? (p - hit) * in[3]->data[r] : 0.0;
    }
  }
  return success();
}

ShardingRule CountValidOp::getShardingRule() {
  ShardingRule rule = ruleByNames(*this);
  for (Factor &factor : rule.factors)
    factor.neutral = -1; // padding is no token
  return rule;
}

LogicalResult CountValidOp::interpret(ArrayRef<const HostTensor *> in,
                                      MutableArrayRef<HostTensor> out) {
  out[0].data[0] = llvm::count_if(in[0]->data, [](double t) { return t >= 0; });
  return success();
}
