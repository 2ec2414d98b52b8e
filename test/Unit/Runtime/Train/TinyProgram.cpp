// Kernels, image and float64 reference of the tiny program.
#include "TinyProgram.h"

#include <algorithm>
#include <cmath>

using namespace cleave::rt;

namespace tiny {
namespace {

constexpr double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, decay = 0.1, clip = 1.0;

float *floats(void *pointer) { return static_cast<float *>(pointer); }
int32_t *ints(void *pointer) { return static_cast<int32_t *>(pointer); }

/// targets, row counts: valid targets of the rows [begin, end).
void countRows(void *const *args, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    float valid = 0;
    for (int64_t t = 0; t < sequence; ++t)
      valid += ints(args[0])[row * sequence + t] >= 0;
    floats(args[1])[row] = valid;
  }
}

/// values, sum, count (i32 constant): sum += values[0 … count).
void addUp(void *const *args, int64_t, int64_t) {
  for (int32_t i = 0; i < *ints(args[2]); ++i)
    *floats(args[1]) += floats(args[0])[i];
}

/// count, 1 / count.
void invert(void *const *args, int64_t, int64_t) { *floats(args[1]) = 1 / *floats(args[0]); }

/// tokens, targets, line, 1 / count, row results [rows, 3]: loss, d a, d b.
void lossRows(void *const *args, int64_t begin, int64_t end) {
  const float a = floats(args[2])[0], b = floats(args[2])[1], scale = *floats(args[3]);
  for (int64_t row = begin; row < end; ++row) {
    float loss = 0, da = 0, db = 0;
    for (int64_t t = 0; t < sequence; ++t) {
      const int32_t target = ints(args[1])[row * sequence + t];
      if (target < 0)
        continue;
      const float x = static_cast<float>(ints(args[0])[row * sequence + t]) / vocabulary;
      const float error = a * x + b - static_cast<float>(target) / vocabulary;
      loss += error * error * scale;
      da += 2 * error * x * scale;
      db += 2 * error * scale;
    }
    float *out = floats(args[4]) + row * 3;
    out[0] = loss;
    out[1] = da;
    out[2] = db;
  }
}

/// row results, gradient [2], loss, rows (i32 constant).
void gather(void *const *args, int64_t, int64_t) {
  for (int32_t row = 0; row < *ints(args[3]); ++row) {
    *floats(args[2]) += floats(args[0])[row * 3];
    floats(args[1])[0] += floats(args[0])[row * 3 + 1];
    floats(args[1])[1] += floats(args[0])[row * 3 + 2];
  }
}

/// gradient [2], norm.
void norm(void *const *args, int64_t, int64_t) {
  *floats(args[1]) = std::hypot(floats(args[0])[0], floats(args[0])[1]);
}

/// value, gradient, moment1, moment2, rate, correction1, correction2, norm.
void adamw(void *const *args, int64_t begin, int64_t end) {
  const float rate = *floats(args[4]);
  const float factor = std::min(1.0f, static_cast<float>(clip) / (*floats(args[7]) + 1e-6f));
  for (int64_t i = begin; i < end; ++i) {
    const float g = floats(args[1])[i] * factor;
    float &m = floats(args[2])[i], &v = floats(args[3])[i];
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    const float mHat = m / *floats(args[5]), vHat = v / *floats(args[6]);
    floats(args[0])[i] -= rate * mHat / (std::sqrt(vHat) + static_cast<float>(epsilon));
  }
}

/// value, rate: decay alone.
void shrink(void *const *args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    floats(args[0])[i] *= 1 - *floats(args[1]) * static_cast<float>(decay);
}

constexpr KernelSymbol table[] = {{"count_rows", countRows}, {"add_up", addUp},  {"invert", invert},
                                  {"loss_rows", lossRows},   {"gather", gather}, {"norm", norm},
                                  {"adamw", adamw},          {"shrink", shrink}};

/// Hands out regions of one segment.
struct Packer {
  int32_t segment;
  int64_t next = 0;
  Region take(int64_t bytes) {
    const Region region{segment, next, bytes};
    next += (bytes + 63) / 64 * 64;
    return region;
  }
};

Command kernel(const char *symbol, std::vector<Region> args, int64_t extent = 1) {
  return {KernelCommand{symbol, std::move(args), extent, 1}, symbol, 0, 0};
}

Command sum(const Region &region) {
  return {AllReduceCommand{0, ReductionKind::Sum, DataType::F32, region, region}, "sum", 0, 0};
}

StateEntry parameter(const char *name, int64_t size, AxisList axes, int64_t local, Packer &weights,
                     Packer &moments, Initial initial) {
  StateEntry entry;
  entry.name = name;
  entry.shape = entry.fileShape = {size};
  entry.sharding.axes = {std::move(axes)};
  entry.initial = initial;
  entry.slot(Slot::Value) = weights.take(4 * local);
  entry.slot(Slot::Moment1) = moments.take(4 * local);
  entry.slot(Slot::Moment2) = moments.take(4 * local);
  return entry;
}

} // namespace

KernelTable kernels() { return table; }

