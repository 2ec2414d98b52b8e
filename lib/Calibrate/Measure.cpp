//===- Measure.cpp - All families, on all cores at once ------------------------===//

#include "cleave/Calibrate/OtherWork.h"
#include "lib/Calibrate/Bench.h"
#include "lib/Calibrate/Kernels.h"
#include "runtime/Comm/Local/LocalWorld.h"
#include <chrono>
#include <limits>
#include <numeric>
#include <span>
#include <thread>

namespace cleave::calibrate {

/// Rounds behind each other; the others come when everything else was measured, so that what slows
/// the machine down for seconds is not in all of them.
static constexpr int kRoundsAtOnce = 2;
/// So long nothing is done, to see what others do: the kernel counts in hundredths of a second.
static constexpr std::chrono::milliseconds kLookAround{300};

rt::StatusOr<Floats> Floats::make(size_t count) {
  Floats floats;
  CLEAVE_RT_ASSIGN_OR_RETURN(
      floats.memory,
      rt::ZeroedMemory::allocate(static_cast<int64_t>(count * sizeof(float)), "measurements"));
  std::fill_n(floats.data(), count, 0.5f);
  return floats;
}

rt::StatusOr<Turns> Turns::make(size_t floats, size_t largest) {
  Turns turns;
  CLEAVE_RT_ASSIGN_OR_RETURN(turns.memory, Floats::make(std::max(floats, largest)));
  turns.turn = floats;
  return turns;
}

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

rt::StatusOr<cost::Seconds>
Bench::leastOf(rt::FunctionRef<rt::StatusOr<double>(int64_t calls)> round, int64_t least) {
  // All ranks make as many calls, for these may wait for each other.
  auto slowest = [&](double seconds) -> rt::StatusOr<double> {
    float value = static_cast<float>(seconds);
    CLEAVE_RT_RETURN_IF_ERROR(all.allReduce({&value, 1}, rt::ReduceKind::Max));
    return static_cast<double>(value);
  };
  CLEAVE_RT_RETURN_IF_ERROR(round(least).status());
  CLEAVE_RT_ASSIGN_OR_RETURN(const double once, round(least));
  CLEAVE_RT_ASSIGN_OR_RETURN(const double estimate, slowest(once));
  const double wanted = std::ceil(options.round.value / std::max(estimate, 1e-9));
  const auto calls = static_cast<int64_t>(std::clamp(wanted, double(least), 1e6));
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < kRoundsAtOnce; ++i) {
    CLEAVE_RT_RETURN_IF_ERROR(all.barrier());
    CLEAVE_RT_ASSIGN_OR_RETURN(const double seconds, round(calls));
    best = std::min(best, seconds);
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(const double result, slowest(best));
  return cost::Seconds(result);
}

rt::StatusOr<cost::Seconds> Bench::time(rt::FunctionRef<rt::Status()> call) {
  return leastOf(
      [&](int64_t calls) -> rt::StatusOr<double> {
        const double start = now();
        for (int64_t i = 0; i < calls; ++i)
          CLEAVE_RT_RETURN_IF_ERROR(call());
        return (now() - start) / static_cast<double>(calls);
      },
      1);
}

rt::StatusOr<cost::Seconds> Bench::timeLast(rt::FunctionRef<void(bool last)> prepare,
                                            rt::FunctionRef<rt::Status()> call) {
  return leastOf(
      [&](int64_t calls) -> rt::StatusOr<double> {
        double sum = 0;
        int64_t counted = 0;
        for (int64_t i = 0; i < calls; ++i) {
          const bool isLast = i % all.size() == all.rank();
          prepare(isLast);
          const double start = now();
          CLEAVE_RT_RETURN_IF_ERROR(call());
          sum += isLast ? now() - start : 0;
          counted += isLast;
        }
        return sum / static_cast<double>(counted);
      },
      4 * all.size());
}

static rt::Status measureAll(Bench &bench, const Kernels &kernels) {
  CLEAVE_RT_RETURN_IF_ERROR(measureProducts(bench));
  CLEAVE_RT_RETURN_IF_ERROR(measurePicked(bench));
  CLEAVE_RT_RETURN_IF_ERROR(measureAttention(bench, kernels));
  CLEAVE_RT_RETURN_IF_ERROR(measurePasses(bench, kernels));
  CLEAVE_RT_RETURN_IF_ERROR(measureFunctions(bench, kernels));
  CLEAVE_RT_RETURN_IF_ERROR(measureExchanges(bench));
  CLEAVE_RT_RETURN_IF_ERROR(measureSends(bench));
  return measureCommand(bench);
}

/// Of each measurement the faster one; both have the same.
static void takeFaster(Timings &timings, const Timings &more) {
  auto least = [](auto &to, const auto &from) {
    for (size_t i = 0; i < to.size(); ++i)
      to[i].time = std::min(to[i].time, from[i].time);
  };
  least(timings.products, more.products);
  least(timings.nearProducts, more.nearProducts);
  least(timings.attention, more.attention);
  least(timings.streams, more.streams);
  least(timings.updates, more.updates);
  least(timings.functions, more.functions);
  least(timings.exchanges, more.exchanges);
  least(timings.sends, more.sends);
  for (size_t i = 0; i < timings.functions.size(); ++i)
    timings.functions[i].plain = std::min(timings.functions[i].plain, more.functions[i].plain);
  timings.multiplyAdds = std::max(timings.multiplyAdds, more.multiplyAdds);
  timings.vectors = std::max(timings.vectors, more.vectors);
  timings.scalars = std::max(timings.scalars, more.scalars);
  timings.command = std::min(timings.command, more.command);
}

rt::StatusOr<Timings> measure(const Options &options) {
  if (options.progress)
    options.progress("kernels are compiled");
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::unique_ptr<Kernels> kernels, Kernels::compile(options));
  rt::WorldPlan plan;
  plan.ranks = options.ranks;
  if (options.ranks > 1)
    plan.channels = {{{0, 1}}, {{1, 0}}};
  std::vector<int> everyone(options.ranks);
  std::iota(everyone.begin(), everyone.end(), 0);
  CLEAVE_RT_ASSIGN_OR_RETURN(const auto world, rt::LocalWorld::create(plan));
  Quiet quiet;
  {
    const OtherWork others;
    std::this_thread::sleep_for(kLookAround);
    quiet.before = others.share();
  }
  const OtherWork others;
  std::vector<Timings> rounds;
  CLEAVE_RT_RETURN_IF_ERROR(world->run([&](rt::World &self) -> rt::Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(rt::Communicator * all, self.group(everyone));
    Bench bench(self, *all, options);
    for (int round = 0; round < options.rounds; ++round) {
      Timings these;
      these.ranks = options.ranks;
      bench.begin(self.rank() == 0 ? &these : nullptr, round);
      CLEAVE_RT_RETURN_IF_ERROR(measureAll(bench, *kernels));
      if (self.rank() == 0)
        rounds.push_back(std::move(these));
    }
    return {};
  }));
  quiet.during = others.share();
  quiet.spread = spreadOf(rounds);
  Timings timings = rounds.front();
  for (const Timings &more : std::span(rounds).subspan(1))
    takeFaster(timings, more);
  timings.quiet = quiet;
  return timings;
}

} // namespace cleave::calibrate
