// How fast matrix products run through the runtime's tiles, beside one oneDNN
// call for the whole product on one thread, measured in the same run.
#include "runtime/Device/CPU/Matmul.h"
#include "runtime/Base/Machine.h"

#include <dnnl.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

using namespace cleave::rt;

namespace {

struct Shape {
  const char *name;
  int64_t m, n, k;
  bool transposeA, transposeB;
};

double secondsOf(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The best of some rounds, for one call: wall time, and processor time of all
/// threads, which other processes disturb less.
struct Times {
  double wall = 1e30;
  double processor = 1e30;
};

template <typename Call> Times bestTimes(int rounds, int repeats, Call call) {
  Times best;
  for (int round = 0; round < rounds; ++round) {
    const double wall = secondsOf(CLOCK_MONOTONIC);
    const double processor = secondsOf(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < repeats; ++i)
      call();
    best.wall = std::min(best.wall, (secondsOf(CLOCK_MONOTONIC) - wall) / repeats);
    best.processor =
        std::min(best.processor, (secondsOf(CLOCK_PROCESS_CPUTIME_ID) - processor) / repeats);
  }
  return best;
}

Times tiledTimes(const Shape &shape, unsigned workers, int repeats, const std::vector<float> &a,
                 const std::vector<float> &b, std::vector<float> &c) {
  ThreadPool pool(workers);
  MatmulEngine engine(pool);
  MatmulProblem problem;
  problem.m = shape.m;
  problem.n = shape.n;
  problem.k = shape.k;
  problem.a = shape.transposeA ? MatrixStrides{1, shape.m} : MatrixStrides{shape.k, 1};
  problem.b = shape.transposeB ? MatrixStrides{1, shape.k} : MatrixStrides{shape.n, 1};
  problem.c = {shape.n, 1};
  auto plan = engine.prepare(problem);
  if (!plan.ok()) {
    std::fputs(renderText(plan.error()).c_str(), stderr);
    return {};
  }
  return bestTimes(7, repeats, [&] {
    const Status status = engine.run(**plan, a.data(), b.data(), c.data());
    if (!status.ok())
      std::fputs(renderText(status.error()).c_str(), stderr);
  });
}

Times wholeTimes(const Shape &shape, int repeats, const std::vector<float> &a,
                 const std::vector<float> &b, std::vector<float> &c) {
  return bestTimes(7, repeats, [&] {
    dnnl_sgemm(shape.transposeA ? 'T' : 'N', shape.transposeB ? 'T' : 'N', shape.m, shape.n,
               shape.k, 1.0f, a.data(), shape.transposeA ? shape.m : shape.k, b.data(),
               shape.transposeB ? shape.k : shape.n, 0.0f, c.data(), shape.n);
  });
}

} // namespace

int main() {
  const unsigned cores = probeMachine().usableCores;
  const Shape shapes[] = {
      {"gpt2 qkv", 256, 2304, 768, false, false},  {"gpt2 out", 256, 768, 768, false, false},
      {"gpt2 up", 256, 3072, 768, false, false},   {"gpt2 down", 256, 768, 3072, false, false},
      {"gpt2 d(up)", 256, 768, 3072, false, true}, {"gpt2 dW(up)", 768, 3072, 256, true, false},
      {"gpt2 head", 256, 50257, 768, false, true}, {"gpt2 dW(head)", 50257, 768, 256, true, false},
      {"t0 gate", 64, 176, 64, false, true},       {"heads 64", 64, 64, 64, false, true},
      {"square 512", 512, 512, 512, false, false}, {"square 1024", 1024, 1024, 1024, false, false},
  };
  fmt::print("GFLOP/s a processor second; the last two columns by wall time\n");
  fmt::print("{:<14} {:>22} {:>10} {:>10} {:>9} {:>10} {:>9}\n", "shape", "m x n x k", "whole 1t",
             "tiled 1t", "1t/whole", fmt::format("wall {}t", cores), "all/1t");
  for (const Shape &shape : shapes) {
    const double flops = 2.0 * shape.m * shape.n * shape.k;
    const int repeats = std::max(1, static_cast<int>(3e8 / flops));
    std::vector<float> a(shape.m * shape.k, 0.5f), b(shape.k * shape.n, 0.25f),
        c(shape.m * shape.n);
    // The first call of our engine also tells OpenMP to keep to one thread here.
    const Times one = tiledTimes(shape, 1, repeats, a, b, c);
    const Times whole = wholeTimes(shape, repeats, a, b, c);
    const Times all = tiledTimes(shape, cores, repeats, a, b, c);
    auto rate = [&](double time) { return flops / time * 1e-9; };
    fmt::print("{:<14} {:>22} {:>10.1f} {:>10.1f} {:>9.2f} {:>10.1f} {:>9.2f}\n", shape.name,
               fmt::format("{} x {} x {}", shape.m, shape.n, shape.k), rate(whole.processor),
               rate(one.processor), whole.processor / one.processor, rate(all.wall),
               one.wall / all.wall);
  }
}
