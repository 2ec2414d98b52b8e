// How fast matrix products run through the runtime's tiles, beside one oneDNN
// call for the whole product on one thread, measured in the same run. Prints one
// line a shape: GFLOP/s of each, and the ratio for 1 worker and for all.
#include "runtime/Device/CPU/Matmul.h"
#include "runtime/Base/Machine.h"

#include <dnnl.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

using namespace cleave::rt;

namespace {

struct Shape {
  const char *name;
  int64_t m, n, k;
  bool transposeA, transposeB;
};

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The best of `rounds` times of one call.
template <typename Call> double bestTime(int rounds, int repeats, Call call) {
  double best = 1e30;
  for (int round = 0; round < rounds; ++round) {
    const double start = seconds();
    for (int i = 0; i < repeats; ++i)
      call();
    best = std::min(best, (seconds() - start) / repeats);
  }
  return best;
}

double tiledTime(const Shape &shape, unsigned workers, int repeats, const std::vector<float> &a,
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
    return 0;
  }
  return bestTime(7, repeats, [&] {
    const Status status = engine.run(**plan, a.data(), b.data(), c.data());
    if (!status.ok())
      std::fputs(renderText(status.error()).c_str(), stderr);
  });
}

double wholeTime(const Shape &shape, int repeats, const std::vector<float> &a,
                 const std::vector<float> &b, std::vector<float> &c) {
  return bestTime(7, repeats, [&] {
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
  fmt::print("{:<14} {:>22} {:>10} {:>10} {:>10} {:>8} {:>8}\n", "shape", "m x n x k", "whole 1t",
             "tiled 1t", fmt::format("tiled {}t", cores), "1t/whole", "all/whole");
  for (const Shape &shape : shapes) {
    const double flops = 2.0 * shape.m * shape.n * shape.k;
    const int repeats = std::max(1, static_cast<int>(3e8 / flops));
    std::vector<float> a(shape.m * shape.k, 0.5f), b(shape.k * shape.n, 0.25f),
        c(shape.m * shape.n);
    // The first call of our engine also tells OpenMP to keep to one thread here.
    const double one = tiledTime(shape, 1, repeats, a, b, c);
    const double whole = wholeTime(shape, repeats, a, b, c);
    const double all = tiledTime(shape, cores, repeats, a, b, c);
    auto rate = [&](double time) { return flops / time * 1e-9; };
    fmt::print("{:<14} {:>22} {:>10.1f} {:>10.1f} {:>10.1f} {:>8.2f} {:>8.2f}\n", shape.name,
               fmt::format("{} x {} x {}", shape.m, shape.n, shape.k), rate(whole), rate(one),
               rate(all), whole / one, whole / all);
  }
}
