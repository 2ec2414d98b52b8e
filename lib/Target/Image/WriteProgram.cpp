//===- WriteProgram.cpp - The exec dialect as a program image --------------===//
//
// A translation, operator by operator: names of segments, groups and axes become
// numbers, and state of many layers becomes an entry for each. Nothing is decided
// here.
//
//===----------------------------------------------------------------------===//

#include "lib/Target/Image/WriteProgram.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
namespace cleave::image {

static std::vector<int64_t> toVector(ArrayRef<int64_t> list) { return {list.begin(), list.end()}; }

static rt::DataType typeOf(Type type) {
  if (type.isF32())
    return rt::DataType::F32;
  if (type.isBF16())
    return rt::DataType::BF16;
  return type.isInteger(32) ? rt::DataType::I32 : rt::DataType::I64;
}

static rt::ReductionKind kindOf(exec::Reduction kind) {
  return kind == exec::Reduction::Sum ? rt::ReductionKind::Sum : rt::ReductionKind::Max;
}

static rt::CutDimension cutOf(ArrayRef<int64_t> cut) { return {cut[0], cut[1], cut[2]}; }

namespace {
class ProgramWriter {
public:
  ProgramWriter(exec::ProgramOp source, const pipe::Table *table)
      : source(source), table(table), mesh(*dist::Mesh::lookup(source, source.getMeshAttr())) {}

  rt::Program write() {
    for (auto [name, size] : llvm::zip(mesh.names, mesh.sizes))
      program.mesh.axes.push_back({name, size});
    // Names are used before they are defined.
    for (auto segment : source.getOps<exec::SegmentOp>()) {
      segments[segment.getName()] = static_cast<int32_t>(program.segments.size());
      program.segments.push_back(
          {segment.getName().str(), int64_t(segment.getBytes()), int64_t(segment.getCopies())});
    }
    for (auto group : source.getOps<exec::GroupOp>()) {
      groups[group.getName()] = static_cast<int32_t>(program.groups.size());
      program.groups.push_back({axisList(dist::axesOf(group.getAxes())),
                                toVector(group.getMembers().value_or(ArrayRef<int64_t>())),
                                group.getBeside()});
    }
    if (source.getPart())
      addPipeline();
    for (Operation &op : source.getBody().front())
      llvm::TypeSwitch<Operation *>(&op)
          .Case([&](exec::StateOp state) { addState(state); })
          .Case([&](exec::ExchangeOp exchange) { addExchange(exchange); })
          .Case([&](exec::TableOp table) { addTable(table); })
          .Case([&](exec::RankIndexOp index) { addRankIndex(index); })
          .Case([&](exec::EntryOp entry) { addEntry(entry); });
    return std::move(program);
  }

private:
  rt::Region region(exec::AtAttr at) const {
    return {segments.lookup(at.getSegment().getValue()), at.getOffset(), at.getBytes(),
            at.getStep(), at.getPeriod()};
  }

  rt::AxisList axisList(ArrayRef<StringAttr> axes) const {
    rt::AxisList list;
    for (StringAttr a : axes)
      list.push_back(mesh.find(a.getValue()));
    return list;
  }

  rt::Sharding sharding(dist::ShardingAttr attr) const {
    rt::Sharding cut;
    for (size_t d = 0; d < attr.getDims().size(); ++d)
      cut.axes.push_back(axisList(attr.axes(d)));
    return cut;
  }

  std::vector<rt::Region> regions(ArrayAttr list) const {
    std::vector<rt::Region> all;
    for (auto at : list.getAsRange<exec::AtAttr>())
      all.push_back(region(at));
    return all;
  }

  /// This place in the pipeline: its stages, and what it does of the table.
  void addPipeline() {
    rt::Pipeline &pipeline = program.pipeline.emplace();
    pipeline.axes = axisList(dist::axesOf(source.getOverAttr()));
    pipeline.index = static_cast<int64_t>(*source.getPart());
    pipeline.buffers = table->buffers;
    pipeline.surveyed = exec::surveyedStages(source->getParentOfType<ModuleOp>());
    for (auto stage : source.getOps<exec::StageOp>()) {
      stages[static_cast<int64_t>(stage.getNumber())] = static_cast<int32_t>(stages.size());
      rt::Stage &made = pipeline.stages.emplace_back();
      made.number = static_cast<int64_t>(stage.getNumber());
      made.boundary = {regions(stage.getInputs()), regions(stage.getOutputs()),
                       regions(stage.getOutputGradients()), regions(stage.getInputGradients())};
    }
    for (const pipe::Action &action : table->ranks[pipeline.index].actions)
      pipeline.actions.push_back({actionKindOf(action.kind), stages.lookup(action.ownStage()),
                                  static_cast<int32_t>(action.micro),
                                  static_cast<int32_t>(action.slot),
                                  static_cast<int32_t>(action.peer)});
  }

