//===- StateLayout.cpp - Segments and where state lies in them -------------===//

#include "lib/Target/Image/StateLayout.h"
#include "dialects/NN/NN.h"
#include "lib/Target/Image/Precondition.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
namespace cleave::image {

SegmentWriter::SegmentWriter(exec::ProgramOp program, StringRef name, int64_t copies) {
  OpBuilder b = OpBuilder::atBlockBegin(&program.getBody().front());
  for (auto other : program.getOps<exec::SegmentOp>())
    b.setInsertionPointAfter(other);
  segment = exec::SegmentOp::create(b, program.getLoc(), name, 0, copies);
}

exec::Address SegmentWriter::add(int64_t size) {
  int64_t offset = llvm::alignTo(bytes(), 64);
  segment.setBytes(offset + size);
  return {name(), offset, size};
}

void SegmentWriter::reserve(int64_t size) { segment.setBytes(std::max(bytes(), size)); }

StateLayout::StateLayout(ModuleOp module, exec::ProgramOp program, int64_t inFlight)
    : builder(*program.getOps<exec::EntryOp>().begin()), loc(program.getLoc()),
      mesh(*module.getOps<dist::MeshOp>().begin()), scalars(program, "scalars"),
      io(program, "exchange"), constants(program, "constants") {
  for (auto kept : module.getOps<nn::AccumulatorOp>()) {
    auto cut = kept->getAttrOfType<dist::ShardingAttr>("dist.value");
    auto type = kept.getTensorType();
    if (cut)
      type = dist::localType(type, cut, mesh);
    exec::Address address = scalars.add(type.getNumElements() * 4);
    slots[(kept.getSymName() + "/value").str()] = address;
    zeroed.push_back(address);
  }
  addExchange(module);
  addParameters(module);
  if (inFlight > 0)
    slotMemory = SegmentWriter(program, "slots", inFlight);
}

void StateLayout::addExchange(ModuleOp module) {
  // What is checked before: some entry takes tokens, targets and positions.
  auto entry = *llvm::find_if(module.getOps<func::FuncOp>(), [](func::FuncOp f) {
    return f->hasAttr("nn.entry") && f.getNumArguments() >= 3 &&
           f.getArgAttrOfType<StringAttr>(0, "nn.name").getValue() == "tokens";
  });
  auto bytesOf = [&](unsigned i) {
    return cast<RankedTensorType>(entry.getArgumentTypes()[i]).getNumElements() * 4;
  };
  auto add = [&](StringRef name, exec::Field field, int64_t bytes) {
    named[name] = io.add(bytes);
    exec::ExchangeOp::create(builder, loc, field, exec::AtAttr::get(named[name]));
  };
  add("tokens", exec::Field::Tokens, bytesOf(0));
  add("targets", exec::Field::Targets, bytesOf(1));
  add("positions", exec::Field::Positions, bytesOf(2));
  add("rate", exec::Field::LearningRate, 4);
  add("correction1", exec::Field::Correction1, 4);
  add("correction2", exec::Field::Correction2, 4);
  add("loss", exec::Field::Loss, 4);
  add("norm", exec::Field::GradientNorm, 4);
  add("valid", exec::Field::ValidCount, 4);
  if (hasObjective(module))
    add("objective", exec::Field::Objective, 4);
}

void StateLayout::addParameters(ModuleOp module) {
  auto program = cast<exec::ProgramOp>(builder.getInsertionBlock()->getParentOp());
  SmallVector<SegmentWriter> segments;
  for (const char *name : {"weights", "gradients", "moment1", "moment2"})
    segments.push_back(SegmentWriter(program, name));
  std::optional<SegmentWriter> reduced;
  for (auto p : module.getOps<nn::ParameterOp>()) {
    auto type = p.getTensorType();
    auto place = [&](StringRef slot) {
      return p->getAttrOfType<dist::ShardingAttr>(("dist." + slot).str());
    };
    // A gradient is kept complete but for what the ranks have not added up yet.
    auto value = place("value"), moments = place("moment1");
    auto gradient = dist::ShardingAttr::get(builder.getContext(), place("gradient").getDims(),
                                            ArrayRef<StringAttr>());
    const std::pair<const char *, dist::ShardingAttr> kinds[] = {
        {"value", value}, {"gradient", gradient}, {"moment1", moments}, {"moment2", moments}};
    exec::AtAttr first[4];
    for (auto [at, writer, kind] : llvm::zip(first, segments, kinds)) {
      exec::Address address = addLayers(writer, p, kind.second);
      slots[(p.getSymName() + "/" + kind.first).str()] = address;
      at = exec::AtAttr::get(address);
    }
    std::string own = (p.getSymName() + "/reduced").str();
    if (gradient == place("reduced")) {
      slots[own] = slots.lookup((p.getSymName() + "/gradient").str());
    } else {
      if (!reduced)
        reduced = SegmentWriter(program, "reduced");
      slots[own] = addLayers(*reduced, p, place("reduced"));
    }
    auto other = [&](dist::ShardingAttr cut) { return cut == value ? dist::ShardingAttr() : cut; };
    auto sharers = p->getAttrOfType<DenseI64ArrayAttr>("pipe.sharers");
    const bool isCopy =
        sharers && sharers[0] != module->getAttrOfType<IntegerAttr>("pipe.index").getInt();
    exec::StateOp::create(builder, loc, p.getSymNameAttr(),
                          isCopy ? builder.getUnitAttr() : UnitAttr(), p.getLayersAttr(),
                          builder.getDenseI64ArrayAttr(type.getShape()), p.getFileShapeAttr(),
                          p.getSlicesAttr(), value, p.getDecayAttr(), p.getInitMeanAttr(),
                          p.getInitStdAttr(), first[0], first[1], other(gradient), first[2],
                          first[3], other(moments), p.getAliasesAttr());
  }
  zeroed.push_back({segments[1].name(), 0, segments[1].bytes()});
}

/// Room for a tensor of each layer: the first one's, with the step to the next.
exec::Address StateLayout::addLayers(SegmentWriter &writer, nn::ParameterOp parameter,
                                     dist::ShardingAttr sharding) {
  int64_t bytes = dist::localType(parameter.getTensorType(), sharding, mesh).getNumElements() * 4;
  exec::Address first = writer.add(bytes);
  for (int64_t i = 1; i < parameter.getCount(); ++i) {
    exec::Address next = writer.add(bytes);
    if (i == 1)
      first.step = next.offset - first.offset;
  }
  return first;
}

exec::Address StateLayout::slot(StringRef symbol, StringRef slot) const {
  return slots.lookup((symbol + "/" + slot).str());
}

static std::string inStage(StringRef name, int64_t stage) {
  return std::to_string(stage) + "/" + name.str();
}

std::optional<exec::Address> StateLayout::exchange(StringRef name, int64_t stage) const {
  auto it = named.find(name);
  if (it == named.end() && stage >= 0)
    it = named.find(inStage(name, stage));
  return it == named.end() ? std::nullopt : std::optional<exec::Address>(it->second);
}

int64_t StateLayout::bytesOfSlot(ArrayRef<func::FuncOp> entries) {
  int64_t bytes = 0;
  llvm::StringSet<> seen;
  auto add = [&](StringAttr name, Type type) {
    if (seen.insert(name.getValue()).second)
      bytes += llvm::alignTo(exec::tensorBytes(type), 64);
  };
  for (func::FuncOp entry : entries) {
    for (unsigned i = 0; i < entry.getNumArguments(); ++i)
      add(entry.getArgAttrOfType<StringAttr>(i, "nn.name"), entry.getArgumentTypes()[i]);
    for (unsigned i = 0; i < entry.getNumResults(); ++i)
      add(entry.getResultAttrOfType<StringAttr>(i, "nn.name"), entry.getResultTypes()[i]);
  }
  return bytes;
}

void StateLayout::addStage(int64_t stage, ArrayRef<func::FuncOp> entries) {
  // A slot fits any of the stages, so each begins at its start.
  int64_t end = 0;
  llvm::StringMap<SmallVector<Attribute>> lists;
  auto add = [&](StringAttr name, Type type) {
    if (exchange(name, stage))
      return;
    const int64_t bytes = exec::tensorBytes(type);
    const exec::Address address = {slotMemory->name(), int64_t(llvm::alignTo(end, 64)), bytes};
    end = address.offset + bytes;
    named[inStage(name, stage)] = address;
    lists[name.getValue().split('.').first].push_back(exec::AtAttr::get(address));
  };
  for (func::FuncOp entry : entries) {
    for (unsigned i = 0; i < entry.getNumArguments(); ++i)
      add(entry.getArgAttrOfType<StringAttr>(i, "nn.name"), entry.getArgumentTypes()[i]);
    for (unsigned i = 0; i < entry.getNumResults(); ++i)
      add(entry.getResultAttrOfType<StringAttr>(i, "nn.name"), entry.getResultTypes()[i]);
  }
  slotMemory->reserve(end);
  auto list = [&](StringRef name) { return builder.getArrayAttr(lists.lookup(name)); };
  exec::StageOp::create(builder, loc, stage, list("input"), list("output"), list("output_gradient"),
                        list("input_gradient"));
}

exec::Address StateLayout::rankIndex(ArrayAttr axes, int64_t scale) {
  auto [it, fresh] = indices.try_emplace({axes, scale});
  if (fresh) {
    it->second = constants.add(4);
    exec::RankIndexOp::create(builder, loc, exec::AtAttr::get(it->second), axes, scale);
  }
  return it->second;
}

exec::Address StateLayout::extra(const BodyInput &input) {
  if (!input.table)
    return rankIndex(input.axes, 1);
  auto [it, fresh] = tables.try_emplace(input.table);
  if (fresh) {
    it->second = constants.add(input.table.getNumElements() * 4);
    exec::TableOp::create(builder, loc, "table " + std::to_string(tables.size()),
                          exec::AtAttr::get(it->second), input.table);
  }
  return it->second;
}

StringAttr StateLayout::group(ArrayAttr axes, DenseI64ArrayAttr members, bool isBeside) {
  auto [it, fresh] = groups.try_emplace({axes, members, int(isBeside)});
  if (fresh) {
    auto names =
        llvm::map_range(axes.getAsValueRange<StringAttr>(), [](StringRef name) { return name; });
    std::string name = llvm::join(names, "+");
    if (members)
      name += " of " + llvm::join(llvm::map_range(members.asArrayRef(),
                                                  [](int64_t i) { return std::to_string(i); }),
                                  ", ");
    if (isBeside)
      name += " beside";
    it->second = builder.getStringAttr(name);
    exec::GroupOp::create(builder, loc, it->second, axes, members,
                          isBeside ? builder.getUnitAttr() : UnitAttr());
  }
  return it->second;
}

} // namespace cleave::image
