//===- Config.h - Reading a config by a table of keys ------------------------===//
//
// A family says which keys it knows in one table: name, older spellings, type,
// range, what holds when the key is left out, what it is for. `Config::read`
// checks a file against the table, after which every key of the file is either
// used or listed as unused, and every key of the table has a value or is listed
// as defaulted. Null counts as absent, as transformers writes it.
//
// This is for files of other people: keys that nobody knows are kept and
// reported, never refused. Our own files go through rt::ObjectReader.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Frontend/Model.h"

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

namespace cleave::frontend {

enum class KeyType { Integer, Number, Bool, Text, Any };

enum class KeyUse {
  /// Must be there.
  Required,
  /// Has a fixed default.
  Optional,
  /// The family's code computes the default from other keys.
  Derived,
  /// Like Optional; a value above 0 is reported as dropout.
  Dropout,
  /// Only the default is supported; anything else changes the model.
  Fixed,
  /// Like Optional; anything but the default leaves the parameters as they are, and
  /// can't be trained.
  Untrained,
  /// Of no consequence for training; may be there.
  Ignored,
};

using KeyDefault = std::variant<std::monostate, bool, int64_t, double, std::string_view>;

/// One row of a family's table.
struct ConfigKey {
  std::string_view name;
  KeyType type = KeyType::Any;
  KeyUse use = KeyUse::Ignored;
  KeyDefault fallback = {};
  /// Inclusive, for numbers.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  /// What it is for; for ignored keys, why it does not matter.
  std::string_view what = {};
  /// Other spellings of the same key.
  std::array<std::string_view, 2> aliases = {};

  constexpr ConfigKey alias(std::string_view other) const {
    ConfigKey key = *this;
    (key.aliases[0].empty() ? key.aliases[0] : key.aliases[1]) = other;
    return key;
  }
};

/// Upper ends that keep products of two sizes within 64 bits.
constexpr double kMaxWidth = 1 << 24;
constexpr double kMaxHeads = 1 << 16;
constexpr double kMaxLayers = 10000;
constexpr double kMaxVocabulary = 2147483647;

// Rows. The order of a table is the order in which keys are checked.
constexpr ConfigKey requiredSize(std::string_view name, double max, std::string_view what) {
  return {name, KeyType::Integer, KeyUse::Required, {}, 1, max, what};
}
constexpr ConfigKey size(std::string_view name, int64_t fallback, double max,
                         std::string_view what) {
  return {name, KeyType::Integer, KeyUse::Optional, fallback, 1, max, what};
}
constexpr ConfigKey derivedSize(std::string_view name, double max, std::string_view what) {
  return {name, KeyType::Integer, KeyUse::Derived, {}, 1, max, what};
}
constexpr ConfigKey number(std::string_view name, double fallback, double min, double max,
                           std::string_view what) {
  return {name, KeyType::Number, KeyUse::Optional, fallback, min, max, what};
}
constexpr ConfigKey flag(std::string_view name, bool fallback, std::string_view what) {
  return {name, KeyType::Bool, KeyUse::Optional, fallback, 0, 1, what};
}
constexpr ConfigKey text(std::string_view name, std::string_view fallback, std::string_view what) {
  return {name, KeyType::Text, KeyUse::Optional, fallback, 0, 0, what};
}
constexpr ConfigKey dropout(std::string_view name, double fallback, std::string_view what) {
  return {name, KeyType::Number, KeyUse::Dropout, fallback, 0, 1, what};
}
/// A key that only changes the model when it differs from `value`.
constexpr ConfigKey fixed(std::string_view name, KeyType type, KeyDefault value,
                          std::string_view what) {
  ConfigKey key{name, type, KeyUse::Fixed, value};
  key.what = what;
  return key;
}
/// A key whose values other than `value` change what is computed, in a way that is not
/// built; the parameters are the same.
constexpr ConfigKey untrained(std::string_view name, KeyType type, KeyDefault value,
                              std::string_view what) {
  ConfigKey key{name, type, KeyUse::Untrained, value};
  key.what = what;
  return key;
}
/// A key that code reads as it stands (an object).
constexpr ConfigKey structured(std::string_view name, std::string_view what) {
  ConfigKey key{name, KeyType::Any, KeyUse::Derived};
  key.what = what;
  return key;
}
constexpr ConfigKey ignored(std::string_view name, std::string_view why) {
  ConfigKey key{name};
  key.what = why;
  return key;
}

/// A config that passed its family's table.
class Config {
public:
  /// Checks `object` (the whole file) against `tables` together. Errors:
  /// config.missing_key, wrong_type, out_of_range, conflict (two spellings of a
  /// key with different values), value_unsupported (a Fixed key).
  static rt::StatusOr<Config> read(const rt::JsonValue &object, const std::string &file,
                                   std::vector<std::span<const ConfigKey>> tables);

