//===- Config.cpp - Reading a config by a table of keys ----------------------===//

#include "lib/Frontend/Config.h"

#include "runtime/Base/ObjectReader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cleave::frontend {

using rt::JsonValue;

static JsonValue toJson(const KeyDefault &fallback) {
  struct Visitor {
    JsonValue operator()(std::monostate) { return JsonValue(); }
    JsonValue operator()(std::string_view text) { return JsonValue(std::string(text)); }
    JsonValue operator()(bool flag) { return JsonValue(flag); }
    JsonValue operator()(int64_t number) { return JsonValue(number); }
    JsonValue operator()(double number) { return JsonValue(number); }
  };
  return std::visit(Visitor(), fallback);
}

static const char *typeName(KeyType type) {
  switch (type) {
  case KeyType::Integer:
    return "an integer";
  case KeyType::Number:
    return "a number";
  case KeyType::Bool:
    return "true or false";
  case KeyType::Text:
    return "a string";
  case KeyType::Any:
    return "any value";
  }
  return "any value";
}

static bool hasType(const JsonValue &value, KeyType type) {
  switch (type) {
  case KeyType::Integer:
    return value.isInteger();
  case KeyType::Number:
    return value.isNumber();
  case KeyType::Bool:
    return value.isBool();
  case KeyType::Text:
    return value.isString();
  case KeyType::Any:
    return true;
  }
  return true;
}

/// A value of the right type for the error message: the default, or one near
/// what was given.
static std::string valueThatWorks(const ConfigKey &key, const JsonValue &given) {
  if (key.type == KeyType::Integer && given.isNumber()) {
    const double nearest = std::clamp(std::round(given.number()), key.min, key.max);
    return fmt::format("{}", static_cast<int64_t>(nearest));
  }
  if (key.type == KeyType::Number && given.isNumber())
    return rt::shortestDouble(std::clamp(given.number(), key.min, key.max));
  if (!std::holds_alternative<std::monostate>(key.fallback))
    return rt::toString(toJson(key.fallback));
  return key.type == KeyType::Integer ? fmt::format("{}", static_cast<int64_t>(key.min))
                                      : std::string(typeName(key.type));
}

std::string givenText(std::string_view name, const JsonValue &value) {
  return fmt::format("{} = {}", name, rt::shortText(value));
}

rt::StatusOr<Config> Config::read(const JsonValue &object, const std::string &file,
                                  std::vector<std::span<const ConfigKey>> tables) {
  Config config(file);
  for (std::span<const ConfigKey> table : tables)
    for (const ConfigKey &key : table)
      CLEAVE_RT_RETURN_IF_ERROR(config.readKey(object, key));
  config.listUnused(object, tables);
  return config;
}

rt::Status Config::readKey(const JsonValue &object, const ConfigKey &key) {
  if (key.use == KeyUse::Ignored)
    return rt::Status::success();
  Entry entry{key.name, JsonValue(), nullptr, key.name};
  for (std::string_view spelling : {key.name, key.aliases[0], key.aliases[1]}) {
    const JsonValue *found = spelling.empty() ? nullptr : object.find(spelling);
    entry.null |= found && found->isNull();
    if (!found || found->isNull())
      continue;
    if (entry.source && !entry.source->sameValue(*found))
      return errorAt("config.conflict", *found, std::string(spelling),
                     fmt::format("\"{}\" and \"{}\" are two names of one key and differ",
                                 entry.spelling, spelling))
          .withRule("spellings of one key agree, or only one is given")
          .suggest(fmt::format("remove \"{}\"", spelling))
          .note(givenText(entry.spelling, *entry.source), entry.source->where(file));
    if (!entry.source) {
      entry.source = found;
      entry.spelling = spelling;
      entry.value = *found;
    }
  }
  if (entry.source) {
    CLEAVE_RT_RETURN_IF_ERROR(checkValue(key, entry));
  } else if (key.use == KeyUse::Required) {
    const JsonValue *null = object.find(key.name);
    return rt::userError("config.missing_key", fmt::format("\"{}\" ({}) is {}", key.name, key.what,
                                                           null ? "null" : "missing"))
        .at((null ? *null : object).where(file))
        .withGiven(null ? givenText(key.name, *null) : "")
        .withRule(fmt::format("\"{}\" has no default", key.name))
        .suggest(fmt::format("\"{}\": {} that the model's publisher states", key.name,
                             typeName(key.type)));
  } else if (key.use != KeyUse::Derived) {
    entry.value = toJson(key.fallback);
    if (key.use != KeyUse::Fixed && !entry.value.isNull())
      noteDefault(std::string(key.name), entry.value, "default of the family");
  }
  if (key.use == KeyUse::Dropout && entry.value.number() > 0)
    dropouts.push_back({std::string(entry.spelling), entry.value.number(),
                        entry.source ? entry.source->where(file) : rt::Where{file}});
  entries.push_back(std::move(entry));
  if (key.use == KeyUse::Untrained && !entries.back().value.sameValue(toJson(key.fallback)))
    leaveUntrained(key.name, key.what, rt::toString(toJson(key.fallback)));
  return rt::Status::success();
}

