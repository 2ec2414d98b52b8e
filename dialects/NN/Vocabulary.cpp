//===- Vocabulary.cpp - Embedding and cross entropy ------------------------===//

#include "dialects/NN/NN.h"
#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

/// What padding of a cut vocabulary holds: exp(kNoLogit − max) is 0, and a rank
/// that has padding alone yields a finite maximum.
static constexpr double kNoLogit = -1e30;

/// The sum of the scalars `offsets`.
static int64_t offsetOf(ArrayRef<const HostTensor *> offsets) {
  int64_t sum = 0;
  for (const HostTensor *offset : offsets)
    sum += static_cast<int64_t>(offset->data[0]);
  return sum;
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
  int64_t rows = in[0]->shape[0], width = in[0]->size() / rows, offset = offsetOf(in.drop_front(2));
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
  int64_t rows = out[0].shape[0], width = out[0].size() / rows, offset = offsetOf(in.drop_front(2));
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

ValueRange CrossEntropyPartialOp::getOffsets() {
  ValueRange others = getOthers();
  auto end = llvm::find_if(others, [](Value v) { return isa<FloatType>(getElementTypeOrSelf(v)); });
  return others.take_front(end - others.begin());
}

LogicalResult CrossEntropyPartialOp::verify() {
  if (failed(verifyDims(*this, getOffsets(), {}, "an offset")))
    return failure();
  if (!getBefore().empty() && getBefore().size() != 3)
    return emitOpError("takes max, sum and target of other columns together");
  SmallVector<Value> rows = {getTargets(), getMax(), getSum(), getTarget()};
  llvm::append_range(rows, getBefore());
  return verifyRows(*this, getLogits(), rows);
}

LogicalResult CrossEntropyGradOp::verify() {
  if (failed(verifyDims(*this, getLogitsGradient(), dimNames(getLogits()), "a gradient")) ||
      failed(verifyDims(*this, getOffsets(), {}, "an offset")))
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
                                          getTargets(), getLse(), g[0], ValueRange());
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
  int64_t rows = in[1]->size(), n = in[0]->size() / rows;
  int64_t offset = offsetOf(in.slice(2, getOffsets().size()));
  auto before = in.take_back(getBefore().size());
  for (int64_t r = 0; r < rows; ++r) {
    const double *x = in[0]->data.data() + r * n;
    auto [max, sum] = rowStatistics(x, n);
    int64_t target = static_cast<int64_t>(in[1]->data[r]), at = target - offset;
    double hit = target >= 0 && at >= 0 && at < n ? x[at] : 0.0;
    if (!before.empty()) {
      double own = max, other = before[0]->data[r];
      max = std::max(own, other);
      sum = sum * std::exp(own - max) + before[1]->data[r] * std::exp(other - max);
      hit += before[2]->data[r];
    }
    out[0].data[r] = max;
    out[1].data[r] = sum;
    out[2].data[r] = hit;
  }
  return success();
}

/// What is known before the first block: nothing.
static SmallVector<Value> startStatistics(OpBuilder &b, Location loc, Type row) {
  Value none = FillOp::create(b, loc, row, b.getF64FloatAttr(kNoLogit));
  Value zero = FillOp::create(b, loc, row, b.getF64FloatAttr(0.0));
  return {none, zero, zero};
}

/// The vocabulary is the last dimension of the logits, which come first.
static bool isVocabulary(Value logits, unsigned operand, int64_t dim) {
  return operand == 0 && dim + 1 == cast<RankedTensorType>(logits.getType()).getRank();
}

bool CrossEntropyPartialOp::hasBlocks(unsigned operand, int64_t dim) {
  return isVocabulary(getLogits(), operand, dim);
}

SmallVector<Value> CrossEntropyPartialOp::buildBlocksStart(OpBuilder &b) {
  return getBefore().empty() ? startStatistics(b, getLoc(), getMax().getType())
                             : SmallVector<Value>(getBefore());
}

SmallVector<Value> CrossEntropyPartialOp::buildBlock(OpBuilder &b, ValueRange operands,
                                                     TypeRange types, Value begin,
                                                     ValueRange carried) {
  SmallVector<Value> block(operands.drop_back(getBefore().size()));
  block.push_back(begin);
  llvm::append_range(block, carried);
  return SmallVector<Value>(
      CrossEntropyPartialOp::create(b, getLoc(), types, block, (*this)->getAttrs()).getResults());
}

bool CrossEntropyOp::hasBlocks(unsigned operand, int64_t dim) {
  return isVocabulary(getLogits(), operand, dim);
}

SmallVector<Value> CrossEntropyOp::buildBlocksStart(OpBuilder &b) {
  return startStatistics(b, getLoc(), getLoss().getType());
}

SmallVector<Value> CrossEntropyOp::buildBlock(OpBuilder &b, ValueRange operands, TypeRange types,
                                              Value begin, ValueRange carried) {
  SmallVector<Value> others = {begin};
  llvm::append_range(others, carried);
  Type row = types[0];
  return SmallVector<Value>(
      CrossEntropyPartialOp::create(b, getLoc(), row, row, row, operands[0], operands[1], others)
          .getResults());
}

SmallVector<Value> CrossEntropyOp::buildBlocksEnd(OpBuilder &b, ValueRange operands,
                                                  ValueRange carried) {
  Type row = getLoss().getType();
  return SmallVector<Value>(CrossEntropyCombineOp::create(b, getLoc(), row, row, carried[0],
                                                          carried[1], carried[2], operands[1])
                                .getResults());
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

bool CrossEntropyGradOp::hasBlocks(unsigned operand, int64_t dim) {
  return isVocabulary(getLogits(), operand, dim);
}

SmallVector<Value> CrossEntropyGradOp::buildBlock(OpBuilder &b, ValueRange operands,
                                                  TypeRange types, Value begin, ValueRange) {
  SmallVector<Value> with(operands);
  with.push_back(begin);
  return {CrossEntropyGradOp::create(b, getLoc(), types, with, (*this)->getAttrs())};
}

LogicalResult CrossEntropyGradOp::interpret(ArrayRef<const HostTensor *> in,
                                            MutableArrayRef<HostTensor> out) {
  int64_t rows = in[1]->size(), n = in[0]->size() / rows, offset = offsetOf(in.drop_front(4));
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