Program program(int64_t ranks, int64_t microBatch, int64_t microBatches) {
  Program p;
  p.modelName = "tiny-line";
  p.mesh.axes = {{"data", ranks}};
  p.batch = {.globalBatch = ranks * microBatch * microBatches,
             .microBatch = microBatch,
             .microBatches = microBatches,
             .sequence = sequence,
             .vocabulary = vocabulary,
             .dataAxes = {0},
             .sequenceAxes = {}};
  Packer weights{0}, moments{1}, io{2}, arena{3};
  StateEntry line = parameter("line.weight", 2, {}, 2, weights, moments, {0, 0.5});
  line.slot(Slot::Gradient) = arena.take(8);
  StateEntry cut = parameter("shrink.weight", shrinkSize, {0}, blockSize(shrinkSize, ranks),
                             weights, moments, {0, 1});
  const int64_t ids = 4 * microBatch * sequence;
  Exchange &io_ = p.exchange;
  io_.tokens = io.take(ids);
  io_.targets = io.take(ids);
  io_.learningRate = io.take(4);
  io_.correction1 = io.take(4);
  io_.correction2 = io.take(4);
  io_.loss = io.take(4);
  io_.gradientNorm = io.take(4);
  io_.validCount = io.take(4);
  const Region rowCounts = arena.take(4 * microBatch), rows = arena.take(4);
  const Region inverse = arena.take(4), results = arena.take(12 * microBatch);
  p.constants = {
      {"rows", rows, DataType::I32, Constant::Numbers{{static_cast<double>(microBatch)}}}};
  const Region value = *line.slot(Slot::Value), gradient = *line.slot(Slot::Gradient);
  p.entry(EntryKind::Begin) = {{ZeroCommand{gradient}, "", 0, 0},
                               {ZeroCommand{io_.loss}, "", 0, 0},
                               {ZeroCommand{*io_.validCount}, "", 0, 0}};
  p.entry(EntryKind::Count) = {kernel("count_rows", {io_.targets, rowCounts}, microBatch),
                               kernel("add_up", {rowCounts, *io_.validCount, rows})};
  p.entry(EntryKind::Prepare) = {sum(*io_.validCount),
                                 kernel("invert", {*io_.validCount, inverse})};
  const std::vector<Command> forward = {
      kernel("loss_rows", {io_.tokens, io_.targets, value, inverse, results}, microBatch),
      kernel("gather", {results, gradient, io_.loss, rows})};
  p.entry(EntryKind::MicroBatch) = forward;
  p.entry(EntryKind::Evaluate) = forward;
  p.entry(EntryKind::Evaluate).push_back(sum(io_.loss));
  p.entry(EntryKind::Update) = {
      sum(gradient), sum(io_.loss), kernel("norm", {gradient, *io_.gradientNorm}),
      kernel("adamw",
             {value, gradient, *line.slot(Slot::Moment1), *line.slot(Slot::Moment2),
              *io_.learningRate, *io_.correction1, *io_.correction2, *io_.gradientNorm},
             2),
      kernel("shrink", {*cut.slot(Slot::Value), *io_.learningRate}, blockSize(shrinkSize, ranks))};
  p.groups = {Group{{0}, {}}};
  p.state = {line, cut};
  p.segments = {
      {"weights", weights.next}, {"moments", moments.next}, {"io", io.next}, {"arena", arena.next}};
  p.prediction.bytesPerRank = int64_t(8) << 20;
  p.configText = "{\"model_type\": \"line\"}\n";
  p.recipe = parseJson(R"({"optimizer": {"type": "adamw", "beta1": 0.9, "beta2": 0.95,
      "eps": 1e-8, "weight_decay": 0.1}, "learning_rate": {"schedule": "constant", "peak": 0.01},
      "clip_norm": 1.0, "seed": 1, "data": {"order": "sequential"}})")
                 .value();
  p.plan = JsonValue::object();
  p.plan.set("mesh", JsonValue("data"));
  return p;
}

Reference reference(const std::vector<int> &tokens, int64_t globalBatch, int steps, double a,
                    double b, double rate) {
  Reference result;
  double m[2] = {0, 0}, v[2] = {0, 0};
  const auto sequences = static_cast<int64_t>((tokens.size() - 1) / sequence);
  for (int step = 1; step <= steps; ++step) {
    double loss = 0, g[2] = {0, 0};
    const double scale = 1.0 / static_cast<double>(globalBatch * sequence);
    for (int64_t i = 0; i < globalBatch; ++i) {
      const int64_t index = ((step - 1) * globalBatch + i) % sequences;
      for (int64_t t = 0; t < sequence; ++t) {
        const double x = tokens[index * sequence + t] / double(vocabulary);
        const double error = a * x + b - tokens[index * sequence + t + 1] / double(vocabulary);
        loss += error * error * scale;
        g[0] += 2 * error * x * scale;
        g[1] += 2 * error * scale;
      }
    }
    const double norm = std::hypot(g[0], g[1]);
    double *value[2] = {&a, &b};
    for (int i = 0; i < 2; ++i) {
      const double clipped = g[i] * std::min(1.0, clip / (norm + 1e-6));
      m[i] = beta1 * m[i] + (1 - beta1) * clipped;
      v[i] = beta2 * v[i] + (1 - beta2) * clipped * clipped;
      *value[i] -= rate * (m[i] / (1 - std::pow(beta1, step))) /
                   (std::sqrt(v[i] / (1 - std::pow(beta2, step))) + epsilon);
    }
    result.loss.push_back(loss);
    result.norm.push_back(norm);
  }
  result.a = a;
  result.b = b;
  return result;
}

} // namespace tiny
