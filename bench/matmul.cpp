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
  /// Added to what is there, as gradients are.
  bool accumulate = false;
  /// How often a step of GPT-2 124M has it; 0 for other shapes.
  int perStep = 0;
};

/// Operands of some equal products. Those of a training step are used once and come
/// from memory, so they take turns here.
struct Operands {
  std::vector<float> a, b, c;
  int64_t copies;

  explicit Operands(const Shape &s) {
    const int64_t largest = std::max({s.m * s.k, s.k * s.n, s.m * s.n});
    copies = s.perStep > 1 ? std::max<int64_t>(1, 24'000'000 / largest) : 1;
    a.assign(copies * s.m * s.k, 0.5f);
    b.assign(copies * s.k * s.n, 0.25f);
    c.assign(copies * s.m * s.n, 0);
  }
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

Times tiledTimes(const Shape &shape, unsigned workers, int repeats, Operands &of) {
  ThreadPool pool(workers);
  MatmulEngine engine(pool);
  MatmulProblem problem;
  problem.m = shape.m;
  problem.n = shape.n;
  problem.k = shape.k;
  problem.a = shape.transposeA ? MatrixStrides{1, shape.m} : MatrixStrides{shape.k, 1};
  problem.b = shape.transposeB ? MatrixStrides{1, shape.k} : MatrixStrides{shape.n, 1};
  problem.c = {shape.n, 1};
  problem.accumulate = shape.accumulate;
  auto plan = engine.prepare(problem);
  if (!plan.ok()) {
    std::fputs(renderText(plan.error()).c_str(), stderr);
    return {};
  }
  int64_t at = 0;
  return bestTimes(5, repeats, [&] {
    at = (at + 1) % of.copies;
    const Status status = engine.run(**plan, &of.a[at * shape.m * shape.k],
                                     &of.b[at * shape.k * shape.n], &of.c[at * shape.m * shape.n]);
    if (!status.ok())
      std::fputs(renderText(status.error()).c_str(), stderr);
  });
}

Times wholeTimes(const Shape &s, int repeats, Operands &of) {
  int64_t at = 0;
  return bestTimes(5, repeats, [&] {
    at = (at + 1) % of.copies;
    dnnl_sgemm(s.transposeA ? 'T' : 'N', s.transposeB ? 'T' : 'N', s.m, s.n, s.k, 1.0f,
               &of.a[at * s.m * s.k], s.transposeA ? s.m : s.k, &of.b[at * s.k * s.n],
               s.transposeB ? s.k : s.n, s.accumulate ? 1.0f : 0.0f, &of.c[at * s.m * s.n], s.n);
  });
}

} // namespace

int main() {
  const unsigned cores = probeMachine().usableCores;
  const Shape shapes[] = {
      {"gpt2 qkv", 256, 2304, 768, false, false, false, 12},
      {"gpt2 out", 256, 768, 768, false, false, false, 12},
      {"gpt2 up", 256, 3072, 768, false, false, false, 12},
      {"gpt2 down", 256, 768, 3072, false, false, false, 12},
      {"gpt2 head", 256, 50257, 768, false, true, false, 1},
      {"gpt2 dX(qkv)", 256, 768, 2304, false, true, false, 12},
      {"gpt2 dX(out)", 256, 768, 768, false, true, false, 12},
      {"gpt2 dX(up)", 256, 768, 3072, false, true, false, 12},
      {"gpt2 dX(down)", 256, 3072, 768, false, true, false, 12},
      {"gpt2 dX(head)", 256, 768, 50257, false, false, false, 1},
      {"gpt2 dW(qkv)", 768, 2304, 256, true, false, true, 12},
      {"gpt2 dW(out)", 768, 768, 256, true, false, true, 12},
      {"gpt2 dW(up)", 768, 3072, 256, true, false, true, 12},
      {"gpt2 dW(down)", 3072, 768, 256, true, false, true, 12},
      {"gpt2 dW(head)", 50257, 768, 256, true, false, true, 1},
      {"t0 gate", 64, 176, 64, false, true},
      {"heads 64", 64, 64, 64, false, true},
      {"square 512", 512, 512, 512, false, false},
      {"square 1024", 1024, 1024, 1024, false, false},
  };
  fmt::print("GFLOP/s a processor second; the last two columns by wall time\n");
  fmt::print("{:<14} {:>22} {:>10} {:>10} {:>9} {:>10} {:>9}\n", "shape", "m x n x k", "whole 1t",
             "tiled 1t", "1t/whole", fmt::format("wall {}t", cores), "all/1t");
  double stepWhole = 0, stepOne = 0, stepAll = 0;
  for (const Shape &shape : shapes) {
    const double flops = 2.0 * shape.m * shape.n * shape.k;
    Operands operands(shape);
    const int repeats = std::max(static_cast<int64_t>(3e8 / flops), operands.copies);
    // The first call of our engine also tells OpenMP to keep to one thread here.
    const Times one = tiledTimes(shape, 1, repeats, operands);
    const Times whole = wholeTimes(shape, repeats, operands);
    const Times all = tiledTimes(shape, cores, repeats, operands);
    stepWhole += shape.perStep * whole.processor;
    stepOne += shape.perStep * one.processor;
    stepAll += shape.perStep * all.wall;
    auto rate = [&](double time) { return flops / time * 1e-9; };
    fmt::print("{:<14} {:>22} {:>10.1f} {:>10.1f} {:>9.2f} {:>10.1f} {:>9.2f}\n", shape.name,
               fmt::format("{} x {} x {}", shape.m, shape.n, shape.k), rate(whole.processor),
               rate(one.processor), whole.processor / one.processor, rate(all.wall),
               one.wall / all.wall);
  }
  fmt::print(
      "products of a step of GPT-2 124M: {:.3f} s whole, {:.3f} s in tiles, {:.3f} s with {} "
      "threads\n",
      stepWhole, stepOne, stepAll, cores);
}
