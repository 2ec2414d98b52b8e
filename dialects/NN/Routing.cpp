//===- Routing.cpp - Which experts a token goes to -------------------------===//

#include "dialects/NN/NN.h"
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

/// Rows of a tensor along its last dimension, and their length.
static std::pair<int64_t, int64_t> rowsAndWidth(const HostTensor &t) {
  int64_t width = t.shape.back();
  return {width == 0 ? 0 : t.size() / width, width};
}

/// `values` have the dimensions of `type`, which has at least one.
static LogicalResult verifyAlike(Operation *op, RankedTensorType type, ValueRange values) {
  if (type.getRank() == 0)
    return op->emitOpError("needs a dimension to go along");
  if (failed(verifyDims(op, values, dimNames(type), "operands and results")))
    return failure();
  return verifySizesByName(op);
}

/// By names, the last dimension of `type` whole.
static ShardingRule ruleAlong(Operation *op, RankedTensorType type) {
  ShardingRule rule = ruleByNames(op);
  Factor &along = rule.factors[rule.find(dimNames(type).back().getValue())];
  along = {along.name, along.size, false, std::nullopt, std::nullopt};
  return rule;
}

//===----------------------------------------------------------------------===//
// softmax
//===----------------------------------------------------------------------===//

LogicalResult SoftmaxOp::verify() {
  return verifyAlike(*this, getInput().getType(), {getResult()});
}

ShardingRule SoftmaxOp::getShardingRule() { return ruleAlong(*this, getInput().getType()); }

SmallVector<Value> SoftmaxOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  return {SoftmaxGradOp::create(b, getLoc(), getType(), getResult(), g[0])};
}

LogicalResult SoftmaxOp::interpret(ArrayRef<const HostTensor *> in,
                                   MutableArrayRef<HostTensor> out) {
  auto [rows, width] = rowsAndWidth(*in[0]);
  for (int64_t r = 0; r < rows; ++r) {
    const double *x = in[0]->data.data() + r * width;
    double *y = out[0].data.data() + r * width;
    double max = *std::max_element(x, x + width), sum = 0;
    for (int64_t i = 0; i < width; ++i)
      sum += y[i] = std::exp(x[i] - max);
    for (int64_t i = 0; i < width; ++i)
      y[i] /= sum;
  }
  return success();
}

LogicalResult SoftmaxGradOp::verify() {
  return verifyAlike(*this, getResult().getType(), {getGradient(), getInputGradient()});
}

ShardingRule SoftmaxGradOp::getShardingRule() {
  ShardingRule rule = ruleAlong(*this, getResult().getType());
  rule.linear = {{1}};
  return rule;
}

