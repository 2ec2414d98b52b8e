//===- LowerReshard.cpp - A change of placement as collectives -------------===//
//
// In order: axes that come new to a dimension and were free are sliced (that
// sends nothing and makes later steps smaller); partial sums are completed, by
// reduce_scatter where the target cuts a dimension by the same axes; axes that
// move from one dimension to another go by all_to_all; what is cut too much is
// gathered; what must become partial keeps its first copy.
//
// Blocks of n elements over k ranks have ceil(n/k) elements. An axis can be
// taken from or added to the end of a dimension's list while other axes stay
// only if the blocks nest (n divides evenly); otherwise the dimension is
// gathered whole first.
//
//===----------------------------------------------------------------------===//

#include "cleave/Transforms/Sharding/Sharding.h"
#include "lib/Transforms/Sharding/Notes.h"

using namespace mlir;
namespace cleave {

using dist::Axes;
using dist::ShardingAttr;

namespace {
class ReshardLowering {
public:
  ReshardLowering(OpBuilder &b, Location loc, Value value, RankedTensorType whole,
                  ShardingAttr source, const dist::Mesh &mesh, StringAttr path)
      : b(b), loc(loc), value(value), whole(whole), mesh(mesh), path(path),
        partial(source.getPartial()), apart(source.getApart()) {
    for (unsigned d = 0; d < source.getDims().size(); ++d)
      dims.push_back(source.axes(d));
  }

  Value run(ShardingAttr target) {
    for (unsigned d = 0; d < dims.size(); ++d)
      scatterPartial(d, target.axes(d));
    completePartial(target);
    for (unsigned d = 0; d < dims.size(); ++d)
      sliceFree(d, target.axes(d), target);
    for (unsigned d = 0; d < dims.size(); ++d)
      moveAxes(d, target);
    for (unsigned d = 0; d < dims.size(); ++d)
      gather(d, target.axes(d));
    for (unsigned d = 0; d < dims.size(); ++d)
      slice(d, target.axes(d));
    keepFirst(target);
    return value;
  }

private:
  static StringRef meshName() { return "mesh"; }
  ArrayAttr list(ArrayRef<StringAttr> axes) {
    return b.getArrayAttr(SmallVector<Attribute>(axes.begin(), axes.end()));
  }
  RankedTensorType type() {
    SmallVector<int64_t> shape;
    for (auto [d, n] : llvm::enumerate(whole.getShape()))
      shape.push_back(dist::blockSize(n, mesh.size(dims[d])));
    return RankedTensorType::get(shape, whole.getElementType(), whole.getEncoding());
  }
  static bool isPrefix(const Axes &prefix, const Axes &of) {
    return prefix.size() <= of.size() && std::equal(prefix.begin(), prefix.end(), of.begin());
  }
  /// Cutting by `outer` and then each block by the rest gives the blocks of `all`.
  bool nests(unsigned d, const Axes &outer, const Axes &all) {
    return outer.empty() || outer.size() == all.size() || whole.getDimSize(d) % mesh.size(all) == 0;
  }

  /// Where the value lies now.
  ShardingAttr placement() {
    return ShardingAttr::get(b.getContext(), dims, partial, apart && !partial.empty());
  }

  /// Makes `exchange`, which came from `before`, the value.
  void setExchanged(Operation *exchange, ShardingAttr before) {
    noteExchange(exchange, before, placement());
    if (path)
      exchange->setAttr("nn.path", path);
    value = exchange->getResult(0);
  }

  /// Completes partial axes by which the target cuts dimension `d` next.
  void scatterPartial(unsigned d, const Axes &wanted) {
    if (!isPrefix(dims[d], wanted) || !nests(d, dims[d], wanted))
      return;
    Axes more(wanted.begin() + dims[d].size(), wanted.end());
    if (more.empty() ||
        !llvm::all_of(more, [&](StringAttr a) { return llvm::is_contained(partial, a); }))
      return;
    ShardingAttr before = placement();
    dims[d] = wanted;
    llvm::erase_if(partial, [&](StringAttr a) { return llvm::is_contained(more, a); });
    setExchanged(dist::ReduceScatterOp::create(b, loc, type(), value, meshName(), list(more), d),
                 before);
  }

