//===- Values.cpp - Values of one layout against those of another ----------===//

#include "lib/Verify/Values.h"
#include <numeric>

using namespace mlir;
namespace cleave {

void ValueComparison::begin() {
  values.clear();
  agreed.clear();
  divergence.reset();
}

/// The position of a named dimension of a value, or nothing.
static std::optional<size_t> dimOf(Type type, StringRef wanted) {
  for (auto [i, name] : llvm::enumerate(nn::dimNames(type)))
    if (name == wanted)
      return i;
  return std::nullopt;
}

/// `tensor` with what is at `from[i]` along dimension `dim` at `to[i]`.
static HostTensor moved(const HostTensor &tensor, size_t dim, ArrayRef<int64_t> from,
                        ArrayRef<int64_t> to) {
  int64_t inner = 1;
  for (size_t d = dim + 1; d < tensor.shape.size(); ++d)
    inner *= tensor.shape[d];
  const int64_t size = tensor.shape[dim], block = size * inner;
  HostTensor out(tensor.shape);
  for (int64_t begin = 0; begin < tensor.size(); begin += block)
    for (int64_t i = 0; i < size; ++i)
      std::copy_n(tensor.data.begin() + begin + from[i] * inner, inner,
                  out.data.begin() + begin + to[i] * inner);
  return out;
}

/// Where the rows of a value's sequence stand in `part`, if that is not in order.
static std::optional<std::pair<size_t, std::vector<int64_t>>> orderOf(Part &part, Type type) {
  auto dim = dimOf(type, "sequence");
  if (!dim || part.zigzag == 1)
    return std::nullopt;
  return std::pair(*dim, part.orderOf(cast<RankedTensorType>(type).getDimSize(*dim)));
}

static std::vector<int64_t> inOrder(size_t size) {
  std::vector<int64_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void ValueComparison::keep(Part &part, const Seen &value) {
  auto [it, fresh] = values.try_emplace({value.origin, value.layer, value.result});
  Kept &kept = it->second;
  if (fresh) {
    kept.order = static_cast<int64_t>(values.size());
    kept.forward = value.function.ends_with(".forward");
    kept.pieces = value.pieces;
    kept.byMicro.resize(keptIn.count);
  }
  SmallVector<const HostTensor *> blocks;
  for (const HostTensor &block : value.blocks)
    blocks.push_back(&block);
  HostTensor whole = dist::joinBlocks(blocks, value.type().getShape(), value.sharding(), part.mesh);
  if (auto order = orderOf(part, value.type()))
    whole = moved(whole, order->first, inOrder(order->second.size()), order->second);
  kept.byMicro[value.micro].push_back(std::move(whole));
}

void ValueComparison::keepGradient(const std::string &name) {
  if (gradientNames.insert(name).second)
    gradients.push_back(name);
}

/// Rows `first` … `first + count − 1` along dimension `dim` of tensors that follow each
/// other along it, `each` rows a tensor.
static std::optional<HostTensor> rowsOf(ArrayRef<const HostTensor *> tensors, size_t dim,
                                        int64_t each, int64_t first, int64_t count) {
  SmallVector<int64_t> shape = tensors[0]->shape;
  if (dim >= shape.size() || shape[dim] != each)
    return std::nullopt;
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < dim; ++d)
    outer *= shape[d];
  for (size_t d = dim + 1; d < shape.size(); ++d)
    inner *= shape[d];
  shape[dim] = count;
  HostTensor rows(shape);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t r = 0; r < count; ++r) {
      const int64_t row = first + r;
      const std::vector<double> &from = tensors[row / each]->data;
      std::copy_n(from.begin() + (o * each + row % each) * inner, inner,
                  rows.data.begin() + (o * count + r) * inner);
    }
  return rows;
}

