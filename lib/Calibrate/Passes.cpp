//===- Passes.cpp - Times of attention, passes over memory and functions -------===//

#include "lib/Calibrate/Bench.h"
#include "lib/Calibrate/Kernels.h"
#include "runtime/Schema/TokenOrder.h"

namespace cleave::calibrate {

rt::Status measureAttention(Bench &bench, const Kernels &kernels) {
  bench.tell("attention");
  for (const AttentionKernels &kernel : kernels.attention) {
    const cpu::AttentionSizes &s = kernel.sizes;
    const auto queries = static_cast<size_t>(s.batch * s.sequence * s.kvHeads * s.group);
    const size_t wide = queries * static_cast<size_t>(s.headDim);
    const auto keys = static_cast<size_t>(s.batch * s.keyRows() * s.kvHeads * s.headDim);
    // Query, key, value, out, log-sum-exp, out's gradient, those of query, key, value.
    std::vector<std::vector<float>> buffers;
    for (int i = 0; i < 9; ++i) {
      auto &buffer = buffers.emplace_back(i == 4                      ? queries
                                          : i == 1 || i == 2 || i > 6 ? keys
                                                                      : wide);
      for (size_t j = 0; j < buffer.size(); ++j)
        buffer[j] = static_cast<float>(j * 2654435761u % 2048) * 0.001f - 1.0f;
    }
    std::vector<std::vector<int32_t>> positions;
    if (s.hasPositions()) {
      const auto order = rt::zigzagOrder(s.keys, 2);
      for (int64_t rows : {s.sequence, s.keys}) {
        auto &all = positions.emplace_back();
        for (int64_t i = 0; i < s.batch * rows; ++i)
          all.push_back(static_cast<int32_t>(order[i % rows]));
      }
    }
    // What is read, positions, what is written.
    auto at = [&](std::initializer_list<int> reads, std::initializer_list<int> writes) {
      std::vector<void *> args;
      for (int i : reads)
        args.push_back(buffers[i].data());
      for (auto &all : positions)
        args.push_back(all.data());
      for (int i : writes)
        args.push_back(buffers[i].data());
      return args;
    };
    const std::vector<void *> args[3] = {at({0, 1, 2}, {3, 4}), at({0, 1, 2, 3, 4, 5}, {6}),
                                         at({0, 1, 2, 3, 4, 5}, {7, 8})};
    cost::Seconds times[3];
    for (int i = 0; i < 3; ++i) {
      CLEAVE_RT_ASSIGN_OR_RETURN(times[i], bench.time([&] {
        kernel.entries[i](args[i].data(), 0, kernel.extents[i]);
        return rt::Status::success();
      }));
    }
    bench.keep([&](Timings &t) {
      const auto width = static_cast<double>(s.headDim);
      const auto of = static_cast<double>(s.keyRows()), rows = static_cast<double>(queries);
      t.attention.push_back({width, of, rows, false, s.hasPositions(), times[0]});
      t.attention.push_back({width, of, rows, true, s.hasPositions(), times[1] + times[2]});
    });
  }
  return {};
}

/// From piece to piece: prime, so that all are met.
static constexpr int64_t kStride = 7919;

/// Times of a kernel over `arrays` arrays, at sizes from what a near cache holds on.
/// A call takes `piece` numbers, and the next one others somewhere else, as tensors lie.
static rt::StatusOr<std::vector<PassTiming>> sweep(Bench &bench, Entry entry, int arrays,
                                                   double bytesOfNumber, int64_t piece) {
  const int64_t largest = bench.options.quick ? int64_t(1) << 18 : Kernels::kNumbers / arrays;
  std::vector<Floats> memory;
  std::vector<void *> args;
  for (int i = 0; i < arrays; ++i) {
    CLEAVE_RT_ASSIGN_OR_RETURN(Floats array, Floats::make(static_cast<size_t>(largest)));
    args.push_back(array.data());
    memory.push_back(std::move(array));
  }
  std::vector<PassTiming> out;
  for (int64_t numbers = int64_t(1) << 12; numbers <= largest; numbers *= 4) {
    CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Seconds time, bench.time([&] {
      const int64_t pieces = std::max<int64_t>(1, numbers / piece);
      for (int64_t i = 0; i < pieces; ++i) {
        const int64_t at = i * kStride % pieces * piece;
        entry(args.data(), at, std::min(numbers, at + piece));
      }
      return rt::Status::success();
    }));
    out.push_back({cost::Bytes(bytesOfNumber * static_cast<double>(numbers)), time});
  }
  return out;
}

rt::Status measurePasses(Bench &bench, const Kernels &kernels) {
  bench.tell("passes over memory, update");
  CLEAVE_RT_ASSIGN_OR_RETURN(const auto streams,
                             sweep(bench, kernels.stream, 3, 12, Kernels::kNumbers));
  CLEAVE_RT_ASSIGN_OR_RETURN(const auto updates, sweep(bench, kernels.update, 4, 28, 8192));
  bench.keep([&](Timings &t) {
    t.streams = streams;
    t.updates = updates;
  });
  return {};
}

rt::Status measureFunctions(Bench &bench, const Kernels &kernels) {
  bench.tell("functions of numbers in cache");
  constexpr int64_t few = 2048;
  std::vector<float> from(few, 0.7f), at(few, 3.0f), table(few, 0.3f), to(few);
  void *const one[] = {from.data(), to.data()};
  void *const rows[] = {from.data(), at.data(), table.data(), to.data()};
  auto timeOf = [&](Entry entry, int64_t extent, void *const *args) {
    return bench.time([&] {
      entry(args, 0, extent);
      return rt::Status::success();
    });
  };
  cost::Seconds plain;
  for (const FunctionKernel &function : kernels.functions) {
    CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Seconds all, timeOf(function.entry, few, one));
    const cost::Seconds time = all / few;
    if (plain == cost::Seconds())
      plain = time;
    else
      bench.keep([&](Timings &t) { t.functions.push_back({function.name, time, plain}); });
  }
  auto timeOfRows = [&](Entry entry, int64_t row) { return timeOf(entry, few / (2 * row), rows); };
  CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Seconds chains, timeOf(kernels.chains, few / 512, one));
  CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Seconds wide,
                             timeOfRows(kernels.longRows, Kernels::kLongRow));
  CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Seconds narrow,
                             timeOfRows(kernels.shortRows, Kernels::kShortRow));
  bench.keep([&](Timings &t) {
    constexpr double work = double(Kernels::kRowOperations) * few;
    t.multiplyAdds = cost::OperationsPerSecond(2. * Kernels::kMultiplyAdds * few / chains.value);
    t.vectors = cost::OperationsPerSecond(work / wide.value);
    t.scalars = cost::OperationsPerSecond(work / narrow.value);
    t.lanes = bench.options.profile.lanes;
  });
  return {};
}

} // namespace cleave::calibrate
