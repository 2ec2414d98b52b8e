// The recipe to and from JSON.
#include "runtime/Train/Recipe.h"

#include "runtime/Base/ObjectReader.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace cleave::rt {

namespace {

struct ScheduleName {
  const char *name;
  ScheduleKind kind;
};
constexpr std::array scheduleNames = {
    ScheduleName{"constant", ScheduleKind::Constant},
    ScheduleName{"linear", ScheduleKind::Linear},
    ScheduleName{"cosine", ScheduleKind::Cosine},
    ScheduleName{"wsd", ScheduleKind::WarmupStableDecay},
};

constexpr IntegerRange positive{.min = 1};
constexpr IntegerRange notNegative{.min = 0};
constexpr NumberRange fraction{.min = 0, .max = 1, .maxExcluded = true};
// Kernels compute in float32: what is beyond it would become infinite there, and
// what is below its smallest normal number zero.
constexpr double largest = 3e38, smallest = 1.2e-38;
constexpr NumberRange atLeastZero{.min = 0, .max = largest};

std::optional<uint64_t> asUnsigned(std::optional<int64_t> value) {
  return value ? std::optional<uint64_t>(static_cast<uint64_t>(*value)) : std::nullopt;
}

/// A count that people write as 15e12 as well as 15000000000000.
std::optional<uint64_t> readCount(ObjectReader &in, const std::string &key) {
  const std::optional<double> number = in.number(key, {.min = 1, .max = 0x1p62});
  if (!number)
    return std::nullopt;
  if (std::floor(*number) != *number) {
    in.absorb(userError("recipe.wrong_type", fmt::format("\"{}\" is not a whole number", key))
                  .at(in.whereOf(key))
                  .withGiven(fmt::format("{} = {}", key, *number))
                  .withRule(fmt::format("\"{}\" is a whole number; 15e12 is one", key))
                  .suggest(fmt::format("\"{}\": {}", key, std::floor(*number))));
    return std::nullopt;
  }
  const JsonValue *raw = in.raw(key);
  return raw->isInteger() ? static_cast<uint64_t>(raw->integer()) : static_cast<uint64_t>(*number);
}

void readOptimizer(ObjectReader in, OptimizerRecipe &optimizer, ObjectReader &parent) {
  in.oneOf("type", {"adamw"});
  optimizer.beta1 = in.number("beta1", fraction).value_or(optimizer.beta1);
  optimizer.beta2 = in.number("beta2", fraction).value_or(optimizer.beta2);
  optimizer.epsilon =
      in.number("eps", {.min = smallest, .max = largest}).value_or(optimizer.epsilon);
  optimizer.weightDecay = in.number("weight_decay", atLeastZero).value_or(optimizer.weightDecay);
  parent.absorb(in.finish());
}

void checkLearningRate(ObjectReader &in, const LearningRateRecipe &rate) {
  const bool isWsd = rate.kind == ScheduleKind::WarmupStableDecay;
  if (isWsd)
    in.require("decay");
  if (!isWsd && rate.decay)
    in.absorb(
        userError("recipe.conflict", fmt::format("\"{}\" belongs to the schedule wsd, not to {}",
                                                 in.pathOf("decay"), nameOf(rate.kind)))
            .at(in.whereOf("decay"))
            .withGiven(fmt::format("decay = {}, schedule = {}", *rate.decay, nameOf(rate.kind)))
            .withRule("\"decay\" is the length of the descent of wsd")
            .suggest("leave out \"decay\", or set the schedule to \"wsd\""));
  const uint64_t needed = rate.warmup + rate.decay.value_or(0);
  if (rate.total && needed > *rate.total)
    in.absorb(userError("recipe.conflict",
                        fmt::format("warm-up and decay take {} of {} steps", needed, *rate.total))
                  .at(in.whereOf("total"))
                  .withGiven(fmt::format("warmup = {}, decay = {}, total = {}", rate.warmup,
                                         rate.decay.value_or(0), *rate.total))
                  .withRule("warmup + decay is at most total")
                  .suggest(fmt::format("total = {}", needed)));
}

void readLearningRate(ObjectReader in, LearningRateRecipe &rate, ObjectReader &parent) {
  std::vector<std::string> names;
  for (const ScheduleName &row : scheduleNames)
    names.push_back(row.name);
  if (const std::optional<std::string> name = in.oneOf("schedule", names))
    for (const ScheduleName &row : scheduleNames)
      if (*name == row.name)
        rate.kind = row.kind;
  rate.peak = in.number("peak", atLeastZero).value_or(rate.peak);
  rate.final = in.number("final", atLeastZero).value_or(rate.final);
  // Bounded so that sums of steps cannot overflow.
  constexpr int64_t most = int64_t{1} << 60;
  rate.warmup = asUnsigned(in.integer("warmup", {.min = 0, .max = most})).value_or(0);
  rate.total = asUnsigned(in.integer("total", {.min = 1, .max = most}));
  rate.decay = asUnsigned(in.integer("decay", {.min = 0, .max = most}));
  checkLearningRate(in, rate);
  parent.absorb(in.finish());
}

/// What other trainers call it, and what to write here.
struct OtherName {
  std::string_view name, here;
};
constexpr std::string_view peakHere = "learning_rate.peak", warmupHere = "learning_rate.warmup";
constexpr std::string_view batchHere = "global_batch", sequenceHere = "sequence_length";
constexpr std::string_view stepsHere = "--steps of the training binary";
constexpr std::array otherNames = {
    OtherName{"lr", peakHere},
    OtherName{"max_lr", peakHere},
    OtherName{"peak", peakHere},
    OtherName{"min_lr", "learning_rate.final"},
    OtherName{"lr_schedule", "learning_rate.schedule"},
    OtherName{"lr_scheduler_type", "learning_rate.schedule"},
    OtherName{"schedule", "learning_rate.schedule"},
    OtherName{"warmup", warmupHere},
    OtherName{"warmup_steps", warmupHere},
    OtherName{"batch_size", batchHere},
    OtherName{"global_batch_size", batchHere},
    OtherName{"micro_batch_size", "micro_batch"},
    OtherName{"per_device_train_batch_size", "micro_batch"},
    OtherName{"seq_len", sequenceHere},
    OtherName{"seq_length", sequenceHere},
    OtherName{"block_size", sequenceHere},
    OtherName{"weight_decay", "optimizer.weight_decay"},
    OtherName{"beta1", "optimizer.beta1"},
    OtherName{"beta2", "optimizer.beta2"},
    OtherName{"grad_clip", "clip_norm"},
    OtherName{"max_grad_norm", "clip_norm"},
    OtherName{"max_norm", "clip_norm"},
    OtherName{"dtype", "precision"},
    OtherName{"steps", stepsHere},
    OtherName{"max_steps", stepsHere},
    OtherName{"train_iters", stepsHere},
};

/// Puts our key in place of the nearest by letters, where the given one is known.
Status withOurName(const Status &status) {
  if (status.ok() || status.error().kind != "recipe.unknown_key")
    return status;
  Error error = status.error();
  for (const OtherName &other : otherNames)
    if (error.given == other.name)
      error.suggestions = {std::string(other.here)};
  return error;
}

template <typename T> JsonValue orNull(const std::optional<T> &value) {
  if (!value)
    return JsonValue();
  if constexpr (std::is_integral_v<T>)
    return JsonValue(static_cast<int64_t>(*value));
  else
    return JsonValue(*value);
}

} // namespace

