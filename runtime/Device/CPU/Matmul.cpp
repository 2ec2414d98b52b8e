// Tiles of matrix products through oneDNN's matmul primitive.
#include "runtime/Device/CPU/Matmul.h"

#include "runtime/Device/CPU/MatmulTiles.h"
#include "runtime/Device/CPU/Tasks.h"
#include "runtime/Device/CPU/Widen.h"

#include <dnnl.hpp>
#include <fmt/format.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

namespace cleave::rt {
namespace {

using SetOpenMpThreads = void (*)(int);

/// libdnnl brings some OpenMP runtime with it; which one is not ours to choose,
/// so its entry is looked up instead of linked. Null: built without OpenMP.
SetOpenMpThreads findOpenMp() {
  return reinterpret_cast<SetOpenMpThreads>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
}

/// The strides of a matrix of one tile, made valid for oneDNN where a size is 1
/// and the given stride says nothing.
MatrixStrides normalised(MatrixStrides strides, int64_t rows, int64_t columns) {
  if (rows == 1 && columns == 1)
    return {1, 1};
  if (columns == 1)
    return {strides.row, 1};
  if (rows == 1)
    return strides.column == 1 ? MatrixStrides{columns, 1} : MatrixStrides{1, strides.column};
  return strides;
}

bool usable(MatrixStrides strides, int64_t rows, int64_t columns) {
  if (rows < 1 || columns < 1 || (rows == 1 && columns == 1))
    return true;
  if (rows == 1 || columns == 1) // a vector of any positive stride
    return (rows > 1 ? strides.row : strides.column) >= 1;
  return (strides.column == 1 && strides.row >= columns) ||
         (strides.row == 1 && strides.column >= rows);
}

/// oneDNN is fast where rows of the result are contiguous; else the transpose of
/// the product is computed, cᵀ = bᵀ · aᵀ.
bool needsTranspose(const MatmulProblem &problem) { return problem.n > 1 && problem.c.column != 1; }

MatmulProblem transposed(const MatmulProblem &problem) {
  auto flip = [](MatrixStrides strides) { return MatrixStrides{strides.column, strides.row}; };
  MatmulProblem result = problem;
  std::swap(result.m, result.n);
  result.a = flip(problem.b);
  result.b = flip(problem.a);
  result.c = flip(problem.c);
  for (MatmulBatch &batch : result.batch)
    std::swap(batch.strideA, batch.strideB);
  return result;
}

/// Failures while running become an error of the pool.
void check(dnnl_status_t status) {
  dnnl::error::wrap_c_api(status, "oneDNN failed to run a product");
}

void set(const dnnl::memory &memory, void *address) {
  check(dnnl_memory_set_data_handle(memory.get(), address));
}

struct TileOrder {
  static auto tied(const TileKey &t) {
    return std::tie(t.m, t.n, t.k, t.a.row, t.a.column, t.b.row, t.b.column, t.c.row, t.c.column,
                    t.accumulate, t.types.narrowOperands, t.types.narrowResult);
  }
  bool operator()(const TileKey &a, const TileKey &b) const { return tied(a) < tied(b); }
};

/// oneDNN's handles on the operands of a call; made once for each worker, since
/// making them costs as much as a small product.
struct Operands {
  dnnl::memory a, b, c, scratch;
};

/// 64-byte aligned, grown as needed before anything runs.
class Scratch {
public:
  Scratch() = default;
  Scratch(Scratch &&other) noexcept
      : data(std::exchange(other.data, nullptr)), bytes(other.bytes) {}
  ~Scratch() { std::free(data); }
  bool grow(size_t needed) {
    if (needed <= bytes)
      return true;
    std::free(data);
    bytes = (needed + 63) / 64 * 64;
    data = std::aligned_alloc(64, bytes);
    if (!data)
      bytes = 0;
    return data != nullptr;
  }
  void *get() const { return data; }
  size_t size() const { return bytes; }

private:
  void *data = nullptr;
  size_t bytes = 0;
};

} // namespace

class MatmulTile {
public:
  TileKey key;
  /// Of bf16, but computed of f32 copies in scratch memory, behind that of the primitive.
  bool widened = false;
  dnnl::matmul primitive;
  dnnl::memory::desc a, b, c, scratch;
  std::vector<Operands> ofWorker;