std::optional<HostTensor> ValueComparison::expected(const Kept &kept, const Seen &value) const {
  if (kept.pieces != value.pieces)
    return std::nullopt;
  std::optional<HostTensor> want;
  if (keptIn.count == comparedIn.count) {
    const auto &computed = kept.byMicro[value.micro];
    if (computed.empty())
      return std::nullopt;
    // What is computed again for the backward is what it was.
    want = computed[std::min<size_t>(value.before, computed.size() - 1)];
  } else {
    auto dim = dimOf(value.type(), "batch");
    SmallVector<const HostTensor *> tensors;
    for (const auto &computed : kept.byMicro) {
      if (computed.empty())
        return std::nullopt;
      tensors.push_back(&computed.front());
    }
    if (!dim)
      return std::nullopt;
    want = rowsOf(tensors, *dim, keptIn.rows, value.micro * comparedIn.rows, comparedIn.rows);
  }
  if (!want || ArrayRef<int64_t>(want->shape) != value.type().getShape())
    return std::nullopt;
  return want;
}

void ValueComparison::locate(Divergence &divergence, int64_t rank, size_t place, Part &part) {
  divergence.rank = rank;
  auto axes = part.facts->getAttrOfType<ArrayAttr>("pipe.axes");
  auto all = dyn_cast_or_null<ModuleOp>(part.facts->getParentOp());
  if (!axes || !all)
    return;
  divergence.place = static_cast<int64_t>(place);
  const dist::Mesh mesh(*all.getOps<dist::MeshOp>().begin());
  const dist::Axes along = dist::axesOf(axes);
  dist::Axes others;
  for (const std::string &name : part.mesh.names)
    others.push_back(StringAttr::get(part.facts.getContext(), name));
  for (int64_t r = 0; r < mesh.ranks(); ++r)
    if (mesh.coordinate(r, along) == static_cast<int64_t>(place) &&
        mesh.coordinate(r, others) == rank)
      divergence.rank = r;
}

void ValueComparison::describeReads(Divergence &divergence, const Seen &value) const {
  std::set<std::string> named;
  bool any = false, all = true;
  for (const auto &[number, argument] : origins[value.origin].operands) {
    const std::string name = number >= 0 ? origins[number].path : argument;
    if (name.empty() || !named.insert(name).second)
      continue;
    auto it = number < 0 ? agreed.end() : agreed.find({number, value.layer, value.micro});
    if (it == agreed.end()) {
      divergence.reads.push_back(name);
      continue;
    }
    any = true;
    all &= it->second;
    divergence.reads.push_back(name + (it->second ? " (agrees)" : " (differs)"));
  }
  divergence.readsAgree = any && all;
}

void ValueComparison::compare(Part &part, const Seen &value, size_t place) {
  auto it = values.find({value.origin, value.layer, value.result});
  if (it == values.end())
    return;
  const Kept &kept = it->second;
  std::optional<HostTensor> want = expected(kept, value);
  if (!want)
    return;
  ++count;
  const auto order = orderOf(part, value.type());
  if (order)
    want = moved(*want, order->first, order->second, inOrder(order->second.size()));
  auto wrong = comparison.compare(value.blocks, *want, value.sharding(), part.mesh);
  auto [agrees, fresh] =
      agreed.try_emplace({value.origin, value.layer, value.micro}, !wrong.has_value());
  if (!fresh)
    agrees->second &= !wrong.has_value();
  const std::pair<int64_t, int64_t> now = {value.micro, kept.order};
  if (!wrong || (divergence && when <= now))
    return;
  if (order)
    wrong->index[order->first] = order->second[wrong->index[order->first]];
  const Origin &origin = origins[value.origin];
  when = now;
  divergence.emplace();
  divergence->micro = value.micro;
  divergence->phase = !kept.forward                          ? "backward"
                      : value.function.ends_with(".forward") ? "forward"
                                                             : "again";
  divergence->kind = origin.kind;
  divergence->path = origin.path;
  divergence->op = origin.op;
  divergence->layer = value.layer;
  divergence->result = value.result;
  divergence->index = wrong->index;
  divergence->got = wrong->got;
  divergence->want = wrong->want;
  locate(*divergence, wrong->rank, place, part);
  describeReads(*divergence, value);
}

} // namespace cleave
