// Typed access: unknown keys, types, ranges, values, versions.
#include "runtime/Base/ObjectReader.h"

#include <gtest/gtest.h>

using namespace cleave::rt;

namespace {

JsonValue parsed(std::string_view text) {
  StatusOr<JsonValue> value = parseJson(text);
  EXPECT_TRUE(value.ok());
  return value.ok() ? *value : JsonValue();
}

TEST(ObjectReader, ReadsTypedValuesAndNullIsAbsent) {
  const JsonValue value =
      parsed(R"({"i": 3, "d": 2, "s": "x", "b": true, "n": null, "o": {"k": 1}})");
  ObjectReader in(value, "f", "p");
  EXPECT_EQ(in.integer("i"), 3);
  EXPECT_EQ(in.number("d"), 2.0);
  EXPECT_EQ(in.string("s"), "x");
  EXPECT_EQ(in.boolean("b"), true);
  EXPECT_FALSE(in.integer("n"));
  EXPECT_TRUE(in.has("n"));
  auto nested = in.object("o");
  ASSERT_TRUE(nested);
  EXPECT_EQ(nested->pathOf("k"), "o.k");
  EXPECT_EQ(nested->integer("k"), 1);
  EXPECT_TRUE(nested->finish().ok());
  EXPECT_TRUE(in.finish().ok());
}

TEST(ObjectReader, UnknownKeysAreNamedWithTheNearest) {
  const JsonValue value = parsed("{\"seed\": 1,\n  \"globl_batch\": 8, \"zzz\": 1}");
  ObjectReader in(value, "r.json", "recipe");
  in.integer("seed");
  in.integer("global_batch");
  const Status status = in.finish();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, "recipe.unknown_key");
  EXPECT_EQ(status.error().where.toString(), "r.json:2:3");
  ASSERT_EQ(status.error().suggestions.size(), 1u);
  EXPECT_EQ(status.error().suggestions[0], "global_batch");
  EXPECT_EQ(status.error().notes.size(), 1u);
}

TEST(ObjectReader, AFileOfAnotherKindIsNotListedKeyByKey) {
  const JsonValue value = parsed(R"({"a1": 1, "b2": 1, "c3": 1, "d4": 1, "e5": 1, "f6": 1})");
  ObjectReader in(value, "r.json", "recipe");
  const Status status = in.finish();
  ASSERT_FALSE(status.ok());
  ASSERT_EQ(status.error().notes.size(), 4u);
  EXPECT_EQ(status.error().notes[2].message, "\"d4\" is unknown too");
  EXPECT_EQ(status.error().notes[3].message, "2 more keys are unknown");
}

TEST(ObjectReader, WrongTypesSayWhatWasGivenAndExpected) {
  const JsonValue value = parsed(R"({"o": {"k": "three"}})");
  ObjectReader in(value, "f", "p");
  auto nested = in.object("o");
  EXPECT_FALSE(nested->integer("k"));
  in.absorb(nested->finish());
  const Status status = in.finish();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, "p.wrong_type");
  EXPECT_EQ(status.error().given, "o.k = \"three\"");
  EXPECT_NE(status.error().message.find("a string, not an integer"), std::string::npos);
}

TEST(ObjectReader, RangesAndListsOfValues) {
  const JsonValue value = parsed(R"({"i": 0, "d": 1.0, "s": "shufle"})");
  {
    ObjectReader in(value, "f", "p");
    EXPECT_FALSE(in.integer("i", {.min = 1}));
    in.raw("d"), in.raw("s");
    EXPECT_EQ(in.finish().error().kind, "p.out_of_range");
    EXPECT_EQ(in.finish().error().suggestions.at(0), "1");
  }
  {
    ObjectReader in(value, "f", "p");
    EXPECT_FALSE(in.number("d", {.min = 0, .max = 1, .maxExcluded = true}));
    in.raw("i"), in.raw("s");
    EXPECT_EQ(in.finish().error().rule, "\"d\" is at least 0 and below 1");
  }
  {
    ObjectReader in(value, "f", "p");
    EXPECT_FALSE(in.oneOf("s", {"sequential", "shuffle"}));
    in.raw("i"), in.raw("d");
    EXPECT_EQ(in.finish().error().kind, "p.unknown_value");
    EXPECT_EQ(in.finish().error().suggestions.at(0), "shuffle");
  }
}

TEST(ObjectReader, RequiresVersionsAndNonObjects) {
  const JsonValue value = parsed(R"({"version": 2})");
  ObjectReader in(value, "f", "p");
  in.checkVersion(1);
  EXPECT_EQ(in.finish().error().kind, "p.version_unsupported");
  ObjectReader missing(value, "f", "p");
  missing.checkVersion(2);
  missing.require("name");
  EXPECT_EQ(missing.finish().error().kind, "p.missing_key");
  const JsonValue list = parsed("[1]");
  ObjectReader notObject(list, "f", "p");
  EXPECT_FALSE(notObject.integer("x"));
  EXPECT_EQ(notObject.finish().error().kind, "p.wrong_type");
}

} // namespace