const char *nameOf(Precision precision) { return precision == Precision::Fp32 ? "fp32" : "bf16"; }

const char *nameOf(ScheduleKind kind) {
  for (const ScheduleName &row : scheduleNames)
    if (row.kind == kind)
      return row.name;
  return "unknown";
}

const char *nameOf(DataOrder order) {
  return order == DataOrder::Sequential ? "sequential" : "shuffle";
}

StatusOr<Recipe> parseRecipe(const JsonValue &json, const std::string &file) {
  ObjectReader in(json, file, "recipe");
  Recipe recipe;
  in.checkVersion(1);
  recipe.sequenceLength = asUnsigned(in.integer("sequence_length", positive));
  recipe.globalBatch = asUnsigned(in.integer("global_batch", positive));
  recipe.microBatch = asUnsigned(in.integer("micro_batch", positive));
  if (const auto precision = in.oneOf("precision", {"fp32", "bf16"}))
    recipe.precision = *precision == "fp32" ? Precision::Fp32 : Precision::Bf16;
  if (const auto optimizer = in.object("optimizer"))
    readOptimizer(*optimizer, recipe.optimizer, in);
  if (const JsonValue *rate = in.raw("learning_rate"); rate && rate->isNumber())
    in.absorb(userError("recipe.wrong_type", "\"learning_rate\" is a number, not an object")
                  .at(in.whereOf("learning_rate"))
                  .withGiven(fmt::format("learning_rate = {}", shortText(*rate)))
                  .withRule("\"learning_rate\" has the keys schedule, peak, final, warmup, total")
                  .suggest(fmt::format("learning_rate.peak={}", shortText(*rate))));
  else if (const auto rate = in.object("learning_rate"))
    readLearningRate(*rate, recipe.learningRate, in);
  recipe.clipNorm = in.number("clip_norm", atLeastZero).value_or(recipe.clipNorm);
  recipe.dropout = in.number("dropout", fraction);
  recipe.seed = asUnsigned(in.integer("seed", notNegative)).value_or(recipe.seed);
  recipe.tokens = readCount(in, "tokens");
  if (auto data = in.object("data")) {
    if (const auto order = data->oneOf("order", {"sequential", "shuffle"}))
      recipe.order = *order == "sequential" ? DataOrder::Sequential : DataOrder::Shuffle;
    data->oneOf("documents", {"off"});
    in.absorb(data->finish());
  }
  recipe.zLoss = in.number("z_loss", atLeastZero).value_or(0);
  if (auto init = in.object("init")) {
    recipe.initStd = init->number("std", {.min = 0, .minExcluded = true});
    in.absorb(init->finish());
  }
  CLEAVE_RT_RETURN_IF_ERROR(withOurName(in.finish()));
  return recipe;
}

