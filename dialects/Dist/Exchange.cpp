//===- Exchange.cpp - The meaning of the collectives -----------------------===//
//
// Each collective is interpreted for all ranks at once. What a rank gets is
// written down element by element, without any thought of speed.
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/Dist.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::dist;

using Operands = ArrayRef<SmallVector<const HostTensor *>>;
using Results = MutableArrayRef<SmallVector<HostTensor>>;

/// Runs `fn(mesh, axes, rank)` for every rank.
template <typename Op, typename Fn> static LogicalResult forEachRank(Op op, Results out, Fn fn) {
  auto mesh = Mesh::lookup(op, op.getMeshAttr());
  if (!mesh)
    return op.emitOpError() << "names no mesh: " << op.getMeshAttr();
  for (StringAttr a : axesOf(op.getAxes()))
    if (mesh->find(a) < 0)
      return op.emitOpError() << "names no axis of the mesh: " << a;
  if (static_cast<int64_t>(out.size()) != mesh->ranks())
    return op.emitOpError() << "is interpreted on " << out.size() << " ranks, its mesh has "
                            << mesh->ranks();
  Axes axes = axesOf(op.getAxes());
  for (int64_t rank = 0; rank < mesh->ranks(); ++rank)
    fn(*mesh, axes, rank);
  return success();
}

/// Copies between two tensors of which one is a run along `dim` of the other:
/// element i of `part` is element `start + i` of `whole`. `fn(whole, part)`.
template <typename Fn>
static void alongDim(ArrayRef<int64_t> wholeShape, ArrayRef<int64_t> partShape, int64_t dim,
                     int64_t start, Fn fn) {
  auto strides = HostTensor(wholeShape).strides();
  int64_t position = 0;
  forEachIndex(partShape, [&](ArrayRef<int64_t> i) {
    if (start + i[dim] < wholeShape[dim])
      fn(linearIndex(i, strides) + start * strides[dim], position);
    ++position;
  });
}

LogicalResult AllReduceOp::interpretRanks(Operands in, Results out) {
  return forEachRank(*this, out, [&](const Mesh &mesh, const Axes &axes, int64_t rank) {
    HostTensor &result = out[rank][0];
    auto group = mesh.group(rank, axes);
    result.data = in[group[0]][0]->data;
    for (int64_t peer : ArrayRef(group).drop_front())
      for (int64_t i = 0; i < result.size(); ++i) {
        double x = in[peer][0]->data[i];
        result.data[i] =
            getKind() == Reduction::Sum ? result.data[i] + x : std::max(result.data[i], x);
      }
  });
}

LogicalResult AllGatherOp::interpretRanks(Operands in, Results out) {
  return forEachRank(*this, out, [&](const Mesh &mesh, const Axes &axes, int64_t rank) {
    HostTensor &result = out[rank][0];
    for (auto [i, peer] : llvm::enumerate(mesh.group(rank, axes))) {
      const HostTensor &block = *in[peer][0];
      alongDim(result.shape, block.shape, getDim(), i * block.shape[getDim()],
               [&](int64_t w, int64_t p) { result.data[w] = block.data[p]; });
    }
  });
}

LogicalResult ReduceScatterOp::interpretRanks(Operands in, Results out) {
  return forEachRank(*this, out, [&](const Mesh &mesh, const Axes &axes, int64_t rank) {
    HostTensor &result = out[rank][0];
    std::fill(result.data.begin(), result.data.end(), 0.0);
    int64_t start = mesh.coordinate(rank, axes) * result.shape[getDim()];
    for (int64_t peer : mesh.group(rank, axes))
      alongDim(in[peer][0]->shape, result.shape, getDim(), start,
               [&](int64_t w, int64_t p) { result.data[p] += in[peer][0]->data[w]; });
  });
}

LogicalResult AllToAllOp::interpretRanks(Operands in, Results out) {
  return forEachRank(*this, out, [&](const Mesh &mesh, const Axes &axes, int64_t rank) {
    HostTensor &result = out[rank][0];
    std::fill(result.data.begin(), result.data.end(), 0.0);
    int64_t split = getSplitDim(), gather = getGatherDim();
    int64_t start = mesh.coordinate(rank, axes) * result.shape[split];
    for (auto [i, peer] : llvm::enumerate(mesh.group(rank, axes))) {
      const HostTensor &block = *in[peer][0];
      SmallVector<int64_t> piece(block.shape);
      piece[split] = result.shape[split];
      auto from = block.strides(), to = result.strides();
      forEachIndex(piece, [&](ArrayRef<int64_t> x) {
        int64_t g = i * block.shape[gather] + x[gather];
        if (start + x[split] < block.shape[split] && g < result.shape[gather])
          result.data[linearIndex(x, to) + int64_t(i) * block.shape[gather] * to[gather]] =
              block.data[linearIndex(x, from) + start * from[split]];
      });
    }
  });
}

