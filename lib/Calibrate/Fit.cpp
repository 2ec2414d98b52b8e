//===- Fit.cpp - From timings to the description of a core ---------------------===//

#include "cleave/Calibrate/Calibrate.h"
#include "runtime/Device/CPU/MatmulTiles.h"
#include <algorithm>
#include <cmath>
#include <map>

namespace cleave::calibrate {

/// Adds a point behind the others.
static void add(cost::Curve &curve, double size, double value) {
  curve.sizes.push_back(size);
  curve.values.push_back(value);
}

/// The table of a grid of sizes, in whatever order they were measured.
static cost::ShapeTable tableOf(const std::vector<ProductTiming> &timings) {
  cost::ShapeTable table;
  std::map<std::array<double, 3>, double> rates;
  for (const ProductTiming &t : timings) {
    const std::array<double, 3> size = {t.m, t.n, t.k};
    rates[size] = 2 * t.m * t.n * t.k * t.count / t.time.value;
    for (int axis = 0; axis < 3; ++axis) {
      auto &sizes = table.sizes[axis];
      const auto at = std::lower_bound(sizes.begin(), sizes.end(), size[axis]);
      if (at == sizes.end() || *at != size[axis])
        sizes.insert(at, size[axis]);
    }
  }
  // In the order of sizes, the last one innermost, which is that of the map.
  for (const auto &[size, rate] : rates)
    table.rates.push_back(rate);
  return table;
}

/// Rates that do not fall along the rows of `axis`: neighbours that do are noise, and get their
/// mean (in logarithms). The runtime cuts products into tiles, so more rows are never slower.
static void evenOut(cost::ShapeTable &table, int axis) {
  const size_t count = table.sizes[axis].size();
  size_t stride = 1;
  for (int i = axis + 1; i < 3; ++i)
    stride *= table.sizes[i].size();
  struct Block {
    double mean;
    size_t size;
  };
  for (size_t first = 0; first < table.rates.size(); ++first) {
    if (first / stride % count != 0)
      continue;
    std::vector<Block> blocks;
    for (size_t i = 0; i < count; ++i) {
      blocks.push_back({std::log(table.rates[first + i * stride]), 1});
      while (blocks.size() > 1 && blocks[blocks.size() - 2].mean > blocks.back().mean) {
        const Block last = blocks.back();
        blocks.pop_back();
        Block &joined = blocks.back();
        const auto a = static_cast<double>(joined.size), b = static_cast<double>(last.size);
        joined = {(joined.mean * a + last.mean * b) / (a + b), joined.size + last.size};
      }
    }
    size_t at = first;
    for (const Block &block : blocks)
      for (size_t i = 0; i < block.size; ++i, at += stride)
        table.rates[at] = std::exp(block.mean);
  }
}

static std::map<cost::Width, cost::ProductTables>
tablesOf(const std::vector<ProductTiming> &timings) {
  std::map<cost::Width, std::array<std::vector<ProductTiming>, productRoles>> sorted;
  for (const ProductTiming &t : timings)
    sorted[t.width][static_cast<size_t>(t.role)].push_back(t);
  std::map<cost::Width, cost::ProductTables> all;
  for (const auto &[width, roles] : sorted) {
    cost::ProductTables &tables = all[width];
    tables = {tableOf(roles[0]), tableOf(roles[1]), tableOf(roles[2]), tableOf(roles[3])};
    // Rows are m, and what gradients of weights sum over.
    evenOut(tables.plain, 0);
    evenOut(tables.picked, 0);
    evenOut(tables.weights, 2);
    evenOut(tables.pickedWeights, 2);
  }
  return all;
}

static void fitProducts(const Timings &timings, cost::Device &device) {
  cost::ProductCurve &curve = device.product;
  curve.tables = tablesOf(timings.products);
  curve.nearTables = tablesOf(timings.nearProducts);
  curve.tablesAround = timings.productsAround;
  curve.nearAround = timings.nearAround;
  for (const auto &[width, tables] : curve.tables) {
    const double best = *std::max_element(tables.plain.rates.begin(), tables.plain.rates.end());
    curve.rate[width] = cost::OperationsPerSecond(best);
    // What multiply-adds reach in registers, or what products do where they have units of their
    // own.
    device.peak[width] =
        cost::OperationsPerSecond(width == 32 ? std::max(best, timings.multiplyAdds.value) : best);
  }
  curve.whole = rt::wholeFlops;
}

static void fitAttention(const Timings &timings, cost::Device &device) {
  cost::AttentionCurve &curve = device.attention["flash2"];
  curve.heads.clear();
  std::map<double, std::map<double, std::array<double, 4>>> rates;
  for (const AttentionTiming &t : timings.attention) {
    // Half of all pairs, two products forward, five backward.
    const double work = 2 * t.queries * (t.keys / 2) * 2 * t.headWidth * (t.backward ? 2.5 : 1);
    rates[t.headWidth][t.keys][(t.backward ? 1 : 0) + (t.isSpread ? 2 : 0)] = work / t.time.value;
  }
  for (const auto &[width, byKeys] : rates) {
    cost::HeadRates &head = curve.heads.emplace_back();
    head.width = width;
    for (const auto &[keys, each] : byKeys) {
      add(head.forward, keys, each[0]);
      add(head.backward, keys, each[1]);
      add(head.forwardSpread, keys, each[2]);
      add(head.backwardSpread, keys, each[3]);
    }
    curve.forward = cost::OperationsPerSecond(head.forward.most());
    curve.backward = cost::OperationsPerSecond(head.backward.most());
  }
}

static cost::Curve bandwidthOf(const std::vector<PassTiming> &timings) {
  cost::Curve curve;
  for (const PassTiming &t : timings)
    add(curve, t.bytes.value, (t.bytes / t.time.value).value);
  return curve;
}

static void fitFunctions(const Timings &timings, cost::Device &device) {
  cost::Arithmetic arithmetic{timings.vectors, timings.scalars, timings.lanes, {}};
  const double operation = 1 / timings.vectors.value;
  for (const FunctionTiming &t : timings.functions)
    arithmetic.functions[t.name] = std::max(1., 1 + cost::above(t.time, t.plain).value / operation);
  device.arithmetic = arithmetic;
}

static void fitLink(const Timings &timings, cost::Device &device) {
  if (timings.exchanges.empty())
    return;
  cost::LinkCurve &link = device.link;
  link.measuredRanks = timings.ranks;
  const auto n = static_cast<double>(timings.ranks);
  link.measured = {};
  link.bandwidth = {};
  link.start = timings.exchanges.front().time;
  for (const ExchangeTiming &t : timings.exchanges) {
    const cost::BytesPerSecond rate((t.bytes / t.time.value).value);
    add(link.measured[static_cast<size_t>(t.kind)], t.bytes.value, rate.value);
    link.start = std::min(link.start, t.time);
    // What others than these kinds are told: the largest gather.
    if (t.kind == cost::Exchange::AllGather)
      link.bandwidth = rate * ((n - 1) / n);
  }
  link.hop = link.ramp = {};
  link.kinds = {};
  link.sends = bandwidthOf(timings.sends);
}

cost::Device fit(const Timings &timings, const cost::Device &base) {
  cost::Device device = base;
  fitProducts(timings, device);
  fitAttention(timings, device);
  device.streams = bandwidthOf(timings.streams);
  device.updates = bandwidthOf(timings.updates);
  device.bandwidth = cost::BytesPerSecond(device.streams.values.back());
  device.streaming = 1;
  fitFunctions(timings, device);
  fitLink(timings, device);
  device.command = timings.command;
  return device;
}

} // namespace cleave::calibrate
