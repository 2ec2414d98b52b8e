//===- Mesh.cpp - The arithmetic of meshes and blocks ----------------------===//

#include "dialects/Dist/Dist.h"

using namespace mlir;
namespace cleave::dist {

Mesh::Mesh(MeshOp op) : sizes(op.getSizes()) {
  for (Attribute a : op.getAxes())
    names.push_back(cast<StringAttr>(a).getValue().str());
}

std::optional<Mesh> Mesh::lookup(Operation *op, FlatSymbolRefAttr name) {
  auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, name);
  return mesh ? std::optional<Mesh>(Mesh(mesh)) : std::nullopt;
}

int64_t Mesh::ranks() const { return HostTensor::count(sizes); }

int Mesh::find(StringRef axis) const {
  auto it = llvm::find(names, axis);
  return it == names.end() ? -1 : static_cast<int>(it - names.begin());
}

int64_t Mesh::size(ArrayRef<StringAttr> axes) const {
  int64_t n = 1;
  for (StringAttr a : axes)
    n *= size(a.getValue());
  return n;
}

/// How far apart two ranks are that differ by one along each axis.
static SmallVector<int64_t> rankStrides(ArrayRef<int64_t> sizes) {
  SmallVector<int64_t> strides(sizes.size(), 1);
  for (int i = static_cast<int>(sizes.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * sizes[i + 1];
  return strides;
}

int64_t Mesh::coordinate(int64_t rank, ArrayRef<StringAttr> axes) const {
  auto strides = rankStrides(sizes);
  int64_t c = 0;
  for (StringAttr a : axes) {
    int i = find(a.getValue());
    c = c * sizes[i] + rank / strides[i] % sizes[i];
  }
  return c;
}

SmallVector<int64_t> Mesh::group(int64_t rank, ArrayRef<StringAttr> axes) const {
  auto strides = rankStrides(sizes);
  int64_t base = rank;
  for (StringAttr a : axes) {
    int i = find(a.getValue());
    base -= rank / strides[i] % sizes[i] * strides[i];
  }
  SmallVector<int64_t> members{base};
  for (StringAttr a : axes) {
    int i = find(a.getValue());
    SmallVector<int64_t> next;
    for (int64_t m : members)
      for (int64_t k = 0; k < sizes[i]; ++k)
        next.push_back(m + k * strides[i]);
    members = next;
  }
  return members;
}

void Mesh::sort(Axes &axes) const {
  llvm::sort(axes, [&](StringAttr a, StringAttr b) { return find(a) < find(b); });
}

SmallVector<int64_t> localShape(ArrayRef<int64_t> global, ShardingAttr sharding, const Mesh &mesh) {
  SmallVector<int64_t> shape;
  for (auto [d, n] : llvm::enumerate(global))
    shape.push_back(blockSize(n, mesh.size(sharding.axes(d))));
  return shape;
}

RankedTensorType localType(RankedTensorType global, ShardingAttr sharding, const Mesh &mesh) {
  return RankedTensorType::get(localShape(global.getShape(), sharding, mesh),
                               global.getElementType(), global.getEncoding());
}

/// Global index of the block's first element along each dimension.
static SmallVector<int64_t> blockStart(ArrayRef<int64_t> local, ShardingAttr sharding,
                                       const Mesh &mesh, int64_t rank) {
  SmallVector<int64_t> start;
  for (auto [d, n] : llvm::enumerate(local))
    start.push_back(n * mesh.coordinate(rank, sharding.axes(d)));
  return start;
}

/// Calls `fn(global position, local position)` for each element of a block that
/// is not padding.
template <typename Fn>
static void forEachOfBlock(ArrayRef<int64_t> global, ArrayRef<int64_t> local,
                           ArrayRef<int64_t> start, Fn fn) {
  auto strides = HostTensor(global).strides();
  int64_t position = 0;
  forEachIndex(local, [&](ArrayRef<int64_t> i) {
    int64_t at = 0;
    bool inside = true;
    for (size_t d = 0; d < i.size(); ++d) {
      inside &= start[d] + i[d] < global[d];
      at += (start[d] + i[d]) * strides[d];
    }
    if (inside)
      fn(at, position);
    ++position;
  });
}

std::optional<Bucket> bucketOf(Operation *exchange) {
  if (auto number = exchange->getAttrOfType<IntegerAttr>(kAheadAttr))
    return Bucket{number.getInt(), Bucket::Before};
  if (auto number = exchange->getAttrOfType<IntegerAttr>(kBehindAttr))
    return Bucket{number.getInt(), Bucket::Behind};
  if (auto number = exchange->getAttrOfType<IntegerAttr>(kBesideAttr))
    return Bucket{number.getInt(), Bucket::Same};
  return std::nullopt;
}

HostTensor cutBlock(const HostTensor &whole, ShardingAttr sharding, const Mesh &mesh,
                    int64_t rank) {
  HostTensor block(localShape(whole.shape, sharding, mesh));
  if (mesh.coordinate(rank, sharding.getPartial()) != 0)
    return block;
  auto start = blockStart(block.shape, sharding, mesh, rank);
  forEachOfBlock(whole.shape, block.shape, start,
                 [&](int64_t g, int64_t l) { block.data[l] = whole.data[g]; });
  return block;
}

HostTensor joinBlocks(ArrayRef<const HostTensor *> blocks, ArrayRef<int64_t> shape,
                      ShardingAttr sharding, const Mesh &mesh) {
  HostTensor whole(shape);
  Axes own(sharding.getPartial());
  for (unsigned d = 0; d < shape.size(); ++d)
    llvm::append_range(own, sharding.axes(d));
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    // Of the ranks that hold the same term of the same block, only the first counts.
    Axes others;
    for (const std::string &n : mesh.names) {
      auto name = StringAttr::get(sharding.getContext(), n);
      if (!llvm::is_contained(own, name))
        others.push_back(name);
    }
    if (mesh.coordinate(rank, others) != 0)
      continue;
    auto start = blockStart(blocks[rank]->shape, sharding, mesh, rank);
    forEachOfBlock(shape, blocks[rank]->shape, start,
                   [&](int64_t g, int64_t l) { whole.data[g] += blocks[rank]->data[l]; });
  }
  return whole;
}

} // namespace cleave::dist
