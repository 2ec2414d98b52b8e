// Typed, ranged access to the objects of our own files.
#include "runtime/Base/ObjectReader.h"

#include "runtime/Base/Suggest.h"
#include "runtime/Base/Utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cleave::rt {

std::string shortText(const JsonValue &value) {
  constexpr size_t limit = 60;
  if (value.isArray() || value.isObject())
    return value.kindName();
  std::string text = toString(value);
  if (text.size() <= limit)
    return text;
  size_t cut = 0;
  while (cut < limit)
    cut += std::max(1u, utf8SequenceLength(std::string_view(text).substr(cut)));
  return text.substr(0, cut) + "…";
}

ObjectReader::ObjectReader(const JsonValue &object, std::string file, std::string prefix,
                           std::string path)
    : source(&object), file(std::move(file)), prefix(std::move(prefix)), path(std::move(path)) {
  if (!object.isObject())
    firstError = userError(this->prefix + ".wrong_type",
                           fmt::format("{} is {}, not an object",
                                       this->path.empty() ? "the file's value" : this->path,
                                       object.kindName()))
                     .at(object.where(this->file))
                     .withGiven(shortText(object));
}

std::string ObjectReader::pathOf(const std::string &key) const {
  return path.empty() ? key : path + "." + key;
}

bool ObjectReader::has(const std::string &key) const { return source->find(key) != nullptr; }

const JsonValue *ObjectReader::lookup(const std::string &key) {
  if (std::ranges::find(known, key) == known.end())
    known.push_back(key);
  const JsonValue *value = source->find(key);
  return value && !value->isNull() ? value : nullptr;
}

const JsonValue *ObjectReader::raw(const std::string &key) { return lookup(key); }

Where ObjectReader::whereOf(const std::string &key) const {
  const JsonValue *value = source->find(key);
  return (value ? value : source)->where(file);
}

void ObjectReader::absorb(const Status &status) {
  if (firstError.ok() && !status.ok())
    firstError = status;
}

void ObjectReader::wrongType(const std::string &key, const JsonValue &value, const char *expected,
                             std::string example) {
  absorb(userError(prefix + ".wrong_type",
                   fmt::format("\"{}\" is {}, not {}", pathOf(key), value.kindName(), expected))
             .at(value.where(file))
             .withGiven(fmt::format("{} = {}", pathOf(key), shortText(value)))
             .withRule(fmt::format("\"{}\" is {}", pathOf(key), expected))
             .suggest(fmt::format("\"{}\": {}", key, example)));
}

void ObjectReader::outOfRange(const std::string &key, std::string given, std::string rule,
                              std::string suggestion) {
  absorb(userError(prefix + ".out_of_range",
                   fmt::format("\"{}\" is {}, out of its range", pathOf(key), given))
             .at(whereOf(key))
             .withGiven(fmt::format("{} = {}", pathOf(key), given))
             .withRule(fmt::format("\"{}\" is {}", pathOf(key), rule))
             .suggest(std::move(suggestion)));
}

std::optional<int64_t> ObjectReader::integer(const std::string &key, IntegerRange range) {
  const JsonValue *value = lookup(key);
  if (!value)
    return std::nullopt;
  if (!value->isInteger()) {
    wrongType(key, *value, "an integer",
              std::to_string(std::clamp<int64_t>(1, range.min, range.max)));
    return std::nullopt;
  }
  const int64_t number = value->integer();
  if (number < range.min || number > range.max) {
    const bool openAbove = range.max == std::numeric_limits<int64_t>::max();
    outOfRange(key, std::to_string(number),
               openAbove ? fmt::format("at least {}", range.min)
                         : fmt::format("from {} to {}", range.min, range.max),
               std::to_string(number < range.min ? range.min : range.max));
    return std::nullopt;
  }
  return number;
}

static bool holds(const NumberRange &range, double number) {
  return (range.minExcluded ? number > range.min : number >= range.min) &&
         (range.maxExcluded ? number < range.max : number <= range.max);
}

static std::string describeRange(const NumberRange &range) {
  std::string rule;
  if (std::isfinite(range.min))
    rule = fmt::format("{} {}", range.minExcluded ? "above" : "at least", range.min);
  if (std::isfinite(range.max))
    rule += fmt::format("{}{} {}", rule.empty() ? "" : " and ",
                        range.maxExcluded ? "below" : "at most", range.max);
  return rule;
}

