//===- Rope.cpp - Rotary frequencies from a config ---------------------------===//

#include "lib/Frontend/Rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cleave::frontend {

using rt::JsonValue;

namespace {

/// Smallest and largest theta, factor and context length taken seriously.
constexpr double kTiny = 1e-6;
constexpr double kHuge = 1e12;

/// A field that a kind of scaling has, and where it goes.
struct RopeField {
  const char *name;
  double Rope::*member;
  double min;
  double example;
  bool optional = false;
};

struct RopeForm {
  const char *name;
  RopeKind kind;
  std::vector<RopeField> fields;
};

std::vector<RopeForm> ropeForms() {
  return {{"default", RopeKind::Default, {}},
          {"linear", RopeKind::Linear, {{"factor", &Rope::factor, kTiny, 8}}},
          {"llama3",
           RopeKind::Llama3,
           {{"factor", &Rope::factor, kTiny, 8},
            {"low_freq_factor", &Rope::lowFrequencyFactor, 0, 1},
            {"high_freq_factor", &Rope::highFrequencyFactor, 0, 4},
            {"original_max_position_embeddings", &Rope::originalMaxPositions, 1, 8192}}},
          {"yarn",
           RopeKind::Yarn,
           {{"factor", &Rope::factor, kTiny, 8},
            {"original_max_position_embeddings", &Rope::originalMaxPositions, 1, 4096},
            {"beta_fast", &Rope::betaFast, kTiny, 32, /*optional=*/true},
            {"beta_slow", &Rope::betaSlow, kTiny, 1, /*optional=*/true},
            {"mscale", &Rope::mscale, 0, 1, /*optional=*/true},
            {"mscale_all_dim", &Rope::mscaleAllDim, 0, 1, /*optional=*/true},
            {"attention_factor", &Rope::attentionFactor, kTiny, 1, /*optional=*/true}}}};
}

constexpr std::string_view kKnownElsewhere[] = {"dynamic", "longrope", "su", "mrope",
                                                "proportional"};
/// A field of Yarn that is no number.
constexpr const char *kTruncate = "truncate";

/// Reads one of the objects into a normal form.
class RopeReader {
public:
  RopeReader(Config &config, const JsonValue &object, std::string key)
      : config(config), object(object), key(std::move(key)) {}

  /// `isParameters`: the object is a rope_parameters, which may leave out its
  /// kind and may hold rope_theta.
  rt::Status read(Rope &rope, bool isParameters);

private:
  const JsonValue *find(const std::string &name) const {
    const JsonValue *value = object.find(name);
    return value && !value->isNull() ? value : nullptr;
  }
  std::string path(const std::string &name) const { return key + "." + name; }
  rt::StatusOr<std::string> kindName(bool mayBeAbsent) const;
  rt::StatusOr<RopeForm> form(const std::string &name) const;
  rt::Status readField(const RopeField &field, Rope &rope) const;
  rt::Status readTheta(Rope &rope) const;
  rt::Status readTruncate(Rope &rope) const;
  void reportUnread(const RopeForm &form, bool isParameters);

