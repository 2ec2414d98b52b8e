// Counters read before and after each step.
#include "runtime/Train/StepTraffic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace cleave::rt {
namespace {

using Kind = PipelineAction::Kind;

/// Axes of one rank say nothing.
std::vector<std::string> namesOf(const Mesh &mesh, const AxisList &axes) {
  std::vector<std::string> names;
  for (int32_t axis : axes)
    if (mesh.axes[axis].size > 1)
      names.push_back(mesh.axes[axis].name);
  return names;
}

bool isOfGradient(Kind kind) { return PipelineAction{.kind = kind}.isOfGradient(); }

std::string countText(const MessageCount &count) {
  return fmt::format("{} messages of {} bytes", count.calls, count.bytes);
}

} // namespace

StatusOr<StepTraffic> StepTraffic::create(const Program &program, World &world,
                                          const std::vector<Communicator *> &groups) {
  StepTraffic made(program, world);
  for (size_t i = 0; i < groups.size(); ++i)
    if (groups[i])
      made.addGroup(i, groups);
  if (program.pipeline)
    CLEAVE_RT_RETURN_IF_ERROR(made.addChannels());
  return made;
}

/// Groups of the same ranks share a communicator: the first stands for all of them.
void StepTraffic::addGroup(size_t index, const std::vector<Communicator *> &groups) {
  const Communicator *own = groups[index];
  if (std::find(groups.begin(), groups.begin() + static_cast<ptrdiff_t>(index), own) !=
      groups.begin() + static_cast<ptrdiff_t>(index))
    return;
  for (size_t i = 0; i < collectiveKinds; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    Meter meter;
    meter.counter = &own->traffic(kind);
    meter.line.kind = nameOf(kind);
    meter.line.axes = namesOf(program.mesh, program.groups[index].axes);
    meter.line.members = own->size();
    meter.line.beside = program.groups[index].beside;
    if (program.traffic)
      for (const Traffic::Collective &each : program.traffic->collectives)
        if (groups[static_cast<size_t>(each.group)] == own && each.kind == meter.line.kind) {
          meter.planned.calls += each.count.calls;
          meter.planned.bytes += each.count.bytes;
        }
    meters.push_back(std::move(meter));
  }
}

Status StepTraffic::addChannels() {
  const AxisList &axes = program.pipeline->axes;
  const std::vector<int64_t> lane = program.mesh.groupOf(world.rank(), axes);
  std::set<std::pair<Kind, int32_t>> ends;
  for (const PipelineAction &action : program.pipeline->actions)
    if (action.isTransfer())
      ends.insert({action.kind, action.peer});
  if (program.traffic)
    for (const Traffic::Transfer &each : program.traffic->transfers)
      ends.insert({each.kind, each.peer});
  for (const auto &[kind, peer] : ends) {
    const int64_t other = lane[static_cast<size_t>(peer)];
    const bool sends = PipelineAction{.kind = kind}.isSend();
    const int from = sends ? world.rank() : static_cast<int>(other);
    const int to = sends ? static_cast<int>(other) : world.rank();
    CLEAVE_RT_ASSIGN_OR_RETURN(
        const Channel *channel,
        world.channel(
            {from, to, isOfGradient(kind) ? TransferKind::Gradient : TransferKind::Activation}));
    Meter meter;
    meter.counter = &channel->traffic();
    meter.line.kind = nameOf(kind);
    meter.line.axes = namesOf(program.mesh, axes);
    meter.line.peer = other;
    if (program.traffic)
      for (const Traffic::Transfer &each : program.traffic->transfers)
        if (each.kind == kind && each.peer == peer)
          meter.planned = each.count;
    meters.push_back(std::move(meter));
  }
  return {};
}

void StepTraffic::enter() {
  for (Meter &meter : meters)
    meter.before = *meter.counter;
}

void StepTraffic::leave() {
  for (Meter &meter : meters) {
    meter.line.count.calls += static_cast<int64_t>(meter.counter->calls - meter.before.calls);
    meter.line.count.bytes += static_cast<int64_t>(meter.counter->bytes - meter.before.bytes);
  }
  ++steps;
}

Status StepTraffic::check() const {
  if (!program.traffic)
    return {};
  for (const Meter &meter : meters) {
    const MessageCount wanted{meter.planned.calls * steps, meter.planned.bytes * steps};
    if (meter.line.count == wanted)
      continue;
    Error error = internalError(
        fmt::format("rank {} counted other {} {} than the program's table of communication has",
                    world.rank(), meter.line.kind, describe(meter.line)));
    error.kind = "runtime.traffic_mismatch";
    error.given = fmt::format("{} in {} steps", countText(meter.line.count), steps);
    error.rule =
        fmt::format("each step has {}, all have {}", countText(meter.planned), countText(wanted));
    return error;
  }
  return {};
}

std::vector<TrafficLine> StepTraffic::lines() const {
  std::vector<TrafficLine> all;
  for (const Meter &meter : meters)
    if (meter.line.count.calls != 0)
      all.push_back(meter.line);
  return all;
}

JsonValue trafficJson(const std::vector<std::vector<TrafficLine>> &ofRanks) {
  JsonValue ranks = JsonValue::array();
  for (size_t rank = 0; rank < ofRanks.size(); ++rank) {
    JsonValue lines = JsonValue::array();
    for (const TrafficLine &line : ofRanks[rank]) {
      JsonValue axes = JsonValue::array();
      for (const std::string &axis : line.axes)
        axes.append(JsonValue(axis));
      JsonValue each = JsonValue::object();
      each.set("kind", JsonValue(line.kind));
      each.set("axes", std::move(axes));
      if (line.peer >= 0)
        each.set("peer", JsonValue(line.peer));
      else
        each.set("ranks", JsonValue(line.members));
      if (line.beside)
        each.set("beside", JsonValue(true));
      each.set("count", JsonValue(line.count.calls));
      each.set("bytes", JsonValue(line.count.bytes));
      lines.append(std::move(each));
    }
    if (lines.elements().empty())
      continue;
    JsonValue own = JsonValue::object();
    own.set("rank", JsonValue(static_cast<int64_t>(rank)));
    own.set("exchanges", std::move(lines));
    ranks.append(std::move(own));
  }
  return ranks;
}

std::string describe(const TrafficLine &line) {
  if (line.peer >= 0)
    return fmt::format("with rank {}", line.peer);
  return fmt::format("over {} among {} ranks{}", fmt::join(line.axes, "+"), line.members,
                     line.beside ? ", beside the computation" : "");
}

} // namespace cleave::rt
