//===- Bench.h - One rank that takes times with the others -------------------===//
#pragma once

#include "cleave/Calibrate/Calibrate.h"
#include "runtime/Base/FunctionRef.h"
#include "runtime/Base/ZeroedMemory.h"
#include "runtime/Comm/Communicator.h"
#include "runtime/Device/CPU/Matmul.h"
#include <cstdint>
#include <fmt/format.h>
#include <vector>

namespace cleave::calibrate {

/// Kernels that were compiled for the measurements.
class Kernels;

/// A rank: does each measurement at the same time as all others, and keeps what came out if it is
/// the first one.
class Bench {
public:
  Bench(rt::World &world, rt::Communicator &all, const Options &options)
      : world(world), all(all), options(options), pool(1) {}

  /// From now on what is kept goes to `into` (null: nowhere), as of round `number`.
  void begin(Timings *into, int number) {
    timings = into;
    round = number;
  }

  rt::World &world;
  rt::Communicator &all;
  const Options &options;
  /// What compiles products is the same in all rounds, since that takes longer than to run them.
  rt::ThreadPool pool;
  rt::MatmulEngine wide{pool}, narrow{pool};

  /// The least time of `call` over the rounds, on the slowest rank.
  rt::StatusOr<cost::Seconds> time(rt::FunctionRef<rt::Status()> call);
  /// The same of an exchange, on the rank that comes last to it, a little later than the others:
  /// these have gone to sleep by then, as they have in a step. `prepare` is told whether it is that
  /// rank, and its time does not count.
  rt::StatusOr<cost::Seconds> timeLast(rt::FunctionRef<void(bool last)> prepare,
                                       rt::FunctionRef<rt::Status()> call);
  /// Keeps something, on the first rank.
  template <typename Keep> void keep(Keep keep) {
    if (timings)
      keep(*timings);
  }
  void tell(std::string_view family) const {
    if (timings && options.progress)
      options.progress(fmt::format("{} of {}: {}", round + 1, options.rounds, family));
  }

private:
  /// The least of rounds of `call`s, each of which says how long it took; `least` of them at once.
  rt::StatusOr<cost::Seconds> leastOf(rt::FunctionRef<rt::StatusOr<double>(int64_t calls)> round,
                                      int64_t least);

  Timings *timings = nullptr;
  int round = 0;
};

/// Numbers in memory as the runtime gives it to ranks.
class Floats {
public:
  static rt::StatusOr<Floats> make(size_t count);
  size_t size() const { return static_cast<size_t>(memory.size()) / sizeof(float); }
  float *data() const { return reinterpret_cast<float *>(memory.data()); }

private:
  rt::ZeroedMemory memory;
};

/// Memory that takes turns, so that what a call reads has left the nearest caches, as in a step.
class Turns {
public:
  /// Turns among `floats`; one that is larger is the same each time, up to `largest`.
  static rt::StatusOr<Turns> make(size_t floats, size_t largest = 0);
  /// A piece of so many floats, another one each time as far as there are.
  float *next(size_t floats) {
    const size_t aligned = (floats + 15) / 16 * 16;
    if (at + aligned > turn)
      at = 0;
    float *piece = memory.data() + at;
    at += aligned;
    return piece;
  }

private:
  Floats memory;
  size_t turn = 0, at = 0;
};

/// One family each.
rt::Status measureProducts(Bench &bench);
rt::Status measurePicked(Bench &bench);
rt::Status measureAttention(Bench &bench, const Kernels &kernels);
rt::Status measurePasses(Bench &bench, const Kernels &kernels);
rt::Status measureFunctions(Bench &bench, const Kernels &kernels);
rt::Status measureExchanges(Bench &bench);
rt::Status measureSends(Bench &bench);
rt::Status measureCommand(Bench &bench);

} // namespace cleave::calibrate