LogicalResult SliceOp::interpretRanks(Operands in, Results out) {
  return forEachRank(*this, out, [&](const Mesh &mesh, const Axes &axes, int64_t rank) {
    HostTensor &result = out[rank][0];
    std::fill(result.data.begin(), result.data.end(), 0.0);
    alongDim(in[rank][0]->shape, result.shape, getDim(),
             mesh.coordinate(rank, axes) * result.shape[getDim()],
             [&](int64_t w, int64_t p) { result.data[p] = in[rank][0]->data[w]; });
  });
}

LogicalResult MaskOp::interpretRanks(Operands in, Results out) {
  return forEachRank(*this, out, [&](const Mesh &mesh, const Axes &axes, int64_t rank) {
    HostTensor &result = out[rank][0];
    int64_t start = mesh.coordinate(rank, axes) * getBlockSize(), position = 0;
    if (getBegin())
      start += static_cast<int64_t>(in[rank][1]->data[0]);
    int64_t size = getSize();
    forEachIndex(result.shape, [&](ArrayRef<int64_t> i) {
      result.data[position] =
          start + i[getDim()] < size ? in[rank][0]->data[position] : getValue().convertToDouble();
      ++position;
    });
  });
}

LogicalResult MaskOp::verify() {
  if (getDim() >= static_cast<uint64_t>(getType().getRank()))
    return emitOpError() << "masks dimension " << getDim() << " of a " << getType();
  if (!getBegin() != !getBlock())
    return emitOpError("says where a part of a block begins and not how large the block is, or "
                       "the reverse");
  return success();
}

bool MaskOp::hasBlocks(unsigned operand, int64_t) { return operand == 0; }

SmallVector<Value> MaskOp::buildBlock(OpBuilder &b, ValueRange operands, TypeRange types,
                                      Value begin, ValueRange) {
  // Blocks along another dimension are masked alike.
  if (cast<RankedTensorType>(types[0]).getDimSize(getDim()) == getType().getDimSize(getDim()))
    return {MaskOp::create(b, getLoc(), types, operands, (*this)->getAttrs())};
  return {MaskOp::create(b, getLoc(), types[0], operands[0], begin, getMeshAttr(), getAxes(),
                         getDimAttr(), getSizeAttr(), getValueAttr(),
                         b.getI64IntegerAttr(getBlockSize()))};
}

LogicalResult KeepFirstOp::interpretRanks(Operands in, Results out) {
  return forEachRank(*this, out, [&](const Mesh &mesh, const Axes &axes, int64_t rank) {
    out[rank][0].data = in[rank][0]->data;
    if (mesh.coordinate(rank, axes) != 0)
      std::fill(out[rank][0].data.begin(), out[rank][0].data.end(), 0.0);
  });
}

LogicalResult OffsetOp::interpretRanks(Operands, Results out) {
  return forEachRank(*this, out, [&](const Mesh &mesh, const Axes &axes, int64_t rank) {
    out[rank][0].data[0] = static_cast<double>(mesh.coordinate(rank, axes) * getBlock());
  });
}

//===----------------------------------------------------------------------===//
// StageSumOp
//===----------------------------------------------------------------------===//

LogicalResult StageSumOp::verify() {
  if (getRanks().empty() || getRanks().front() < 0 ||
      !llvm::is_sorted(getRanks(), std::less_equal<>()))
    return emitOpError("needs ranks along the axis, in order");
  return success();
}

ArrayRef<int64_t> StageSumOp::getStageRanks() { return getRanks(); }

/// Element by element. Partial values would be completed over other ranks in other
/// stages, so none may pass: the operator says nothing of being linear.
ShardingRule StageSumOp::getShardingRule() {
  ShardingRule rule;
  rule.operands.emplace_back();
  rule.results.emplace_back();
  for (auto [d, size] : llvm::enumerate(getType().getShape())) {
    Factor factor;
    factor.name = "dim " + std::to_string(d);
    factor.size = size;
    rule.factors.push_back(std::move(factor));
    rule.operands[0].push_back(static_cast<int>(d));
    rule.results[0].push_back(static_cast<int>(d));
  }
  return rule;
}
