// The JSON reader's defined outcome for every kind of text, and the writer.
#include "runtime/Base/Json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

using namespace cleave::rt;

namespace {

JsonValue parsed(std::string_view text) {
  StatusOr<JsonValue> value = parseJson(text);
  EXPECT_TRUE(value.ok()) << renderText(value.error());
  return value.ok() ? *value : JsonValue();
}

struct Refusal {
  std::string text;
  const char *kind;
  int line, column;
};

void expectRefused(const Refusal &refusal) {
  JsonReadOptions options;
  options.file = "f.json";
  StatusOr<JsonValue> value = parseJson(refusal.text, options);
  ASSERT_FALSE(value.ok()) << refusal.text.substr(0, 80);
  const Error &error = value.error();
  EXPECT_EQ(error.kind, refusal.kind) << refusal.text.substr(0, 80) << " " << error.message;
  EXPECT_EQ(error.where.file, "f.json");
  EXPECT_EQ(error.where.line, refusal.line) << refusal.text.substr(0, 80);
  EXPECT_EQ(error.where.column, refusal.column) << refusal.text.substr(0, 80);
}

TEST(JsonReader, ReadsEveryKindInOrderWithPlaces) {
  const JsonValue root =
      parsed("{\r\n  \"b\": [1, -2.5e3, null],\n  \"a\": {\"t\": true, \"s\": \"x\"}\n}");
  ASSERT_TRUE(root.isObject());
  EXPECT_EQ(root.members()[0].key, "b");
  EXPECT_EQ(root.members()[1].key, "a");
  EXPECT_EQ(root.members()[1].keyLine, 3);
  EXPECT_EQ(root.members()[1].keyColumn, 3);
  const JsonValue::Array &list = root.find("b")->elements();
  EXPECT_TRUE(list[0].isInteger());
  EXPECT_EQ(list[1].number(), -2500.0);
  EXPECT_FALSE(list[1].isInteger());
  EXPECT_TRUE(list[2].isNull());
  EXPECT_EQ(list[1].line(), 2);
  EXPECT_EQ(list[1].column(), 12);
  EXPECT_TRUE(root.find("a")->find("t")->boolean());
  EXPECT_EQ(root.find("missing"), nullptr);
  EXPECT_EQ(root.find("b")->find("t"), nullptr);
}

TEST(JsonReader, KeepsIntegersExact) {
  EXPECT_EQ(parsed("9223372036854775807").integer(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(parsed("-9223372036854775808").integer(), std::numeric_limits<int64_t>::min());
  const JsonValue large = parsed("9223372036854775808");
  EXPECT_FALSE(large.isInteger());
  EXPECT_EQ(large.number(), 9223372036854775808.0);
  EXPECT_EQ(parsed("1000000000000000019884624838656").number(), 1e30);
  EXPECT_TRUE(std::signbit(parsed("-0").number()));
}

TEST(JsonReader, NumbersAtTheEdgesOfTheRange) {
  EXPECT_EQ(parsed("1.7976931348623157e308").number(), std::numeric_limits<double>::max());
  EXPECT_EQ(parsed("5e-324").number(), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(parsed("1e-400").number(), 0.0);
  EXPECT_EQ(parsed("0.0000001e-999999999999").number(), 0.0);
  EXPECT_EQ(parsed("0e999999").number(), 0.0);
  expectRefused({"1e309", "json.number", 1, 1});
  expectRefused({"[-0.001e400]", "json.number", 1, 2});
  expectRefused({"1" + std::string(400, '0'), "json.number", 1, 1});
}

TEST(JsonReader, DecodesEscapesAndSurrogates) {
  EXPECT_EQ(parsed(R"("\"\\\/\b\f\n\r\t")").string(), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(parsed(R"("\u00e9\u20AC\ud83d\ude00")").string(), "é€😀");
  EXPECT_EQ(parsed("\"é€😀\"").string(), "é€😀");
  EXPECT_EQ(parsed(R"("\u0000")").string(), std::string(1, '\0'));
}

TEST(JsonReader, NamesWhatTheStandardLeavesOpen) {
  const Refusal refusals[] = {
      {"", "json.empty", 1, 1},
      {" \n\t ", "json.empty", 2, 3},
      {"\xEF\xBB\xBF{}", "json.bom", 1, 1},
      {std::string("\xFF\xFE{\0}\0", 6), "json.bom", 1, 1},
      {"{\"a\": 1,\n \"b\": 2, \"a\": 3}", "json.duplicate_key", 2, 10},
      {"[NaN]", "json.nan", 1, 2},
      {"{\"a\": -Infinity}", "json.nan", 1, 7},
      {"Infinity", "json.nan", 1, 1},
      {"{} {}", "json.trailing", 1, 4},
      {"1 x", "json.trailing", 1, 3},
      {"\"\xFF\"", "json.utf8", 1, 2},
      {"\"\xC0\xAF\"", "json.utf8", 1, 2},
      {"\"\xED\xA0\x80\"", "json.utf8", 1, 2},
      {"\"\xF4\x90\x80\x80\"", "json.utf8", 1, 2},
      {"\"ab\xE2\x82", "json.utf8", 1, 4},
      {R"("x\ud83d")", "json.utf8", 1, 3},
      {R"("\ude00\ud83d")", "json.utf8", 1, 2},
      {"[\xA0]", "json.utf8", 1, 2},
  };
  for (const Refusal &refusal : refusals)
    expectRefused(refusal);
}

TEST(JsonReader, RefusesWhatTheGrammarDoesNotAllow) {
  const Refusal refusals[] = {
      {"[1,]", "json.syntax", 1, 4},
      {"{\"a\":1,}", "json.syntax", 1, 8},
      {"{\"a\" 1}", "json.syntax", 1, 6},
      {"{a: 1}", "json.syntax", 1, 2},
      {"[1 2]", "json.syntax", 1, 4},
      {"[", "json.syntax", 1, 2},
      {"{\"a\":", "json.syntax", 1, 6},
      {"]", "json.syntax", 1, 1},
      {"[1}", "json.syntax", 1, 3},
      {"01", "json.syntax", 1, 1},
      {"1.", "json.syntax", 1, 3},
      {".5", "json.syntax", 1, 1},
      {"1e+", "json.syntax", 1, 4},
      {"-", "json.syntax", 1, 2},
      {"+1", "json.syntax", 1, 1},
      {"True", "json.syntax", 1, 1},
      {"'a'", "json.syntax", 1, 1},
      {"\"a", "json.syntax", 1, 1},
      {"\"a\nb\"", "json.syntax", 1, 3},
      {"\"\\x41\"", "json.syntax", 1, 3},
      {"\"\\u12g4\"", "json.syntax", 1, 6},
      {"// c\n1", "json.syntax", 1, 1},
      {"{\"a\":1} // c", "json.trailing", 1, 9},
      {std::string("\0", 1), "json.syntax", 1, 1},
  };
  for (const Refusal &refusal : refusals)
    expectRefused(refusal);
}

TEST(JsonReader, LimitsNestingAndSurvivesAMegabyteOfIt) {
  const std::string allowed = std::string(512, '[') + std::string(512, ']');
  EXPECT_TRUE(parseJson(allowed).ok());
  expectRefused({std::string(513, '['), "json.depth", 1, 513});
  expectRefused({std::string(1 << 20, '['), "json.depth", 1, 513});
  std::string objects;
  while (objects.size() < 1 << 20)
    objects += "{\"a\":";
  expectRefused({objects, "json.depth", 1, 512 * 5 + 1});
  // With the limit out of the way, reading, writing, comparing and destroying
  // a million levels must not touch the machine stack.
  JsonReadOptions unlimited;
  unlimited.maxDepth = 1u << 31;
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  StatusOr<JsonValue> value = parseJson(deep, unlimited);
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(toString(*value), deep);
  EXPECT_TRUE(value->sameValue(*value));
}

TEST(JsonReader, FindsDuplicatesAmongManyKeys) {
  std::string text = "{";
  for (int i = 0; i < 20000; ++i)
    text += "\"k" + std::to_string(i) + "\":0,";
  EXPECT_TRUE(parseJson(text + "\"z\":0}").ok());
  StatusOr<JsonValue> twice = parseJson(text + "\"k77\":0}");
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().kind, "json.duplicate_key");
  EXPECT_EQ(twice.error().notes.size(), 1u);
}

TEST(JsonWriter, IsStableAndReadsBackTheSame) {
  JsonWriter writer(2);
  writer.beginObject().key("b").beginArray().value(1).value(0.1).null().endArray();
  writer.key("a").beginObject().endObject().key("s").value("q\"\n\x01é").endObject();
  const std::string text = writer.take();
  EXPECT_EQ(text, "{\n  \"b\": [\n    1,\n    0.1,\n    null\n  ],\n  \"a\": {},\n"
                  "  \"s\": \"q\\\"\\n\\u0001é\"\n}");
  EXPECT_EQ(toString(parsed(text), 2), text);
}

TEST(JsonWriter, DoublesRoundTripInEveryBit) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const double number = std::bit_cast<double>(random());
    if (!std::isfinite(number))
      continue;
    const JsonValue back = parsed(shortestDouble(number));
    ASSERT_FALSE(back.isInteger());
    ASSERT_EQ(std::bit_cast<uint64_t>(back.number()), std::bit_cast<uint64_t>(number)) << number;
  }
  EXPECT_EQ(shortestDouble(1.0), "1.0");
  EXPECT_EQ(shortestDouble(0.25), "0.25");
}

TEST(JsonWriter, NeverWritesWhatItCannotRead) {
  JsonWriter writer;
  writer.beginArray().value(std::nan("")).value(HUGE_VAL).value("bad\xFFutf8").endArray();
  EXPECT_EQ(writer.take(), "[null, null, \"bad\\ufffdutf8\"]");
}

TEST(JsonValue, ComparesAsValues) {
  EXPECT_TRUE(parsed("{\"a\":1,\"b\":[2]}").sameValue(parsed("{\"b\":[2.0],\"a\":1}")));
  EXPECT_FALSE(parsed("{\"a\":1}").sameValue(parsed("{\"a\":2}")));
  EXPECT_FALSE(parsed("[1,2]").sameValue(parsed("[1]")));
  EXPECT_FALSE(parsed("\"1\"").sameValue(parsed("1")));
}

TEST(JsonValue, SetReplacesInPlaceAndMovesFromItself) {
  JsonValue value = parsed("{\"a\":{\"inner\":[1]},\"b\":2}");
  value.set("a", 5);
  value.set("c", "new");
  EXPECT_EQ(toString(value), "{\"a\": 5, \"b\": 2, \"c\": \"new\"}");
  JsonValue nested = parsed("[[1, 2]]");
  nested = std::move(nested.elements()[0]);
  EXPECT_EQ(toString(nested), "[1, 2]");
}

} // namespace
