// Team and world over a transport and a control plane.
#include "runtime/Comm/Processes/ProcessTeam.h"

#include "runtime/Base/Waiting.h"
#include "runtime/Comm/Local/LocalChannel.h"
#include "runtime/Comm/Local/RankThreads.h"
#include "runtime/Comm/Processes/ControlPlane.h"
#include "runtime/Comm/Processes/ProcessChannel.h"
#include "runtime/Comm/Processes/ProcessGroup.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave::rt {

namespace {

/// The ranks of this process, with the control plane on the one side and the port on
/// the other.
class ProcessWorld final : public HostedRanks {
public:
  /// `pump`: that of the channels in `here`, of which `sources` send.
  ProcessWorld(ControlPlane &control, std::unique_ptr<MessagePort> port,
               std::unique_ptr<SendPump> pump, std::vector<SendPump::Source> sources,
               RanksHere here)
      : control(control), port(std::move(port)),
        threads(std::move(here), [this](int rank, Error error) { failed(rank, std::move(error)); }),
        pump(std::move(pump)) {
    this->pump->start(std::move(sources));
    control.onFailure([this](const Error &error) { end(error); });
    control.setWhereabouts([this] { return whereabouts(); });
  }

  ~ProcessWorld() override {
    control.setWhereabouts({});
    control.onFailure({});
  }

  Status run(FunctionRef<Status(World &)> body) override { return threads.run(body); }
  World &rank(int rank) override { return threads.rank(rank); }

private:
  void end(const Error &error) {
    threads.end(error);
    port->stop();
  }

  /// Says where in the first line, since the other processes have no more.
  void failed(int rank, Error error) {
    const RankPosition &position = threads.position(rank);
    const std::string collective = position.collectiveText();
    error.message += fmt::format(" (rank {}, {}{}{})", rank,
                                 position.step > 0 ? fmt::format("step {}", position.step.load())
                                                   : "before the first step",
                                 collective.empty() ? "" : ", after ", collective);
    end(control.report(std::move(error)));
  }

  Whereabouts whereabouts() const {
    Whereabouts result;
    result.noneRuns = true;
    const RankPosition *shown = nullptr;
    for (int rank = threads.first(); rank < threads.first() + threads.count(); ++rank) {
      const RankPosition &position = threads.position(rank);
      result.progress += position.progress();
      result.anyWaits = result.anyWaits || position.isWaiting();
      result.anyEnded = result.anyEnded || position.left;
      result.noneRuns = result.noneRuns && (position.isWaiting() || position.left);
      if (!shown || (position.isWaiting() && !shown->isWaiting())) {
        shown = &position;
        result.rank = rank;
      }
    }
    result.progress += port->progress();
    result.step = shown->step;
    result.collective = shown->collectiveText();
    result.isWaiting = shown->isWaiting();
    return result;
  }

  ControlPlane &control;
  std::unique_ptr<MessagePort> port;
  RankThreads threads;
  /// Ends before the channels do.
  std::unique_ptr<SendPump> pump;
};

class TeamImpl final : public ProcessTeam {
public:
  TeamImpl(const CleaveTransport &transport, std::shared_ptr<void> owner, Rendezvous rendezvous,
           TeamOptions options)
      : owner(std::move(owner)), transport(transport),
        control(std::move(rendezvous), transport.process, {options.silence, options.show}) {}

  int process() const override { return transport.process; }
  int processes() const override { return transport.processes; }
  const char *library() const override { return transport.library; }

  int sharingCores() const override {
    const ProcessInfo &self = control.processes()[static_cast<size_t>(process())];
    return static_cast<int>(
        std::ranges::count_if(control.processes(), [&](const ProcessInfo &other) {
          return other.host == self.host && other.cores == self.cores;
        }));
  }

  Status agree(const std::string &kind,
               const std::vector<std::pair<std::string, std::string>> &facts) override {
    std::vector<Fact> list;
    for (const auto &[name, value] : facts)
      list.push_back({name, value});
    return control.meet(kind, std::move(list));
  }

  Error report(Error error) override {
    const Status known = control.failure();
    if (!known.ok())
      return known.error();
    return control.report(std::move(error).note(
        "on " + control.processes()[static_cast<size_t>(process())].describe(process())));
  }