  static rt::PipelineAction::Kind actionKindOf(pipe::ActionKind kind) {
    using Kind = rt::PipelineAction::Kind;
    switch (kind) {
    case pipe::ActionKind::Forward:
      return Kind::Forward;
    case pipe::ActionKind::Backward:
      return Kind::Backward;
    case pipe::ActionKind::WeightGradient:
      return Kind::Weights;
    case pipe::ActionKind::SendActivation:
      return Kind::SendActivation;
    case pipe::ActionKind::ReceiveActivation:
      return Kind::ReceiveActivation;
    case pipe::ActionKind::SendGradient:
      return Kind::SendGradient;
    case pipe::ActionKind::ReceiveGradient:
      return Kind::ReceiveGradient;
    }
    llvm_unreachable("actions are of these kinds");
  }

  static rt::EntryKind entryOf(exec::EntryKind kind) {
    switch (kind) {
    case exec::EntryKind::Begin:
      return rt::EntryKind::Begin;
    case exec::EntryKind::Count:
      return rt::EntryKind::Count;
    case exec::EntryKind::Survey:
      return rt::EntryKind::Survey;
    case exec::EntryKind::Prepare:
      return rt::EntryKind::Prepare;
    case exec::EntryKind::Microbatch:
      return rt::EntryKind::MicroBatch;
    case exec::EntryKind::Last:
      return rt::EntryKind::Last;
    case exec::EntryKind::Update:
      return rt::EntryKind::Update;
    case exec::EntryKind::Evaluate:
      return rt::EntryKind::Evaluate;
    default:
      llvm_unreachable("the others are of a stage");
    }
  }

  void addEntry(exec::EntryOp entry) {
    std::vector<rt::Command> commands = commandsOf(entry.getBody().front());
    const exec::EntryKind kind = entry.getKind();
    if (!entry.getStage()) {
      program.entry(entryOf(kind)) = std::move(commands);
      return;
    }
    const rt::StageEntry which = kind == exec::EntryKind::Forward    ? rt::StageEntry::Forward
                                 : kind == exec::EntryKind::Backward ? rt::StageEntry::Backward
                                 : kind == exec::EntryKind::Weights  ? rt::StageEntry::Weights
                                 : kind == exec::EntryKind::Last     ? rt::StageEntry::Last
                                 : kind == exec::EntryKind::Survey   ? rt::StageEntry::Survey
                                                                     : rt::StageEntry::Evaluate;
    program.pipeline->stages[stages.lookup(static_cast<int64_t>(*entry.getStage()))].entry(which) =
        std::move(commands);
  }

  void addState(exec::StateOp state) {
    rt::StateEntry entry;
    if (auto aliases = state.getAliases())
      for (StringRef alias : aliases->getAsValueRange<StringAttr>())
        entry.aliases.push_back(alias.str());
    entry.fileShape = toVector(state.getFileShape());
    entry.shape = toVector(state.getShape());
    entry.sharding = sharding(state.getSharding());
    for (auto [own, cut] : llvm::zip(entry.ownShardings, state.getSlotShardings()))
      if (cut != state.getSharding())
        own = sharding(cut);
    entry.decay = state.getDecay();
    entry.counted = !state.getCopy();
    entry.initial = {state.getMean().convertToDouble(), state.getStd().convertToDouble()};
    for (int64_t i = 0; i < state.getCount(); ++i) {
      entry.name = state.getTensorName(i);
      for (auto [slot, at] : llvm::zip(entry.slots, state.getSlots()))
        if (at) {
          slot = region(at);
          slot->offset += i * slot->stride;
          slot->stride = 0;
        }
      program.state.push_back(entry);
    }
  }

