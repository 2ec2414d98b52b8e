//===- OrdersTest.cpp - Every order of axes computes what one rank does ----===//
//
// The order of a mesh's axes says which ranks stand together, and nothing of what is computed:
// interpreted in float64, a step equals that of one rank to 1e-9.
//
//===----------------------------------------------------------------------===//

#include "Comparison.h"
#include <cctype>
#include <map>

using namespace cleave;
using namespace cleave::test;

class Orders : public testing::TestWithParam<std::tuple<std::string, Layout>> {};

TEST_P(Orders, EqualOneRank) {
  const std::string &model = std::get<0>(GetParam());
  expectEqual(runStep0(model, std::get<1>(GetParam())), oneRank(model));
}

static std::string nameOf(const testing::TestParamInfo<Orders::ParamType> &info) {
  std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
  for (char &c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

/// Other orders of axes, each beside what takes several of them or parts of one.
static std::vector<Layout> ordered() {
  std::vector<Layout> out = {
      {.name = "pp-dp-cp-tp", .dp = 2, .tp = 2, .sequence = true},
      {.name = "dp-tp-cp-pp", .dp = 2, .tp = 2, .microBatches = 2, .zero = 3, .pp = 2},
      {.name = "pp-tp-cp-dp", .dp = 2, .tp = 2, .microBatches = 4, .zero = 1, .pp = 2, .vp = 2},
      {.name = "tp-pp-cp-dp", .tp = 2, .sequence = true, .microBatches = 2, .cp = 2, .pp = 2},
      {.name = "cp-pp-dp-tp", .tp = 2, .microBatches = 4, .cp = 2, .pp = 3, .schedule = "zb-h1"},
      {.name = "pp-cp-tp-dp",
       .dp = 2,
       .microBatches = 2,
       .zero = 2,
       .recompute = Recompute::Full,
       .cp = 2,
       .pp = 2,
       .schedule = "gpipe"},
      {.name = "dp-pp-tp-cp", .dp = 4, .zero = 3, .cp = 2, .zeroGroup = 4},
      {.name = "dp-cp-tp-pp", .dp = 4, .tp = 2, .zero = 2, .zeroGroup = 2},
      {.name = "dp-tp-pp-cp", .dp = 2, .tp = 4, .sequence = true, .vocabularyPieces = 2},
      {.name = "pp-dp-tp-cp",
       .dp = 2,
       .tp = 2,
       .microBatches = 2,
       .zero = 1,
       .pp = 2,
       .overlap = true}};
  for (Layout &layout : out)
    layout.order = layout.name;
  return out;
}

/// Experts over parts of data, over context, over tensor and over several of these.
static std::vector<Layout> orderedExperts() {
  std::vector<Layout> out = {
      {.name = "dp-tp-cp-pp", .dp = 4, .tp = 2, .zero = 3, .experts = 2},
      {.name = "pp-dp-cp-tp", .dp = 2, .tp = 2, .sequence = true, .experts = 4},
      {.name = "dp-cp-tp-pp", .dp = 2, .microBatches = 2, .zero = 1, .cp = 2, .experts = 4},
      {.name = "cp-tp-pp-dp", .tp = 2, .sequence = true, .microBatches = 2, .cp = 2, .experts = 4},
      {.name = "pp-dp-tp-cp", .dp = 4, .microBatches = 2, .zero = 2, .pp = 2, .experts = 2},
      {.name = "pp-cp-dp-tp",
       .dp = 2,
       .tp = 2,
       .sequence = true,
       .microBatches = 4,
       .pp = 2,
       .schedule = "zb-h1",
       .experts = 2}};
  for (Layout &layout : out)
    layout.order = layout.name;
  return out;
}
INSTANTIATE_TEST_SUITE_P(Dense, Orders,
                         testing::Combine(testing::Values("t0", "t0-tied", "t0-vocab251",
                                                          "gpt2-mini", "t0-moe-aux"),
                                          testing::ValuesIn(ordered())),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Experts, Orders,
                         testing::Combine(testing::Values("t0-moe", "qwen3-moe-mini",
                                                          "deepseek-v3-mini", "t0-moe-aux"),
                                          testing::ValuesIn(orderedExperts())),
                         nameOf);