std::optional<double> ObjectReader::number(const std::string &key, NumberRange range) {
  const JsonValue *value = lookup(key);
  if (!value)
    return std::nullopt;
  if (!value->isNumber()) {
    double example = 0.5;
    if (!holds(range, example))
      example = std::isfinite(range.min) ? range.min + 1 : range.max - 1;
    wrongType(key, *value, "a number", fmt::format("{}", example));
    return std::nullopt;
  }
  const double number = value->number();
  if (!holds(range, number)) {
    const std::string rule = describeRange(range);
    outOfRange(key, shortText(*value), rule, "a value " + rule);
    return std::nullopt;
  }
  return number;
}

std::optional<bool> ObjectReader::boolean(const std::string &key) {
  const JsonValue *value = lookup(key);
  if (!value)
    return std::nullopt;
  if (!value->isBool()) {
    wrongType(key, *value, "true or false", "true");
    return std::nullopt;
  }
  return value->boolean();
}

std::optional<std::string> ObjectReader::string(const std::string &key) {
  const JsonValue *value = lookup(key);
  if (!value)
    return std::nullopt;
  if (!value->isString()) {
    wrongType(key, *value, "a string", "a text in double quotes");
    return std::nullopt;
  }
  return value->string();
}

std::optional<std::string> ObjectReader::oneOf(const std::string &key,
                                               std::vector<std::string> allowed) {
  std::optional<std::string> text = string(key);
  if (!text || std::ranges::find(allowed, *text) != allowed.end())
    return text;
  const std::optional<std::string> nearest = nearestName(*text, allowed);
  absorb(userError(prefix + ".unknown_value",
                   fmt::format("\"{}\" is not a value of \"{}\"", *text, pathOf(key)))
             .at(whereOf(key))
             .withGiven(fmt::format("{} = \"{}\"", pathOf(key), *text))
             .withRule(fmt::format("\"{}\" is one of {}", pathOf(key), fmt::join(allowed, ", ")))
             .suggest(nearest.value_or(allowed.front())));
  return std::nullopt;
}

std::optional<ObjectReader> ObjectReader::object(const std::string &key) {
  const JsonValue *value = lookup(key);
  if (!value)
    return std::nullopt;
  if (!value->isObject()) {
    wrongType(key, *value, "an object", "{}");
    return std::nullopt;
  }
  return ObjectReader(*value, file, prefix, pathOf(key));
}

const JsonValue::Array *ObjectReader::list(const std::string &key) {
  const JsonValue *value = lookup(key);
  if (!value)
    return nullptr;
  if (!value->isArray()) {
    wrongType(key, *value, "a list", "[]");
    return nullptr;
  }
  return &value->elements();
}

void ObjectReader::require(const std::string &key) {
  if (!lookup(key))
    absorb(userError(prefix + ".missing_key", fmt::format("\"{}\" is missing", pathOf(key)))
               .at(source->where(file))
               .withRule(fmt::format("\"{}\" has no default", pathOf(key)))
               .suggest(fmt::format("add \"{}\"", key)));
}

void ObjectReader::checkVersion(int64_t newest) {
  const std::optional<int64_t> version = integer("version", {.min = 1});
  if (version && *version > newest)
    absorb(userError(prefix + ".version_unsupported",
                     fmt::format("the file has version {}; this program reads up to {}", *version,
                                 newest))
               .at(whereOf("version"))
               .withGiven(fmt::format("version = {}", *version))
               .withRule(fmt::format("version is at most {}", newest))
               .suggest("use a newer program, or write the file in version " +
                        std::to_string(newest)));
}

Status ObjectReader::unknownKeys() const {
  if (!source->isObject())
    return Status::success();
  std::optional<Error> error;
  // A file of another kind has many; a few of them show it.
  constexpr size_t most = 3;
  size_t more = 0;
  for (const JsonMember &member : source->members()) {
    if (std::ranges::find(known, member.key) != known.end())
      continue;
    const Where place = member.keyLine ? Where{file, member.keyLine, member.keyColumn} : Where{};
    const std::optional<std::string> nearest = nearestName(member.key, known);
    if (error && error->notes.size() == most) {
      ++more;
      continue;
    }
    if (error) {
      error->notes.push_back({place, fmt::format("\"{}\" is unknown too", pathOf(member.key))});
      continue;
    }
    error =
        userError(prefix + ".unknown_key", fmt::format("unknown key \"{}\"", pathOf(member.key)))
            .at(place)
            .withGiven(member.key)
            .withRule(fmt::format("known keys: {}", fmt::join(known, ", ")));
    error->suggestions.push_back(nearest ? *nearest : "remove it");
  }
  if (more > 0)
    error->notes.push_back({{}, fmt::format("{} more keys are unknown", more)});
  return error ? Status(std::move(*error)) : Status::success();
}

Status ObjectReader::finish() {
  CLEAVE_RT_RETURN_IF_ERROR(unknownKeys());
  return firstError;
}

} // namespace cleave::rt
