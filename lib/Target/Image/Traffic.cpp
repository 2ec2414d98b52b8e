//===- Traffic.cpp - What ranks exchange in a step -------------------------===//

#include "cleave/Target/Image/Traffic.h"
#include "dialects/Exec/Exec.h"
#include "dialects/Pipe/Pipe.h"

#include <map>

using namespace mlir;
namespace cleave {

namespace {
/// The rows of one program.
class ProgramReader {
public:
  ProgramReader(exec::ProgramOp program, const pipe::Table *table, int64_t microBatches,
                int64_t surveyed, std::vector<TrafficRow> &rows)
      : program(program), table(table), microBatches(microBatches), surveyed(surveyed), rows(rows),
        mesh(*dist::Mesh::lookup(program, program.getMeshAttr())) {
    for (auto group : program.getOps<exec::GroupOp>())
      groups[group.getName()] = group;
    if (program.getPart())
      place = static_cast<int64_t>(*program.getPart());
    ranks = mesh.ranks() / (table ? static_cast<int64_t>(table->ranks.size()) : 1);
  }

  void read() {
    for (auto entry : program.getOps<exec::EntryOp>())
      if (int64_t times = runsInStep(entry))
        readBlock(entry, entry.getBody().front(), times);
    if (table)
      addTransfers();
  }

private:
  /// How often a step runs an entry.
  int64_t runsInStep(exec::EntryOp entry) const {
    switch (entry.getKind()) {
    case exec::EntryKind::Begin:
    case exec::EntryKind::Prepare:
    case exec::EntryKind::Update:
    case exec::EntryKind::Last:
      return 1;
    case exec::EntryKind::Count:
    case exec::EntryKind::Survey:
      return microBatches;
    case exec::EntryKind::Microbatch:
      return microBatches - (hasLast({}) ? 1 : 0);
    case exec::EntryKind::Evaluate:
      return 0;
    case exec::EntryKind::Forward:
      return actionsOf(pipe::ActionKind::Forward, *entry.getStage());
    case exec::EntryKind::Backward:
      return actionsOf(pipe::ActionKind::Backward, *entry.getStage()) -
             (hasLast(entry.getStage()) && !table->hasWeightGradients() ? 1 : 0);
    case exec::EntryKind::Weights:
      return actionsOf(pipe::ActionKind::WeightGradient, *entry.getStage()) -
             (hasLast(entry.getStage()) ? 1 : 0);
    }
    llvm_unreachable("entries are of these kinds");
  }

  /// Whether the last micro-batch has an entry of its own, in a pipeline of the stage.
  bool hasLast(std::optional<uint64_t> stage) const {
    exec::ProgramOp own = program;
    return llvm::any_of(own.getOps<exec::EntryOp>(), [&](exec::EntryOp entry) {
      return entry.getKind() == exec::EntryKind::Last && entry.getStage() == stage;
    });
  }

  int64_t actionsOf(pipe::ActionKind kind, uint64_t stage) const {
    return table ? llvm::count_if(table->ranks[place].actions,
                                  [&](const pipe::Action &action) {
                                    return action.kind == kind &&
                                           action.ownStage() == static_cast<int64_t>(stage);
                                  })
                 : 0;
  }

  void readBlock(exec::EntryOp entry, Block &block, int64_t times, exec::BesideOp bucket = {}) {
    for (Operation &op : block) {
      if (auto repeat = dyn_cast<exec::RepeatOp>(op))
        readBlock(entry, repeat.getBody().front(), times * repeat.getIterations());
      else if (auto started = dyn_cast<exec::BesideOp>(op))
        readBlock(entry, started.getBody().front(), times, started);
      else if (auto command = cast<exec::CommandOpInterface>(op); command.getGroupAttr())
        addCommand(entry, command, times, bucket);
    }
  }

  void addCommand(exec::EntryOp entry, exec::CommandOpInterface command, int64_t times,
                  exec::BesideOp bucket) {
    exec::GroupOp group = groups.lookup(command.getGroupAttr().getValue());
    const dist::Axes axes = dist::axesOf(group.getAxes());
    const int64_t members =
        group.getMembers() ? static_cast<int64_t>(group.getMembers()->size()) : mesh.size(axes);
    TrafficRow row;
    row.bytes = command.getMessageBytes(members);
    if (row.bytes == 0)
      return;
    row.program = place;
    row.entry = stringifyEntryKind(entry.getKind()).str();
    if (entry.getStage())
      row.stage = static_cast<int64_t>(*entry.getStage());
    row.kind = command->getName().stripDialect().str();
    row.label = command.getLabel().str();
    row.group = group.getName().str();
    row.members = members;
    for (StringAttr axis : axes)
      if (mesh.size(axis.getValue()) > 1)
        row.axes.push_back(axis.str());
    row.from = command->getAttrOfType<dist::ShardingAttr>("dist.from");
    row.to = command->getAttrOfType<dist::ShardingAttr>("dist.to");
    if (auto names = command->getAttrOfType<ArrayAttr>("dist.names"))
      for (StringRef name : names.getAsValueRange<StringAttr>())
        row.dims.push_back(name.str());
    row.count = times;
    row.ranks = ranks;
    if (bucket) {
      row.bucket = bucket.getLabel().str();
      row.begins = command->getPrevNode() == nullptr;
    }
    rows.push_back(std::move(row));
  }

  static int64_t bytesOf(ArrayAttr regions) {
    int64_t bytes = 0;
    for (auto at : regions.getAsRange<exec::AtAttr>())
      bytes += at.getBytes();
    return bytes;
  }

