// The iterative JSON reader. One loop over a stack of open containers; the
// machine stack does not grow with the input.
#include "runtime/Base/Json.h"
#include "runtime/Base/Utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>

namespace cleave::rt {

namespace {

class Reader {
public:
  Reader(std::string_view text, const JsonReadOptions &options) : text(text), options(options) {}

  StatusOr<JsonValue> read();

private:
  /// An open list or object, and the key its next value belongs to.
  struct Frame {
    JsonValue container;
    JsonMember pending;
  };
  /// What may stand at the current position.
  enum class Expect { Value, FirstElement, FirstKey, Key, Separator };

  Status checkStart();
  Status readNext();
  Status readKey();
  Status readScalar(JsonValue &out);
  Status readString(std::string &out);
  Status readEscape(std::string &out);
  Status readHex4(uint32_t &out);
  Status readNumber(JsonValue &out);
  Status readWord(JsonValue &out);
  Status openContainer(JsonValue container);
  Status closeContainer();
  Status checkDuplicates(const JsonValue &object) const;
  void complete(JsonValue value);

  bool atEnd() const { return position >= text.size(); }
  char peek() const { return text[position]; }
  void skipSpace();
  int column() const { return static_cast<int>(position - lineStart) + 1; }
  Error fail(const char *kind, std::string message) const {
    return userError(kind, std::move(message))
        .at({options.file, line, column()})
        .withRule("the text is exactly one JSON value, as RFC 8259 defines it");
  }
  Error notUtf8(unsigned char byte) const {
    return fail("json.utf8", fmt::format("byte 0x{:02x} is not valid UTF-8", byte))
        .suggest("save the file as UTF-8");
  }
  Error unexpected(const char *wanted) const;

