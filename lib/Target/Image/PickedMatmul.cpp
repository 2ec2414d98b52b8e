//===- PickedMatmul.cpp - A product with picked matrices as a command ------===//
//
// The dimensions of the index come first wherever they are; what follows them is
// rows or columns of the picked matrices.
//
//===----------------------------------------------------------------------===//

#include "lib/Target/Image/PickedMatmul.h"

using namespace mlir;
namespace cleave::image {

namespace {
/// A value's factors behind those of the index.
struct Rest {
  ArrayRef<int> factors;
  /// Rows of the index that share a row of the value.
  int64_t share = 1;
};
} // namespace

static Rest restOf(ArrayRef<int> value, ArrayRef<int> index, ArrayRef<int64_t> sizes) {
  if (llvm::is_contained(value, index.back()))
    return {value.drop_front(index.size()), 1};
  return {value.drop_front(index.size() - 1), sizes[index.back()]};
}

FailureOr<PickedProduct> pickedProductOf(PickedContractionOpInterface op) {
  ShardingRule rule = cast<ShardingRuleOpInterface>(op.getOperation()).getShardingRule();
  SmallVector<int64_t> sizes(rule.factors.size(), 1);
  for (auto [f, factor] : llvm::enumerate(rule.factors))
    sizes[f] = factor.size;
  auto product = [&](ArrayRef<int> factors) {
    int64_t all = 1;
    for (int f : factors)
      all *= sizes[f];
    return all;
  };
  auto operand = llvm::find(op->getOperands(), op.getPickingIndex()) - op->operand_begin();
  ArrayRef<int> index = rule.operands[operand], b = rule.operands[1], c = rule.results[0];
  Rest left = restOf(rule.operands[0], index, sizes);
  PickedProduct picked;
  picked.shareA = left.share;
  // The picked factor is where the dimensions of the index are not.
  picked.isOuter = !llvm::is_contained(c, index.front());
  if (picked.isOuter) {
    Rest right = restOf(b, index, sizes);
    picked.shareB = right.share;
    picked.sizes = {product(index), product(left.factors), product(right.factors), sizes[c[0]]};
    return picked;
  }
  ArrayRef<int> columns = c.drop_front(index.size());
  int64_t n = product(columns), k = product(left.factors);
  picked.sizes = {product(index), n, k, sizes[b[0]]};
  SmallVector<int> byRows(left.factors), byColumns(columns);
  llvm::append_range(byRows, columns);
  llvm::append_range(byColumns, left.factors);
  if (b.drop_front() == ArrayRef(byColumns))
    picked.strides = {n * k, 1, k};
  else if (b.drop_front() == ArrayRef(byRows))
    picked.strides = {n * k, n, 1};
  else
    return op->emitOpError("picks from matrices whose rows or columns lie apart");
  return picked;
}

} // namespace cleave::image
