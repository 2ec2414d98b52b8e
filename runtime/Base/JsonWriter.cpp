// Writing JSON: escapes, shortest numbers, and trees without recursion.
#include "runtime/Base/Json.h"
#include "runtime/Base/Utf8.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace cleave::rt {

std::string shortestDouble(double value) {
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, result.ptr);
  // Without a point it would read back as an integer.
  if (text.find_first_of(".en") == std::string::npos)
    text += ".0";
  return text;
}

void appendJsonString(std::string &out, std::string_view text) {
  out += '"';
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      const unsigned length = utf8SequenceLength(text.substr(i));
      if (length == 0)
        out += "\\ufffd";
      else
        out.append(text.substr(i, length));
      i += length == 0 ? 1 : length;
      continue;
    }
    ++i;
    switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      if (c < 0x20 || c == 0x7f)
        out += fmt::format("\\u{:04x}", c);
      else
        out += static_cast<char>(c);
    }
  }
  out += '"';
}

void JsonWriter::breakLine() {
  if (indentWidth == 0)
    return;
  text += '\n';
  text.append(levels.size() * indentWidth, ' ');
}

void JsonWriter::separate() {
  if (afterKey) {
    afterKey = false;
    return;
  }
  if (levels.empty()) {
    assert(text.empty() && "one document holds one value");
    return;
  }
  assert(!levels.back().isObject && "a member needs its key first");
  if (levels.back().hasItems)
    text += indentWidth ? "," : ", ";
  levels.back().hasItems = true;
  breakLine();
}

void JsonWriter::open(char bracket, bool isObject) {
  separate();
  text += bracket;
  levels.push_back({isObject, false});
}

void JsonWriter::close(char bracket, bool isObject) {
  assert(!levels.empty() && levels.back().isObject == isObject && !afterKey && "unmatched end");
  const bool hadItems = levels.back().hasItems;
  levels.pop_back();
  if (hadItems)
    breakLine();
  text += bracket;
}

JsonWriter &JsonWriter::beginObject() {
  open('{', true);
  return *this;
}

JsonWriter &JsonWriter::endObject() {
  close('}', true);
  return *this;
}

JsonWriter &JsonWriter::beginArray() {
  open('[', false);
  return *this;
}

JsonWriter &JsonWriter::endArray() {
  close(']', false);
  return *this;
}

JsonWriter &JsonWriter::key(std::string_view name) {
  assert(!levels.empty() && levels.back().isObject && !afterKey && "a key outside an object");
  if (levels.back().hasItems)
    text += indentWidth ? "," : ", ";
  levels.back().hasItems = true;
  breakLine();
  appendJsonString(text, name);
  text += ": ";
  afterKey = true;
  return *this;
}

JsonWriter &JsonWriter::null() {
  separate();
  text += "null";
  return *this;
}

JsonWriter &JsonWriter::value(bool flag) {
  separate();
  text += flag ? "true" : "false";
  return *this;
}

JsonWriter &JsonWriter::value(int64_t number) {
  separate();
  text += fmt::format("{}", number);
  return *this;
}

JsonWriter &JsonWriter::value(uint64_t number) {
  separate();
  text += fmt::format("{}", number);
  return *this;
}

JsonWriter &JsonWriter::value(double number) {
  if (!std::isfinite(number))
    return null();
  separate();
  text += shortestDouble(number);
  return *this;
}

JsonWriter &JsonWriter::value(std::string_view string) {
  separate();
  appendJsonString(text, string);
  return *this;
}

JsonWriter &JsonWriter::value(const JsonValue &tree) {
  struct Frame {
    const JsonValue *container;
    size_t next;
  };
  std::vector<Frame> frames;
  // Writes a leaf, or opens a container and queues it.
  auto enter = [&](const JsonValue &node) {
    switch (node.kind()) {
    case JsonValue::Kind::Null:
      null();
      break;
    case JsonValue::Kind::Bool:
      value(node.boolean());
      break;
    case JsonValue::Kind::Integer:
      value(node.integer());
      break;
    case JsonValue::Kind::Number:
      value(node.number());
      break;
    case JsonValue::Kind::String:
      value(node.string());
      break;
    case JsonValue::Kind::Array:
      beginArray();
      frames.push_back({&node, 0});
      break;
    case JsonValue::Kind::Object:
      beginObject();
      frames.push_back({&node, 0});
      break;
    }
  };
  enter(tree);
  while (!frames.empty()) {
    const JsonValue &container = *frames.back().container;
    const size_t index = frames.back().next++;
    if (container.isArray()) {
      if (index < container.elements().size()) {
        enter(container.elements()[index]);
        continue;
      }
      endArray();
    } else {
      if (index < container.members().size()) {
        key(container.members()[index].key);
        enter(container.members()[index].value);
        continue;
      }
      endObject();
    }
    frames.pop_back();
  }
  return *this;
}

std::string JsonWriter::take() {
  assert(levels.empty() && !afterKey && "unfinished JSON");
  return std::move(text);
}

std::string toString(const JsonValue &value, unsigned indent) {
  JsonWriter writer(indent);
  return writer.value(value).take();
}

} // namespace cleave::rt
