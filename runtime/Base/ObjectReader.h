// Typed access to an object of one of our own files (recipe, cluster file,
// manifest): every key is asked for by name and type, and `finish` refuses the
// keys nobody asked for, each with the nearest one that was. Errors are
// collected, so a reader is a straight list of questions:
//
//   ObjectReader in(value, "recipe.json", "recipe");
//   recipe.seed = in.integer("seed", {.min = 0}).value_or(1);
//   if (auto sub = in.object("data")) {
//     recipe.order = sub->oneOf("order", {"sequential", "shuffle"}).value_or("sequential");
//     in.absorb(sub->finish());
//   }
//   return in.finish();
//
// A key whose value is null counts as absent. Kinds: `<prefix>.unknown_key`,
// `<prefix>.wrong_type`, `<prefix>.out_of_range`, `<prefix>.missing_key`,
// `<prefix>.unknown_value`, `<prefix>.version_unsupported`. Foreign files, whose
// unknown keys must be kept, are read from the JsonValue instead.
#pragma once

#include "runtime/Base/Json.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace cleave::rt {

struct IntegerRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};

/// Bounds of a number, both included unless said otherwise.
struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool minExcluded = false;
  bool maxExcluded = false;
};

class ObjectReader {
public:
  /// `object` must outlive the reader. `path` is the dotted name of the object
  /// inside its file ("" for the whole file).
  ObjectReader(const JsonValue &object, std::string file, std::string prefix,
               std::string path = {});

  /// True if the key is there, null included. Does not mark it as known.
  bool has(const std::string &key) const;

  // Each marks the key as known; nothing if it is absent, null or wrong (which
  // is then the reader's error).
  std::optional<int64_t> integer(const std::string &key, IntegerRange range = {});
  std::optional<double> number(const std::string &key, NumberRange range = {});
  std::optional<bool> boolean(const std::string &key);
  std::optional<std::string> string(const std::string &key);
  std::optional<std::string> oneOf(const std::string &key, std::vector<std::string> allowed);
  std::optional<ObjectReader> object(const std::string &key);
  /// The elements of a list, or null.
  const JsonValue::Array *list(const std::string &key);
  /// The value as it stands, or null; marks the key as known.
  const JsonValue *raw(const std::string &key);

  /// Makes an absent (or null) key an error.
  void require(const std::string &key);
  /// `version`: absent means 1; anything above `newest` is refused.
  void checkVersion(int64_t newest);
  /// Records an error the caller found, or a nested reader's.
  void absorb(const Status &status);

  Where whereOf(const std::string &key) const;
  /// "optimizer.beta1": the key with the path of its object.
  std::string pathOf(const std::string &key) const;
  const std::string &fileName() const { return file; }

  /// Unknown keys first (they explain missing ones), then the first error.
  Status finish();

private:
  const JsonValue *lookup(const std::string &key);
  void wrongType(const std::string &key, const JsonValue &value, const char *expected,
                 std::string example);
  void outOfRange(const std::string &key, std::string given, std::string rule,
                  std::string suggestion);
  Status unknownKeys() const;

  const JsonValue *source;
  std::string file;
  std::string prefix;
  std::string path;
  std::vector<std::string> known;
  Status firstError;
};

/// A value as a short piece of JSON for messages (cut after 60 characters).
std::string shortText(const JsonValue &value);

} // namespace cleave::rt
