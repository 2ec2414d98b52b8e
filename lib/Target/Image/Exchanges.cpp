//===- Exchanges.cpp - Operators of dist as runtime commands ---------------===//

#include "lib/Target/Image/Exchanges.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
namespace cleave::image {

static ArrayRef<int64_t> shapeOf(Value v) { return cast<RankedTensorType>(v.getType()).getShape(); }

/// The whole tensor seen along `dim`.
static rt::CutDimension cutOf(ArrayRef<int64_t> whole, int64_t dim) {
  return {HostTensor::count(whole.take_front(dim)), whole[dim],
          HostTensor::count(whole.drop_front(dim + 1))};
}

static rt::DataType typeOf(Value v) {
  return getElementTypeOrSelf(v).isInteger(32) ? rt::DataType::I32 : rt::DataType::F32;
}

static rt::AllToAllCommand allToAll(dist::AllToAllOp op) {
  // The whole has the source's extent where it will be split and the target's
  // where it is gathered.
  int64_t split = op.getSplitDim(), gather = op.getGatherDim();
  auto source = shapeOf(op.getInput()), target = shapeOf(op.getResult());
  int64_t first = std::min(split, gather), second = std::max(split, gather);
  rt::AllToAllCommand command;
  command.outer = HostTensor::count(source.take_front(first));
  command.middle = HostTensor::count(source.slice(first + 1, second - first - 1));
  command.inner = HostTensor::count(source.drop_front(second + 1));
  command.splitFirst = split < gather;
  command.first = command.splitFirst ? source[first] : target[first];
  command.second = command.splitFirst ? target[second] : source[second];
  return command;
}

std::optional<rt::Command> exchangeOf(Operation *op, rt::Region source, rt::Region target,
                                      StateLayout &layout) {
  rt::Command command;
  auto fill = [&](auto what, ArrayAttr axes, Value input) {
    what.group = layout.group(axes);
    what.type = typeOf(input);
    what.source = source;
    what.target = target;
    command.what = what;
    command.bytes = static_cast<double>(source.bytes);
    return true;
  };
  bool known =
      llvm::TypeSwitch<Operation *, bool>(op)
          .Case([&](dist::AllReduceOp o) {
            rt::AllReduceCommand c;
            c.kind = o.getKind() == dist::Reduction::Sum ? rt::ReductionKind::Sum
                                                         : rt::ReductionKind::Max;
            return fill(c, o.getAxes(), o.getInput());
          })
          .Case([&](dist::AllGatherOp o) {
            rt::AllGatherCommand c;
            c.cut = cutOf(shapeOf(o.getResult()), o.getDim());
            return fill(c, o.getAxes(), o.getInput());
          })
          .Case([&](dist::ReduceScatterOp o) {
            rt::ReduceScatterCommand c;
            c.cut = cutOf(shapeOf(o.getInput()), o.getDim());
            return fill(c, o.getAxes(), o.getInput());
          })
          .Case([&](dist::SliceOp o) {
            rt::SliceCommand c;
            c.cut = cutOf(shapeOf(o.getInput()), o.getDim());
            return fill(c, o.getAxes(), o.getInput());
          })
          .Case([&](dist::AllToAllOp o) { return fill(allToAll(o), o.getAxes(), o.getInput()); })
          .Default([](Operation *) { return false; });
  return known ? std::optional<rt::Command>(command) : std::nullopt;
}

} // namespace cleave::image