  Config &config;
  const JsonValue &object;
  std::string key;
};

rt::StatusOr<std::string> RopeReader::kindName(bool mayBeAbsent) const {
  const JsonValue *modern = find("rope_type"), *old = find("type");
  const JsonValue *chosen = modern ? modern : old;
  if (!chosen) {
    if (mayBeAbsent)
      return std::string("default");
    return config
        .errorAt("config.missing_key", object, key,
                 fmt::format("\"{}\" does not say its kind", key))
        .withRule(fmt::format("\"{}\" has a \"rope_type\" (or \"type\")", key))
        .suggest("\"rope_type\": \"linear\"");
  }
  for (const JsonValue *value : {modern, old})
    if (value && !value->isString())
      return config
          .errorAt("config.wrong_type", *value, path(value == modern ? "rope_type" : "type"),
                   fmt::format("the kind of \"{}\" is {}, not a string", key, value->kindName()))
          .withRule("kinds of rope scaling are named: default, linear, llama3, yarn")
          .suggest("\"linear\"");
  if (modern && old && modern->string() != old->string())
    return config
        .errorAt("config.conflict", *old, path("type"),
                 fmt::format("\"{}\" has two kinds: \"{}\" and \"{}\"", key, modern->string(),
                             old->string()))
        .withRule("\"type\" is the older name of \"rope_type\"; if both are given they agree")
        .suggest("remove \"type\"")
        .note(givenText(path("rope_type"), *modern), modern->where(config.fileName()));
  return chosen->string();
}

rt::StatusOr<RopeForm> RopeReader::form(const std::string &name) const {
  for (RopeForm &form : ropeForms())
    if (name == form.name)
      return std::move(form);
  const JsonValue *where = find("rope_type") ? find("rope_type") : find("type");
  const bool known = std::ranges::find(kKnownElsewhere, name) != std::end(kKnownElsewhere);
  rt::Error error =
      config
          .errorAt(known ? "config.rope_unsupported" : "config.rope_unknown", *where, key,
                   known ? fmt::format("rope scaling of kind \"{}\" can't be trained yet", name)
                         : fmt::format("\"{}\" is no kind of rope scaling", name))
          .withRule("supported kinds: default, linear, llama3, yarn")
          .suggest(known ? "`cleave inspect` for its sizes and counts"
                         : "\"rope_type\": \"linear\" with a \"factor\"");
  if (!known)
    return error;
  config.leaveUntrained(std::move(error));
  return RopeForm{"", RopeKind::Other, {}};
}

rt::Status RopeReader::readField(const RopeField &field, Rope &rope) const {
  const JsonValue *value = find(field.name);
  if (!value && field.optional)
    return rt::Status::success();
  if (!value)
    return config
        .errorAt("config.missing_key", object, key,
                 fmt::format("\"{}\" is missing", path(field.name)))
        .withRule(fmt::format("this kind of rope scaling needs \"{}\"", field.name))
        .suggest(fmt::format("\"{}\": {}", field.name, field.example));
  if (!value->isNumber())
    return config
        .errorAt("config.wrong_type", *value, path(field.name),
                 fmt::format("\"{}\" is {}, not a number", path(field.name), value->kindName()))
        .withRule(fmt::format("\"{}\" is a number", path(field.name)))
        .suggest(fmt::format("{}", field.example));
  if (!(value->number() >= field.min && value->number() <= kHuge))
    return config
        .errorAt("config.out_of_range", *value, path(field.name),
                 fmt::format("\"{}\" is out of its range", path(field.name)))
        .withRule(fmt::format("\"{}\" is from {} to {}", path(field.name), field.min, kHuge))
        .suggest(fmt::format("{}", field.example));
  rope.*field.member = value->number();
  return rt::Status::success();
}

rt::Status RopeReader::readTheta(Rope &rope) const {
  const JsonValue *theta = find("rope_theta");
  if (!theta)
    return rt::Status::success();
  const double before = rope.theta;
  CLEAVE_RT_RETURN_IF_ERROR(readField({"rope_theta", &Rope::theta, kTiny, 10000}, rope));
  const JsonValue *top = config.given("rope_theta");
  if (top && rope.theta != before)
    return config
        .errorAt("config.conflict", *theta, path("rope_theta"),
                 fmt::format("\"rope_theta\" and \"{}\" differ", path("rope_theta")))
        .withRule("if both are given they agree")
        .suggest("remove \"rope_theta\"")
        .note(givenText("rope_theta", *top), top->where(config.fileName()));
  return rt::Status::success();
}

rt::Status RopeReader::readTruncate(Rope &rope) const {
  const JsonValue *value = find(kTruncate);
  if (value && !value->isBool())
    return config
        .errorAt("config.wrong_type", *value, path(kTruncate),
                 fmt::format("\"{}\" is {}, not true or false", path(kTruncate), value->kindName()))
        .withRule(fmt::format("\"{}\" is true or false", path(kTruncate)))
        .suggest("true");
  rope.truncate = !value || value->boolean();
  return rt::Status::success();
}

void RopeReader::reportUnread(const RopeForm &form, bool isParameters) {
  if (form.kind == RopeKind::Other)
    return; // refused for its kind, whatever else it says
  for (const rt::JsonMember &member : object.members()) {
    const std::string &name = member.key;
    const bool read =
        name == "rope_type" || name == "type" || (isParameters && name == "rope_theta") ||
        (form.kind == RopeKind::Yarn && name == kTruncate) ||
        std::ranges::any_of(form.fields,
                            [&](const RopeField &field) { return name == field.name; });
    if (!read && member.value.isObject())
      config.leaveUntrained(
          config
              .errorAt("config.rope_unsupported", member.value, path(name),
                       fmt::format("\"{}\", a rotary embedding for some layers alone, can't be "
                                   "trained yet",
                                   path(name)))
              .withRule("one rotary embedding holds for all layers")
              .suggest("`cleave inspect` for its sizes and counts"));
    else if (!read)
      config.noteUnused(path(name));
  }
}

rt::Status RopeReader::read(Rope &rope, bool isParameters) {
  if (!object.isObject())
    return config
        .errorAt("config.wrong_type", object, key,
                 fmt::format("\"{}\" is {}, not an object", key, object.kindName()))
        .withRule(fmt::format("\"{}\" is an object or null", key))
        .suggest("null");
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string name, kindName(isParameters));
  CLEAVE_RT_ASSIGN_OR_RETURN(const RopeForm chosen, form(name));
  rope.kind = chosen.kind;
  for (const RopeField &field : chosen.fields)
    CLEAVE_RT_RETURN_IF_ERROR(readField(field, rope));
  if (rope.kind == RopeKind::Llama3 && rope.highFrequencyFactor < rope.lowFrequencyFactor)
    return config
        .errorAt("config.out_of_range", *find("high_freq_factor"), path("high_freq_factor"),
                 fmt::format("\"{}\" is below \"low_freq_factor\"", path("high_freq_factor")))
        .withRule("high_freq_factor is at least low_freq_factor")
        .suggest(fmt::format("{}", rope.lowFrequencyFactor * 4 + 1));
  if (rope.kind == RopeKind::Yarn)
    CLEAVE_RT_RETURN_IF_ERROR(readTruncate(rope));
  if (isParameters)
    CLEAVE_RT_RETURN_IF_ERROR(readTheta(rope));
  reportUnread(chosen, isParameters);
  return rt::Status::success();
}

} // namespace