  std::string_view text;
  const JsonReadOptions &options;
  size_t position = 0;
  size_t lineStart = 0;
  int line = 1;
  std::vector<Frame> frames;
  Expect expect = Expect::Value;
  JsonValue root;
  bool rootDone = false;
};

void Reader::skipSpace() {
  for (; !atEnd(); ++position) {
    const char c = peek();
    if (c == '\n') {
      ++line;
      lineStart = position + 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

/// A syntax error at the current character, saying what was found and wanted.
Error Reader::unexpected(const char *wanted) const {
  if (atEnd())
    return fail("json.syntax", fmt::format("the text ends where {} should be", wanted))
        .suggest(fmt::format("end it with {}, or take a whole copy of the file", wanted));
  const unsigned char c = static_cast<unsigned char>(peek());
  if (c >= 0x80 && utf8SequenceLength(text.substr(position)) == 0)
    return notUtf8(c);
  if (c == '/' || c == '#')
    return fail("json.syntax", "a comment; JSON has none").suggest("remove it");
  if (c == '\'')
    return fail("json.syntax", "a string in single quotes").suggest("use double quotes");
  const std::string found =
      c < 0x20 || c == 0x7f
          ? fmt::format("the control character 0x{:02x}", c)
          : fmt::format("'{}'", text.substr(position, utf8SequenceLength(text.substr(position))));
  return fail("json.syntax", fmt::format("{} where {} should be", found, wanted))
      .suggest(fmt::format("put {} here", wanted));
}

Status Reader::checkStart() {
  const bool utf8Mark = text.starts_with("\xEF\xBB\xBF");
  const bool utf16Mark = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
  if (utf8Mark || utf16Mark)
    return fail("json.bom", fmt::format("the file starts with a {} byte-order mark",
                                        utf8Mark ? "UTF-8" : "UTF-16"))
        .withRule("JSON text is UTF-8 without a byte-order mark")
        .suggest("save the file as UTF-8 without a byte-order mark");
  skipSpace();
  if (atEnd())
    return fail("json.empty", "there is no JSON value in the file").suggest("{}");
  return Status::success();
}

StatusOr<JsonValue> Reader::read() {
  CLEAVE_RT_RETURN_IF_ERROR(checkStart());
  while (!rootDone) {
    skipSpace();
    CLEAVE_RT_RETURN_IF_ERROR(readNext());
  }
  skipSpace();
  if (!atEnd())
    return fail("json.trailing", "text after the end of the JSON value")
        .withRule("a file holds exactly one JSON value")
        .suggest("remove what follows the value");
  return std::move(root);
}

/// Consumes one token in the state `expect`.
Status Reader::readNext() {
  if (expect == Expect::Separator) {
    const bool inObject = frames.back().container.isObject();
    if (!atEnd() && peek() == ',') {
      ++position;
      expect = inObject ? Expect::Key : Expect::Value;
      return Status::success();
    }
    if (!atEnd() && peek() == (inObject ? '}' : ']'))
      return closeContainer();
    return unexpected(inObject ? "',' or '}'" : "',' or ']'");
  }
  if (expect == Expect::FirstKey || expect == Expect::Key) {
    if (!atEnd() && peek() == '}') {
      if (expect == Expect::FirstKey)
        return closeContainer();
      return fail("json.syntax", "a comma before '}'").suggest("remove the comma");
    }
    return readKey();
  }
  if (!atEnd() && peek() == ']' && !frames.empty() && frames.back().container.isArray()) {
    if (expect == Expect::FirstElement)
      return closeContainer();
    return fail("json.syntax", "a comma before ']'").suggest("remove the comma");
  }
  if (!atEnd() && peek() == '{')
    return openContainer(JsonValue::object());
  if (!atEnd() && peek() == '[')
    return openContainer(JsonValue::array());
  JsonValue value;
  const int startLine = line, startColumn = column();
  CLEAVE_RT_RETURN_IF_ERROR(readScalar(value));
  value.setPlace(startLine, startColumn);
  complete(std::move(value));
  return Status::success();
}

Status Reader::openContainer(JsonValue container) {
  if (frames.size() >= options.maxDepth)
    return fail("json.depth",
                fmt::format("lists and objects nested more than {} deep", options.maxDepth))
        .withRule(fmt::format("nesting is limited to {}", options.maxDepth))
        .suggest("fewer levels");
  container.setPlace(line, column());
  expect = container.isObject() ? Expect::FirstKey : Expect::FirstElement;
  frames.push_back({std::move(container), {}});
  ++position;
  return Status::success();
}

Status Reader::closeContainer() {
  ++position;
  JsonValue value = std::move(frames.back().container);
  frames.pop_back();
  if (value.isObject())
    CLEAVE_RT_RETURN_IF_ERROR(checkDuplicates(value));
  complete(std::move(value));
  return Status::success();
}

/// Hands a finished value to the container around it, or makes it the root.
void Reader::complete(JsonValue value) {
  if (frames.empty()) {
    root = std::move(value);
    rootDone = true;
    return;
  }
  Frame &frame = frames.back();
  if (frame.container.isObject()) {
    frame.pending.value = std::move(value);
    frame.container.members().push_back(std::move(frame.pending));
    frame.pending = {};
  } else {
    frame.container.append(std::move(value));
  }
  expect = Expect::Separator;
}

Status Reader::checkDuplicates(const JsonValue &object) const {
  const JsonValue::Object &members = object.members();
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const int compared = members[a].key.compare(members[b].key);
    return compared != 0 ? compared < 0 : a < b;
  });
  const auto twin = std::ranges::adjacent_find(
      order, [&](size_t a, size_t b) { return members[a].key == members[b].key; });
  if (twin == order.end())
    return Status::success();
  const JsonMember &first = members[*twin], &second = members[*(twin + 1)];
  return userError("json.duplicate_key", fmt::format("the key \"{}\" appears twice", second.key))
      .at({options.file, second.keyLine, second.keyColumn})
      .withRule("a key appears once in an object")
      .suggest("remove one of the two")
      .note("first given here", {options.file, first.keyLine, first.keyColumn});
}

Status Reader::readKey() {
  if (atEnd() || peek() != '"')
    return unexpected("a key in double quotes");
  JsonMember &pending = frames.back().pending;
  pending.keyLine = line;
  pending.keyColumn = column();
  CLEAVE_RT_RETURN_IF_ERROR(readString(pending.key));
  skipSpace();
  if (atEnd() || peek() != ':')
    return unexpected("':'");
  ++position;
  expect = Expect::Value;
  return Status::success();
}

Status Reader::readScalar(JsonValue &out) {
  if (atEnd())
    return unexpected("a value");
  const char c = peek();
  if (c == '"') {
    std::string string;
    CLEAVE_RT_RETURN_IF_ERROR(readString(string));
    out = JsonValue(std::move(string));
    return Status::success();
  }
  if (c == '-' || (c >= '0' && c <= '9'))
    return readNumber(out);
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
    return readWord(out);
  return unexpected("a value");
}

Status Reader::readWord(JsonValue &out) {
  size_t end = position;
  while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[end])))
    ++end;
  const std::string_view word = text.substr(position, end - position);
  if (word == "true" || word == "false")
    out = JsonValue(word == "true");
  else if (word == "null")
    out = JsonValue();
  else if (word == "NaN" || word == "Infinity" || word == "nan" || word == "inf")
    return fail("json.nan", fmt::format("{} is not a JSON number", word))
        .withRule("JSON numbers are finite")
        .suggest("use null or a finite number");
  else
    return fail("json.syntax", fmt::format("'{}' where a value should be", word.substr(0, 40)))
        .suggest("values are numbers, strings in double quotes, true, false, null, lists, objects");
  position = end;
  return Status::success();
}

