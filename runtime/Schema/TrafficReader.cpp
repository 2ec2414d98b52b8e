// What a step exchanges, read and checked.
#include "runtime/Schema/ImageReading.h"
#include "runtime/Schema/ValidateCommands.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave::rt {
namespace {

using Kind = PipelineAction::Kind;

constexpr const char *collectiveNames[] = {"all_reduce", "all_gather", "reduce_scatter",
                                           "all_to_all"};

Error broken(std::string message) { return brokenImage("image.traffic", std::move(message)); }

MessageCount readCount(ObjectReader &in) {
  MessageCount count;
  count.calls = reading::needInteger(in, "calls", {.min = 0});
  count.bytes = reading::needInteger(in, "bytes", {.min = 0});
  return count;
}

Traffic::Collective readCollective(ObjectReader &in) {
  Traffic::Collective made;
  made.group =
      static_cast<int32_t>(reading::needInteger(in, "group", {.min = 0, .max = reading::maxInt32}));
  made.kind = reading::needString(in, "kind");
  made.count = readCount(in);
  return made;
}

Traffic::Transfer readTransfer(ObjectReader &in) {
  Traffic::Transfer made;
  in.require("kind");
  const std::string kind = in.oneOf("kind", {"send_activation", "send_gradient",
                                             "receive_activation", "receive_gradient"})
                               .value_or("send_activation");
  for (Kind each : {Kind::SendGradient, Kind::ReceiveActivation, Kind::ReceiveGradient})
    if (kind == nameOf(each))
      made.kind = each;
  made.peer =
      static_cast<int32_t>(reading::needInteger(in, "peer", {.min = 0, .max = reading::maxInt32}));
  made.count = readCount(in);
  return made;
}

template <typename T> bool isTwice(const std::vector<T> &list, size_t i) {
  return std::any_of(list.begin(), list.begin() + static_cast<ptrdiff_t>(i),
                     [&](const T &other) { return other.isLike(list[i]); });
}

} // namespace

void reading::readTraffic(ObjectReader &in, Program &program) {
  auto from = in.object("traffic");
  if (!from)
    return;
  Traffic &traffic = program.traffic.emplace();
  eachObject(*from, "collectives", [&](ObjectReader &each) {
    traffic.collectives.push_back(readCollective(each));
    return Status::success();
  });
  eachObject(*from, "transfers", [&](ObjectReader &each) {
    traffic.transfers.push_back(readTransfer(each));
    return Status::success();
  });
  in.absorb(from->finish());
}

Status validateTraffic(const Program &program) {
  if (!program.traffic)
    return {};
  const auto &[collectives, transfers] = *program.traffic;
  for (size_t i = 0; i < collectives.size(); ++i) {
    const Traffic::Collective &each = collectives[i];
    if (each.group < 0 || static_cast<size_t>(each.group) >= program.groups.size() ||
        program.groups[each.group].size(program.mesh) < 2)
      return broken(fmt::format("traffic is counted in group {}, which is none of several ranks",
                                each.group));
    if (std::ranges::find(collectiveNames, each.kind) == std::end(collectiveNames))
      return broken(fmt::format("\"{}\" is no collective that is counted", each.kind));
    if (isTwice(collectives, i))
      return broken(fmt::format("{} of group {} is counted twice", each.kind, each.group));
  }
  const int64_t places = program.pipeline ? program.mesh.sizeOf(program.pipeline->axes) : 0;
  for (size_t i = 0; i < transfers.size(); ++i) {
    const Traffic::Transfer &each = transfers[i];
    if (each.peer < 0 || each.peer >= places || each.peer == program.pipeline->index)
      return broken(fmt::format("{} is counted with index {}, which is no other of a pipeline",
                                nameOf(each.kind), each.peer));
    if (isTwice(transfers, i))
      return broken(fmt::format("{} with index {} is counted twice", nameOf(each.kind), each.peer));
  }
  return {};
}

} // namespace cleave::rt
