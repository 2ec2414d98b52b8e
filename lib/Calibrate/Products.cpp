//===- Products.cpp - Times of matrix products --------------------------------===//

#include "lib/Calibrate/Bench.h"
#include "runtime/Device/CPU/PickedMatmul.h"

namespace cleave::calibrate {

/// Numbers that each of three operands takes turns in: more than the caches of a core hold; and
/// what is left in the second or third of them.
static constexpr size_t kFar = size_t(1) << 22, kNear = size_t(1) << 18;
/// Numbers of the largest operand.
static constexpr size_t kLargest = size_t(1) << 20;

/// Strides of a matrix that lies as it is multiplied, or with rows and columns changed.
static rt::MatrixStrides dense(int64_t rows, int64_t columns, bool transposed) {
  return transposed ? rt::MatrixStrides{1, rows} : rt::MatrixStrides{columns, 1};
}

namespace {

/// Operands of products; whether they are bf16 does not matter to their memory. What is timed is
/// kept in `kept`.
struct Operands {
  std::vector<ProductTiming> Timings::*kept = &Timings::products;
  Turns a, b, c;

  static rt::StatusOr<Operands> make(size_t turn, std::vector<ProductTiming> Timings::*kept) {
    Operands operands;
    operands.kept = kept;
    for (Turns *turns : {&operands.a, &operands.b, &operands.c}) {
      CLEAVE_RT_ASSIGN_OR_RETURN(*turns, Turns::make(turn, kLargest));
    }
    return operands;
  }

  /// Calls `measure` with far operands, and with near ones.
  template <typename Measure> static rt::Status forBoth(Bench &bench, Measure measure) {
    CLEAVE_RT_ASSIGN_OR_RETURN(Operands far, make(kFar, &Timings::products));
    CLEAVE_RT_ASSIGN_OR_RETURN(Operands near, make(kNear, &Timings::nearProducts));
    bench.keep([&](Timings &t) {
      t.productsAround = cost::Bytes(3. * kFar * sizeof(float));
      t.nearAround = cost::Bytes(3. * kNear * sizeof(float));
    });
    CLEAVE_RT_RETURN_IF_ERROR(measure(far));
    return measure(near);
  }
};

} // namespace

static rt::StatusOr<cost::Seconds> timeProduct(Bench &bench, rt::MatmulEngine &engine,
                                               Operands &operands, const rt::MatmulProblem &p) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const rt::MatmulPlan *plan, engine.prepare(p));
  return bench.time([&] {
    return engine.run(*plan, operands.a.next(p.m * p.k), operands.b.next(p.k * p.n),
                      operands.c.next(p.m * p.n));
  });
}

static rt::Status measureWidth(Bench &bench, bool narrow, const std::vector<int64_t> &sizes,
                               Operands &operands) {
  rt::MatmulEngine &engine = narrow ? bench.narrow : bench.wide;
  const cost::Width width = narrow ? 16 : 32;
  for (int64_t m : sizes)
    for (int64_t n : sizes)
      for (int64_t k : sizes) {
        auto problem = [&](bool transposesA, bool transposesB, bool adds) {
          return rt::MatmulProblem{
              m,      n,  k,    dense(m, k, transposesA), dense(k, n, transposesB),
              {n, 1}, {}, adds, {narrow, narrow && !adds}};
        };
        // Weights lie one way, and are read that way in one of forward and backward.
        cost::Seconds plain;
        for (bool transposed : {false, true}) {
          CLEAVE_RT_ASSIGN_OR_RETURN(
              const cost::Seconds time,
              timeProduct(bench, engine, operands, problem(false, transposed, false)));
          plain += time / 2;
        }
        CLEAVE_RT_ASSIGN_OR_RETURN(
            const cost::Seconds weights,
            timeProduct(bench, engine, operands, problem(true, false, true)));
        bench.keep([&](Timings &t) {
          const auto [rows, columns, depth] =
              std::tuple(static_cast<double>(m), static_cast<double>(n), static_cast<double>(k));
          (t.*operands.kept).push_back({width, ProductRole::Plain, rows, columns, depth, 1, plain});
          (t.*operands.kept)
              .push_back({width, ProductRole::Weights, rows, columns, depth, 1, weights});
        });
      }
  return {};
}

