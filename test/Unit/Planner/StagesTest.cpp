//===- StagesTest.cpp - Layers dealt out to stages -------------------------===//

#include "lib/Planner/Stages.h"
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace cleave {
namespace {

using Sizes = llvm::SmallVector<int64_t>;

/// All ways to cut `layers` layers into `stages` runs.
void forEachSplit(int64_t layers, int64_t stages, Sizes &sizes,
                  llvm::function_ref<void(const Sizes &)> visit) {
  if (stages == 1) {
    sizes.push_back(layers);
    visit(sizes);
    sizes.pop_back();
    return;
  }
  for (int64_t first = 1; first <= layers - stages + 1; ++first) {
    sizes.push_back(first);
    forEachSplit(layers - first, stages - 1, sizes, visit);
    sizes.pop_back();
  }
}

/// Lower is better; of equals the one with longer stages first.
std::tuple<int64_t, int64_t, Sizes> scoreOf(llvm::ArrayRef<int64_t> weights, const Sizes &sizes) {
  int64_t largest = 0, squares = 0;
  Sizes negative;
  for (int64_t size : sizes) {
    const int64_t sum = std::accumulate(weights.begin(), weights.begin() + size, int64_t(0));
    largest = std::max(largest, sum);
    squares += sum * sum;
    negative.push_back(-size);
    weights = weights.drop_front(size);
  }
  return {largest, squares, negative};
}

TEST(Stages, BestOfAllSplits) {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    const int64_t layers = 1 + random() % 9, stages = 1 + random() % layers;
    Sizes weights(layers);
    // Some layers weigh nothing, as an embedding does.
    for (int64_t &weight : weights)
      weight = static_cast<int64_t>(random() % (round % 2 ? 4 : 30));
    Sizes best, scratch;
    forEachSplit(layers, stages, scratch, [&](const Sizes &sizes) {
      if (best.empty() || scoreOf(weights, sizes) < scoreOf(weights, best))
        best = sizes;
    });
    EXPECT_EQ(splitEvenly(weights, stages), best) << "round " << round;
  }
}

TEST(Stages, EqualLayersDifferByOneAtMost) {
  for (int64_t layers = 1; layers <= 40; ++layers)
    for (int64_t stages = 1; stages <= layers; ++stages) {
      const Sizes sizes = splitEvenly(Sizes(layers, 5), stages);
      ASSERT_EQ(static_cast<int64_t>(sizes.size()), stages);
      EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), int64_t(0)), layers);
      EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()) -
                    *std::min_element(sizes.begin(), sizes.end()),
                1);
    }
}

TEST(Stages, ManyLayersTakeNoTime) {
  EXPECT_EQ(splitEvenly(Sizes(kMostLayers, 7), 64), Sizes(64, kMostLayers / 64));
}

TEST(Stages, AHeavyHeadStandsAlone) {
  EXPECT_EQ(splitEvenly({0, 10, 10, 10, 10, 25}, 3), (Sizes{3, 2, 1}));
}

TEST(Stages, SharedTensors) {
  std::vector<Layer> layers(5);
  layers[0].tensors = {{"table", "table"}, {"norm", "norm"}};
  layers[1].tensors = {{"w.{0..1}", "w.0"}, {"all", "all"}};
  layers[2].tensors = {{"w.{0..1}", "w.1"}, {"all", "all"}};
  layers[3].tensors = {{"all", "all"}};
  layers[4].tensors = {{"table", "table"}, {"norm", "norm"}};
  using Shared = std::vector<std::pair<std::string, Sizes>>;
  EXPECT_EQ(sharedTensors(layers, {1, 1, 2, 1}),
            (Shared{{"table", {0, 3}}, {"norm", {0, 3}}, {"all", {1, 2}}}));
  EXPECT_EQ(sharedTensors(layers, {5}), Shared());
  EXPECT_EQ(sharedTensors(layers, {4, 1}), (Shared{{"table", {0, 1}}, {"norm", {0, 1}}}));
}

} // namespace
} // namespace cleave