rt::Status Config::checkValue(const ConfigKey &key, const Entry &entry) const {
  const JsonValue &value = *entry.source;
  const std::string name(entry.spelling);
  if (!hasType(value, key.type))
    return errorAt("config.wrong_type", value, name,
                   fmt::format("\"{}\" is {}, not {}", name, value.kindName(), typeName(key.type)))
        .withRule(fmt::format("\"{}\" ({}) is {}", name, key.what, typeName(key.type)))
        .suggest(valueThatWorks(key, value));
  if (key.use == KeyUse::Fixed) {
    if (!value.sameValue(toJson(key.fallback)))
      return errorAt("config.value_unsupported", value, name,
                     fmt::format("\"{}\" = {} is not supported: {}", name, rt::shortText(value),
                                 key.what))
          .withRule(fmt::format("\"{}\" is {} or absent", name, rt::toString(toJson(key.fallback))))
          .suggest(rt::toString(toJson(key.fallback)));
    return rt::Status::success();
  }
  const bool ranged = key.type == KeyType::Integer || key.type == KeyType::Number;
  if (ranged && !(value.number() >= key.min && value.number() <= key.max)) {
    const std::string rule = std::isinf(key.max) ? fmt::format("at least {}", key.min)
                                                 : fmt::format("from {} to {}", key.min, key.max);
    return errorAt("config.out_of_range", value, name,
                   fmt::format("\"{}\" is out of its range", name))
        .withRule(fmt::format("\"{}\" ({}) is {}", name, key.what, rule))
        .suggest(valueThatWorks(key, value));
  }
  return rt::Status::success();
}

void Config::listUnused(const JsonValue &object,
                        const std::vector<std::span<const ConfigKey>> &tables) {
  auto rowOf = [&](std::string_view name) -> const ConfigKey * {
    for (std::span<const ConfigKey> table : tables)
      for (const ConfigKey &key : table)
        if (key.name == name || key.aliases[0] == name || key.aliases[1] == name)
          return &key;
    return nullptr;
  };
  for (const rt::JsonMember &member : object.members()) {
    const ConfigKey *key = rowOf(member.key);
    if (key && key->use != KeyUse::Ignored)
      continue;
    unusedKeys.push_back({member.key, key ? std::string(key->what) : ""});
    if (!key && !member.value.isNull())
      note(fmt::format("\"{}\" (line {}) is not a key of this family; nothing reads it", member.key,
                       member.keyLine));
  }
}

void Config::noteUnused(std::string path) {
  note(fmt::format("\"{}\" is not read", path));
  unusedKeys.push_back({std::move(path), ""});
}

void Config::leaveUntrained(std::string_view name, std::string_view feature,
                            std::string suggestion) {
  rt::Error result =
      error("config.feature_unsupported", name,
            fmt::format("{} can't be trained yet (\"{}\")", feature, name))
          .withRule("inspect describes every model of a family; compile and plan take those whose "
                    "features have operators");
  result = std::move(result).suggest("`cleave inspect` for its sizes and counts");
  if (!suggestion.empty())
    result = std::move(result).suggest(
        fmt::format("\"{}\": {}, which makes another model of it", name, suggestion));
  leaveUntrained(std::move(result));
}

rt::StatusOr<Config> Config::readPart(std::string_view name,
                                      std::vector<std::span<const ConfigKey>> tables) {
  const JsonValue *object = given(name);
  if (object && !object->isObject())
    return error("config.wrong_type", name,
                 fmt::format("\"{}\" is {}, not an object", name, object->kindName()))
        .withRule(fmt::format("\"{}\" is an object", name))
        .suggest("{}");
  const JsonValue empty = JsonValue::object();
  CLEAVE_RT_ASSIGN_OR_RETURN(
      Config part, read(object ? std::as_const(*object) : empty, file, std::move(tables)));
  for (const DefaultedKey &key : part.defaults)
    noteDefault(fmt::format("{}.{}", name, key.key), key.value, key.reason);
  for (const UnusedKey &key : part.unusedKeys)
    unusedKeys.push_back({fmt::format("{}.{}", name, key.key), key.reason});
  std::ranges::move(part.notes, std::back_inserter(notes));
  std::ranges::move(part.dropouts, std::back_inserter(dropouts));
  std::ranges::move(part.untrained, std::back_inserter(untrained));
  return part;
}

const Config::Entry *Config::entry(std::string_view name) const {
  auto it = std::ranges::find(entries, name, &Entry::name);
  return it == entries.end() ? nullptr : &*it;
}

const JsonValue &Config::value(std::string_view name) const {
  const Entry *found = entry(name);
  assert(found && "the key is in no table");
  return found->value;
}

const JsonValue *Config::given(std::string_view name) const {
  const Entry *found = entry(name);
  return found ? found->source : nullptr;
}

bool Config::isNull(std::string_view name) const {
  const Entry *found = entry(name);
  return found && !found->source && found->null;
}

std::optional<int64_t> Config::givenInteger(std::string_view name) const {
  const JsonValue *found = given(name);
  return found ? std::optional(found->integer()) : std::nullopt;
}

int64_t Config::derive(std::string_view name, int64_t value, std::string reason) {
  noteDefault(std::string(name), JsonValue(value), std::move(reason));
  return value;
}

void Config::noteDefault(std::string key, JsonValue value, std::string reason) {
  defaults.push_back({std::move(key), std::move(value), std::move(reason)});
}

rt::Where Config::where(std::string_view name) const {
  const JsonValue *found = given(name);
  return found ? found->where(file) : rt::Where{file};
}

rt::Error Config::error(std::string kind, std::string_view name, std::string message) const {
  const Entry *found = entry(name);
  rt::Error result = rt::userError(std::move(kind), std::move(message)).at(where(name));
  return std::move(result).withGiven(givenText(found && found->source ? found->spelling : name,
                                               found ? found->value : JsonValue()));
}

rt::Error Config::errorAt(std::string kind, const JsonValue &value, const std::string &path,
                          std::string message) const {
  return rt::userError(std::move(kind), std::move(message))
      .at(value.where(file))
      .withGiven(givenText(path, value));
}

} // namespace cleave::frontend
