//===- Exchanges.cpp - Operators of dist as commands -----------------------===//

#include "lib/Target/Image/Exchanges.h"
#include "dialects/NN/NN.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
namespace cleave::image {

static ArrayRef<int64_t> shapeOf(Value v) { return cast<RankedTensorType>(v.getType()).getShape(); }

/// The whole tensor seen along `dim`: [outer, full, inner].
static SmallVector<int64_t> cutOf(Value whole, int64_t dim) {
  ArrayRef<int64_t> shape = shapeOf(whole);
  return {HostTensor::count(shape.take_front(dim)), shape[dim],
          HostTensor::count(shape.drop_front(dim + 1))};
}

/// [outer, first, middle, second, inner]. The whole has the source's extent where it
/// will be split and the target's where it is gathered.
static SmallVector<int64_t> cutOf(dist::AllToAllOp op) {
  int64_t split = op.getSplitDim(), gather = op.getGatherDim();
  auto source = shapeOf(op.getInput()), target = shapeOf(op.getResult());
  int64_t first = std::min(split, gather), second = std::max(split, gather);
  bool splitFirst = split < gather;
  return {HostTensor::count(source.take_front(first)), splitFirst ? source[first] : target[first],
          HostTensor::count(source.slice(first + 1, second - first - 1)),
          splitFirst ? target[second] : source[second],
          HostTensor::count(source.drop_front(second + 1))};
}

/// What reports say of an exchange: where its value lies before and after it.
static void copyNotes(Operation *from, Operation *to) {
  for (StringRef name : {"dist.from", "dist.to"})
    if (Attribute note = from->getAttr(name))
      to->setAttr(name, note);
  SmallVector<Attribute> names;
  llvm::append_range(names, nn::dimNames(cast<RankedTensorType>(from->getOperand(0).getType())));
  if (from->hasAttr("dist.from") && !names.empty())
    to->setAttr("dist.names", ArrayAttr::get(from->getContext(), names));
}

namespace {
struct ExchangeWriter {
  OpBuilder &b;
  Operation *op;
  exec::AtAttr source, target;
  StateLayout &layout;
  StringRef label;

  /// `sizes` is what a command has beside type, addresses and group.
  template <typename Command> bool add(ArrayAttr axes, auto... sizes) {
    auto made =
        Command::create(b, op->getLoc(), getElementTypeOrSelf(op->getOperand(0)), source, target,
                        layout.group(axes, {}, dist::bucketOf(op).has_value()).getValue(), sizes...,
                        label, source.getBytes());
    copyNotes(op, made);
    return true;
  }
};
} // namespace

bool addExchange(OpBuilder &b, Operation *op, exec::Address source, exec::Address target,
                 StateLayout &layout, StringRef label) {
  ExchangeWriter writer{b, op, exec::AtAttr::get(source), exec::AtAttr::get(target), layout, label};
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](dist::AllReduceOp o) {
        bool isSum = o.getKind() == dist::Reduction::Sum;
        return writer.add<exec::AllReduceOp>(o.getAxes(),
                                             isSum ? exec::Reduction::Sum : exec::Reduction::Max);
      })
      .Case([&](dist::StageSumOp o) {
        auto made = exec::AllReduceOp::create(
            b, op->getLoc(), getElementTypeOrSelf(o.getType()), writer.source, writer.target,
            layout.group(o.getAxes(), o.getRanksAttr()).getValue(), exec::Reduction::Sum, label,
            writer.source.getBytes());
        copyNotes(op, made);
        return true;
      })
      .Case([&](dist::AllGatherOp o) {
        return writer.add<exec::AllGatherOp>(o.getAxes(), cutOf(o.getResult(), o.getDim()));
      })
      .Case([&](dist::ReduceScatterOp o) {
        return writer.add<exec::ReduceScatterOp>(o.getAxes(), exec::Reduction::Sum,
                                                 cutOf(o.getInput(), o.getDim()));
      })
      .Case([&](dist::SliceOp o) {
        return writer.add<exec::SliceOp>(o.getAxes(), cutOf(o.getInput(), o.getDim()));
      })
      .Case([&](dist::AllToAllOp o) {
        return writer.add<exec::AllToAllOp>(o.getAxes(), cutOf(o),
                                            o.getSplitDim() < o.getGatherDim());
      })
      .Default([](Operation *) { return false; });
}

} // namespace cleave::image
