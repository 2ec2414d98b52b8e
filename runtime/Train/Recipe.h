// How a model is trained, as the user says it: the recipe file, `--set` and the
// flags that are short for its keys. The compiler and the training binary read
// the same structure. What is left out and depends on the model or the planner
// stays empty here; nothing in this file knows a model.
//
// Error kinds have the prefix `recipe.` (see ObjectReader), with
// `recipe.conflict` for keys that exclude each other and `recipe.bad_setting`
// for a `--set` that is no assignment.
#pragma once

#include "runtime/Base/Json.h"

#include <cstdint>
#include <optional>
#include <string>

namespace cleave::rt {

enum class Precision { Fp32, Bf16 };
enum class ScheduleKind { Constant, Linear, Cosine, WarmupStableDecay };
enum class DataOrder { Sequential, Shuffle };

const char *nameOf(Precision precision);
const char *nameOf(ScheduleKind kind);
const char *nameOf(DataOrder order);

/// AdamW with decoupled decay; `weightDecay` is for tensors of two or more
/// dimensions.
struct OptimizerRecipe {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weightDecay = 0.1;
  bool operator==(const OptimizerRecipe &) const = default;
};

struct LearningRateRecipe {
  ScheduleKind kind = ScheduleKind::Cosine;
  double peak = 3e-4;
  double final = 0;
  /// In steps, as are the next two.
  uint64_t warmup = 0;
  /// Absent: the steps of the run.
  std::optional<uint64_t> total;
  /// Length of the descent, for `wsd` alone.
  std::optional<uint64_t> decay;
  bool operator==(const LearningRateRecipe &) const = default;
};

struct Recipe {
  std::optional<uint64_t> sequenceLength;
  /// In sequences, as is `microBatch`.
  std::optional<uint64_t> globalBatch;
  std::optional<uint64_t> microBatch;
  std::optional<Precision> precision;
  OptimizerRecipe optimizer;
  LearningRateRecipe learningRate;
  /// 0 switches clipping off.
  double clipNorm = 1.0;
  /// Absent: what the model's config says.
  std::optional<double> dropout;
  uint64_t seed = 1;
  /// Tokens to train on, for estimates of the whole run.
  std::optional<uint64_t> tokens;
  DataOrder order = DataOrder::Shuffle;
  double zLoss = 0;
  /// Standard deviation of initial weights; absent: what the config says.
  std::optional<double> initStd;
  bool operator==(const Recipe &) const = default;
};

/// Reads a recipe from JSON; `file` is for error locations.
StatusOr<Recipe> parseRecipe(const JsonValue &json, const std::string &file);

/// Every key with its value in force, absent ones null: what plans, logs and
/// checkpoints echo. parseRecipe(recipeToJson(r)) equals r.
JsonValue recipeToJson(const Recipe &recipe);

/// Applies `key=value` (`learning_rate.peak=1e-3`, `precision=bf16`) to the
/// JSON of a recipe. The value is JSON if it reads as JSON, else a string.
Status applySetting(JsonValue &recipe, const std::string &assignment);

} // namespace cleave::rt
