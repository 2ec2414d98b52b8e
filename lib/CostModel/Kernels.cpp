//===- Kernels.cpp - The time of one kernel --------------------------------===//

#include "cleave/CostModel/Kernels.h"

namespace cleave::cost {

/// Of the memory's bandwidth, in the operands of a product.
static constexpr double kProductStreaming = 0.8;
/// Without splitting, most of an unfilled wave is lost (cuBLAS 11).
static constexpr double kUnsplitWaves = 0.8;
/// Rows of a group at which a grouped product has half its rate.
static constexpr double kHalfRows = 300;

/// Multiprocessor time given by used, over the best tile's share of the rate.
static double wasteOf(const ProductCurve &curve, double m, double n, double exponent) {
  double best = 1e30;
  for (const Tile &tile : curve.tiles) {
    const double area = static_cast<double>(tile.rows) * static_cast<double>(tile.columns);
    const double tiles = std::ceil(m / static_cast<double>(tile.rows)) *
                         std::ceil(n / static_cast<double>(tile.columns));
    const double units = static_cast<double>(curve.units);
    const double given = std::ceil(tiles / units) * units * area;
    best = std::min(best, std::pow(given / (m * n), exponent) / tile.share);
  }
  return best;
}

static Seconds castTime(const Device &device, const ProductSize &s) {
  if (s.width >= 16 || !s.casts)
    return {};
  const ProductCurve &curve = device.product;
  const double passes = s.blockScaled ? curve.blockCastPasses : curve.castPasses;
  return (s.blockScaled ? curve.blockCastStart : curve.castStart) +
         streamTime(device, Bytes(s.m * s.k * (2 + s.width / 8.0) * passes));
}

/// The tables of `width`, or of the next wider one that was measured; null: none was.
static const ProductTables *tablesOf(const std::map<Width, ProductTables> &tables, Width width) {
  auto it = tables.lower_bound(width);
  return it == tables.end() ? nullptr : &it->second;
}

/// Operations/s of a core by the tables, `rateIn` in one of them; nothing where there are none.
/// What lies between near and far operands is so in logarithms.
template <typename RateIn>
static std::optional<double> measuredRate(const Device &device, const ProductSize &s,
                                          RateIn rateIn) {
  const ProductCurve &curve = device.product;
  const ProductTables *far = tablesOf(curve.tables, s.width);
  const ProductTables *near = tablesOf(curve.nearTables, s.width);
  if (!far)
    return std::nullopt;
  const double rate = rateIn(*far);
  if (!near || !s.around || *s.around >= curve.tablesAround)
    return rate;
  const double way = std::log(std::max(1., *s.around / curve.nearAround)) /
                     std::log(curve.tablesAround / curve.nearAround);
  return rate * std::pow(rateIn(*near) / rate, 1 - way);
}

/// Cores that a product of so much work is shared by.
static double coresOf(const Device &device, Operations work) {
  return work.value <= device.product.whole ? 1 : device.cores;
}

Seconds productTime(const Device &device, const ProductSize &s, double clock, bool splitsWaves) {
  const ProductCurve &curve = device.product;
  const auto rateIn = [&](const ProductTables &tables) {
    return (s.isWeights ? tables.weights : tables.plain)(s.m, s.n, s.k);
  };
  if (const auto rate = measuredRate(device, s, rateIn)) {
    const Operations plain(2 * s.m * s.n * s.k);
    return plain / OperationsPerSecond(*rate * coresOf(device, plain));
  }
  const double waste = wasteOf(curve, s.m, s.n, splitsWaves ? curve.waveExponent : kUnsplitWaves);
  const Operations work(2 * s.m * s.n * s.k * waste * (1 + device.depthOf(s.width) / s.k));
  const Bytes bytes(s.width / 8.0 * s.k * (s.m + s.n) + s.resultBytes * s.m * s.n);
  const Seconds time = curve.start + std::max(work / (device.rateOf(s.width) * clock),
                                              bytes / (device.bandwidth * kProductStreaming));
  return time + castTime(device, s);
}

Seconds groupedProductTime(const Device &device, const ProductSize &s, double groups,
                           double clock) {
  const double rows = s.m / groups;
  const auto rateIn = [&](const ProductTables &tables) {
    return s.isWeights ? tables.pickedWeights(s.n, s.k, rows) : tables.picked(rows, s.n, s.k);
  };
  if (const auto rate = measuredRate(device, s, rateIn))
    return Operations(2 * s.m * s.n * s.k) / OperationsPerSecond(*rate * device.cores);
  const Operations work(2 * s.m * s.n * s.k * (1 + kHalfRows / rows));
  const Bytes matrices(groups * s.n * s.k * s.width / 8.0);
  const Seconds time =
      device.product.start + std::max(work / (device.rateOf(s.width) * clock),
                                      matrices / (device.bandwidth * kProductStreaming));
  return time + castTime(device, s);
}

/// Windows up to this have a rate of their own where one was measured: most of a tile is masked.
static constexpr double kShortWindow = 256;

/// Products over the whole square, and scores that go through memory.
static Seconds unfusedScores(const Device &device, const ScoresSize &s, bool backward,
                             double clock) {
  // Heads whose width is no multiple of 8 use a slow kernel and unaligned accesses.
  const bool aligned = std::fmod(s.keyWidth, 8) == 0;
  const double scores = s.queries * s.keys;
  const Operations work(2 * scores * (s.keyWidth + s.valueWidth) * (backward ? 2 : 1));
  const Bytes bytes(scores * (backward ? 18 : 14) * (aligned ? 1 : 2));
  return work / (device.rateOf(16) * (clock * 0.75 * (aligned ? 1 : 0.25))) +
         streamTime(device, bytes);
}

/// Operations/s with heads of `width`, between those that were measured.
static OperationsPerSecond headRate(const std::vector<HeadRates> &heads, const ScoresSize &s,
                                    bool backward) {
  const bool windowed = s.window && static_cast<double>(*s.window) < s.keys;
  Curve byWidth;
  for (const HeadRates &head : heads) {
    const Curve &rates = s.isSpread ? (backward ? head.backwardSpread : head.forwardSpread)
                                    : (backward ? head.backward : head.forward);
    byWidth.sizes.push_back(head.width);
    byWidth.values.push_back(rates(windowed ? static_cast<double>(*s.window) : s.keys));
  }
  return OperationsPerSecond(byWidth((s.keyWidth + s.valueWidth) / 2));
}

Seconds scoresTime(const Device &device, const std::string &kernel, const ScoresSize &s,
                   bool backward, double clock) {
  if (kernel == "unfused")
    return unfusedScores(device, s, backward, clock);
  const bool windowed = s.window && *s.window < s.keys;
  const bool isShort = windowed && *s.window <= kShortWindow && device.attention.count("window");
  auto it = device.attention.find(isShort ? "window" : kernel);
  if (it == device.attention.end())
    it = device.attention.find("flash2");
  OperationsPerSecond rate = (backward ? it->second.backward : it->second.forward) * clock;
  if (s.width > it->second.width)
    rate = rate * (device.rateOf(s.width) / device.rateOf(it->second.width));
  const double keys = windowed ? *s.window : s.causal ? s.keys / 2 : s.keys;
  if (!isShort) {
    // A causal mask halves the work and makes the ramp 2.7 times as long.
    const double ramp = (s.causal ? 2.7 : 1) * it->second.ramp;
    rate = rate / (1 + ramp / (windowed ? *s.window : s.keys));
    if (s.keyWidth <= 64)
      rate = rate * it->second.narrow;
  }
  const Operations work(2 * s.queries * keys * (s.keyWidth + s.valueWidth) * (backward ? 2.5 : 1));
  if (const auto &heads = it->second.heads; !heads.empty())
    return work / (headRate(heads, s, backward) * device.cores);
  return work / rate + device.product.start;
}

/// Each core has its part of what is moved.
static Seconds movedTime(const Device &device, const Curve &curve, Bytes bytes, Bytes around) {
  if (curve.empty() || bytes <= Bytes())
    return bytes / device.streamingBandwidth();
  return bytes / BytesPerSecond(curve(around.value / device.cores) * device.cores);
}

Seconds streamTime(const Device &device, Bytes bytes) {
  return movedTime(device, device.streams, bytes, bytes);
}

Seconds streamTime(const Device &device, Bytes bytes, Bytes around) {
  return movedTime(device, device.streams, bytes, around);
}

Seconds updateTime(const Device &device, Bytes bytes) {
  return movedTime(device, device.updates, bytes, bytes);
}

Seconds functionTime(const Device &device, const std::map<std::string, double> &operations,
                     double elements, double inner) {
  if (!device.arithmetic)
    return {};
  const Arithmetic &arithmetic = *device.arithmetic;
  double plain = 0;
  for (const auto &[name, times] : operations) {
    const auto it = arithmetic.functions.find(name);
    plain += times * (it == arithmetic.functions.end() ? 1 : it->second);
  }
  const bool fills = inner >= static_cast<double>(arithmetic.lanes);
  return Operations(plain * elements) /
         ((fills ? arithmetic.vectors : arithmetic.scalars) * device.cores);
}

} // namespace cleave::cost
