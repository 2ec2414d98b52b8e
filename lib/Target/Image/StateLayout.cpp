//===- StateLayout.cpp - Segments and where state lies in them -------------===//

#include "lib/Target/Image/StateLayout.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
namespace cleave::image {

SegmentWriter::SegmentWriter(rt::Program &program, std::string name)
    : program(program), segment(static_cast<int32_t>(program.segments.size())) {
  program.segments.push_back({std::move(name), 0});
}

rt::Region SegmentWriter::add(int64_t bytes) {
  int64_t &end = program.segments[segment].bytes;
  int64_t offset = (end + 63) / 64 * 64;
  end = offset + bytes;
  return {segment, offset, bytes};
}

StateLayout::StateLayout(ModuleOp module, rt::Program &program)
    : program(program), mesh(*module.getOps<dist::MeshOp>().begin()), scalars(program, "scalars"),
      io(program, "exchange"), constants(program, "constants") {
  for (auto [name, size] : llvm::zip(mesh.names, mesh.sizes))
    program.mesh.axes.push_back({name, size});
  for (auto scalar : module.getOps<nn::ScalarOp>()) {
    rt::Region region = scalars.add(4);
    slots[(scalar.getSymName() + "/value").str()] = region;
    zeroed.push_back(region);
  }
  addExchange(module);
  addParameters(module);
}

void StateLayout::addExchange(ModuleOp module) {
  auto microbatch = module.lookupSymbol<func::FuncOp>("microbatch");
  auto bytesOf = [&](unsigned i) {
    return cast<RankedTensorType>(microbatch.getArgumentTypes()[i]).getNumElements() * 4;
  };
  unsigned number = 0;
  for (const char *name : {"tokens", "targets", "positions"})
    named[name] = io.add(bytesOf(number++));
  for (const char *name : {"rate", "correction1", "correction2", "loss", "norm", "valid"})
    named[name] = io.add(4);
  rt::Exchange &x = program.exchange;
  x.tokens = named["tokens"];
  x.targets = named["targets"];
  x.positions = named["positions"];
  x.learningRate = named["rate"];
  x.correction1 = named["correction1"];
  x.correction2 = named["correction2"];
  x.loss = named["loss"];
  x.gradientNorm = named["norm"];
  x.validCount = named["valid"];
}

void StateLayout::addParameters(ModuleOp module) {
  const std::pair<const char *, rt::Slot> kinds[] = {{"value", rt::Slot::Value},
                                                     {"gradient", rt::Slot::Gradient},
                                                     {"moment1", rt::Slot::Moment1},
                                                     {"moment2", rt::Slot::Moment2}};
  SmallVector<SegmentWriter> segments;
  for (const char *name : {"weights", "gradients", "moment1", "moment2"})
    segments.push_back(SegmentWriter(program, name));
  for (auto p : module.getOps<nn::ParameterOp>()) {
    rt::StateEntry entry;
    entry.fileShape.assign(p.getFileShape().begin(), p.getFileShape().end());
    if (auto aliases = p.getAliases())
      for (StringRef alias : aliases->getAsValueRange<StringAttr>())
        entry.aliases.push_back(alias.str());
    auto type = p.getTensorType();
    entry.shape.assign(type.getShape().begin(), type.getShape().end());
    auto sharding = p->getAttrOfType<dist::ShardingAttr>("dist.value");
    for (unsigned d = 0; d < type.getRank(); ++d)
      entry.sharding.axes.push_back(axisList(sharding.axes(d)));
    entry.decay = p.getDecay();
    entry.initial = {p.getInitMean().convertToDouble(), p.getInitStd().convertToDouble()};
    int64_t bytes = dist::localType(type, sharding, mesh).getNumElements() * 4;
    for (int64_t i = 0; i < p.getCount(); ++i) {
      entry.name = p.getTensorName(i);
      for (auto [writer, kind] : llvm::zip(segments, kinds)) {
        rt::Region region = writer.add(bytes);
        entry.slot(kind.second) = region;
        // Layers lie behind each other, so all have the distance of the first two.
        auto [slot, fresh] = slots.try_emplace((p.getSymName() + "/" + kind.first).str(), region);
        if (!fresh && i == 1)
          slot->second.stride = region.offset - slot->second.offset;
      }
      program.state.push_back(entry);
    }
  }
  const rt::Segment &gradients = program.segments[segments[1].index()];
  zeroed.push_back({segments[1].index(), 0, gradients.bytes});
}

rt::Region StateLayout::slot(StringRef symbol, StringRef slot) const {
  return slots.lookup((symbol + "/" + slot).str());
}

std::optional<rt::Region> StateLayout::exchange(StringRef name) const {
  auto it = named.find(name);
  return it == named.end() ? std::nullopt : std::optional<rt::Region>(it->second);
}

rt::AxisList StateLayout::axisList(ArrayRef<StringAttr> axes) const {
  rt::AxisList list;
  for (StringAttr a : axes)
    list.push_back(mesh.find(a.getValue()));
  return list;
}

rt::AxisList StateLayout::axisList(ArrayAttr axes) const { return axisList(dist::axesOf(axes)); }

rt::Region StateLayout::rankIndex(ArrayAttr axes, int64_t scale) {
  auto [it, fresh] = indices.try_emplace({axisList(axes), scale});
  if (fresh) {
    it->second = constants.add(4);
    rt::Constant constant;
    constant.name = "rank index × " + std::to_string(scale);
    constant.region = it->second;
    constant.type = rt::DataType::I32;
    constant.contents = rt::Constant::BlockStart{axisList(axes), scale};
    program.constants.push_back(std::move(constant));
  }
  return it->second;
}

rt::Region StateLayout::extra(const BodyInput &input) {
  if (!input.table)
    return rankIndex(input.axes, 1);
  auto [it, fresh] = tables.try_emplace(input.table);
  if (fresh) {
    rt::Constant constant;
    constant.name = "table " + std::to_string(tables.size());
    constant.region = it->second = constants.add(input.table.getNumElements() * 4);
    rt::Constant::Numbers numbers;
    if (input.table.getElementType().isInteger(32)) {
      constant.type = rt::DataType::I32;
      for (const APInt &x : input.table.getValues<APInt>())
        numbers.values.push_back(static_cast<double>(x.getSExtValue()));
    } else {
      for (const APFloat &x : input.table.getValues<APFloat>())
        numbers.values.push_back(x.convertToDouble());
    }
    constant.contents = std::move(numbers);
    program.constants.push_back(std::move(constant));
  }
  return it->second;
}

int32_t StateLayout::group(ArrayAttr axes) {
  rt::AxisList list = axisList(axes);
  auto it = llvm::find(program.groups, list);
  if (it == program.groups.end())
    it = program.groups.insert(program.groups.end(), list);
  return static_cast<int32_t>(it - program.groups.begin());
}

} // namespace cleave::image