/// Decimal exponent of a number's leading digit, near enough to tell overflow
/// from underflow: positive means large.
long leadingExponent(std::string_view number) {
  const size_t mark = number.find_first_of("eE");
  std::string_view mantissa = number.substr(0, mark);
  if (mantissa.starts_with('-'))
    mantissa.remove_prefix(1);
  long exponent = 0;
  if (mark != std::string_view::npos) {
    std::string_view digits = number.substr(mark + 1);
    const bool negative = digits.starts_with('-');
    if (negative || digits.starts_with('+'))
      digits.remove_prefix(1);
    for (char digit : digits)
      exponent = std::min(exponent * 10 + (digit - '0'), 1'000'000'000L);
    exponent = negative ? -exponent : exponent;
  }
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  const size_t leading = mantissa.find_first_not_of("0.");
  if (leading == std::string_view::npos)
    return -1;
  const long place = static_cast<long>(point) - static_cast<long>(leading);
  return exponent + (leading < point ? place - 1 : place);
}

Status Reader::readNumber(JsonValue &out) {
  const size_t start = position;
  size_t end = position;
  auto digits = [&] {
    const size_t from = end;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9')
      ++end;
    return end - from;
  };
  auto bad = [&](const char *wanted) {
    position = end;
    return unexpected(wanted);
  };
  const bool negative = text[end] == '-';
  end += negative;
  if (negative && text.substr(end).starts_with("Infinity"))
    return fail("json.nan", "-Infinity is not a JSON number")
        .withRule("JSON numbers are finite")
        .suggest("use null or a finite number");
  const size_t firstDigit = end;
  const size_t whole = digits();
  if (whole == 0)
    return bad("a digit");
  if (whole > 1 && text[firstDigit] == '0')
    return fail("json.syntax", "a number with a leading zero").suggest("remove the zero");
  bool isInteger = true;
  if (end < text.size() && text[end] == '.') {
    isInteger = false;
    ++end;
    if (digits() == 0)
      return bad("a digit after the point");
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    isInteger = false;
    ++end;
    if (end < text.size() && (text[end] == '+' || text[end] == '-'))
      ++end;
    if (digits() == 0)
      return bad("a digit of the exponent");
  }
  const std::string_view token = text.substr(start, end - start);
  const char *const last = token.data() + token.size();
  int64_t integer = 0;
  // "-0" has a sign that an integer can't hold.
  if (isInteger && token != "-0" &&
      std::from_chars(token.data(), last, integer).ec == std::errc()) {
    out = JsonValue(integer);
    position = end;
    return Status::success();
  }
  double number = 0;
  if (std::from_chars(token.data(), last, number).ec == std::errc::result_out_of_range) {
    if (leadingExponent(token) > 0)
      return fail("json.number", "a number beyond the range of a 64-bit float")
          .withGiven(std::string(token.substr(0, 60)))
          .withRule("numbers are at most 1.7976931348623157e308 in size")
          .suggest("a smaller number");
    number = negative ? -0.0 : 0.0;
  }
  out = JsonValue(number);
  position = end;
  return Status::success();
}

Status Reader::readString(std::string &out) {
  const Where start{options.file, line, column()};
  ++position;
  while (!atEnd()) {
    const unsigned char c = static_cast<unsigned char>(peek());
    if (c == '"') {
      ++position;
      return Status::success();
    }
    if (c == '\\') {
      CLEAVE_RT_RETURN_IF_ERROR(readEscape(out));
    } else if (c < 0x20) {
      return fail("json.syntax", fmt::format("the control character 0x{:02x} in a string", c))
          .suggest(fmt::format("write it as \\u{:04x}", c))
          .note("the string starts here", start);
    } else {
      const unsigned length = utf8SequenceLength(text.substr(position));
      if (length == 0)
        return notUtf8(c);
      out.append(text.substr(position, length));
      position += length;
    }
  }
  return userError("json.syntax", "a string without its closing quote").at(start);
}

Status Reader::readHex4(uint32_t &out) {
  out = 0;
  for (int i = 0; i < 4; ++i, ++position) {
    const char c = atEnd() ? '\0' : peek();
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0)
      return unexpected("a hexadecimal digit (four after \\u)");
    out = out << 4 | static_cast<uint32_t>(digit);
  }
  return Status::success();
}

Status Reader::readEscape(std::string &out) {
  constexpr std::string_view names = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
  const size_t backslash = position;
  ++position;
  if (atEnd())
    return unexpected("an escape");
  if (peek() != 'u') {
    const size_t which = names.find(peek());
    if (which == std::string_view::npos)
      return unexpected("an escape (\\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX)");
    out += meanings[which];
    ++position;
    return Status::success();
  }
  ++position;
  uint32_t unit = 0;
  CLEAVE_RT_RETURN_IF_ERROR(readHex4(unit));
  if (unit < 0xD800 || unit > 0xDFFF) {
    appendUtf8(out, unit);
    return Status::success();
  }
  uint32_t low = 0;
  if (unit < 0xDC00 && text.substr(position).starts_with("\\u")) {
    position += 2;
    CLEAVE_RT_RETURN_IF_ERROR(readHex4(low));
  }
  if (low < 0xDC00 || low > 0xDFFF) {
    position = backslash;
    return fail("json.utf8", fmt::format("\\u{:04x} is half of a surrogate pair", unit))
        .suggest("write both halves, or the character itself");
  }
  appendUtf8(out, 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
  return Status::success();
}

} // namespace

StatusOr<JsonValue> parseJson(std::string_view text, const JsonReadOptions &options) {
  return Reader(text, options).read();
}

} // namespace cleave::rt
