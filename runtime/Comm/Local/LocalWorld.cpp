// All ranks as threads of this process.
#include "runtime/Comm/Local/LocalWorld.h"

#include "runtime/Base/Machine.h"
#include "runtime/Comm/Local/RankThreads.h"

namespace cleave::rt {

namespace {

class LocalWorldImpl final : public LocalWorld {
public:
  LocalWorldImpl(int ranks, std::vector<std::unique_ptr<LocalGroup>> groups)
      : threads(ranks, 0, ranks, std::move(groups)) {}

  int size() const override { return threads.count(); }
  World &rank(int rank) override { return threads.rank(rank); }
  Status run(FunctionRef<Status(World &)> body) override { return threads.run(body); }

private:
  RankThreads threads;
};

} // namespace

StatusOr<std::unique_ptr<LocalWorld>>
LocalWorld::create(int ranks, const std::vector<std::vector<int>> &groups,
                   LocalWorldOptions options) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const auto all, checkedGroups(ranks, groups));
  const uint64_t threads = uint64_t{options.threadsPerRank} * static_cast<uint64_t>(ranks);
  const auto spin = options.spin.value_or(
      threads <= probeMachine().usableCores ? defaultSpin : std::chrono::nanoseconds(0));
  std::vector<std::unique_ptr<LocalGroup>> made;
  for (const std::vector<int> &members : all)
    made.push_back(std::make_unique<LocalGroup>(members, spin));
  return std::unique_ptr<LocalWorld>(std::make_unique<LocalWorldImpl>(ranks, std::move(made)));
}

} // namespace cleave::rt
