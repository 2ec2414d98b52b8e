//===- PlacesTest.cpp - Where ranks stand, against their numbers ---------------===//

#include "cleave/CostModel/Places.h"
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

namespace cleave::cost {
namespace {

using enum MeshAxis;

/// For each axis, from which part of it on ranks are told apart, and how many are in a part.
struct Part {
  MeshAxis axis;
  int64_t inside, ranks;
};

/// Ranks with their coordinates, taken apart one by one.
class Numbered {
public:
  explicit Numbered(const Layout &layout)
      : sizes{layout.tensor, layout.context, layout.data, layout.pipeline}, order(layout.order) {}

  /// Of the groups along `parts`: the most domains that one stands on, and the most of its ranks on
  /// one of them in any group.
  std::pair<int64_t, int64_t> domainsOf(const std::vector<Part> &parts, int64_t domain) const {
    std::map<std::vector<int64_t>, std::map<int64_t, int64_t>> groups;
    const int64_t ranks = sizes[0] * sizes[1] * sizes[2] * sizes[3];
    for (int64_t rank = 0; rank < ranks; ++rank) {
      std::vector<int64_t> others;
      int64_t rest = rank;
      for (MeshAxis axis : order.axes) {
        const int64_t size = sizes[static_cast<size_t>(axis)], at = rest % size;
        rest /= size;
        int64_t inside = 1, along = 1;
        for (const Part &part : parts)
          if (part.axis == axis)
            inside = part.inside, along = part.ranks;
        others.push_back(at % inside);
        others.push_back(at / (inside * along));
      }
      ++groups[others][rank / domain];
    }
    int64_t most = 1, together = 1;
    for (const auto &[others, counts] : groups) {
      most = std::max(most, static_cast<int64_t>(counts.size()));
      for (const auto &[number, count] : counts)
        together = std::max(together, count);
    }
    return {most, together};
  }

private:
  AxisSizes sizes;
  AxisOrder order;
};

/// A random order of axes that have `pick()` ranks.
template <typename Pick> Layout randomLayout(std::mt19937 &random, Pick pick) {
  Layout layout;
  layout.tensor = pick();
  layout.context = pick();
  layout.data = pick();
  layout.pipeline = pick();
  layout.devices = layout.tensor * layout.context * layout.data * layout.pipeline;
  layout.order = AxisOrder::all()[random() % AxisOrder::all().size()];
  return layout;
}

/// All groups of `layout`, with what they are along.
std::vector<std::pair<Group, std::vector<Part>>> groupsOf(const Layout &l, int64_t domain) {
  const Places places(l, domain);
  const ExpertRanks e = l.experts.value_or(ExpertRanks());
  const int64_t half = l.data % 2 == 0 ? l.data / 2 : l.data;
  return {{places.tensor(), {{Tensor, 1, l.tensor}}},
          {places.context(), {{Context, 1, l.context}}},
          {places.replicas(), {{Context, 1, l.context}, {Data, 1, l.data}}},
          {places.sharing(l.context * half), {{Context, 1, l.context}, {Data, 1, half}}},
          {places.acrossSharing(l.context * half), {{Data, half, l.data / half}}},
          {places.experts(), {{Tensor, 1, e.tensor}, {Context, 1, e.context}, {Data, 1, e.data}}},
          {places.expertReplicas(),
           {{Context, e.context, l.context / e.context}, {Data, e.data, l.data / e.data}}}};
}

TEST(Places, AreThoseOfTheRanks) {
  std::mt19937 random(20261201);
  std::set<int64_t> seen;
  for (int trial = 0; trial < 600; ++trial) {
    Layout l = randomLayout(random, [&] { return int64_t(1) << (random() % 4); });
    l.experts =
        ExpertRanks{std::min<int64_t>(l.data, 1 << (random() % 3)),
                    std::min<int64_t>(l.context, 1 << (random() % 3)), random() % 2 ? l.tensor : 1};
    l.expert = l.experts->data * l.experts->context * l.experts->tensor;
    l.expertWidth = l.experts->tensor == 1;
    const int64_t domain = int64_t(1) << (1 + random() % 4);
    for (const auto &[group, parts] : groupsOf(l, domain)) {
      int64_t ranks = 1;
      for (const Part &part : parts)
        ranks *= part.ranks;
      EXPECT_EQ(group.ranks, ranks);
      const auto [domains, together] = Numbered(l).domainsOf(parts, domain);
      EXPECT_EQ(group.perDomain, together) << l.order.text();
      EXPECT_EQ(group.ranks, domains * together);
      seen.insert(domains);
    }
    EXPECT_EQ(Places(l, domain).pipelineIsNear(),
              Numbered(l).domainsOf({{Pipeline, 1, l.pipeline}}, domain).first == 1);
  }
  EXPECT_GT(seen.size(), 4u);
}

TEST(Places, GroupsThatDoNotFillDomainsCrossThem) {
  std::mt19937 random(7);
  int crossing = 0, inside = 0;
  for (int trial = 0; trial < 600; ++trial) {
    Layout l = randomLayout(random, [&] { return static_cast<int64_t>(1 + random() % 5); });
    l.experts = ExpertRanks();
    l.expertWidth = true;
    for (int64_t domain : {4, 6, 8}) {
      if (l.devices % domain != 0)
        continue;
      for (const auto &[group, parts] : groupsOf(l, domain)) {
        const bool crosses = Numbered(l).domainsOf(parts, domain).first > 1;
        EXPECT_EQ(group.perDomain < group.ranks, crosses) << l.order.text() << " " << domain;
        ++(crosses ? crossing : inside);
      }
    }
  }
  EXPECT_GT(crossing, 500);
  EXPECT_GT(inside, 500);
}

TEST(Places, OfTheUsualOrderAreThoseOfBefore) {
  // What published rows are priced with.
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    Layout l = randomLayout(random, [&] { return int64_t(1) << (random() % 5); });
    l.order = {};
    l.expert = std::min<int64_t>(l.data, 8);
    const int64_t domain = 8, beside = std::max<int64_t>(1, domain / l.tensor);
    const Places places(l, domain);
    EXPECT_EQ(places.tensor().perDomain, std::min(l.tensor, domain));
    EXPECT_EQ(places.context().perDomain, std::min(l.context, beside));
    EXPECT_EQ(places.replicas().perDomain, std::min(l.data * l.context, beside));
    EXPECT_EQ(places.experts().perDomain, std::min(l.expert, beside));
    EXPECT_EQ(places.pipelineIsNear(), l.pipeline == 1 || l.devices <= domain);
  }
}

TEST(AxisOrder, ReadsWritesAndLeavesOutWhatDoesNotMatter) {
  EXPECT_EQ(AxisOrder().text(), "tp-cp-dp-pp");
  std::set<std::string> texts;
  for (const AxisOrder &order : AxisOrder::all()) {
    EXPECT_EQ(AxisOrder::of(order.text()), order);
    EXPECT_FALSE(order < AxisOrder());
    texts.insert(order.text());
  }
  EXPECT_EQ(texts.size(), 24u);
  for (const char *wrong : {"", "tp-cp-dp", "tp-cp-dp-pp-", "tp-tp-dp-pp", "tp-cp-ep-dp-pp"})
    EXPECT_FALSE(AxisOrder::of(wrong)) << wrong;
  // tp, cp, dp, pp.
  const AxisOrder reversed = *AxisOrder::of("pp-dp-cp-tp");
  EXPECT_EQ(reversed.leastFor({2, 2, 2, 2}), reversed);
  EXPECT_EQ(reversed.leastFor({2, 1, 2, 2}).text(), "cp-pp-dp-tp");
  EXPECT_EQ(reversed.leastFor({2, 1, 2, 1}).text(), "cp-dp-tp-pp");
  EXPECT_EQ(reversed.leastFor({1, 1, 4, 1}), AxisOrder());
  EXPECT_EQ(reversed.strideOf(Tensor, {7, 5, 3, 2}), 30);
}

} // namespace
} // namespace cleave::cost
