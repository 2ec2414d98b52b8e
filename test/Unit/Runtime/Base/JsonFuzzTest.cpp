// Thousands of broken texts from a fixed seed: each is read or refused with a
// known kind and a place inside the text, and what is read survives a round
// trip.
#include "runtime/Base/Json.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

using namespace cleave::rt;

namespace {

const std::vector<std::string> seeds = {
    R"({"hidden_size": 64, "rope_scaling": {"type": "linear", "factor": 2.0}, "x": [1, -2.5e-3, null, true]})",
    R"(["a\u00e9\ud83d\ude00b", "\\\"\n", "é€😀", {"": {}}, [], [[[[]]]], 0, -0, 1e308])",
    R"({"a": 1, "b": {"a": 1, "c": {"a": [{"z": 9223372036854775807}]}}, "d": "text"})",
    "  \r\n\t{\"k\" : [ 1 , 2 ]\r\n}\n",
};

const std::vector<std::string> fragments = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u",
    "\\ud83d",
    "NaN",
    "-",
    "e",
    ".",
    "Infinity",
    "null",
    "1e999",
    "\xFF",
    "\xEF\xBB\xBF",
    "\xE2\x82",
    "\n",
    "//",
    std::string(1, '\0'),
    "\"a\":1,",
};

std::string mutated(std::mt19937_64 &random) {
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  std::string text = seeds[below(seeds.size())];
  const size_t edits = 1 + below(6);
  for (size_t i = 0; i < edits; ++i) {
    const size_t at = below(text.size() + 1);
    switch (below(6)) {
    case 0:
      text.insert(at, fragments[below(fragments.size())]);
      break;
    case 1:
      text.erase(at, below(8));
      break;
    case 2:
      text.insert(at, 1, static_cast<char>(random()));
      break;
    case 3:
      if (at < text.size())
        text[at] = static_cast<char>(random());
      break;
    case 4:
      text.resize(at);
      break;
    case 5:
      text.insert(at, text.substr(below(text.size() + 1), below(40)));
      break;
    }
  }
  return text;
}

TEST(JsonFuzz, EveryTextHasADefinedOutcome) {
  const std::set<std::string> kinds = {"json.empty", "json.bom",    "json.syntax",
                                       "json.nan",   "json.number", "json.trailing",
                                       "json.utf8",  "json.depth",  "json.duplicate_key"};
  std::set<std::string> seen;
  std::mt19937_64 random(20240520);
  int accepted = 0;
  for (int i = 0; i < 60000; ++i) {
    const std::string text = mutated(random);
    StatusOr<JsonValue> value = parseJson(text);
    if (!value.ok()) {
      const Error &error = value.error();
      ASSERT_TRUE(kinds.count(error.kind)) << error.kind << "\n" << text;
      ASSERT_GE(error.where.line, 1);
      ASSERT_GE(error.where.column, 1);
      ASSERT_LE(error.where.column, static_cast<int>(text.size()) + 1);
      ASSERT_TRUE(parseJson(renderJson(error)).ok()) << renderJson(error);
      seen.insert(error.kind);
      continue;
    }
    ++accepted;
    StatusOr<JsonValue> again = parseJson(toString(*value, i % 3));
    ASSERT_TRUE(again.ok()) << renderText(again.error()) << text;
    ASSERT_TRUE(again->sameValue(*value)) << text;
  }
  // The mutations are only worth something if they reach the interesting paths.
  EXPECT_GT(accepted, 1000);
  EXPECT_GE(seen.size(), 8u);
}

TEST(JsonFuzz, RandomBytesNeverCrash) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string text(random() % 64, '\0');
    for (char &c : text)
      c = static_cast<char>(random());
    const StatusOr<JsonValue> value = parseJson(text);
    if (!value.ok())
      ASSERT_FALSE(value.error().kind.empty());
  }
}

} // namespace