  int64_t ownScratch() const { return (static_cast<int64_t>(scratch.get_size()) + 63) / 64 * 64; }
  int64_t scratchBytes() const {
    const int64_t copies = key.m * key.k + key.k * key.n + key.m * key.n;
    return ownScratch() + (widened ? copies * 4 : 0);
  }
};

class MatmulPlan {
public:
  MatmulProblem asked;
  /// What is computed: `asked` or, with `flipped`, its transpose.
  MatmulProblem problem;
  bool flipped = false;
  TileGrid grid;
  int64_t matrices = 1;
  /// By [edge row][edge column]: inner tiles, those of the last row of tiles, of
  /// the last column, and the corner.
  std::array<std::array<const MatmulTile *, 2>, 2> tiles = {};
};

struct MatmulEngine::State {
  explicit State(ThreadPool &pool)
      : pool(pool), setOpenMpThreads(findOpenMp()), engine(dnnl::engine::kind::cpu, 0),
        scratch(pool.size()) {
    for (unsigned i = 0; i < pool.size(); ++i)
      streams.emplace_back(engine);
  }

  void useOneThread() const {
    if (setOpenMpThreads)
      setOpenMpThreads(1);
  }

  void build(MatmulTile &tile, const TileKey &computed) const;
  StatusOr<const MatmulTile *> tileFor(const TileKey &key);
  void execute(const MatmulTile &tile, unsigned worker, const void *a, const void *b,
               void *c) const;
  void runTile(const MatmulTile &tile, unsigned worker, const void *a, const void *b,
               void *c) const;
  void runTask(const MatmulPlan &plan, int64_t task, unsigned worker, const void *a, const void *b,
               void *c) const;

