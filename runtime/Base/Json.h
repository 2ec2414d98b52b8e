// JSON for everything Cleave reads and writes: model configs, recipes, cluster
// files, manifests, headers of safetensors, logs.
//
// The reader is iterative (input may come from anywhere, so nesting must not
// reach the machine stack), strict (RFC 8259) and exact about places: every
// value and key knows its line and column. What the standard leaves open is an
// error with a kind of its own:
//
//   json.empty          nothing but white space
//   json.bom            a byte-order mark (UTF-8 or UTF-16) at the start
//   json.syntax         anything the grammar does not allow, comments included
//   json.trailing       text after the value
//   json.duplicate_key  the same key twice in one object
//   json.nan            NaN, Infinity, -Infinity
//   json.number         a number beyond the range of a double
//   json.utf8           invalid UTF-8, or half a \u surrogate pair
//   json.depth          nesting deeper than the stated limit (512)
//
// The writer gives the same bytes for the same calls: members in the order
// given, the shortest digits that read back to the same double. This is no
// general document model: values are not meant to be edited in place beyond
// what merging a recipe needs.
#pragma once

#include "runtime/Base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cleave::rt {

struct JsonMember;

/// One JSON value with the place it was read from.
class JsonValue {
public:
  enum class Kind { Null, Bool, Integer, Number, String, Array, Object };
  using Array = std::vector<JsonValue>;
  using Object = std::vector<JsonMember>;

  JsonValue();
  JsonValue(bool value);
  JsonValue(int value);
  JsonValue(int64_t value);
  JsonValue(double value);
  JsonValue(std::string value);
  JsonValue(const char *value);
  static JsonValue array();
  static JsonValue object();

  // Destruction does not recurse, whatever the depth. Copying does, so it is
  // for values within the reader's depth limit.
  JsonValue(const JsonValue &other);
  JsonValue(JsonValue &&other) noexcept;
  JsonValue &operator=(const JsonValue &other);
  JsonValue &operator=(JsonValue &&other) noexcept;
  ~JsonValue();

  Kind kind() const { return static_cast<Kind>(held.index()); }
  bool isNull() const { return kind() == Kind::Null; }
  bool isBool() const { return kind() == Kind::Bool; }
  /// Written without fraction or exponent and within int64.
  bool isInteger() const { return kind() == Kind::Integer; }
  /// Any number, integers included.
  bool isNumber() const { return isInteger() || kind() == Kind::Number; }
  bool isString() const { return kind() == Kind::String; }
  bool isArray() const { return kind() == Kind::Array; }
  bool isObject() const { return kind() == Kind::Object; }
  /// "null", "a boolean", "an integer", "a number", "a string", "a list", "an object".
  const char *kindName() const;

  // Asserting accessors: ask for the kind first.
  bool boolean() const;
  int64_t integer() const;
  /// The value of any number; integers beyond 2^53 are rounded.
  double number() const;
  const std::string &string() const;
  const Array &elements() const;
  Array &elements();
  /// Members in file order.
  const Object &members() const;
  Object &members();

  /// The member called `key`, or null; also null when this is not an object.
  const JsonValue *find(std::string_view key) const;
  JsonValue *find(std::string_view key);
  /// Replaces the member in its place, or appends it.
  void set(std::string key, JsonValue value);
  void append(JsonValue value);

  /// Line and column of the first character, from 1; 0 if not read from text.
  int line() const { return lineNumber; }
  int column() const { return columnNumber; }
  /// The place in `file`, or none if the value was not read from text.
  Where where(const std::string &file) const {
    return lineNumber ? Where{file, lineNumber, columnNumber} : Where{};
  }
  void setPlace(int line, int column) {
    lineNumber = line;
    columnNumber = column;
  }

  /// Equal as values: kinds and contents, members in any order, places ignored,
  /// 1 equal to 1.0.
  bool sameValue(const JsonValue &other) const;

private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> held;
  int lineNumber = 0;
  int columnNumber = 0;
};

struct JsonMember {
  std::string key;
  JsonValue value;
  int keyLine = 0;
  int keyColumn = 0;
};

struct JsonReadOptions {
  /// Named in error locations; not opened.
  std::string file;
  unsigned maxDepth = 512;
};

/// Reads one JSON document from `text`.
StatusOr<JsonValue> parseJson(std::string_view text, const JsonReadOptions &options = {});

/// Reads and parses a file; `file.read_failed` if it can't be read.
StatusOr<JsonValue> readJsonFile(const std::string &path);

/// Builds JSON text call by call. Misuse (a value without its key) asserts.
/// Numbers that JSON can't write (NaN, infinities) become null.
class JsonWriter {
public:
  /// With `indent` 0 all on one line, else nested lines of that many spaces.
  explicit JsonWriter(unsigned indent = 0) : indentWidth(indent) {}

  JsonWriter &beginObject();
  JsonWriter &endObject();
  JsonWriter &beginArray();
  JsonWriter &endArray();
  JsonWriter &key(std::string_view name);
  JsonWriter &null();
  JsonWriter &value(bool flag);
  JsonWriter &value(int number) { return value(static_cast<int64_t>(number)); }
  JsonWriter &value(int64_t number);
  JsonWriter &value(uint64_t number);
  JsonWriter &value(double number);
  JsonWriter &value(std::string_view text);
  JsonWriter &value(const char *text) { return value(std::string_view(text)); }
  JsonWriter &value(const std::string &text) { return value(std::string_view(text)); }
  /// A whole tree; does not recurse.
  JsonWriter &value(const JsonValue &tree);

  /// The text so far; every begin must have met its end.
  std::string take();

private:
  struct Level {
    bool isObject;
    bool hasItems;
  };
  void separate();
  void breakLine();
  void open(char bracket, bool isObject);
  void close(char bracket, bool isObject);

  std::string text;
  std::vector<Level> levels;
  unsigned indentWidth;
  bool afterKey = false;
};

/// `value` as text; `indent` as in JsonWriter.
std::string toString(const JsonValue &value, unsigned indent = 0);

/// Appends `text` as a JSON string with its quotes. Bytes that are not valid
/// UTF-8 become U+FFFD, so that the output is always JSON.
void appendJsonString(std::string &out, std::string_view text);

/// The shortest digits that read back to the same double, always with a point
/// or an exponent.
std::string shortestDouble(double value);

} // namespace cleave::rt
