// Bandwidth of Local's collectives between ranks that are threads, by the protocol of
// ../shared/baselines/shm_allreduce.c, so that the two can be compared: before each timed
// operation every rank rewrites its whole buffer, after it every rank reads it, so that cache
// lines really cross cores. bench/collectives runs both.
//
//     bench-collectives [RANKS]
#include "runtime/Comm/Local/LocalWorld.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

using namespace cleave::rt;

namespace {

constexpr size_t largestBytes = 64u << 20;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int repetitionsFor(size_t bytes) {
  return bytes <= (1u << 20) ? 400 : bytes <= (16u << 20) ? 60 : 15;
}

struct Bandwidth {
  double best, median; // GB/s
};

/// Seconds of each `operation` on this rank, sorted.
template <typename Operation>
StatusOr<Bandwidth> measure(Communicator &all, std::span<float> data, Operation operation) {
  std::vector<double> seconds;
  volatile float sink = 0;
  for (int i = 0; i < repetitionsFor(data.size_bytes()); ++i) {
    for (size_t k = 0; k < data.size(); ++k)
      data[k] = 1.0f + static_cast<float>(k & 3);
    CLEAVE_RT_RETURN_IF_ERROR(all.barrier());
    CLEAVE_RT_RETURN_IF_ERROR(all.barrier());
    const double start = now();
    CLEAVE_RT_RETURN_IF_ERROR(operation());
    seconds.push_back(now() - start);
    float sum = 0;
    for (size_t k = 0; k < data.size(); k += 16)
      sum += data[k];
    sink = sink + sum;
  }
  std::ranges::sort(seconds);
  const auto bytes = static_cast<double>(data.size_bytes());
  return Bandwidth{bytes / seconds.front() / 1e9, bytes / seconds[seconds.size() / 2] / 1e9};
}

Status benchmark(World &world) {
  std::vector<int> everyone;
  for (int rank = 0; rank < world.size(); ++rank)
    everyone.push_back(rank);
  CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * all, world.group(everyone));
  // Buffers of tensors begin at multiples of 64 bytes.
  auto *buffer = static_cast<float *>(std::aligned_alloc(4096, largestBytes));
  const auto ranks = static_cast<size_t>(world.size());
  // Until each thread has found a core of its own.
  for (int i = 0; i < 100000; ++i)
    CLEAVE_RT_RETURN_IF_ERROR(all->barrier());
  for (size_t bytes = 1024; bytes <= largestBytes; bytes *= 4) {
    const std::span<float> data(buffer, bytes / sizeof(float) / ranks * ranks);
    const size_t block = data.size() / ranks;
    const std::span<float> own = data.subspan(static_cast<size_t>(world.rank()) * block, block);
    CLEAVE_RT_ASSIGN_OR_RETURN(const Bandwidth reduced, measure(*all, data, [&] {
                                 return all->allReduce(data, ReduceKind::Sum);
                               }));
    CLEAVE_RT_ASSIGN_OR_RETURN(const Bandwidth scattered, measure(*all, data, [&] {
                                 return all->reduceScatter(data, own, ReduceKind::Sum);
                               }));
    CLEAVE_RT_ASSIGN_OR_RETURN(const Bandwidth gathered,
                               measure(*all, data, [&] { return all->allGather(own, data); }));
    if (world.rank() == 0)
      fmt::print("ranks {} {:9} B: allreduce best {:.2f} median {:.2f} GB/s  reduce_scatter best "
                 "{:.2f} median {:.2f} GB/s  allgather best {:.2f} median {:.2f} GB/s\n",
                 ranks, bytes, reduced.best, reduced.median, scattered.best, scattered.median,
                 gathered.best, gathered.median);
  }
  std::free(buffer);
  return {};
}

} // namespace

int main(int argc, char **argv) {
  WorldPlan plan;
  plan.ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  StatusOr<std::unique_ptr<LocalWorld>> world = LocalWorld::create(plan);
  Status status = world.ok() ? (*world)->run([](World &rank) { return benchmark(rank); })
                             : Status(world.status());
  if (!status.ok()) {
    fmt::print(stderr, "bench-collectives: {}\n", status.error().message);
    return 1;
  }
  return 0;
}