  void addExchange(exec::ExchangeOp exchange) {
    rt::Exchange &x = program.exchange;
    rt::Region at = region(exchange.getAt());
    switch (exchange.getField()) {
    case exec::Field::Tokens:
      x.tokens = at;
      break;
    case exec::Field::Targets:
      x.targets = at;
      break;
    case exec::Field::Positions:
      x.positions = at;
      break;
    case exec::Field::LearningRate:
      x.learningRate = at;
      break;
    case exec::Field::Correction1:
      x.correction1 = at;
      break;
    case exec::Field::Correction2:
      x.correction2 = at;
      break;
    case exec::Field::Loss:
      x.loss = at;
      break;
    case exec::Field::Objective:
      x.objective = at;
      break;
    case exec::Field::GradientNorm:
      x.gradientNorm = at;
      break;
    case exec::Field::ValidCount:
      x.validCount = at;
      break;
    }
  }

  void addTable(exec::TableOp table) {
    auto elements = cast<DenseElementsAttr>(table.getElementsAttr());
    rt::Constant constant;
    constant.name = table.getName().str();
    constant.region = region(table.getAt());
    rt::Constant::Numbers numbers;
    if (elements.getElementType().isInteger(32)) {
      constant.type = rt::DataType::I32;
      for (const APInt &x : elements.getValues<APInt>())
        numbers.values.push_back(static_cast<double>(x.getSExtValue()));
    } else {
      for (const APFloat &x : elements.getValues<APFloat>())
        numbers.values.push_back(x.convertToDouble());
    }
    constant.contents = std::move(numbers);
    program.constants.push_back(std::move(constant));
  }

  void addRankIndex(exec::RankIndexOp index) {
    auto scale = static_cast<int64_t>(index.getScale());
    rt::Constant constant;
    constant.name = "rank index × " + std::to_string(scale);
    constant.region = region(index.getAt());
    constant.type = rt::DataType::I32;
    constant.contents = rt::Constant::BlockStart{axisList(dist::axesOf(index.getAxes())), scale};
    program.constants.push_back(std::move(constant));
  }

  std::vector<rt::Command> commandsOf(Block &block) const {
    std::vector<rt::Command> commands;
    for (Operation &op : block) {
      rt::Command command;
      if (auto repeat = dyn_cast<exec::RepeatOp>(op)) {
        command.label = repeat.getLabel().str();
        command.what =
            rt::RepeatCommand{repeat.getIterations(), repeat.getLayers()[0], repeat.getLayers()[1],
                              commandsOf(repeat.getBody().front())};
      } else {
        auto source = cast<exec::CommandOpInterface>(op);
        command.label = source.getLabel().str();
        command.bytes = static_cast<double>(source.getBytes());
        command.flops = static_cast<double>(source.getFlops());
        command.ahead = source.getAhead();
        setContents(op, command);
      }
      commands.push_back(std::move(command));
    }
    return commands;
  }

  void setContents(Operation &op, rt::Command &command) const {
    llvm::TypeSwitch<Operation *>(&op)
        .Case([&](exec::LaunchOp o) {
          rt::KernelCommand kernel{
              o.getKernel().str(), {}, int64_t(o.getExtent()), int64_t(o.getGrain())};
          for (exec::AtAttr at : o.getAddresses())
            kernel.args.push_back(region(at));
          if (auto written = o.getWritten())
            for (Type type : written->getAsValueRange<TypeAttr>())
              kernel.writes.push_back(typeOf(type));
          kernel.threads = int64_t(o.getThreads().value_or(0));
          kernel.sharedBytes = int64_t(o.getShared().value_or(0));
          command.what = std::move(kernel);
        })
        .Case([&](exec::MatmulOp o) { command.what = matmul(o); })
        .Case([&](exec::PickedMatmulOp o) { command.what = pickedMatmul(o); })
        .Case([&](exec::PickedOuterOp o) { command.what = pickedOuter(o); })
        .Case([&](exec::ZeroOp o) { command.what = rt::ZeroCommand{region(o.getTarget())}; })
        .Case([&](exec::BesideOp o) {
          command.what = rt::BesideCommand{static_cast<int64_t>(o.getNumber()),
                                           commandsOf(o.getBody().front())};
        })
        .Case([&](exec::AwaitOp o) {
          command.what = rt::AwaitCommand{static_cast<int64_t>(o.getNumber())};
        })
        .Case([&](exec::CopyOp o) {
          command.what = rt::CopyCommand{region(o.getSource()), region(o.getTarget())};
        })
        .Case([&](exec::AllReduceOp o) {
          auto what = exchange<rt::AllReduceCommand>(o);
          what.kind = kindOf(o.getKind());
          command.what = what;
        })
        .Case([&](exec::AllGatherOp o) {
          auto what = exchange<rt::AllGatherCommand>(o);
          what.cut = cutOf(o.getCut());
          command.what = what;
        })
        .Case([&](exec::ReduceScatterOp o) {
          auto what = exchange<rt::ReduceScatterCommand>(o);
          what.kind = kindOf(o.getKind());
          what.cut = cutOf(o.getCut());
          command.what = what;
        })
        .Case([&](exec::SliceOp o) {
          auto what = exchange<rt::SliceCommand>(o);
          what.cut = cutOf(o.getCut());
          command.what = what;
        })
        .Case([&](exec::AllToAllOp o) { command.what = allToAll(o); });
  }