  ThreadPool &pool;
  SetOpenMpThreads setOpenMpThreads;
  dnnl::engine engine;
  std::vector<dnnl::stream> streams;
  std::vector<Scratch> scratch;
  std::map<TileKey, std::unique_ptr<MatmulTile>, TileOrder> tiles;
  std::vector<std::unique_ptr<MatmulPlan>> plans;
};

MatmulEngine::MatmulEngine(ThreadPool &pool) : state(std::make_unique<State>(pool)) {}
MatmulEngine::~MatmulEngine() = default;

/// Compiles what computes `computed`; oneDNN's exceptions pass.
void MatmulEngine::State::build(MatmulTile &tile, const TileKey &computed) const {
  using dnnl::memory;
  auto describe = [](int64_t rows, int64_t columns, MatrixStrides strides, bool narrow) {
    strides = normalised(strides, rows, columns);
    return memory::desc({rows, columns}, narrow ? memory::data_type::bf16 : memory::data_type::f32,
                        memory::dims{strides.row, strides.column});
  };
  useOneThread();
  tile.a = describe(computed.m, computed.k, computed.a, computed.types.narrowOperands);
  tile.b = describe(computed.k, computed.n, computed.b, computed.types.narrowOperands);
  tile.c = describe(computed.m, computed.n, computed.c, computed.types.narrowResult);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (computed.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  dnnl::matmul::primitive_desc primitive({tile.a, tile.b, tile.c}, attributes, engine);
  tile.scratch = primitive.scratchpad_desc();
  tile.primitive = dnnl::matmul(primitive);
  tile.ofWorker.clear();
  for (unsigned worker = 0; worker < pool.size(); ++worker) {
    // Made without memory; the address comes with each call.
    auto handle = [&](const memory::desc &desc) { return memory(desc, engine, nullptr); };
    tile.ofWorker.push_back({handle(tile.a), handle(tile.b), handle(tile.c), handle(tile.scratch)});
  }
}

/// The product of f32 copies: operands dense, so is a result that is rounded afterwards.
static TileKey widenedKey(const TileKey &key) {
  TileKey wide = key;
  wide.a = {key.k, 1};
  wide.b = {key.n, 1};
  if (key.types.narrowResult)
    wide.c = {key.n, 1};
  wide.types = {};
  return wide;
}

StatusOr<const MatmulTile *> MatmulEngine::State::tileFor(const TileKey &key) {
  if (auto found = tiles.find(key); found != tiles.end())
    return found->second.get();
  auto tile = std::make_unique<MatmulTile>();
  tile->key = key;
  try {
    try {
      build(*tile, key);
    } catch (const dnnl::error &error) {
      if (!key.types.narrowOperands || error.status != dnnl_unimplemented)
        throw;
      tile->widened = true; // no products of bf16 on this processor
      build(*tile, widenedKey(key));
    }
  } catch (const dnnl::error &error) {
    return missingError("device.matmul_refused",
                        fmt::format("oneDNN refuses a product of {} × {} × {}: {}", key.m, key.n,
                                    key.k, error.what()));
  }
  for (Scratch &piece : scratch)
    if (!piece.grow(static_cast<size_t>(tile->scratchBytes())))
      return runError("device.out_of_memory",
                      fmt::format("no {} bytes of scratch memory for a product of {} × {} × {}",
                                  tile->scratchBytes(), key.m, key.n, key.k));
  return tiles.emplace(key, std::move(tile)).first->second.get();
}

StatusOr<const MatmulPlan *> MatmulEngine::prepare(const MatmulProblem &asked) {
  for (const auto &known : state->plans)
    if (known->asked == asked)
      return known.get();
  const bool flipped = needsTranspose(asked);
  const MatmulProblem problem = flipped ? transposed(asked) : asked;
  const auto [m, n, k] = std::tuple(problem.m, problem.n, problem.k);
  if (!usable(problem.a, m, k) || !usable(problem.b, k, n) || !usable(problem.c, m, n))
    return userError("device.matmul_refused",
                     fmt::format("a product of {} × {} × {} has strides a ({}, {}), b ({}, {}), "
                                 "c ({}, {})",
                                 m, n, k, problem.a.row, problem.a.column, problem.b.row,
                                 problem.b.column, problem.c.row, problem.c.column))
        .withRule("one stride of a matrix is 1, the other at least the size of that direction");
  auto plan = std::make_unique<MatmulPlan>();
  plan->asked = asked;
  plan->problem = problem;
  plan->flipped = flipped;
  for (const MatmulBatch &batch : problem.batch)
    plan->matrices *= batch.count;
  if (m > 0 && n > 0 && k > 0 && plan->matrices > 0) {
    plan->grid = chooseTiles(m, n, k);
    const int64_t lastM = m - (plan->grid.tilesM - 1) * plan->grid.tileM;
    const int64_t lastN = n - (plan->grid.tilesN - 1) * plan->grid.tileN;
    for (int row = 0; row < 2; ++row)
      for (int column = 0; column < 2; ++column) {
        const TileKey key{row ? lastM : plan->grid.tileM,
                          column ? lastN : plan->grid.tileN,
                          k,
                          problem.a,
                          problem.b,
                          problem.c,
                          problem.accumulate,
                          problem.types};
        CLEAVE_RT_ASSIGN_OR_RETURN(plan->tiles[row][column], state->tileFor(key));
      }
  }
  state->plans.push_back(std::move(plan));
  return state->plans.back().get();
}

void MatmulEngine::State::runTile(const MatmulTile &tile, unsigned worker, const void *a,
                                  const void *b, void *c) const {
  useOneThread();
  if (!tile.widened)
    return execute(tile, worker, a, b, c);
  const TileKey &key = tile.key;
  auto *wideA = reinterpret_cast<float *>(static_cast<std::byte *>(scratch[worker].get()) +
                                          tile.ownScratch());
  float *wideB = wideA + key.m * key.k, *wideC = wideB + key.k * key.n;
  widen(static_cast<const uint16_t *>(a), key.a.row, key.a.column, key.m, key.k, wideA);
  widen(static_cast<const uint16_t *>(b), key.b.row, key.b.column, key.k, key.n, wideB);
  execute(tile, worker, wideA, wideB, key.types.narrowResult ? wideC : c);
  if (key.types.narrowResult)
    roundRows(wideC, key.m, key.n, static_cast<uint16_t *>(c), key.c.row, key.c.column);
}

void MatmulEngine::State::execute(const MatmulTile &tile, unsigned worker, const void *a,
                                  const void *b, void *c) const {
  const Operands &operands = tile.ofWorker[worker];
  // Scratch may have grown for other products since the handles were made.
  set(operands.scratch, scratch[worker].get());
  // oneDNN takes all operands as mutable; it writes only to the result.
  set(operands.a, const_cast<void *>(a));
  set(operands.b, const_cast<void *>(b));
  set(operands.c, c);
  const std::array<dnnl_exec_arg_t, 4> arguments = {
      {{DNNL_ARG_SRC, operands.a.get()},
       {DNNL_ARG_WEIGHTS, operands.b.get()},
       {DNNL_ARG_DST, operands.c.get()},
       {DNNL_ARG_SCRATCHPAD, operands.scratch.get()}}};
  check(dnnl_primitive_execute(tile.primitive.get(), streams[worker].get(),
                               static_cast<int>(arguments.size()), arguments.data()));
}

void MatmulEngine::State::runTask(const MatmulPlan &plan, int64_t task, unsigned worker,
                                  const void *a, const void *b, void *c) const {
  const MatmulProblem &problem = plan.problem;
  const TileGrid &grid = plan.grid;
  const int64_t column = task % grid.tilesN, row = task / grid.tilesN % grid.tilesM;
  const int64_t first = task / (grid.tilesN * grid.tilesM) * grid.group;
  const int64_t last = std::min(first + grid.group, plan.matrices);
  const MatmulTile &tile = *plan.tiles[row == grid.tilesM - 1][column == grid.tilesN - 1];
  const int64_t operandBytes = problem.types.operandBytes();
  const int64_t resultBytes = problem.types.resultBytes();
  const auto *firstA =
      static_cast<const char *>(a) + operandBytes * row * grid.tileM * problem.a.row;
  const auto *firstB =
      static_cast<const char *>(b) + operandBytes * column * grid.tileN * problem.b.column;
  auto *firstC = static_cast<char *>(c) + resultBytes * (row * grid.tileM * problem.c.row +
                                                         column * grid.tileN * problem.c.column);
  for (int64_t index = first; index < last; ++index) {
    int64_t rest = index, offsetA = 0, offsetB = 0, offsetC = 0;
    for (size_t d = problem.batch.size(); d-- > 0;) {
      const MatmulBatch &batch = problem.batch[d];
      const int64_t at = rest % batch.count;
      rest /= batch.count;
      offsetA += at * batch.strideA;
      offsetB += at * batch.strideB;
      offsetC += at * batch.strideC;
    }
    runTile(tile, worker, firstA + operandBytes * offsetA, firstB + operandBytes * offsetB,
            firstC + resultBytes * offsetC);
  }
}

namespace {

/// The empty sum of k = 0.
void writeZeros(const MatmulPlan &plan, void *c) {
  const MatmulProblem &problem = plan.problem;
  const int64_t bytes = problem.types.resultBytes();
  for (int64_t index = 0; index < plan.matrices; ++index) {
    int64_t rest = index, offset = 0;
    for (size_t d = problem.batch.size(); d-- > 0;) {
      offset += rest % problem.batch[d].count * problem.batch[d].strideC;
      rest /= problem.batch[d].count;
    }
    for (int64_t i = 0; i < problem.m; ++i)
      for (int64_t j = 0; j < problem.n; ++j)
        std::memset(static_cast<char *>(c) +
                        bytes * (offset + i * problem.c.row + j * problem.c.column),
                    0, static_cast<size_t>(bytes));
  }
}

} // namespace

Status MatmulEngine::run(const MatmulPlan &plan, const void *a, const void *b, void *c) {
  const MatmulProblem &problem = plan.problem;
  if (problem.m <= 0 || problem.n <= 0 || plan.matrices <= 0)
    return {};
  if (problem.k <= 0) {
    if (!problem.accumulate)
      writeZeros(plan, c);
    return {};
  }
  if (plan.flipped)
    std::swap(a, b);
  const int64_t groups = (plan.matrices + plan.grid.group - 1) / plan.grid.group;
  return runTasks(
      state->pool, groups * plan.grid.tilesM * plan.grid.tilesN,
      [&](int64_t task, unsigned worker) { state->runTask(plan, task, worker, a, b, c); });
}

StatusOr<const MatmulTile *> MatmulEngine::prepareTile(const TileKey &key) {
  return state->tileFor(key);
}

void MatmulEngine::runTile(const MatmulTile &tile, unsigned worker, const void *a, const void *b,
                           void *c) const {
  state->runTile(tile, worker, a, b, c);
}

int64_t MatmulEngine::scratchBytes() const {
  int64_t total = 0;
  for (const Scratch &piece : state->scratch)
    total += static_cast<int64_t>(piece.size());
  return total;
}

size_t MatmulEngine::primitiveCount() const { return state->tiles.size(); }

} // namespace cleave::rt