LogicalResult SoftmaxGradOp::interpret(ArrayRef<const HostTensor *> in,
                                       MutableArrayRef<HostTensor> out) {
  auto [rows, width] = rowsAndWidth(*in[0]);
  for (int64_t r = 0; r < rows; ++r) {
    const double *y = in[0]->data.data() + r * width, *dy = in[1]->data.data() + r * width;
    double dot = std::inner_product(y, y + width, dy, 0.0);
    for (int64_t i = 0; i < width; ++i)
      out[0].data[r * width + i] = y[i] * (dy[i] - dot);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// top_k
//===----------------------------------------------------------------------===//

/// `many` and `few` differ in their last dimensions alone; `indices` are like `few`.
static LogicalResult verifyPicks(Operation *op, Value many, Value few, Value indices) {
  auto names = dimNames(many);
  if (names.empty() || dimNames(few).empty())
    return op->emitOpError("needs a dimension to pick along");
  SmallVector<StringAttr> want(names.drop_back());
  want.push_back(dimNames(few).back());
  if (want.back() == names.back())
    return op->emitOpError() << "picks along " << want.back() << " and calls the picked ones alike";
  if (failed(verifyDims(op, {few, indices}, want, "indices and what is picked")))
    return failure();
  if (!getElementTypeOrSelf(indices).isInteger(32))
    return op->emitOpError("needs indices of i32");
  return verifySizesByName(op);
}

LogicalResult TopKOp::verify() {
  if (failed(verifyPicks(*this, getScores(), getIndices(), getIndices())))
    return failure();
  int64_t of = getScores().getType().getShape().back(), count = getType().getShape().back();
  if (count < 1 || of < count)
    return emitOpError() << "takes " << count << " of " << of << " elements";
  return success();
}

ShardingRule TopKOp::getShardingRule() {
  ShardingRule rule = ruleAlong(*this, getScores().getType());
  rule.factors[rule.results[0].back()].shardable = false;
  return rule;
}

LogicalResult TopKOp::interpret(ArrayRef<const HostTensor *> in, MutableArrayRef<HostTensor> out) {
  auto [rows, width] = rowsAndWidth(*in[0]);
  int64_t count = out[0].shape.back();
  std::vector<int64_t> order(width);
  for (int64_t r = 0; r < rows; ++r) {
    const double *x = in[0]->data.data() + r * width;
    std::iota(order.begin(), order.end(), 0);
    llvm::sort(order, [&](int64_t a, int64_t b) { return x[a] != x[b] ? x[a] > x[b] : a < b; });
    for (int64_t i = 0; i < count; ++i)
      out[0].data[r * count + i] = static_cast<double>(order[i]);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// pick, place
//===----------------------------------------------------------------------===//

LogicalResult PickOp::verify() { return verifyPicks(*this, getInput(), getResult(), getIndices()); }

ShardingRule PickOp::getShardingRule() {
  ShardingRule rule = ruleAlong(*this, getInput().getType());
  rule.linear = {{0}};
  return rule;
}

SmallVector<Value> PickOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  return {PlaceOp::create(b, getLoc(), getInput().getType(), g[0], getIndices()), Value()};
}

LogicalResult PickOp::interpret(ArrayRef<const HostTensor *> in, MutableArrayRef<HostTensor> out) {
  auto [rows, width] = rowsAndWidth(*in[0]);
  int64_t count = out[0].shape.back();
  for (int64_t i = 0; i < rows * count; ++i) {
    auto at = static_cast<int64_t>(in[1]->data[i]);
    out[0].data[i] = at >= 0 && at < width ? in[0]->data[i / count * width + at] : 0.0;
  }
  return success();
}

LogicalResult PlaceOp::verify() {
  return verifyPicks(*this, getResult(), getInput(), getIndices());
}

ShardingRule PlaceOp::getShardingRule() {
  ShardingRule rule = ruleAlong(*this, getType());
  rule.linear = {{0}};
  return rule;
}

SmallVector<Value> PlaceOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  return {PickOp::create(b, getLoc(), getInput().getType(), g[0], getIndices()), Value()};
}

LogicalResult PlaceOp::interpret(ArrayRef<const HostTensor *> in, MutableArrayRef<HostTensor> out) {
  auto [rows, width] = rowsAndWidth(out[0]);
  int64_t count = in[0]->shape.back();
  std::fill(out[0].data.begin(), out[0].data.end(), 0.0);
  for (int64_t i = 0; i < rows * count; ++i)
    if (auto at = static_cast<int64_t>(in[1]->data[i]); at >= 0 && at < width)
      out[0].data[i / count * width + at] += in[0]->data[i];
  return success();
}

//===----------------------------------------------------------------------===//
// count_picks
//===----------------------------------------------------------------------===//

LogicalResult CountPicksOp::verify() {
  if (!getElementTypeOrSelf(getIndices()).isInteger(32))
    return emitOpError("needs indices of i32");
  if (getType().getRank() != 1 || findDim(getIndices().getType(), dimNames(getType())[0]) >= 0)
    return emitOpError("needs counts along one dimension, which the indices have not");
  return success();
}

ShardingRule CountPicksOp::getShardingRule() {
  ShardingRule rule = ruleByNames(*this);
  for (Factor &factor : rule.factors)
    factor.neutral = -1; // padding picks nothing
  rule.factors[rule.results[0][0]].shardable = false;
  return rule;
}

LogicalResult CountPicksOp::interpret(ArrayRef<const HostTensor *> in,
                                      MutableArrayRef<HostTensor> out) {
  std::fill(out[0].data.begin(), out[0].data.end(), 0.0);
  for (double index : in[0]->data)
    if (index >= 0 && index < static_cast<double>(out[0].size()))
      out[0].data[static_cast<size_t>(index)] += 1;
  return success();
}

//===----------------------------------------------------------------------===//
// keep_groups, normalize
//===----------------------------------------------------------------------===//

LogicalResult KeepGroupsOp::verify() {
  if (failed(verifyAlike(*this, getScores().getType(), {getResult()})))
    return failure();
  int64_t width = getType().getShape().back();
  auto groups = static_cast<int64_t>(getGroups()), keep = static_cast<int64_t>(getKeep()),
       take = static_cast<int64_t>(getTake());
  if (groups < 1 || width % groups || keep < 1 || keep > groups || take < 1 ||
      take > width / groups)
    return emitOpError() << "keeps " << keep << " of " << groups << " groups of " << width
                         << " elements, by " << take << " of each";
  return success();
}

ShardingRule KeepGroupsOp::getShardingRule() { return ruleAlong(*this, getType()); }

LogicalResult KeepGroupsOp::interpret(ArrayRef<const HostTensor *> in,
                                      MutableArrayRef<HostTensor> out) {
  auto [rows, width] = rowsAndWidth(*in[0]);
  auto groups = static_cast<int64_t>(getGroups());
  int64_t each = width / groups;
  for (int64_t r = 0; r < rows; ++r) {
    const double *x = in[0]->data.data() + r * width;
    std::vector<double> worth;
    for (int64_t g = 0; g < groups; ++g) {
      std::vector<double> own(x + g * each, x + (g + 1) * each);
      llvm::sort(own, std::greater<>());
      worth.push_back(std::accumulate(own.begin(), own.begin() + getTake(), 0.0));
    }
    for (int64_t g = 0; g < groups; ++g) {
      int64_t better = 0;
      for (int64_t o = 0; o < groups; ++o)
        better += worth[o] > worth[g] || (worth[o] == worth[g] && o < g);
      for (int64_t i = g * each; i < (g + 1) * each; ++i)
        out[0].data[r * width + i] = better < static_cast<int64_t>(getKeep()) ? x[i] : 0.0;
    }
  }
  return success();
}

LogicalResult NormalizeOp::verify() {
  return verifyAlike(*this, getInput().getType(), {getResult()});
}

ShardingRule NormalizeOp::getShardingRule() { return ruleAlong(*this, getType()); }

SmallVector<Value> NormalizeOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  return {NormalizeGradOp::create(b, getLoc(), getType(), getInput(), g[0], getEpsAttr())};
}

LogicalResult NormalizeOp::interpret(ArrayRef<const HostTensor *> in,
                                     MutableArrayRef<HostTensor> out) {
  auto [rows, width] = rowsAndWidth(*in[0]);
  for (int64_t r = 0; r < rows; ++r) {
    const double *x = in[0]->data.data() + r * width;
    double sum = std::accumulate(x, x + width, getEps().convertToDouble());
    for (int64_t i = 0; i < width; ++i)
      out[0].data[r * width + i] = x[i] / sum;
  }
  return success();
}

LogicalResult NormalizeGradOp::verify() {
  return verifyAlike(*this, getInput().getType(), {getGradient(), getInputGradient()});
}

ShardingRule NormalizeGradOp::getShardingRule() {
  ShardingRule rule = ruleAlong(*this, getType());
  rule.linear = {{1}};
  return rule;
}

LogicalResult NormalizeGradOp::interpret(ArrayRef<const HostTensor *> in,
                                         MutableArrayRef<HostTensor> out) {
  auto [rows, width] = rowsAndWidth(*in[0]);
  for (int64_t r = 0; r < rows; ++r) {
    const double *x = in[0]->data.data() + r * width, *dy = in[1]->data.data() + r * width;
    double sum = std::accumulate(x, x + width, getEps().convertToDouble());
    double dot = std::inner_product(x, x + width, dy, 0.0) / sum;
    for (int64_t i = 0; i < width; ++i)
      out[0].data[r * width + i] = (dy[i] - dot) / sum;
  }
  return success();
}