  // Values of Required, Optional and Dropout keys, by the name in the table.
  int64_t integer(std::string_view name) const { return value(name).integer(); }
  double number(std::string_view name) const { return value(name).number(); }
  bool flag(std::string_view name) const { return value(name).boolean(); }
  const std::string &text(std::string_view name) const { return value(name).string(); }

  /// The value in the file, under any spelling; null if absent or null.
  const rt::JsonValue *given(std::string_view name) const;
  /// Whether the file says null.
  bool isNull(std::string_view name) const;
  /// The value of a Derived size if it is given.
  std::optional<int64_t> givenInteger(std::string_view name) const;
  /// Records what a Derived key was taken to be, and hands it back.
  int64_t derive(std::string_view name, int64_t value, std::string reason);
  void noteDefault(std::string key, rt::JsonValue value, std::string reason);
  void note(std::string text) { notes.push_back(std::move(text)); }
  /// A member of a structured key that nothing reads ("rope_scaling.foo").
  void noteUnused(std::string path);
  /// Says that the model can't be trained for what `name` asks for; `feature` completes
  /// "layers of experts". Kind `config.feature_unsupported`; `suggestion` is a value that
  /// would work, if there is one.
  void leaveUntrained(std::string_view name, std::string_view feature, std::string suggestion = "");
  /// The same with an error of its own.
  void leaveUntrained(rt::Error error) { untrained.push_back(std::move(error)); }

  /// Reads the object that the structured key `name` holds by tables of its own. What it
  /// defaulted and did not read is listed here, under "name.". An absent object counts as
  /// an empty one.
  rt::StatusOr<Config> readPart(std::string_view name,
                                std::vector<std::span<const ConfigKey>> tables);

  /// The place of a key's value, or the file as a whole.
  rt::Where where(std::string_view name) const;
  /// An error about a key: its place and `name = value` as what was given.
  rt::Error error(std::string kind, std::string_view name, std::string message) const;
  /// The same about an explicit value somewhere below a key.
  rt::Error errorAt(std::string kind, const rt::JsonValue &value, const std::string &path,
                    std::string message) const;

  const std::string &fileName() const { return file; }

  std::vector<DefaultedKey> defaults;
  std::vector<UnusedKey> unusedKeys;
  std::vector<std::string> notes;
  std::vector<DropoutKey> dropouts;
  std::vector<rt::Error> untrained;

private:
  struct Entry {
    std::string_view name;
    rt::JsonValue value;
    /// Into the file's tree; null where the default holds.
    const rt::JsonValue *source = nullptr;
    std::string_view spelling;
    bool null = false;
  };

  explicit Config(std::string file) : file(std::move(file)) {}
  const rt::JsonValue &value(std::string_view name) const;
  const Entry *entry(std::string_view name) const;
  rt::Status readKey(const rt::JsonValue &object, const ConfigKey &key);
  rt::Status checkValue(const ConfigKey &key, const Entry &entry) const;
  void listUnused(const rt::JsonValue &object,
                  const std::vector<std::span<const ConfigKey>> &tables);

  std::string file;
  std::vector<Entry> entries;
};

/// `name = value` as messages show what was given.
std::string givenText(std::string_view name, const rt::JsonValue &value);

} // namespace cleave::frontend
