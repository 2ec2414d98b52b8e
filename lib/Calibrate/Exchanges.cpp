//===- Exchanges.cpp - Times of what ranks send each other --------------------===//

#include "lib/Calibrate/Bench.h"
#include "runtime/Exec/Executor.h"
#include <algorithm>

namespace cleave::calibrate {

static std::vector<size_t> sizesOf(bool quick) {
  return quick ? std::vector<size_t>{1024, 65536}
               : std::vector<size_t>{256, 4096, 32768, 262144, 2097152, 16777216};
}

/// Numbers that the last rank writes between two exchanges, the others a part of them.
static constexpr size_t kBetween = size_t(1) << 17;

rt::Status measureExchanges(Bench &bench) {
  if (bench.all.size() < 2)
    return {};
  bench.tell("exchanges of ranks that are threads");
  const std::vector<size_t> sizes = sizesOf(bench.options.quick);
  const auto ranks = static_cast<size_t>(bench.all.size());
  CLEAVE_RT_ASSIGN_OR_RETURN(Turns other, Turns::make(16 * kBetween));
  CLEAVE_RT_ASSIGN_OR_RETURN(Turns from, Turns::make(sizes.back() / 2));
  CLEAVE_RT_ASSIGN_OR_RETURN(Turns to, Turns::make(sizes.back() / 2));
  for (size_t bytes : sizes) {
    float *sent = from.next(bytes / sizeof(float) + ranks);
    const size_t block = std::max<size_t>(1, bytes / sizeof(float) / ranks), all = block * ranks;
    // What is exchanged was just made, and not by all at the same moment.
    auto write = [&](bool isLast) {
      std::fill_n(sent, all, 1.0f);
      std::fill_n(other.next(kBetween), isLast ? kBetween : kBetween / 4, 1.0f);
    };
    auto keep = [&](cost::Exchange kind, cost::Seconds time) {
      bench.keep([&](Timings &t) {
        t.exchanges.push_back({kind, cost::Bytes(static_cast<double>(all * sizeof(float))), time});
      });
    };
    CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Seconds reduced, bench.timeLast(write, [&] {
      return bench.all.allReduce({sent, all}, rt::ReduceKind::Max);
    }));
    keep(cost::Exchange::AllReduce, reduced);
    CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Seconds gathered, bench.timeLast(write, [&] {
      return bench.all.allGather({sent, block}, {to.next(all), all});
    }));
    keep(cost::Exchange::AllGather, gathered);
    CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Seconds scattered, bench.timeLast(write, [&] {
      return bench.all.reduceScatter({sent, all}, {to.next(block), block}, rt::ReduceKind::Sum);
    }));
    keep(cost::Exchange::ReduceScatter, scattered);
    CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Seconds dealt, bench.timeLast(write, [&] {
      return bench.all.allToAll({sent, all}, {to.next(all), all});
    }));
    keep(cost::Exchange::AllToAll, dealt);
  }
  return {};
}

rt::Status measureSends(Bench &bench) {
  if (bench.all.size() < 2)
    return {};
  bench.tell("messages of ranks that are threads");
  const int self = bench.world.rank();
  rt::Channel *there = nullptr, *back = nullptr;
  if (self < 2) {
    CLEAVE_RT_ASSIGN_OR_RETURN(there, bench.world.channel({0, 1}));
    CLEAVE_RT_ASSIGN_OR_RETURN(back, bench.world.channel({1, 0}));
  }
  const std::vector<size_t> sizes = sizesOf(bench.options.quick);
  CLEAVE_RT_ASSIGN_OR_RETURN(Turns memory, Turns::make(sizes.back() / 2));
  CLEAVE_RT_ASSIGN_OR_RETURN(Turns other, Turns::make(16 * kBetween));
  for (size_t bytes : sizes) {
    const size_t floats = bytes / sizeof(float);
    // Who begins is the one that comes last: the other has long waited, and sleeps.
    int64_t call = -1;
    auto prepare = [&](bool begins) {
      ++call;
      std::fill_n(other.next(kBetween), begins ? kBetween : kBetween / 4, 1.0f);
    };
    auto thereAndBack = [&]() -> rt::Status {
      const auto first = static_cast<int>(call % bench.all.size());
      if (self > 1 || first > 1)
        return {};
      const std::span<float> out(memory.next(floats), floats), in(memory.next(floats), floats);
      const std::span<const float> sent[] = {out};
      const std::span<float> received[] = {in};
      rt::Channel *sends = self == 0 ? there : back, *receives = self == 0 ? back : there;
      if (self == first)
        CLEAVE_RT_RETURN_IF_ERROR(sends->send(sent, "calibration"));
      CLEAVE_RT_RETURN_IF_ERROR(receives->receive(received, "calibration"));
      return self == first ? rt::Status() : sends->send(sent, "calibration");
    };
    CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Seconds time, bench.timeLast(prepare, thereAndBack));
    bench.keep([&](Timings &t) {
      t.sends.push_back({cost::Bytes(static_cast<double>(bytes)), time / 2});
    });
  }
  return {};
}

rt::Status measureCommand(Bench &bench) {
  bench.tell("commands");
  constexpr int64_t commands = 1000;
  rt::Program program;
  program.mesh.axes = {{"data", 1}};
  program.segments = {{"io", 64}, {"arena", 1 << 16}};
  program.exchange.tokens = program.exchange.targets = {0, 0, 4};
  program.exchange.loss = {0, 8, 4};
  program.batch.globalBatch = 1;
  for (int64_t i = 0; i < commands; ++i)
    program.entry(rt::EntryKind::Update)
        .push_back({rt::ZeroCommand{{1, i * 64, 64}}, "command", 0, 0});
  rt::ThreadPool pool(1);
  CLEAVE_RT_ASSIGN_OR_RETURN(auto executor, rt::Executor::create(program, 0, {}, pool, {}));
  CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Seconds time,
                             bench.time([&] { return executor->run(rt::EntryKind::Update); }));
  bench.keep([&](Timings &t) { t.command = time / commands; });
  return {};
}

} // namespace cleave::calibrate