  /// Equal sends of the schedule are one row.
  void addTransfers() {
    std::map<int64_t, exec::StageOp> stages;
    for (auto stage : program.getOps<exec::StageOp>())
      stages[static_cast<int64_t>(stage.getNumber())] = stage;
    std::map<std::tuple<int64_t, bool, int64_t>, int64_t> sends;
    for (const pipe::Action &action : table->ranks[place].actions)
      if (action.isSend())
        ++sends[{action.ownStage(), action.isOfGradient(), action.peer}];
    for (const auto &[key, count] : sends) {
      const auto &[stage, isOfGradient, peer] = key;
      TrafficRow row = transferOf(stages.at(stage), isOfGradient, peer);
      row.count = count;
      row.entry = "pipeline";
      // A survey sends as all forwards do, up to the last stage that has one.
      if (!isOfGradient && stage + 1 < surveyed) {
        rows.push_back(row);
        rows.back().entry = stringifyEntryKind(exec::EntryKind::Survey).str();
        rows.back().count = microBatches;
      }
      rows.push_back(std::move(row));
    }
  }

  /// One that `stage` sends.
  TrafficRow transferOf(exec::StageOp stage, bool isOfGradient, int64_t peer) {
    const auto number = static_cast<int64_t>(stage.getNumber());
    TrafficRow row;
    row.program = place;
    row.stage = number;
    row.kind = isOfGradient ? "send_gradient" : "send_activation";
    row.label = "to stage " + std::to_string(isOfGradient ? number - 1 : number + 1);
    for (StringAttr axis : dist::axesOf(program.getOverAttr()))
      row.axes.push_back(axis.str());
    row.members = 2;
    row.bytes = bytesOf(isOfGradient ? stage.getInputGradients() : stage.getOutputs());
    row.ranks = ranks;
    row.peer = peer;
    return row;
  }

  exec::ProgramOp program;
  const pipe::Table *table;
  const int64_t microBatches, surveyed;
  std::vector<TrafficRow> &rows;
  const dist::Mesh mesh;
  llvm::StringMap<exec::GroupOp> groups;
  int64_t place = 0, ranks = 1;
};
} // namespace

std::vector<TrafficRow> trafficOf(ModuleOp module, int64_t microBatches) {
  std::vector<TrafficRow> rows;
  std::optional<pipe::Table> table;
  for (auto schedule : module.getOps<pipe::ScheduleOp>())
    table = schedule.getTable();
  const int64_t surveyed = exec::surveyedStages(module);
  for (auto program : module.getOps<exec::ProgramOp>())
    ProgramReader(program, table ? &*table : nullptr, microBatches, surveyed, rows).read();
  return rows;
}

std::string placementText(dist::ShardingAttr placement, ArrayRef<std::string> dims) {
  auto joined = [](ArrayRef<StringAttr> axes) {
    return llvm::join(llvm::map_range(axes, [](StringAttr axis) { return axis.str(); }), "+");
  };
  std::string text;
  for (unsigned d = 0; d < placement.getDims().size(); ++d) {
    text += d ? ", " : "";
    text += d < dims.size() ? dims[d] : std::to_string(d);
    if (dist::Axes axes = placement.axes(d); !axes.empty())
      text += "/" + joined(axes);
  }
  if (text.empty())
    text = "scalar";
  if (placement.isPartial())
    text += std::string(placement.getApart() ? "; apart " : "; partial ") +
            joined(placement.getPartial());
  return text;
}

/// The count of what is like `wanted`; a new one where there is none.
template <typename T> static T &countOf(std::vector<T> &counts, const T &wanted) {
  auto it = llvm::find_if(counts, [&](const T &each) { return each.isLike(wanted); });
  return it == counts.end() ? counts.emplace_back(wanted) : *it;
}

static void addTo(rt::MessageCount &count, const TrafficRow &row) {
  count.calls += row.messages();
  count.bytes += row.total();
}

void setTraffic(MutableArrayRef<rt::Program> programs, ModuleOp module) {
  if (programs.empty())
    return;
  for (rt::Program &program : programs)
    program.traffic.emplace();
  std::vector<llvm::StringMap<int32_t>> groups;
  for (auto program : module.getOps<exec::ProgramOp>()) {
    auto &names = groups.emplace_back();
    for (auto group : program.getOps<exec::GroupOp>())
      names.try_emplace(group.getName(), static_cast<int32_t>(names.size()));
  }
  using Kind = rt::PipelineAction::Kind;
  for (const TrafficRow &row : trafficOf(module, programs[0].batch.microBatches)) {
    rt::Traffic &own = *programs[row.program].traffic;
    if (!row.isTransfer()) {
      rt::Traffic::Collective like{groups[row.program].lookup(row.group), row.kind, {}};
      addTo(countOf(own.collectives, like).count, row);
      continue;
    }
    const bool isOfGradient = row.kind == rt::nameOf(Kind::SendGradient);
    rt::Traffic::Transfer sent{isOfGradient ? Kind::SendGradient : Kind::SendActivation,
                               static_cast<int32_t>(row.peer),
                               {}};
    addTo(countOf(own.transfers, sent).count, row);
    rt::Traffic::Transfer received{isOfGradient ? Kind::ReceiveGradient : Kind::ReceiveActivation,
                                   static_cast<int32_t>(row.program),
                                   {}};
    addTo(countOf(programs[row.peer].traffic->transfers, received).count, row);
  }
}

} // namespace cleave