rt::Status measureProducts(Bench &bench) {
  const std::vector<int64_t> sizes = bench.options.quick
                                         ? std::vector<int64_t>{32, 128}
                                         : std::vector<int64_t>{16, 32, 64, 128, 256, 512, 1024};
  return Operands::forBoth(bench, [&](Operands &operands) -> rt::Status {
    bench.tell("products of fp32");
    CLEAVE_RT_RETURN_IF_ERROR(measureWidth(bench, false, sizes, operands));
    if (!bench.options.narrow)
      return {};
    bench.tell("products of bf16");
    return measureWidth(bench, true, sizes, operands);
  });
}

static rt::Status measurePickedSize(Bench &bench, rt::PickedMatmulEngine &engine, bool narrow,
                                    int64_t each, int64_t n, int64_t k, Operands &operands) {
  constexpr int64_t matrices = 4;
  const int64_t rows = each * matrices;
  // As a router picks: no two rows behind each other of one matrix, none in order.
  std::vector<int32_t> index(rows);
  for (int64_t i = 0; i < rows; ++i)
    index[i] = static_cast<int32_t>((i * 7 + i / 5) % matrices);
  cost::Seconds plain;
  for (bool transposed : {false, true}) {
    rt::PickedMatmulProblem problem{rows, n, k, matrices, 1, n * k, {}};
    problem.b = dense(k, n, transposed);
    problem.narrow = narrow;
    CLEAVE_RT_ASSIGN_OR_RETURN(const rt::PickedMatmulPlan plan, engine.prepare(problem));
    CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Seconds time, bench.time([&] {
      return engine.run(plan, operands.a.next(rows * k), operands.b.next(matrices * n * k),
                        index.data(), nullptr, operands.c.next(rows * n));
    }));
    plain += time / 2;
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(
      const rt::PickedOuterPlan plan,
      engine.prepare(rt::PickedOuterProblem{rows, k, n, matrices, 1, 1, true, narrow}));
  CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Seconds weights, bench.time([&] {
    return engine.run(plan, operands.a.next(rows * k), operands.b.next(rows * n), index.data(),
                      nullptr, operands.c.next(matrices * n * k));
  }));
  bench.keep([&](Timings &t) {
    const cost::Width width = narrow ? 16 : 32;
    const auto [r, c, d] =
        std::tuple(static_cast<double>(each), static_cast<double>(n), static_cast<double>(k));
    (t.*operands.kept).push_back({width, ProductRole::Picked, r, c, d, matrices, plain});
    (t.*operands.kept).push_back({width, ProductRole::PickedWeights, d, c, r, matrices, weights});
  });
  return {};
}

rt::Status measurePicked(Bench &bench) {
  bench.tell("products with picked matrices");
  const bool quick = bench.options.quick;
  const std::vector<int64_t> sizes =
      quick ? std::vector<int64_t>{32} : std::vector<int64_t>{32, 128, 512};
  const std::vector<int64_t> rows =
      quick ? std::vector<int64_t>{64} : std::vector<int64_t>{8, 32, 128, 512};
  return Operands::forBoth(bench, [&](Operands &operands) -> rt::Status {
    for (int narrow = 0; narrow <= (bench.options.narrow ? 1 : 0); ++narrow) {
      rt::PickedMatmulEngine engine(bench.pool, narrow ? bench.narrow : bench.wide);
      for (int64_t each : rows)
        for (int64_t n : sizes)
          for (int64_t k : sizes)
            CLEAVE_RT_RETURN_IF_ERROR(
                measurePickedSize(bench, engine, narrow == 1, each, n, k, operands));
    }
    return {};
  });
}

} // namespace cleave::calibrate