std::span<const ConfigKey> ropeKeys() {
  static constexpr ConfigKey keys[] = {
      {"rope_theta", KeyType::Number, KeyUse::Derived, 10000.0, kTiny, kHuge,
       "base of the rotary frequencies"},
      structured("rope_scaling", "rotary scaling"),
      structured("rope_parameters", "rotary base and scaling, newer form"),
  };
  return keys;
}

rt::StatusOr<Rope> readRope(Config &config, double fallback) {
  Rope rope{fallback};
  const JsonValue *theta = config.given("rope_theta");
  if (theta)
    rope.theta = theta->number();
  const JsonValue *scaling = config.given("rope_scaling");
  const JsonValue *parameters = config.given("rope_parameters");
  Rope fromScaling = rope;
  if (scaling)
    CLEAVE_RT_RETURN_IF_ERROR(
        RopeReader(config, *scaling, "rope_scaling").read(fromScaling, false));
  Rope fromParameters = rope;
  if (parameters)
    CLEAVE_RT_RETURN_IF_ERROR(
        RopeReader(config, *parameters, "rope_parameters").read(fromParameters, true));
  if (scaling && parameters) {
    Rope compared = fromParameters;
    compared.theta = fromScaling.theta; // only one of the two can hold it
    if (!(compared == fromScaling))
      return config
          .errorAt("config.conflict", *scaling, "rope_scaling",
                   "\"rope_scaling\" and \"rope_parameters\" differ")
          .withRule("both describe one rotary embedding; if both are given they agree")
          .suggest("remove \"rope_scaling\"")
          .note("\"rope_parameters\" is here", parameters->where(config.fileName()));
  }
  if (!theta && !(parameters && parameters->find("rope_theta")))
    config.noteDefault("rope_theta", JsonValue(rope.theta), "default of the family");
  return parameters ? fromParameters : fromScaling;
}

