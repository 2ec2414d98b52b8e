// All ranks as threads of this process.
#include "runtime/Comm/Local/LocalWorld.h"

#include "runtime/Base/Machine.h"
#include "runtime/Comm/Local/LocalChannel.h"
#include "runtime/Comm/Local/RankThreads.h"

namespace cleave::rt {

namespace {

class LocalWorldImpl final : public LocalWorld {
public:
  explicit LocalWorldImpl(RanksHere here) : threads(std::move(here)) {}

  int size() const override { return threads.count(); }
  World &rank(int rank) override { return threads.rank(rank); }
  Status run(FunctionRef<Status(World &)> body) override { return threads.run(body); }

private:
  RankThreads threads;
};

} // namespace

StatusOr<std::unique_ptr<LocalWorld>> LocalWorld::create(const WorldPlan &plan,
                                                         LocalWorldOptions options) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const auto groups, checkedGroups(plan));
  CLEAVE_RT_RETURN_IF_ERROR(checkChannels(plan));
  const uint64_t ofRank = uint64_t{options.threadsPerRank} + (plan.groupsBeside.empty() ? 0 : 1);
  const uint64_t threads = ofRank * static_cast<uint64_t>(plan.ranks);
  const auto spin = options.spin.value_or(
      threads <= probeMachine().usableCores ? defaultSpin : std::chrono::nanoseconds(0));
  RanksHere here;
  here.ranks = here.count = plan.ranks;
  for (size_t lane = 0; lane < lanes; ++lane)
    for (const std::vector<int> &members : groups[lane])
      here.groups[lane].push_back(std::make_unique<LocalGroup>(members, spin));
  for (const ChannelPlan &channel : plan.channels)
    here.channels.push_back(std::make_unique<LocalChannel>(channel));
  return std::unique_ptr<LocalWorld>(std::make_unique<LocalWorldImpl>(std::move(here)));
}

} // namespace cleave::rt
