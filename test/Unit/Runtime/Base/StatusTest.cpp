// How errors are rendered, and which name is suggested.
#include "runtime/Base/Status.h"
#include "runtime/Base/Json.h"
#include "runtime/Base/Suggest.h"

#include <gtest/gtest.h>

using namespace cleave::rt;

namespace {

Error fullError() {
  return userError("plan.batch_indivisible", "256 sequences over 14")
      .at({"recipe.json", 3, 19})
      .withGiven("global_batch = 256")
      .withRule("a multiple of 14")
      .suggest("252")
      .suggest("266")
      .note("dp is 7 here", {"plan.mlir", 1, 2});
}

TEST(Status, TextHasPlaceKindAndOneLineEach) {
  EXPECT_EQ(renderText(fullError()),
            "recipe.json:3:19: error[plan.batch_indivisible]: 256 sequences "
            "over 14\n"
            "  given: global_batch = 256\n"
            "  rule: a multiple of 14\n"
            "  suggestion: 252\n"
            "  suggestion: 266\n"
            "plan.mlir:1:2: note: dp is 7 here\n");
  EXPECT_EQ(renderText(runError("io", "disk gone")), "error[io]: disk gone\n");
  EXPECT_NE(renderText(fullError(), true).find("\x1b["), std::string::npos);
}

TEST(Status, JsonHasEveryField) {
  StatusOr<JsonValue> parsed = parseJson(renderJson(fullError()));
  ASSERT_TRUE(parsed.ok());
  const JsonValue *error = parsed->find("error");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->find("kind")->string(), "plan.batch_indivisible");
  EXPECT_EQ(error->find("where")->find("line")->integer(), 3);
  EXPECT_EQ(error->find("suggestions")->elements().size(), 2u);
  StatusOr<JsonValue> bare = parseJson(renderJson(internalError("oops")));
  ASSERT_TRUE(bare.ok());
  EXPECT_TRUE(bare->find("error")->find("where")->isNull());
  EXPECT_TRUE(bare->find("error")->find("given")->isNull());
}

TEST(Status, ExitCodesAreTheDocumentedOnes) {
  EXPECT_EQ(static_cast<int>(userError("a", "").exitCode), 2);
  EXPECT_EQ(static_cast<int>(missingError("a", "").exitCode), 3);
  EXPECT_EQ(static_cast<int>(runError("a", "").exitCode), 4);
  EXPECT_EQ(static_cast<int>(internalError("").exitCode), 70);
  EXPECT_EQ(static_cast<int>(ExitCode::Interrupted), 130);
}

StatusOr<int> half(int n) {
  if (n % 2)
    return userError("odd", "an odd number");
  return n / 2;
}

Status quarter(int n, int &out) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const int once, half(n));
  CLEAVE_RT_ASSIGN_OR_RETURN(out, half(once));
  return Status::success();
}

TEST(Status, MacrosPassErrorsUp) {
  int out = 0;
  EXPECT_TRUE(quarter(12, out).ok());
  EXPECT_EQ(out, 3);
  const Status failed = quarter(6, out);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, "odd");
}

TEST(Suggest, CountsEdits) {
  EXPECT_EQ(editDistance("", "abc"), 3u);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(editDistance("ab", "ba"), 1u);
  EXPECT_EQ(editDistance("global-batch", "Global_Batch"), 0u);
}

TEST(Suggest, OffersTheNearestOrNothing) {
  const std::vector<std::string> known{"global_batch", "micro_batch", "seed"};
  EXPECT_EQ(nearestName("globl_batch", known), "global_batch");
  EXPECT_EQ(nearestName("sed", known), "seed");
  // What it begins with, however much is missing.
  EXPECT_EQ(nearestName("Glob", known), "global_batch");
  EXPECT_FALSE(nearestName("qqqqqqq", known));
  EXPECT_FALSE(nearestName(std::string(1000, 'a'), known));
}

} // namespace
