//===- Matmul.cpp - A contraction as strided matrix products ---------------===//
//
// Factors fall into four classes: in both operands and the result (batch), in
// the left operand and the result (rows, m), in the right operand and the result
// (columns, n), in the operands alone (summed, k). Neighbouring dimensions of a
// class merge where they lie together in both tensors that have them. What is
// left over of m and n becomes batch dimensions of stride 0 in the other operand.
//
//===----------------------------------------------------------------------===//

#include "lib/Target/Image/Matmul.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
namespace cleave::image {

namespace {
/// A run of merged dimensions: its extent and its stride in two tensors.
struct Run {
  int64_t size, first, second;
};
using Strides = SmallVector<int64_t>;

Strides stridesByFactor(const ShardingRule &rule, ArrayRef<int> dims, Type type) {
  auto shape = cast<RankedTensorType>(type).getShape();
  Strides own = computeStrides(shape), out(rule.factors.size(), 0);
  for (auto [d, f] : llvm::enumerate(dims))
    out[f] = own[d];
  return out;
}
} // namespace

/// Merges the dimensions `factors` (in the order of a tensor that has them all).
static SmallVector<Run> merge(const ShardingRule &rule, ArrayRef<int> factors,
                              ArrayRef<int64_t> sizes, const Strides &first,
                              const Strides &second) {
  SmallVector<Run> runs;
  for (int f : factors) {
    if (sizes[f] == 1)
      continue;
    Run next{sizes[f], first[f], second[f]};
    if (!runs.empty() && runs.back().first == next.first * next.size &&
        runs.back().second == next.second * next.size)
      runs.back() = {runs.back().size * next.size, next.first, next.second};
    else
      runs.push_back(next);
  }
  return runs;
}

/// Takes the largest run as the matrix's own; the others stay in `runs`.
static Run takeLargest(SmallVector<Run> &runs) {
  if (runs.empty())
    return {1, 1, 1};
  auto it = llvm::max_element(runs, [](const Run &a, const Run &b) { return a.size < b.size; });
  Run run = *it;
  runs.erase(it);
  return run;
}

FailureOr<MatrixProduct> matmulOf(Operation *op) {
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  ArrayRef<int> l = rule.operands[0], r = rule.operands[1], y = rule.results[0];
  SmallVector<int64_t> sizes(rule.factors.size(), 1);
  for (auto [dims, type] :
       {std::pair(l, op->getOperand(0).getType()), std::pair(r, op->getOperand(1).getType())})
    for (auto [d, f] : llvm::enumerate(dims))
      sizes[f] = cast<RankedTensorType>(type).getDimSize(d);
  Strides a = stridesByFactor(rule, l, op->getOperand(0).getType());
  Strides b = stridesByFactor(rule, r, op->getOperand(1).getType());
  Strides c = stridesByFactor(rule, y, op->getResult(0).getType());

  SmallVector<int> rows, columns, summed, batch;
  for (int f : l)
    (llvm::is_contained(r, f) ? (llvm::is_contained(y, f) ? batch : summed) : rows).push_back(f);
  for (int f : r)
    if (!llvm::is_contained(l, f))
      columns.push_back(f);

  auto m = merge(rule, rows, sizes, a, c), n = merge(rule, columns, sizes, b, c);
  auto k = merge(rule, summed, sizes, a, b);
  if (k.size() > 1)
    return op->emitOpError("sums over dimensions that do not lie together in both operands");
  Run mm = takeLargest(m), nn = takeLargest(n), kk = takeLargest(k);

  MatrixProduct product;
  product.m = mm.size;
  product.n = nn.size;
  product.k = kk.size;
  product.a = {mm.first, kk.first};
  product.b = {kk.second, nn.first};
  product.c = {mm.second, nn.second};
  for (const Run &run : m)
    product.batch.append({run.size, run.first, 0, run.second});
  for (const Run &run : n)
    product.batch.append({run.size, 0, run.first, run.second});
  for (int f : batch)
    if (sizes[f] > 1)
      product.batch.append({sizes[f], a[f], b[f], c[f]});
  return product;
}

int64_t MatrixProduct::flops() const {
  // Of sequences of 2^30 tokens there are more than can be counted.
  uint64_t flops = 2;
  auto times = [&](int64_t size) {
    flops = llvm::SaturatingMultiply(flops, static_cast<uint64_t>(size));
  };
  for (int64_t size : {m, n, k})
    times(size);
  for (size_t i = 0; i < batch.size(); i += 4)
    times(batch[i]);
  return static_cast<int64_t>(std::min<uint64_t>(flops, INT64_MAX));
}

} // namespace cleave::image
