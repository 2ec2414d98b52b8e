//===- Calibrate.h - What this machine's processor does ----------------------===//
//
// Measures the pieces that a training step on this machine is made of, through the very code that
// runs them: products by the runtime's tiles, attention and passes as the compiler emits them,
// exchanges of ranks that are threads, a command of the executor. From the timings follows a
// description of one core in the format of share/hardware, which the planner reads like any other;
// it never looks at a device itself.
//
// Every core does the same at the same time, as ranks do, since cores share memory, cache and
// clock. Each time is the least of some rounds, after one that is not counted: what else the
// machine does can make a round longer, but none shorter. Of the cores the slowest one counts.
//
// Timings (`measure`) and what follows from them (`fit`) are apart, so that the latter can be
// tested on made-up numbers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/Hardware.h"
#include "cleave/Target/CPU/KernelCompiler.h"
#include "runtime/Base/Status.h"
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::calibrate {

struct Options {
  /// Ranks that measure at once, one thread each: cores.
  int ranks = 1;
  /// Rounds of each measurement, of which the fastest counts.
  int rounds = 6;
  /// The least time of a round.
  cost::Seconds round{5e-4};
  /// Few sizes, small ones: to see that it works.
  bool quick = false;
  /// Products of bf16 too.
  bool narrow = false;
  cpu::Profile profile = cpu::Profile::avx2();
  /// Told of each family before it is measured.
  std::function<void(std::string_view)> progress;
};

/// Which of a layer's products: of rows with weights (mean of both ways to read these), or the
/// weights' gradient, added to what is there; the same with a matrix picked for each row, where
/// `m`, or of a gradient `k`, is the rows of one matrix.
enum class ProductRole { Plain, Weights, Picked, PickedWeights };
inline constexpr size_t productRoles = 4;

struct ProductTiming {
  cost::Width width = 32;
  ProductRole role = ProductRole::Plain;
  double m = 1, n = 1, k = 1;
  /// Products of this size in `time`: matrices that are picked from.
  double count = 1;
  cost::Seconds time;
};

/// Causal attention, with as many keys as queries; `isSpread`: half as many queries, as of one of
/// two ranks in zig-zag order.
struct AttentionTiming {
  double headWidth = 1, keys = 1;
  /// Queries × heads, all sequences.
  double queries = 1;
  bool backward = false, isSpread = false;
  cost::Seconds time;
};

struct PassTiming {
  /// All that is read and written.
  cost::Bytes bytes;
  cost::Seconds time;
};

/// A function of numbers in cache, for one of them, beside a multiplication.
struct FunctionTiming {
  /// As MLIR calls it: "math.exp".
  std::string name;
  cost::Seconds time, plain;
};

struct ExchangeTiming {
  cost::Exchange kind = cost::Exchange::AllReduce;
  /// The larger buffer of a rank.
  cost::Bytes bytes;
  cost::Seconds time;
};

/// How quiet the machine was; what is unknown is left out.
struct Quiet {
  /// Shares of the cores that other work took, before and while it was measured.
  std::optional<double> before, during;
  /// By how much rounds differ (`spreadOf`).
  std::optional<double> spread;
};

struct Timings {
  int ranks = 1;
  Quiet quiet;
  /// The same products with operands from afar and from nearer by, and what these take turns in.
  std::vector<ProductTiming> products, nearProducts;
  cost::Bytes productsAround, nearAround;
  std::vector<AttentionTiming> attention;
  /// Kernels that do nothing but move bytes; the update.
  std::vector<PassTiming> streams, updates;
  std::vector<FunctionTiming> functions;
  /// Operations/s: multiply-adds in registers; loops over numbers in cache whose rows fill vectors
  /// of `lanes`, and whose rows are too short to.
  cost::OperationsPerSecond multiplyAdds, vectors, scalars;
  int64_t lanes = 8;
  /// Empty on one core.
  std::vector<ExchangeTiming> exchanges;
  std::vector<PassTiming> sends;
  /// A command of the executor that has nothing to do.
  cost::Seconds command;
};

/// Takes the time of everything, a minute or two. Errors: those of the runtime and of the compiler
/// of kernels.
rt::StatusOr<Timings> measure(const Options &options);

/// `base` with what was measured in place of what it says; what was not measured stays.
cost::Device fit(const Timings &timings, const cost::Device &base);

/// The file of share/hardware that describes `device` as measured: `processor` and `cores` are of
/// the machine, for people.
std::string describe(const cost::Device &device, const Timings &timings, const Options &options,
                     const std::string &processor);

} // namespace cleave::calibrate