  StatusOr<std::unique_ptr<HostedRanks>>
  createWorld(const WorldPlan &plan, std::optional<std::chrono::nanoseconds> spin) override;

  Status finish() override {
    CLEAVE_RT_RETURN_IF_ERROR(control.meet("comm.mismatch", {}, true));
    if (const int code = transport.close(transport.context); code != 0)
      return runError("comm.transport_failed", fmt::format("{} did not end", transport.library));
    return {};
  }

  void endFailed() override { control.endFailed(); }

private:
  const std::shared_ptr<void> owner;
  CleaveTransport transport;
  ControlPlane control;
};

/// Hands out the tags of the transport, alike on all processes.
class Tags {
public:
  Tags(const MessagePort &port, const char *library, int ranks)
      : highest(port.highestTag()), library(library), ranks(ranks) {}

  StatusOr<int> take(int count) {
    if (next > highest - count)
      return runError("comm.transport_failed",
                      fmt::format("{} has tags up to {} only, too few for the groups and channels "
                                  "of {} ranks",
                                  library, highest, ranks));
    next += count;
    return next - count;
  }

private:
  const int highest;
  const char *const library;
  const int ranks;
  int next = 0;
};

StatusOr<std::unique_ptr<HostedRanks>>
TeamImpl::createWorld(const WorldPlan &plan, std::optional<std::chrono::nanoseconds> spin) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const auto groups, checkedGroups(plan));
  CLEAVE_RT_RETURN_IF_ERROR(checkChannels(plan));
  const int each = plan.ranks / processes();
  control.setRanksEach(each);
  const auto pause = spin.value_or(std::chrono::nanoseconds(0));
  auto port = std::make_unique<MessagePort>(transport, pause);
  RanksHere here;
  here.ranks = plan.ranks;
  here.first = process() * each;
  here.count = each;
  Tags tags(*port, transport.library, plan.ranks);
  for (size_t lane = 0; lane < lanes; ++lane)
    for (const std::vector<int> &members : groups[lane]) {
      CLEAVE_RT_ASSIGN_OR_RETURN(const auto parts, ProcessGroup::partsOf(members, each));
      const bool isHere = std::ranges::find(parts, process(), &GroupPart::process) != parts.end();
      if (parts.size() == 1) {
        if (isHere)
          here.groups[lane].push_back(std::make_unique<LocalGroup>(members, pause));
        continue;
      }
      CLEAVE_RT_ASSIGN_OR_RETURN(const int tag, tags.take(ProcessGroup::tagCount(parts)));
      if (isHere)
        here.groups[lane].push_back(
            std::make_unique<ProcessGroup>(members, parts, tag, *port, pause));
    }
  auto pump = std::make_unique<SendPump>();
  std::vector<SendPump::Source> sources;
  for (const ChannelPlan &channel : plan.channels) {
    const int from = channel.key.from / each, to = channel.key.to / each;
    if (from == to) {
      if (from == process())
        here.channels.push_back(std::make_unique<LocalChannel>(channel));
      continue;
    }
    CLEAVE_RT_ASSIGN_OR_RETURN(const int tag, tags.take(1));
    if (from != process() && to != process())
      continue;
    auto made =
        std::make_unique<ProcessChannel>(channel, from == process() ? to : from, tag, *port, *pump);
    if (from == process())
      sources.push_back([sender = made.get()] { return sender->moveOn(); });
    here.channels.push_back(std::move(made));
  }
  return std::unique_ptr<HostedRanks>(std::make_unique<ProcessWorld>(
      control, std::move(port), std::move(pump), std::move(sources), std::move(here)));
}

} // namespace

StatusOr<std::unique_ptr<ProcessTeam>> ProcessTeam::connect(const CleaveTransport &transport,
                                                            TeamOptions options,
                                                            std::shared_ptr<void> owner) {
  CLEAVE_RT_ASSIGN_OR_RETURN(Rendezvous rendezvous, meetAll(transport));
  return std::unique_ptr<ProcessTeam>(std::make_unique<TeamImpl>(
      transport, std::move(owner), std::move(rendezvous), std::move(options)));
}

} // namespace cleave::rt