  /// What all exchanges have.
  template <typename Command, typename Op> Command exchange(Op op) const {
    Command command;
    command.group = groups.lookup(op.getGroup());
    command.type = typeOf(op.getType());
    command.source = region(op.getSource());
    command.target = region(op.getTarget());
    return command;
  }

  rt::AllToAllCommand allToAll(exec::AllToAllOp op) const {
    auto command = exchange<rt::AllToAllCommand>(op);
    ArrayRef<int64_t> cut = op.getCut();
    command.outer = cut[0];
    command.first = cut[1];
    command.middle = cut[2];
    command.second = cut[3];
    command.inner = cut[4];
    command.splitFirst = op.getSplitFirst();
    return command;
  }

  rt::MatmulCommand matmul(exec::MatmulOp op) const {
    auto operand = [&](exec::AtAttr at, ArrayRef<int64_t> strides) {
      return rt::MatrixOperand{region(at), strides[0], strides[1]};
    };
    rt::MatmulCommand command;
    command.a = operand(op.getA(), op.getAStrides());
    command.b = operand(op.getB(), op.getBStrides());
    command.c = operand(op.getC(), op.getCStrides());
    command.m = op.getSizes()[0];
    command.n = op.getSizes()[1];
    command.k = op.getSizes()[2];
    for (ArrayRef<int64_t> batch = op.getBatch(); !batch.empty(); batch = batch.drop_front(4))
      command.batch.push_back({batch[0], batch[1], batch[2], batch[3]});
    command.accumulate = op.getAccumulate();
    command.operandType = typeOf(op.getOperandType());
    command.resultType = typeOf(op.getResultType());
    return command;
  }

  /// What both products with picked matrices have.
  template <typename Command, typename Op> Command pickedProduct(Op op) const {
    Command command;
    command.a = region(op.getA());
    command.b = region(op.getB());
    command.index = region(op.getIndex());
    command.c = region(op.getC());
    if (auto offset = op.getOffset())
      command.offset = region(*offset);
    command.rows = op.getSizes()[0];
    command.matrices = op.getSizes()[3];
    command.operandType = typeOf(op.getOperandType());
    return command;
  }

  rt::PickedMatmulCommand pickedMatmul(exec::PickedMatmulOp op) const {
    auto command = pickedProduct<rt::PickedMatmulCommand>(op);
    command.n = op.getSizes()[1];
    command.k = op.getSizes()[2];
    command.share = static_cast<int64_t>(op.getShare());
    command.transposed = op.getBStrides()[2] != 1;
    return command;
  }

  rt::PickedOuterCommand pickedOuter(exec::PickedOuterOp op) const {
    auto command = pickedProduct<rt::PickedOuterCommand>(op);
    command.m = op.getSizes()[1];
    command.n = op.getSizes()[2];
    command.shareA = op.getShares()[0];
    command.shareB = op.getShares()[1];
    command.accumulate = op.getAccumulate();
    return command;
  }

  exec::ProgramOp source;
  const pipe::Table *table;
  dist::Mesh mesh;
  rt::Program program;
  llvm::StringMap<int32_t> segments, groups;
  /// The place in the program of each of its stages.
  llvm::DenseMap<int64_t, int32_t> stages;
};
} // namespace

rt::Program writeProgram(exec::ProgramOp source, const pipe::Table *table) {
  return ProgramWriter(source, table).write();
}

} // namespace cleave::image