JsonValue recipeToJson(const Recipe &recipe) {
  JsonValue optimizer = JsonValue::object();
  optimizer.set("type", "adamw");
  optimizer.set("beta1", recipe.optimizer.beta1);
  optimizer.set("beta2", recipe.optimizer.beta2);
  optimizer.set("eps", recipe.optimizer.epsilon);
  optimizer.set("weight_decay", recipe.optimizer.weightDecay);
  JsonValue rate = JsonValue::object();
  rate.set("schedule", nameOf(recipe.learningRate.kind));
  rate.set("peak", recipe.learningRate.peak);
  rate.set("final", recipe.learningRate.final);
  rate.set("warmup", static_cast<int64_t>(recipe.learningRate.warmup));
  rate.set("total", orNull(recipe.learningRate.total));
  rate.set("decay", orNull(recipe.learningRate.decay));
  JsonValue data = JsonValue::object();
  data.set("order", nameOf(recipe.order));
  data.set("documents", "off");
  JsonValue init = JsonValue::object();
  init.set("std", orNull(recipe.initStd));

  JsonValue json = JsonValue::object();
  json.set("sequence_length", orNull(recipe.sequenceLength));
  json.set("global_batch", orNull(recipe.globalBatch));
  json.set("micro_batch", orNull(recipe.microBatch));
  json.set("precision", recipe.precision ? JsonValue(nameOf(*recipe.precision)) : JsonValue());
  json.set("optimizer", std::move(optimizer));
  json.set("learning_rate", std::move(rate));
  json.set("clip_norm", recipe.clipNorm);
  json.set("dropout", orNull(recipe.dropout));
  json.set("seed", static_cast<int64_t>(recipe.seed));
  json.set("tokens", orNull(recipe.tokens));
  json.set("data", std::move(data));
  json.set("z_loss", recipe.zLoss);
  json.set("init", std::move(init));
  return json;
}

Status applySetting(JsonValue &recipe, const std::string &assignment) {
  const size_t equals = assignment.find('=');
  std::string key = assignment.substr(0, equals);
  if (equals == std::string::npos || key.empty() || key.front() == '.' || key.back() == '.' ||
      key.find("..") != std::string::npos)
    return userError("recipe.bad_setting", fmt::format("'{}' is not an assignment", assignment))
        .withGiven("--set " + assignment)
        .withRule("--set takes key=value; keys of inner objects are written with a point")
        .suggest("--set learning_rate.peak=3e-4");
  const std::string text = assignment.substr(equals + 1);
  StatusOr<JsonValue> parsed = parseJson(text);
  JsonValue value = parsed.ok() ? std::move(*parsed) : JsonValue(text);
  // A place inside the command line would be taken for one in the file.
  value.setPlace(0, 0);
  JsonValue *object = &recipe;
  for (size_t point; (point = key.find('.')) != std::string::npos; key = key.substr(point + 1)) {
    const std::string outer = key.substr(0, point);
    JsonValue *inner = object->find(outer);
    if (!inner || inner->isNull()) {
      object->set(outer, JsonValue::object());
      inner = object->find(outer);
    }
    if (!inner->isObject())
      return userError("recipe.bad_setting",
                       fmt::format("\"{}\" is {}, so it has no keys", outer, inner->kindName()))
          .withGiven("--set " + assignment)
          .withRule("what stands before a point is an object of the recipe")
          .suggest("--set learning_rate.peak=3e-4");
    object = inner;
  }
  object->set(key, std::move(value));
  return Status::success();
}

} // namespace cleave::rt
