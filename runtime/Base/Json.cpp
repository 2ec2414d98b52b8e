// The value tree: access, and destruction without recursion.
#include "runtime/Base/Json.h"

#include "runtime/Base/Files.h"

#include <algorithm>

namespace cleave::rt {

JsonValue::JsonValue() = default;
JsonValue::JsonValue(bool value) : held(value) {}
JsonValue::JsonValue(int value) : held(static_cast<int64_t>(value)) {}
JsonValue::JsonValue(int64_t value) : held(value) {}
JsonValue::JsonValue(double value) : held(value) {}
JsonValue::JsonValue(std::string value) : held(std::move(value)) {}
JsonValue::JsonValue(const char *value) : held(std::string(value)) {}

JsonValue JsonValue::array() {
  JsonValue value;
  value.held = Array();
  return value;
}

JsonValue JsonValue::object() {
  JsonValue value;
  value.held = Object();
  return value;
}

JsonValue::JsonValue(const JsonValue &other) = default;

JsonValue::JsonValue(JsonValue &&other) noexcept
    : held(std::move(other.held)), lineNumber(other.lineNumber), columnNumber(other.columnNumber) {
  other.held = std::monostate();
}

JsonValue &JsonValue::operator=(const JsonValue &other) {
  JsonValue copy(other);
  return *this = std::move(copy);
}

JsonValue &JsonValue::operator=(JsonValue &&other) noexcept {
  // `other` may live inside this value, so the old contents leave through a
  // temporary whose destructor takes them apart.
  JsonValue incoming(std::move(other));
  std::swap(held, incoming.held);
  lineNumber = incoming.lineNumber;
  columnNumber = incoming.columnNumber;
  return *this;
}

/// Moves the children of `value` that have children themselves to `pending`.
static void detachContainers(JsonValue &value, std::vector<JsonValue> &pending) {
  auto detach = [&](JsonValue &child) {
    if (child.isArray() || child.isObject())
      pending.push_back(std::move(child));
  };
  if (value.isArray())
    std::ranges::for_each(value.elements(), detach);
  else if (value.isObject())
    for (JsonMember &member : value.members())
      detach(member.value);
}

JsonValue::~JsonValue() {
  if (!isArray() && !isObject())
    return;
  std::vector<JsonValue> pending;
  detachContainers(*this, pending);
  while (!pending.empty()) {
    JsonValue next = std::move(pending.back());
    pending.pop_back();
    detachContainers(next, pending);
    // `next` holds leaves only now, so its destructor goes one level deep.
  }
}

const char *JsonValue::kindName() const {
  switch (kind()) {
  case Kind::Null:
    return "null";
  case Kind::Bool:
    return "a boolean";
  case Kind::Integer:
    return "an integer";
  case Kind::Number:
    return "a number";
  case Kind::String:
    return "a string";
  case Kind::Array:
    return "a list";
  case Kind::Object:
    return "an object";
  }
  return "an unknown kind";
}

bool JsonValue::boolean() const {
  assert(isBool() && "not a boolean");
  return *std::get_if<bool>(&held);
}

int64_t JsonValue::integer() const {
  assert(isInteger() && "not an integer");
  return *std::get_if<int64_t>(&held);
}

double JsonValue::number() const {
  assert(isNumber() && "not a number");
  if (isInteger())
    return static_cast<double>(integer());
  return *std::get_if<double>(&held);
}

const std::string &JsonValue::string() const {
  assert(isString() && "not a string");
  return *std::get_if<std::string>(&held);
}

const JsonValue::Array &JsonValue::elements() const {
  assert(isArray() && "not a list");
  return *std::get_if<Array>(&held);
}

JsonValue::Array &JsonValue::elements() {
  assert(isArray() && "not a list");
  return *std::get_if<Array>(&held);
}

const JsonValue::Object &JsonValue::members() const {
  assert(isObject() && "not an object");
  return *std::get_if<Object>(&held);
}

JsonValue::Object &JsonValue::members() {
  assert(isObject() && "not an object");
  return *std::get_if<Object>(&held);
}

const JsonValue *JsonValue::find(std::string_view key) const {
  if (!isObject())
    return nullptr;
  for (const JsonMember &member : members())
    if (member.key == key)
      return &member.value;
  return nullptr;
}

JsonValue *JsonValue::find(std::string_view key) {
  return const_cast<JsonValue *>(std::as_const(*this).find(key));
}

void JsonValue::set(std::string key, JsonValue value) {
  if (JsonValue *existing = find(key))
    *existing = std::move(value);
  else
    members().push_back({std::move(key), std::move(value)});
}

void JsonValue::append(JsonValue value) { elements().push_back(std::move(value)); }

bool JsonValue::sameValue(const JsonValue &other) const {
  // Pairs still to compare; no recursion, as everywhere here.
  std::vector<std::pair<const JsonValue *, const JsonValue *>> pairs{{this, &other}};
  while (!pairs.empty()) {
    auto [a, b] = pairs.back();
    pairs.pop_back();
    if (a->isNumber() && b->isNumber()) {
      const bool equal = a->isInteger() && b->isInteger() ? a->integer() == b->integer()
                                                          : a->number() == b->number();
      if (!equal)
        return false;
    } else if (a->kind() != b->kind()) {
      return false;
    } else if (a->isArray()) {
      if (a->elements().size() != b->elements().size())
        return false;
      for (size_t i = 0; i < a->elements().size(); ++i)
        pairs.emplace_back(&a->elements()[i], &b->elements()[i]);
    } else if (a->isObject()) {
      if (a->members().size() != b->members().size())
        return false;
      for (const JsonMember &member : a->members()) {
        const JsonValue *twin = b->find(member.key);
        if (!twin)
          return false;
        pairs.emplace_back(&member.value, twin);
      }
    } else if (a->isString() ? a->string() != b->string()
                             : a->isBool() && a->boolean() != b->boolean()) {
      return false;
    }
  }
  return true;
}

StatusOr<JsonValue> readJsonFile(const std::string &path) {
  CLEAVE_RT_ASSIGN_OR_RETURN(std::string text, readWholeFile(path));
  JsonReadOptions options;
  options.file = path;
  return parseJson(text, options);
}

} // namespace cleave::rt
