// Views, communicators and threads of the ranks of a process.
#include "runtime/Comm/Local/RankThreads.h"

#include "runtime/Base/Uncaught.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <numeric>
#include <set>
#include <thread>

namespace cleave::rt {

void RankPosition::begin(Lane lane, const char *what, std::string_view purpose) {
  Place &place = places[static_cast<size_t>(lane)];
  // Nobody else writes it.
  if (place.purpose == purpose) {
    place.collective.store(what, std::memory_order_relaxed);
  } else {
    const std::lock_guard<std::mutex> lock(mutex);
    place.collective.store(what, std::memory_order_relaxed);
    place.purpose = purpose;
  }
  place.begun.store(place.begun.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void RankPosition::end(Lane lane) {
  Place &place = places[static_cast<size_t>(lane)];
  place.ended.store(place.begun.load(std::memory_order_relaxed), std::memory_order_release);
}

uint64_t RankPosition::progress() const {
  uint64_t sum = 0;
  for (const Place &place : places)
    sum +=
        place.begun.load(std::memory_order_acquire) + place.ended.load(std::memory_order_acquire);
  return sum;
}

bool RankPosition::isWaiting() const {
  const Place &place = places[static_cast<size_t>(awaiting ? Lane::Beside : Lane::Main)];
  return place.ended.load(std::memory_order_acquire) != place.begun.load(std::memory_order_acquire);
}

std::string RankPosition::collectiveText() const {
  const std::lock_guard<std::mutex> lock(mutex);
  const Place &place = places[static_cast<size_t>(awaiting ? Lane::Beside : Lane::Main)];
  const char *collective = place.collective.load(std::memory_order_relaxed);
  if (!collective)
    return {};
  return fmt::format("{}{}{}", collective, place.purpose.empty() ? "" : " of ", place.purpose);
}

/// One rank's place in one group.
class RankThreads::GroupCommunicator final : public Communicator {
public:
  GroupCommunicator(LocalGroup &group, Lane lane, RankThreads &owner, RankPosition &position,
                    size_t here)
      : Communicator(group.members(), placeOf(group, here)), group(group), lane(lane), owner(owner),
        position(position), here(here) {}

  Status allReduce(std::span<float> data, ReduceKind kind) override {
    return perform({CollectiveKind::AllReduce, kind, data.data(), data.data(), data.size(), 0});
  }

  Status allGather(std::span<const float> send, std::span<float> receive) override {
    CLEAVE_RT_RETURN_IF_ERROR(checkBlocks(CollectiveKind::AllGather, receive.size(), send.size()));
    return perform({CollectiveKind::AllGather, ReduceKind::Sum, send.data(), receive.data(),
                    receive.size(), 0});
  }

  Status reduceScatter(std::span<const float> send, std::span<float> receive,
                       ReduceKind kind) override {
    CLEAVE_RT_RETURN_IF_ERROR(
        checkBlocks(CollectiveKind::ReduceScatter, send.size(), receive.size()));
    return perform(
        {CollectiveKind::ReduceScatter, kind, send.data(), receive.data(), send.size(), 0});
  }

  Status allToAll(std::span<const float> send, std::span<float> receive) override {
    const auto ranks = static_cast<size_t>(size());
    CLEAVE_RT_RETURN_IF_ERROR(
        checkBlocks(CollectiveKind::AllToAll, send.size(), send.size() / ranks));
    CLEAVE_RT_RETURN_IF_ERROR(
        checkBlocks(CollectiveKind::AllToAll, send.size(), receive.size() / ranks));
    return perform(
        {CollectiveKind::AllToAll, ReduceKind::Sum, send.data(), receive.data(), send.size(), 0});
  }

  Status exchange(CollectiveKind kind, ReduceKind reduction,
                  std::span<const MessagePart> parts) override {
    const bool isGather = kind == CollectiveKind::AllGather;
    if (parts.empty() ||
        (!isGather && kind != CollectiveKind::AllReduce && kind != CollectiveKind::ReduceScatter))
      return fail(kind, "no message of several parts");
    std::vector<LocalCall> calls;
    for (const MessagePart &part : parts) {
      const auto &whole = isGather ? std::span<const float>(part.receive) : part.send;
      const auto &block = isGather ? part.send : std::span<const float>(part.receive);
      if (kind != CollectiveKind::AllReduce)
        CLEAVE_RT_RETURN_IF_ERROR(checkBlocks(kind, whole.size(), block.size()));
      else if (part.send.data() != part.receive.data() || whole.size() != block.size())
        return fail(kind, "a sum that is not in place");
      calls.push_back({kind, reduction, part.send.data(), part.receive.data(), whole.size(), 0});
    }
    return performParts(calls);
  }

  Status broadcast(std::span<float> data, int root) override {
    if (root < 0 || root >= size())
      return fail(CollectiveKind::Broadcast, fmt::format("root {} of {} ranks", root, size()));
    return perform(
        {CollectiveKind::Broadcast, ReduceKind::Sum, data.data(), data.data(), data.size(), root});
  }

  Status barrier() override { return perform({}); }

private:
  static int placeOf(const LocalGroup &group, size_t here) {
    const auto found = std::ranges::find(group.members(), group.membersHere()[here]);
    return static_cast<int>(found - group.members().begin());
  }

  Status perform(const LocalCall &call) { return performParts({&call, 1}); }

  Status performParts(std::span<const LocalCall> parts) {
    const LocalCall &call = parts.front();
    Status failure;
    position.begin(lane, nameOf(call.collective), purpose());
    const LocalGroup::Outcome outcome = group.perform(here, parts, failure);
    position.end(lane);
    if (outcome == LocalGroup::Outcome::Broken)
      return owner.endOf(members()[static_cast<size_t>(rank())],
                         fmt::format("a rank of [{}] ended while others waited for it in {}",
                                     fmt::join(members(), ", "), nameOf(call.collective)));
    if (!failure.ok())
      return end(failure.error());
    size_t floats = 0;
    for (const LocalCall &part : parts)
      floats += part.count;
    count(call.collective, floats);
    return Status::success();
  }

  Status checkBlocks(CollectiveKind kind, size_t whole, size_t block) {
    if (whole == block * static_cast<size_t>(size()))
      return Status::success();
    return fail(kind, fmt::format("{} floats for {} blocks of {}", whole, size(), block));
  }

  /// A call that makes no sense ends the run: the others would wait for it.
  Status fail(CollectiveKind kind, std::string what) {
    Error error = internalError(fmt::format("{}: {}", nameOf(kind), what));
    error.kind = "comm.mismatch";
    return end(std::move(error));
  }

  Status end(Error error) {
    owner.fail(members()[static_cast<size_t>(rank())], std::move(error));
    return owner.firstError();
  }

  LocalGroup &group;
  const Lane lane;
  RankThreads &owner;
  RankPosition &position;
  const size_t here;
};

/// One rank's end of a channel.
class RankThreads::ChannelEnd final : public Channel {
public:
  ChannelEnd(RankChannel &channel, RankThreads &owner, RankPosition &position, int rank)
      : Channel(channel.key(), channel.key().from == rank), channel(channel), owner(owner),
        position(position), rank(rank),
        other(fmt::format("{} {} rank {}", nameOf(key().kind), sends() ? "to" : "from",
                          sends() ? key().to : key().from)) {}

  Status send(std::span<const std::span<const float>> pieces, std::string_view purpose) override {
    if (!sends())
      return misused("sends");
    return perform("send", floatsOf(pieces), purpose,
                   [&](Status &failure) { return channel.send(pieces, failure); });
  }

  Status receive(std::span<const std::span<float>> pieces, std::string_view purpose) override {
    if (sends())
      return misused("receives");
    return perform("receive", floatsOf(pieces), purpose,
                   [&](Status &failure) { return channel.receive(pieces, failure); });
  }

private:
  Status perform(const char *what, size_t floats, std::string_view purpose,
                 FunctionRef<RankChannel::Outcome(Status &)> transfer) {
    Status failure;
    position.begin(Lane::Main, what,
                   purpose.empty() ? other : fmt::format("{}, {}", other, purpose));
    const RankChannel::Outcome outcome = transfer(failure);
    position.end(Lane::Main);
    if (outcome == RankChannel::Outcome::Broken)
      return owner.endOf(rank, fmt::format("a rank ended while rank {} waited for it in {} of {}",
                                           rank, what, other));
    if (!failure.ok()) {
      owner.fail(rank, failure.error());
      return owner.firstError();
    }
    count(floats);
    return {};
  }

  Status misused(const char *verb) {
    Error error = internalError(
        fmt::format("rank {} {} at the wrong end of a channel: {}", rank, verb, other));
    error.kind = "comm.mismatch";
    owner.fail(rank, std::move(error));
    return owner.firstError();
  }

  RankChannel &channel;
  RankThreads &owner;
  RankPosition &position;
  const int rank;
  /// "activations to rank 3".
  const std::string other;
};

Status RankThreads::endOf(int rank, const std::string &lost) {
  if (const Status first = firstError(); !first.ok())
    return first;
  // Nobody failed, so another rank has ended its work without this call.
  Error left = internalError(lost);
  left.kind = "comm.rank_left";
  fail(rank, std::move(left));
  return firstError();
}

/// One rank's view of the world.
class RankThreads::HostedRank final : public World {
public:
  HostedRank(RankThreads &owner, int rank) : owner(owner), self(rank) {
    for (const auto &channel : owner.here.channels)
      if (channel->key().from == rank || channel->key().to == rank)
        channels.emplace(channel->key(),
                         std::make_unique<ChannelEnd>(*channel, owner, position, rank));
    for (Lane lane : {Lane::Main, Lane::Beside})
      for (const auto &group : owner.here.groups[static_cast<size_t>(lane)])
        addGroup(*group, lane);
  }

  int rank() const override { return self; }
  int size() const override { return owner.here.ranks; }
  bool leadsProcess() const override { return self == owner.here.first; }
  bool isOneProcess() const override { return owner.count() == owner.here.ranks; }
  void enterStep(uint64_t step) override { position.step = step; }

  void awaitBeside(bool waits) override { position.awaiting = waits; }

  StatusOr<Communicator *> group(const std::vector<int> &members, Lane lane) override {
    const auto found = communicators.find({lane, members});
    if (found != communicators.end())
      return static_cast<Communicator *>(found->second.get());
    Error error =
        internalError(fmt::format("no group [{}] on rank {}", fmt::join(members, ", "), self));
    error.kind = "comm.unknown_group";
    return error;
  }

  StatusOr<Channel *> channel(const ChannelKey &key) override {
    const auto found = channels.find(key);
    if (found != channels.end())
      return static_cast<Channel *>(found->second.get());
    Error error = internalError(fmt::format("no channel for {} from rank {} to rank {} on rank {}",
                                            nameOf(key.kind), key.from, key.to, self));
    error.kind = "comm.unknown_channel";
    return error;
  }

  void abort(Error error) override { owner.fail(self, std::move(error)); }
  Status firstError() const override { return owner.firstError(); }

  RankPosition position;

private:
  void addGroup(LocalGroup &group, Lane lane) {
    const auto here = group.membersHere();
    const auto place = std::ranges::find(here, self);
    if (place != here.end())
      communicators.emplace(
          std::pair(lane, group.members()),
          std::make_unique<GroupCommunicator>(group, lane, owner, position,
                                              static_cast<size_t>(place - here.begin())));
  }

  RankThreads &owner;
  int self;
  std::map<std::pair<Lane, std::vector<int>>, std::unique_ptr<GroupCommunicator>> communicators;
  std::map<ChannelKey, std::unique_ptr<ChannelEnd>> channels;
};

RankThreads::RankThreads(RanksHere given, OnError onError)
    : here(std::move(given)), onError(std::move(onError)) {
  for (int rank = here.first; rank < here.first + here.count; ++rank)
    views.push_back(std::make_unique<HostedRank>(*this, rank));
}

RankThreads::~RankThreads() = default;

World &RankThreads::rank(int rank) { return *views[static_cast<size_t>(rank - here.first)]; }

const RankPosition &RankThreads::position(int rank) const {
  return views[static_cast<size_t>(rank - here.first)]->position;
}

Status RankThreads::firstError() const {
  const std::lock_guard<std::mutex> lock(mutex);
  return failure;
}

void RankThreads::end(Error error) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (failure.ok())
      failure = std::move(error);
  }
  breakGroups([](const LocalGroup &) { return true; });
  for (const auto &channel : here.channels)
    channel->breakUp();
}

void RankThreads::fail(int rank, Error error) {
  // What comes back from a call that another rank's error ended is no news.
  if (!firstError().ok())
    return end(std::move(error));
  if (onError)
    onError(rank, std::move(error));
  else
    end(std::move(error).note(fmt::format("the first failure was on rank {}", rank)));
}

Status RankThreads::run(FunctionRef<Status(World &)> body) {
  std::vector<std::thread> threads;
  try {
    for (int rank = here.first + 1; rank < here.first + count(); ++rank)
      threads.emplace_back([this, rank, body] { runRank(rank, body); });
  } catch (...) {
    // Those that run wait for the ones that there is no thread for.
    fail(here.first + 1 + static_cast<int>(threads.size()),
         errorOf(std::current_exception(), "the start of a rank"));
  }
  runRank(here.first, body);
  for (std::thread &thread : threads)
    thread.join();
  for (const auto &channel : here.channels) {
    CLEAVE_RT_RETURN_IF_ERROR(firstError());
    if (const Status status = channel->finish(); !status.ok())
      fail(channel->key().from, status.error());
  }
  return firstError();
}

static Status guarded(FunctionRef<Status(World &)> body, World &world) {
  try {
    return body(world);
  } catch (...) {
    return errorOf(std::current_exception(), "a rank");
  }
}

void RankThreads::runRank(int rank, FunctionRef<Status(World &)> body) {
  const Status status = guarded(body, this->rank(rank));
  if (!status.ok())
    fail(rank, status.error());
  views[static_cast<size_t>(rank - here.first)]->position.left = true;
  if (status.ok())
    leave(rank);
}

/// A rank that has ended can't take part any more: whoever still waits for it
/// here is woken.
void RankThreads::leave(int rank) {
  for (const auto &channel : here.channels)
    channel->leave(rank);
  breakGroups([rank](const LocalGroup &group) {
    return std::ranges::find(group.members(), rank) != group.members().end();
  });
}

void RankThreads::breakGroups(FunctionRef<bool(const LocalGroup &)> which) {
  for (const auto &ofLane : here.groups)
    for (const auto &group : ofLane)
      if (which(*group))
        group->breakUp();
}

std::vector<int> everyRank(int ranks) {
  std::vector<int> everyone(static_cast<size_t>(ranks));
  std::iota(everyone.begin(), everyone.end(), 0);
  return everyone;
}

/// Adds `groups` to `list`, where they are not there yet.
static Status addChecked(int ranks, const std::vector<std::vector<int>> &groups,
                         std::vector<std::vector<int>> &list) {
  for (const std::vector<int> &members : groups) {
    std::vector<int> sorted = members;
    std::ranges::sort(sorted);
    const bool twice = std::ranges::adjacent_find(sorted) != sorted.end();
    if (sorted.empty() || twice || sorted.front() < 0 || sorted.back() >= ranks) {
      Error error = internalError(
          fmt::format("[{}] is no group of {} ranks", fmt::join(members, ", "), ranks));
      error.kind = "comm.bad_group";
      return error;
    }
    if (std::ranges::find(list, members) == list.end())
      list.push_back(members);
  }
  return {};
}

StatusOr<std::array<std::vector<std::vector<int>>, lanes>> checkedGroups(const WorldPlan &plan) {
  if (plan.ranks < 1)
    return userError("comm.bad_group", fmt::format("a run of {} ranks", plan.ranks));
  std::array<std::vector<std::vector<int>>, lanes> all;
  auto &[main, beside] = all;
  main.push_back(everyRank(plan.ranks));
  CLEAVE_RT_RETURN_IF_ERROR(addChecked(plan.ranks, plan.groups, main));
  CLEAVE_RT_RETURN_IF_ERROR(addChecked(plan.ranks, plan.groupsBeside, beside));
  return all;
}

Status checkChannels(const WorldPlan &plan) {
  std::set<ChannelKey> keys;
  for (const ChannelPlan &channel : plan.channels) {
    const ChannelKey &key = channel.key;
    auto isRank = [&](int rank) { return rank >= 0 && rank < plan.ranks; };
    if (isRank(key.from) && isRank(key.to) && key.from != key.to && channel.buffers >= 1 &&
        keys.insert(key).second)
      continue;
    Error error = internalError(fmt::format(
        "a channel for {} from rank {} to rank {} of {} with {} buffers is none, or there twice",
        nameOf(key.kind), key.from, key.to, plan.ranks, channel.buffers));
    error.kind = "comm.bad_channel";
    return error;
  }
  return {};
}

} // namespace cleave::rt