/// The number of the pair that makes `turns` full turns within the context of the first
/// training, as a fraction of pairs.
static double pairOfTurns(const Rope &rope, int64_t width, double turns) {
  return static_cast<double>(width) *
         std::log(rope.originalMaxPositions / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

/// How much of pair `pair`'s frequency Yarn keeps: all up to one pair, none from another on.
static double keptByYarn(const Rope &rope, int64_t width, int64_t pair) {
  double first = pairOfTurns(rope, width, rope.betaFast),
         last = pairOfTurns(rope, width, rope.betaSlow);
  if (rope.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(width - 1));
  if (first == last)
    last += 0.001;
  return 1 - std::clamp((static_cast<double>(pair) - first) / (last - first), 0.0, 1.0);
}

std::vector<double> ropeFrequencies(const Rope &rope, int64_t width) {
  std::vector<double> frequencies(width / 2);
  for (int64_t i = 0; i < width / 2; ++i) {
    double f = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    if (rope.kind == RopeKind::Linear)
      f /= rope.factor;
    if (rope.kind == RopeKind::Llama3) {
      // Full turns that this pair makes within the context of the first training.
      const double turns = rope.originalMaxPositions * f / (2 * std::numbers::pi);
      const double low = rope.lowFrequencyFactor, high = rope.highFrequencyFactor;
      const double kept =
          high > low ? std::clamp((turns - low) / (high - low), 0.0, 1.0) : turns > low;
      f *= (1 - kept) / rope.factor + kept;
    }
    if (rope.kind == RopeKind::Yarn) {
      const double kept = keptByYarn(rope, width, i);
      f *= (1 - kept) / rope.factor + kept;
    }
    frequencies[i] = f;
  }
  return frequencies;
}

double ropeScoreFactor(const Rope &rope) {
  if (rope.kind != RopeKind::Yarn)
    return 1;
  auto length = [&](double mscale) {
    return rope.factor <= 1 ? 1 : 0.1 * mscale * std::log(rope.factor) + 1;
  };
  double factor = length(1);
  if (rope.attentionFactor > 0)
    factor = rope.attentionFactor;
  else if (rope.mscale > 0 && rope.mscaleAllDim > 0)
    factor = length(rope.mscale) / length(rope.mscaleAllDim);
  return factor * factor;
}

rt::StatusOr<int64_t> readRotaryWidth(Config &config, std::string_view key, int64_t headDim) {
  const double share = config.number(key);
  const auto width = static_cast<int64_t>(static_cast<double>(headDim) * share);
  if (width >= 2 && width <= headDim && width % 2 == 0) {
    if (headDim % width)
      config.leaveUntrained(
          key, fmt::format("rope on {} of {} values, no whole part,", width, headDim), "0.5");
    return width;
  }
  return config
      .error("config.out_of_range", key,
             fmt::format("{} of a head of width {} can't be turned in pairs", share, headDim))
      .withRule("the turned part of a head is an even number of values, at most all")
      .suggest(fmt::format("\"{}\": 1.0", key));
}

} // namespace cleave::frontend
