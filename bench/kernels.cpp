//===- kernels.cpp - speed of generated CPU kernels -----------------------===//
//
// Runs compiled kernels on one thread and prints, beside time, the share of the
// memory bandwidth that a triad reaches in the same run ("share": bytes the kernel
// must move at least, reading every input and writing every output once, over
// triad bytes per second). A line that is written and was not read counts twice,
// for the triad too: the cache reads it first. Above 1 means that the kernel mixes
// reads and writes better than the triad, or that something stayed in a cache. The
// variable CLEAVE_PROFILE names the instruction set; avx2 if it is not set.
//
//===----------------------------------------------------------------------===//

#include "cleave/Target/CPU/KernelCompiler.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "test/Unit/Target/CPU/KernelText.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

using cleave::test::KernelText;

namespace {

using Entry = void (*)(void *const *, int64_t, int64_t);

struct Case {
  std::string name;
  KernelText text;
  int64_t space;
  std::vector<size_t> operands; ///< elements, in order
  size_t bytes;                 ///< that must move
};

const int64_t kRows = 4096, kCols = 2048;
const size_t kAll = size_t(kRows) * kCols;

Case rmsNormForward() {
  KernelText k(kRows);
  k.input("a", {kRows, kCols}).input("b", {kRows, kCols}).input("w", {kCols});
  k.output("s", {kRows, kCols}).output("y", {kRows, kCols}).output("rstd", {kRows});
  k.constant("n", std::to_string(kCols) + ".0")
      .constant("eps", "1.0e-5")
      .fill("zero", {kRows}, "0.0");
  k.generic("sum", {kRows, kCols}, "r c", "pp", {{"a", "r c"}, {"b", "r c"}}, {"s", "r c"},
            "t = addf a0 a1; yield t");
  k.generic("sq", {kRows}, "r c", "pr", {{"sum", "r c"}}, {"zero", "r"},
            "t = mulf a0 a0; u = addf o t; yield u");
  k.generic("f", {kRows}, "r", "p", {{"sq", "r"}}, {"rstd", "r"},
            "t = divf a0 n; u = addf t eps; v = rsqrt u; yield v");
  k.generic("norm", {kRows, kCols}, "r c", "pp", {{"sum", "r c"}, {"f", "r"}, {"w", "c"}},
            {"y", "r c"}, "t = mulf a0 a1; u = mulf t a2; yield u");
  k.returns({"sum", "norm", "f"});
  size_t c = kCols, r = kRows;
  return {"rms_norm_forward", k, kRows, {kAll, kAll, c, kAll, kAll, r}, 24 * kAll};
}

Case rmsNormBackward() {
  KernelText k(kRows);
  k.input("dy", {kRows, kCols})
      .input("x", {kRows, kCols})
      .input("w", {kCols})
      .input("rstd", {kRows});
  k.output("dx", {kRows, kCols});
  k.constant("n", std::to_string(kCols) + ".0")
      .fill("zero", {kRows}, "0.0")
      .empty("e", {kRows, kCols});
  k.generic("g", {kRows, kCols}, "r c", "pp", {{"dy", "r c"}, {"w", "c"}}, {"e", "r c"},
            "t = mulf a0 a1; yield t");
  k.generic("dot", {kRows}, "r c", "pr", {{"g", "r c"}, {"x", "r c"}}, {"zero", "r"},
            "t = mulf a0 a1; u = addf o t; yield u");
  k.generic("d", {kRows, kCols}, "r c", "pp",
            {{"g", "r c"}, {"x", "r c"}, {"rstd", "r"}, {"dot", "r"}}, {"dx", "r c"},
            "m = divf a3 n; q = mulf a2 a2; p = mulf q m; v = mulf a1 p; s = subf a0 v; "
            "z = mulf a2 s; yield z");
  k.returns({"d"});
  size_t c = kCols, r = kRows;
  return {"rms_norm_backward", k, kRows, {kAll, kAll, c, r, kAll}, 16 * kAll};
}

Case normWeightGradients() {
  KernelText k(kCols);
  k.input("dy", {kRows, kCols}).input("x", {kRows, kCols}).input("rstd", {kRows});
  k.output("dw", {kCols}).output("db", {kCols}).fill("zero", {kCols}, "0.0");
  k.generic("w", {kCols}, "c r", "pr", {{"dy", "r c"}, {"x", "r c"}, {"rstd", "r"}}, {"zero", "c"},
            "t = mulf a1 a2; v = mulf a0 t; u = addf o v; yield u");
  k.generic("b", {kCols}, "c r", "pr", {{"dy", "r c"}}, {"zero", "c"}, "u = addf o a0; yield u");
  k.returns({"w", "b"});
  size_t c = kCols, r = kRows;
  return {"norm_weight_gradients", k, kCols, {kAll, kAll, r, c, c}, 8 * kAll};
}

Case softmax() {
  KernelText k(kRows);
  k.input("x", {kRows, kCols}).output("y", {kRows, kCols});
  k.fill("low", {kRows}, "0xFF800000").fill("zero", {kRows}, "0.0").empty("e", {kRows, kCols});
  k.generic("max", {kRows}, "r c", "pr", {{"x", "r c"}}, {"low", "r"},
            "t = maximumf o a0; yield t");
  k.generic("ex", {kRows, kCols}, "r c", "pp", {{"x", "r c"}, {"max", "r"}}, {"e", "r c"},
            "t = subf a0 a1; u = exp t; yield u");
  k.generic("sum", {kRows}, "r c", "pr", {{"ex", "r c"}}, {"zero", "r"}, "t = addf o a0; yield t");
  k.generic("p", {kRows, kCols}, "r c", "pp", {{"ex", "r c"}, {"sum", "r"}}, {"y", "r c"},
            "one = constant 1.0; t = divf one a1; u = mulf a0 t; yield u");
  k.returns({"p"});
  return {"softmax", k, kRows, {kAll, kAll}, 12 * kAll};
}

Case swiGlu() {
  KernelText k(kRows);
  k.input("g", {kRows, kCols}).input("u", {kRows, kCols}).output("h", {kRows, kCols});
  k.generic("h1", {kRows, kCols}, "r c", "pp", {{"g", "r c"}, {"u", "r c"}}, {"h", "r c"},
            "one = constant 1.0; n = negf a0; x = exp n; d = addf one x; s = divf a0 d; "
            "v = mulf s a1; yield v");
  k.returns({"h1"});
  return {"swiglu", k, kRows, {kAll, kAll, kAll}, 16 * kAll};
}

Case adamW() {
  const int64_t n = kAll;
  KernelText k(n);
  k.input("g", {n}).input("lr", {}).input("c1", {}).input("c2", {});
  k.output("p", {n}).output("m", {n}).output("v", {n});
  k.constant("b1", "0.9").constant("b1c", "0.1").constant("b2", "0.95").constant("b2c", "0.05");
  k.constant("eps", "1.0e-8").constant("wd", "0.1");
  k.generic("m1", {n}, "i", "p", {{"g", "i"}}, {"m", "i"},
            "t = mulf o b1; u = mulf a0 b1c; w = addf t u; yield w");
  k.generic("v1", {n}, "i", "p", {{"g", "i"}}, {"v", "i"},
            "t = mulf o b2; q = mulf a0 a0; u = mulf q b2c; w = addf t u; yield w");
  k.generic("p1", {n}, "i", "p", {{"m1", "i"}, {"v1", "i"}, {"lr", ""}, {"c1", ""}, {"c2", ""}},
            {"p", "i"},
            "mh = mulf a0 a3; vh = mulf a1 a4; s = sqrt vh; d = addf s eps; q = divf mh d; "
            "w = mulf o wd; t = addf q w; u = mulf a2 t; r = subf o u; yield r");
  k.returns({"p1", "m1", "v1"});
  return {"adamw", k, n, {kAll, 1, 1, 1, kAll, kAll, kAll}, 28 * kAll};
}

/// The rows of a loss over a large vocabulary: log-sum-exp and the target's logit.
Case crossEntropy() {
  const int64_t rows = 256, cols = 50257;
  KernelText k(rows);
  k.input("x", {rows, cols}).input("target", {rows}, "i32");
  k.output("loss", {rows}).output("lse", {rows});
  k.fill("low", {rows}, "0xFF800000").fill("zero", {rows}, "0.0");
  k.generic("max", {rows}, "r c", "pr", {{"x", "r c"}}, {"low", "r"}, "t = maximumf o a0; yield t");
  k.generic("sum", {rows}, "r c", "pr", {{"x", "r c"}, {"max", "r"}}, {"zero", "r"},
            "t = subf a0 a1; u = exp t; v = addf o u; yield v");
  k.generic("hit", {rows}, "r c", "pr", {{"x", "r c"}, {"target", "r"}}, {"zero", "r"},
            "%c = linalg.index 1 : index; %ci = arith.index_cast %c : index to i32;"
            "%eq = arith.cmpi eq, %ci, %a1 : i32; z = constant 0.0;"
            "%t = arith.select %eq, %a0, %z : f32; u = addf o t; yield u");
  k.generic("l", {rows}, "r", "p", {{"max", "r"}, {"sum", "r"}}, {"lse", "r"},
            "t = log a1; u = addf a0 t; yield u");
  k.generic("ce", {rows}, "r", "p", {{"l", "r"}, {"hit", "r"}}, {"loss", "r"},
            "t = subf a0 a1; yield t");
  k.returns({"ce", "l"});
  size_t r = rows, all = size_t(rows * cols);
  return {"cross_entropy", k, rows, {all, r, r, r}, 4 * all};
}

/// The norm of heads of 64 in rows of 2048.
Case headNorm() {
  const int64_t heads = kCols / 64;
  KernelText k(kRows);
  k.input("x", {kRows, heads, 64}).input("w", {64}).output("y", {kRows, heads, 64});
  k.constant("n", "64.0").constant("eps", "1.0e-5").fill("zero", {kRows, heads}, "0.0");
  k.generic("sq", {kRows, heads}, "r h i", "ppr", {{"x", "r h i"}}, {"zero", "r h"},
            "t = mulf a0 a0; u = addf o t; yield u");
  k.generic("norm", {kRows, heads, 64}, "r h i", "ppp", {{"x", "r h i"}, {"sq", "r h"}, {"w", "i"}},
            {"y", "r h i"},
            "t = divf a1 n; u = addf t eps; v = rsqrt u; p = mulf a0 v; q = mulf p a2; yield q");
  k.returns({"norm"});
  return {"head_norm", k, kRows, {kAll, 64, kAll}, 12 * kAll};
}

/// Seconds this thread has run: like the benchmark's own rates, not disturbed by
/// what else the machine does.
double threadSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

/// Bytes per second of a[i] = b[i] + s * c[i], best of some runs.
double triadBandwidth() {
  std::vector<float> a(kAll, 1), b(kAll, 2), c(kAll, 3);
  double best = 0;
  for (int round = 0; round < 20; ++round) {
    benchmark::DoNotOptimize(a.data());
    double start = threadSeconds();
    for (size_t i = 0; i < kAll; ++i)
      a[i] = b[i] + 0.5f * c[i];
    benchmark::ClobberMemory();
    best = std::max(best, 16 * double(kAll) / (threadSeconds() - start));
  }
  return best;
}

void runCase(benchmark::State &state, const Case &which, Entry entry, double bandwidth) {
  std::vector<std::vector<float>> buffers;
  std::vector<void *> args;
  for (size_t size : which.operands) {
    auto &buffer = buffers.emplace_back(size);
    for (size_t i = 0; i < size; ++i)
      buffer[i] = float(i % 1013) * 0.001f + 0.01f;
  }
  for (auto &buffer : buffers)
    args.push_back(buffer.data());
  for (auto _ : state)
    entry(args.data(), 0, which.space);
  double rate = double(which.bytes) * double(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(rate / 1e9, benchmark::Counter::kIsRate);
  state.counters["share"] = benchmark::Counter(rate / bandwidth, benchmark::Counter::kIsRate);
}

} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  mlir::DialectRegistry registry;
  cleave::cpu::registerKernelDialects(registry);
  mlir::MLIRContext context(registry);
  std::vector<std::unique_ptr<llvm::orc::LLJIT>> jits;
  const double bandwidth = triadBandwidth();
  benchmark::AddCustomContext("triad GB/s", std::to_string(bandwidth / 1e9));
  const std::vector<Case> cases = {rmsNormForward(), rmsNormBackward(), normWeightGradients(),
                                   softmax(),        swiGlu(),          adamW(),
                                   crossEntropy(),   headNorm()};
  const char *named = std::getenv("CLEAVE_PROFILE");
  const auto profile = cleave::cpu::Profile::byName(named ? named : "avx2");
  if (mlir::failed(profile))
    return 1;
  for (const Case &each : cases) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(each.text.text(), &context);
    if (!module)
      return 1;
    auto object = cleave::cpu::compileObject(*module, *profile);
    if (mlir::failed(object))
      return 1;
    jits.push_back(llvm::cantFail(llvm::orc::LLJITBuilder().create()));
    llvm::cantFail(jits.back()->addObjectFile(std::move(*object)));
    auto entry = llvm::cantFail(jits.back()->lookup("k")).toPtr<Entry>();
    benchmark::RegisterBenchmark(each.name.c_str(), [&each, entry, bandwidth](benchmark::State &s) {
      runCase(s, each, entry, bandwidth);
    })->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