  void completePartial(ShardingAttr target) {
    Axes done;
    for (StringAttr a : partial)
      if (!llvm::is_contained(target.getPartial(), a))
        done.push_back(a);
    if (done.empty())
      return;
    ShardingAttr before = placement();
    llvm::erase_if(partial, [&](StringAttr a) { return llvm::is_contained(done, a); });
    setExchanged(dist::AllReduceOp::create(b, loc, value.getType(), value, meshName(), list(done),
                                           dist::Reduction::Sum),
                 before);
  }

  bool isUsed(StringAttr axis) {
    return llvm::is_contained(partial, axis) ||
           llvm::any_of(dims, [&](const Axes &a) { return llvm::is_contained(a, axis); });
  }

  /// Slices by axes that cut nothing yet, where the dimension needs no gather.
  void sliceFree(unsigned d, const Axes &wanted, ShardingAttr) {
    if (!isPrefix(dims[d], wanted) || !nests(d, dims[d], wanted))
      return;
    if (llvm::any_of(ArrayRef(wanted).drop_front(dims[d].size()),
                     [&](StringAttr a) { return isUsed(a); }))
      return;
    slice(d, wanted);
  }

  void slice(unsigned d, const Axes &wanted) {
    if (dims[d] == wanted)
      return;
    Axes more(wanted.begin() + dims[d].size(), wanted.end());
    dims[d] = wanted;
    value = dist::SliceOp::create(b, loc, type(), value, meshName(), list(more), d);
  }

  /// Exchanges the axes that leave the end of one dimension for the end of `d`.
  void moveAxes(unsigned d, ShardingAttr target) {
    Axes wanted = target.axes(d);
    if (!isPrefix(dims[d], wanted) || wanted.size() == dims[d].size() || !nests(d, dims[d], wanted))
      return;
    Axes more(wanted.begin() + dims[d].size(), wanted.end());
    for (unsigned from = 0; from < dims.size(); ++from) {
      Axes left = target.axes(from);
      if (from == d || !isPrefix(left, dims[from]) || !nests(from, left, dims[from]))
        continue;
      if (Axes(dims[from].begin() + left.size(), dims[from].end()) != more)
        continue;
      ShardingAttr before = placement();
      dims[d] = wanted;
      dims[from] = left;
      setExchanged(dist::AllToAllOp::create(b, loc, type(), value, meshName(), list(more), d, from),
                   before);
      return;
    }
  }

  /// Gathers dimension `d` until its cuts are the beginning of `wanted`.
  void gather(unsigned d, const Axes &wanted) {
    if (isPrefix(dims[d], wanted) && nests(d, dims[d], wanted))
      return;
    Axes kept;
    for (auto [a, w] : llvm::zip(dims[d], wanted)) {
      if (a != w)
        break;
      kept.push_back(a);
    }
    if (!nests(d, kept, dims[d]) || !nests(d, kept, wanted))
      kept.clear();
    Axes dropped(dims[d].begin() + kept.size(), dims[d].end());
    ShardingAttr before = placement();
    dims[d] = kept;
    setExchanged(dist::AllGatherOp::create(b, loc, type(), value, meshName(), list(dropped), d),
                 before);
  }

  void keepFirst(ShardingAttr target) {
    Axes more;
    for (StringAttr a : target.getPartial())
      if (!llvm::is_contained(partial, a))
        more.push_back(a);
    if (!more.empty())
      value = dist::KeepFirstOp::create(b, loc, value.getType(), value, meshName(), list(more));
  }

  OpBuilder &b;
  Location loc;
  Value value;
  RankedTensorType whole;
  const dist::Mesh &mesh;
  StringAttr path;
  SmallVector<Axes> dims;
  Axes partial;
  bool apart;
};
} // namespace

Value lowerReshard(OpBuilder &builder, Location loc, Value value, RankedTensorType whole,
                   ShardingAttr source, ShardingAttr target, const dist::Mesh &mesh,
                   StringAttr path) {
  return ReshardLowering(builder, loc, value, whole, source, mesh, path).run(target);
}

} // namespace cleave
