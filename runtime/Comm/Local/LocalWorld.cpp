// The world of local ranks: groups, first error, threads.
#include "runtime/Comm/Local/LocalWorld.h"

#include "runtime/Base/Machine.h"
#include "runtime/Comm/Local/LocalGroup.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

namespace cleave::rt {

namespace {

/// What all ranks share.
struct SharedState {
  std::vector<std::unique_ptr<LocalGroup>> groups;
  mutable std::mutex mutex;
  Status first; // guarded by mutex

  Status firstError() const {
    const std::lock_guard<std::mutex> lock(mutex);
    return first;
  }

  void abort(int rank, Error error) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (first.ok())
        first = std::move(error).note(fmt::format("the first failure was on rank {}", rank));
    }
    for (const auto &group : groups)
      group->breakUp();
  }
};

class LocalCommunicator final : public Communicator {
public:
  LocalCommunicator(LocalGroup &group, SharedState &shared, int rank)
      : Communicator(group.members(), rank), group(group), shared(shared) {}

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

  Status broadcast(std::span<float> data, int root) override {
    if (root < 0 || root >= size())
      return fail(CollectiveKind::Broadcast, fmt::format("root {} of {} ranks", root, size()));
    return perform(
        {CollectiveKind::Broadcast, ReduceKind::Sum, data.data(), data.data(), data.size(), root});
  }

  Status barrier() override { return perform({}); }

private:
  Status perform(const LocalCall &call) {
    std::optional<Error> mismatch;
    if (group.perform(rank(), call, mismatch) == LocalGroup::Outcome::Broken) {
      if (const Status first = shared.firstError(); !first.ok())
        return first;
      // Nobody failed, so a member has ended its work without this call.
      Error left =
          internalError(fmt::format("a rank of [{}] ended while others waited for it in {}",
                                    fmt::join(members(), ", "), nameOf(call.collective)));
      left.kind = "comm.rank_left";
      return end(std::move(left));
    }
    if (mismatch)
      return end(std::move(*mismatch));
    count(call.collective, call.count);
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
    shared.abort(members()[static_cast<size_t>(rank())], std::move(error));
    return shared.firstError();
  }

  LocalGroup &group;
  SharedState &shared;
};

class LocalRank final : public World {
public:
  LocalRank(SharedState &shared, int rank, int size) : shared(shared), self(rank), ranks(size) {
    for (const auto &group : shared.groups) {
      const auto &members = group->members();
      const auto place = std::ranges::find(members, rank);
      if (place != members.end())
        communicators.emplace(members,
                              std::make_unique<LocalCommunicator>(
                                  *group, shared, static_cast<int>(place - members.begin())));
    }
  }

  int rank() const override { return self; }
  int size() const override { return ranks; }

  StatusOr<Communicator *> group(const std::vector<int> &members) override {
    const auto found = communicators.find(members);
    if (found != communicators.end())
      return static_cast<Communicator *>(found->second.get());
    Error error =
        internalError(fmt::format("no group [{}] on rank {}", fmt::join(members, ", "), self));
    error.kind = "comm.unknown_group";
    return error;
  }

  void abort(Error error) override { shared.abort(self, std::move(error)); }
  Status firstError() const override { return shared.firstError(); }

private:
  SharedState &shared;
  int self;
  int ranks;
  std::map<std::vector<int>, std::unique_ptr<LocalCommunicator>> communicators;
};

Status checkGroup(const std::vector<int> &members, int ranks) {
  std::vector<int> sorted = members;
  std::ranges::sort(sorted);
  const bool twice = std::ranges::adjacent_find(sorted) != sorted.end();
  if (!sorted.empty() && !twice && sorted.front() >= 0 && sorted.back() < ranks)
    return Status::success();
  Error error =
      internalError(fmt::format("[{}] is no group of {} ranks", fmt::join(members, ", "), ranks));
  error.kind = "comm.bad_group";
  return error;
}

class LocalWorldImpl final : public LocalWorld {
public:
  LocalWorldImpl(int ranks, const std::vector<std::vector<int>> &groups,
                 std::chrono::nanoseconds spin) {
    for (const std::vector<int> &members : groups)
      shared.groups.push_back(std::make_unique<LocalGroup>(members, spin));
    for (int rank = 0; rank < ranks; ++rank)
      views.push_back(std::make_unique<LocalRank>(shared, rank, ranks));
  }

  int size() const override { return static_cast<int>(views.size()); }
  World &rank(int rank) override { return *views[static_cast<size_t>(rank)]; }

  Status run(FunctionRef<Status(World &)> body) override {
    std::vector<std::thread> threads;
    for (int rank = 1; rank < size(); ++rank)
      threads.emplace_back([this, rank, body] { runRank(rank, body); });
    runRank(0, body);
    for (std::thread &thread : threads)
      thread.join();
    return shared.firstError();
  }

private:
  static Status guarded(FunctionRef<Status(World &)> body, World &world) {
    try {
      return body(world);
    } catch (const std::exception &exception) {
      return internalError(std::string("a rank threw: ") + exception.what());
    } catch (...) {
      return internalError("a rank threw an unknown exception");
    }
  }

  void runRank(int rank, FunctionRef<Status(World &)> body) {
    const Status status = guarded(body, this->rank(rank));
    if (!status.ok())
      shared.abort(rank, status.error());
    else
      leave(rank);
  }

  /// A rank that has ended can't take part any more: whoever still waits for it
  /// is woken.
  void leave(int rank) {
    for (const auto &group : shared.groups)
      if (std::ranges::find(group->members(), rank) != group->members().end())
        group->breakUp();
  }

  SharedState shared;
  std::vector<std::unique_ptr<LocalRank>> views;
};

} // namespace

StatusOr<std::unique_ptr<LocalWorld>>
LocalWorld::create(int ranks, const std::vector<std::vector<int>> &groups,
                   LocalWorldOptions options) {
  if (ranks < 1)
    return userError("comm.bad_group", fmt::format("a run of {} ranks", ranks));
  std::vector<int> everyone(static_cast<size_t>(ranks));
  std::iota(everyone.begin(), everyone.end(), 0);
  std::vector<std::vector<int>> all{everyone};
  for (const std::vector<int> &members : groups) {
    CLEAVE_RT_RETURN_IF_ERROR(checkGroup(members, ranks));
    if (std::ranges::find(all, members) == all.end())
      all.push_back(members);
  }
  const uint64_t threads = uint64_t{options.threadsPerRank} * static_cast<uint64_t>(ranks);
  const auto spin = options.spin.value_or(
      threads <= probeMachine().usableCores ? defaultSpin : std::chrono::nanoseconds(0));
  return std::unique_ptr<LocalWorld>(std::make_unique<LocalWorldImpl>(ranks, all, spin));
}

} // namespace cleave::rt
