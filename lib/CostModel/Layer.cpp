//===- Layer.cpp - The time of one layer -----------------------------------===//

#include "cleave/CostModel/Kernels.h"
#include "cleave/CostModel/Places.h"
#include "cleave/CostModel/Prediction.h"
#include "lib/CostModel/Step.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>
#include <set>

namespace cleave::cost {

/// Memory passes of the backward, against those of the forward.
static constexpr double kBackwardPasses = 1.7;
/// The share of a statistic's bytes that the forward moves.
static constexpr double kStatisticForward = 0.4;
/// What "some" recomputation repeats of a forward.
static constexpr double kSomeRecomputed = 0.45;
/// Rows of experts go in pieces of unequal sizes, at a share of the links' rate that equal ones
/// reach.
static constexpr double kUnevenExperts = 0.69;
/// Launches of a backward, against those of the forward.
static constexpr double kBackwardLaunches = 1.6;

LayerParts &LayerParts::operator+=(const LayerParts &o) {
  products += o.products;
  scores += o.scores;
  passes += o.passes;
  tensor += o.tensor;
  context += o.context;
  experts += o.experts;
  return *this;
}

LayerParts LayerParts::operator*(double times) const {
  return {products * times, scores * times,  passes * times,
          tensor * times,   context * times, experts * times};
}

Seconds LayerTimes::again(Recompute value) const {
  switch (value) {
  case Recompute::None:
    return {};
  case Recompute::Scores:
    return forwardParts.scores;
  case Recompute::Some:
    return kSomeRecomputed * forward;
  case Recompute::EverySecond:
    return 0.5 * whole;
  case Recompute::EveryThird:
    return whole / 3;
  case Recompute::Passes:
    return passesAgain;
  case Recompute::All:
    return whole;
  }
  return {};
}

static int64_t sizeOf(const KindWork &kind, llvm::StringRef dim) {
  for (const Weight &weight : kind.weights)
    for (const Extent &e : weight.extents)
      if (e.name == dim)
        return e.size;
  return 0;
}

Cuts cutsOf(const KindWork &kind, const Layout &layout) {
  Cuts cuts;
  Cut &plain = cuts.plain;
  plain.open = {{"batch", static_cast<double>(layout.microBatch)},
                {"sequence", static_cast<double>(layout.sequenceLength)}};
  plain.ways["sequence"] = static_cast<double>(layout.context);
  plain.tensor = static_cast<double>(layout.tensor);
  plain.sequence = layout.sequence;
  cuts.routed = plain;
  if (layout.tensor > 1) {
    // Key heads take the part of the axis that divides them, the queries of a head the rest.
    const int64_t heads = std::max<int64_t>(1, sizeOf(kind, "kv_head"));
    const int64_t keys = std::gcd(layout.tensor, heads);
    plain.tensorDims = {"kv_head", "group", "ffn"};
    plain.ways["kv_head"] = static_cast<double>(keys);
    plain.ways["group"] = static_cast<double>(layout.tensor / keys);
    plain.ways["ffn"] = plain.tensor;
    if (layout.vocabulary) {
      plain.tensorDims.push_back("vocab");
      plain.ways["vocab"] = plain.tensor;
    }
    // Tokens go to experts from all tensor ranks alike, or each of these has a part of the expert.
    if (layout.expertWidth)
      cuts.routed.ways["ffn"] = plain.tensor;
    else if (layout.sequence)
      cuts.routed.ways["sequence"] *= plain.tensor;
    cuts.routed.sequence = false;
  }
  cuts.routed.ways["expert"] = static_cast<double>(layout.expert);
  return cuts;
}

bool isRouted(const KindWork &kind, const Extents &extents) {
  for (const Product &product : kind.products)
    if (product.isPicked)
      for (const Extent &row : product.rows)
        if (row.size > 0 &&
            llvm::any_of(extents, [&](const Extent &e) { return e.name == row.name; }))
          return true;
  return false;
}

WeightCount weightsOf(const KindWork &kind, const Layout &layout) {
  const Cuts cuts = cutsOf(kind, layout);
  WeightCount count;
  for (const Weight &weight : kind.weights) {
    (weight.isPicked ? count.experts : count.plain) +=
        (weight.isPicked ? cuts.routed : cuts.plain).gathered(weight.extents);
    (weight.isPicked ? count.expertTensors : count.tensors) += 1;
  }
  return count;
}

/// What a layer's products read and write of one micro-batch, and its weights with their gradients.
static Bytes movedBy(const KindWork &kind, const HostProfile &host, const Layout &layout) {
  const Cuts cuts = cutsOf(kind, layout);
  const WeightCount weights = weightsOf(kind, layout);
  Bytes moved = (layout.weightBytes() + host.gradient) * (weights.plain + weights.experts);
  for (const Product &product : kind.products) {
    const Cut &cut = product.isPicked ? cuts.routed : cuts.plain;
    moved += layout.valueBytes() * (cut.gathered(product.rows) *
                                    (cut.gathered(product.summed) + cut.gathered(product.columns)));
  }
  return moved;
}

std::optional<Bytes> movedAround(const ModelWork &work, const Device &device,
                                 const HostProfile &host, const Layout &layout) {
  if (device.product.nearTables.empty())
    return std::nullopt;
  std::vector<Bytes> ofKind;
  for (const KindWork &kind : work.kinds)
    ofKind.push_back(movedBy(kind, host, layout));
  Bytes around;
  for (int kind : work.layers)
    around += ofKind[kind];
  return around;
}

namespace {

/// Adds up one layer.
class LayerClock {
public:
  LayerClock(const KindWork &kind, const Device &device, const HostProfile &host,
             const Layout &layout, std::optional<Bytes> around)
      : kind(kind), device(device), host(host), layout(layout), around(around),
        places(layout, device.link.domain), cuts(cutsOf(kind, layout)),
        clock(device.productClock()) {}

  LayerTimes run() {
    addProducts();
    addScores();
    addPasses();
    addHost();
    addRecompute();
    return times;
  }

private:
  LayerParts &forward() { return times.forwardParts; }
  LayerParts &backward() { return times.backwardParts; }

  /// Products of one input and width, as one where the host merges them.
  std::vector<std::vector<const Product *>> groups() const {
    std::map<std::tuple<int, bool, int>, std::vector<const Product *>> byInput;
    std::vector<std::vector<const Product *>> out;
    for (const Product &product : kind.products)
      if (host.mergesProducts)
        byInput[{product.input, product.isPicked, product.widthOr(layout.width)}].push_back(
            &product);
      else
        out.push_back({&product});
    for (auto &[input, products] : byInput)
      out.push_back(products);
    return out;
  }

  /// 4-bit operands have a scale for the whole beside those of blocks.
  bool isBlockScaled() const { return layout.blockScaled && layout.width == 8; }

  void addProducts() {
    // What comes in is exchanged once for all plain products of it, and once for all picked ones.
    std::set<std::pair<int, bool>> entered;
    for (const auto &group : groups()) {
      const Product &first = *group.front();
      double columns = 0;
      for (const Product *product : group)
        columns += (first.isPicked ? cuts.routed : cuts.plain).gathered(product->columns);
      const bool isNew = entered.insert({first.input, first.isPicked}).second;
      if (first.isPicked)
        addRouted(group, columns, isNew);
      else
        addPlain(group, columns, isNew);
      ++pieces;
    }
  }

  void addPlain(const std::vector<const Product *> &group, double columns, bool isNewInput) {
    const Product &first = *group.front();
    // What is summed over a cut dimension, or makes one, has all tokens of the tensor ranks.
    const auto cut = [&](const Extents &extents) {
      return llvm::any_of(extents, [&](const Extent &e) { return cuts.plain.isTensor(e.name); });
    };
    const bool enters = llvm::any_of(group, [&](const Product *p) { return cut(p->columns); });
    const bool leaves = cut(first.summed);
    const double rows =
        enters || leaves ? cuts.plain.gathered(first.rows) : cuts.plain.elements(first.rows);
    const double summed = cuts.plain.gathered(first.summed);
    const bool isStatistic = llvm::any_of(first.columns, [&](const Extent &e) {
      return llvm::any_of(kind.passes, [&](const Pass &pass) {
        return pass.kind == PassKind::Statistic &&
               llvm::any_of(pass.reads.front().extents,
                            [&](const Extent &read) { return read.name == e.name; });
      });
    });
    // The classifier and routers stay in 16 bits.
    const Width own = first.widthOr(layout.width);
    const Width width = isStatistic ? std::max(16, own) : own;
    const double resultBytes = bytesOf(own);
    // Input and gradient are cast once each; the weights' gradient takes them as they are.
    auto product = [&](double m, double n, double k, double resultBytes, bool casts,
                       bool isWeights = false) {
      return productTime(device,
                         {m, n, k, width, resultBytes, casts, isBlockScaled(), isWeights, around},
                         clock, host.splitsWaves);
    };
    const Seconds ahead = product(rows, columns, summed, resultBytes, true);
    forward().products += ahead;
    if (llvm::all_of(group, [](const Product *p) { return p->isLast; }))
      last += ahead;
    const bool adds = host.accumulate == Bytes();
    const Seconds weights = product(columns, summed, rows, adds ? 8 : resultBytes, false,
                                    /*isWeights=*/true);
    backward().passes += streamTime(device, host.accumulate * (columns * summed));
    backward().products += product(rows, summed, columns, resultBytes, true) + weights;
    times.weightGradients += weights;
    if (enters && isNewInput)
      exchangeTensor(Bytes(rows * summed * resultBytes), /*enters=*/true);
    if (leaves && !enters)
      exchangeTensor(Bytes(rows * columns * resultBytes), /*enters=*/false);
  }

  /// Into the tensor ranks' part of a layer, or out of it.
  void exchangeTensor(Bytes bytes, bool enters) {
    const Group group = places.tensor();
    const double waited = 1 - host.hiddenTensor;
    if (layout.sequence) {
      forward().tensor += waited * exchangeTime(device, Exchange::AllGather, group, bytes);
      backward().tensor += waited * exchangeTime(device, Exchange::ReduceScatter, group, bytes);
    } else {
      (enters ? backward() : forward()).tensor +=
          waited * exchangeTime(device, Exchange::AllReduce, group, bytes);
    }
  }

  void addRouted(const std::vector<const Product *> &group, double columns, bool isNewInput) {
    const Product &first = *group.front();
    const double rows = cuts.routed.gathered(first.rows);
    const double summed = cuts.routed.gathered(first.summed);
    const Width bits = first.widthOr(layout.width);
    const double here = std::max(1., cuts.routed.gathered({first.picked}));
    auto product = [&](double m, double n, double k, bool casts, bool isWeights = false) {
      return groupedProductTime(device,
                                {m, n, k, bits, first.width ? bytesOf(bits) : 2, casts,
                                 isBlockScaled(), isWeights, around},
                                here, clock);
    };
    forward().products += product(rows, columns, summed, true);
    const Seconds weights = product(rows, summed, columns, false, /*isWeights=*/true);
    backward().products += product(rows, summed, columns, true) + weights;
    times.weightGradients += weights;
    experts = here;
    const double tokens = rows / choicesOf(first);
    if (first.spreads && isNewInput) {
      moveRows(first, rows, summed, layout.expert > 1 ? 2 : 1);
      if (cutsWidth())
        exchangeTensor(Bytes(tokens * summed * valueBytes()), /*enters=*/true);
    }
    for (const Product *p : group)
      if (p->gathers) {
        const double width = cuts.routed.gathered(p->columns);
        moveRows(*p, rows, width, 1);
        if (cutsWidth())
          exchangeTensor(Bytes(tokens * width * valueBytes()), /*enters=*/false);
      }
  }

  bool cutsWidth() const { return layout.expertWidth && layout.tensor > 1; }
  double valueBytes() const { return layout.valueBytes().value; }
  /// Of a value among those of `width` bits: what has fewer than 16 is kept in 16.
  static double bytesOf(Width width) { return width > 16 ? 4 : 2; }

  /// Rows that are made of each token.
  static double choicesOf(const Product &product) {
    double choices = 1;
    for (const Extent &row : product.rows)
      if (row.size > 0)
        choices *= static_cast<double>(row.size);
    return choices;
  }

  /// Rows of all choices are sorted by expert, and go to the rank that has it, or back.
  void moveRows(const Product &product, double rows, double width, int copies) {
    const Seconds copy =
        streamTime(device, Bytes(rows * width * 2 * valueBytes() * copies * host.memoryPasses));
    forward().passes += copy;
    backward().passes += kBackwardPasses * copy;
    pieces += copies;
    if (layout.expert <= 1)
      return;
    const double choices = choicesOf(product);
    const int64_t near = places.experts().perDomain;
    const int64_t domains = (layout.expert + near - 1) / near;
    Seconds time = exchangeTime(device, Exchange::AllToAll, {near, near},
                                Bytes(rows * width * valueBytes() / kUnevenExperts));
    if (domains > 1) {
      // A token crosses once for each domain that has one of its experts.
      const double crossing = rows / choices * std::min(choices, static_cast<double>(domains));
      time = std::max(time, exchangeTime(device, Exchange::AllToAll, {domains, 1},
                                         Bytes(crossing * width * valueBytes())));
    }
    forward().experts += (1 - host.hiddenExperts) * time;
    backward().experts += (1 - host.hiddenExperts) * time;
  }

  void addScores() {
    for (const Scores &s : kind.scores) {
      ScoresSize size;
      size.keyWidth = static_cast<double>(s.queries.back().size);
      size.valueWidth = static_cast<double>(s.values.back().size);
      size.queries = cuts.plain.gathered(s.queries) / size.keyWidth;
      size.keys = static_cast<double>(layout.sequenceLength);
      size.isSpread = layout.context > 1;
      size.width = std::max(16, s.width.value_or(layout.width));
      if (s.window)
        size.window = static_cast<double>(*s.window);
      // Scores that go through memory are products of a library.
      const double clock = host.attention == "unfused" ? this->clock : device.powerClock;
      const Seconds ahead = scoresTime(device, host.attention, size, false, clock);
      const Seconds back = scoresTime(device, host.attention, size, true, clock);
      forward().scores += ahead;
      backward().scores += back;
      ++pieces;
      if (layout.context > 1) {
        const Bytes bytes(valueBytes() * static_cast<double>(layout.context) *
                          (cuts.plain.gathered(s.keys) + cuts.plain.gathered(s.values)));
        const Seconds time = exchangeTime(device, Exchange::AllGather, places.context(), bytes);
        // Keys are there before the scores, or come while others are computed.
        const auto seen = [&](Seconds exchange, Seconds compute) {
          return host.overlapsContext
                     ? above(exchange, compute) + kSlowedBeside * std::min(exchange, compute)
                     : exchange;
        };
        forward().context += seen(time, ahead);
        backward().context += seen(2 * time, back);
      }
    }
  }

  double elementsOf(const Extents &extents) const {
    return isRouted(kind, extents) ? cuts.routed.gathered(extents) : cuts.plain.elements(extents);
  }

  /// Elements that a chain of passes moves, and what it takes to compute.
  struct Chain {
    double elements = 0;
    Seconds forward, backward;
  };

  void addBodies(const Pass &pass, Chain &chain) const {
    if (!device.arithmetic || pass.writes.empty())
      return;
    const double elements = elementsOf(pass.writes.front().extents);
    auto sum = [&](const std::vector<BodyLoop> &loops) {
      Seconds time;
      for (const BodyLoop &loop : loops)
        time += functionTime(device, loop.operations, elements, loop.inner);
      return time;
    };
    chain.forward += sum(pass.forward);
    chain.backward += sum(pass.backward);
  }

  /// Chains of the passes that `isMeant`, but for statistics.
  template <typename Filter> std::map<int, Chain> chainsOf(Filter isMeant) const {
    std::map<int, Chain> chains;
    for (const auto &[i, pass] : llvm::enumerate(kind.passes)) {
      if (pass.kind == PassKind::Statistic || !isMeant(pass))
        continue;
      const int chain = host.fusesElementwise ? pass.chain : static_cast<int>(i);
      double &sum = chains[chain].elements;
      // In values of the layout's width.
      const double wide = pass.width ? bytesOf(*pass.width) / valueBytes() : 1;
      addBodies(pass, chains[chain]);
      auto inChain = [&](int maker) {
        return host.fusesElementwise && maker >= 0 && kind.passes[maker].chain == chain &&
               isMeant(kind.passes[maker]);
      };
      for (const Pass::Operand &read : pass.reads)
        // What a pass of the same chain made is neither written nor read.
        sum += wide * (inChain(read.maker) ? -elementsOf(read.extents) : elementsOf(read.extents));
      for (const Pass::Operand &write : pass.writes)
        sum += wide * elementsOf(write.extents);
    }
    return chains;
  }

  Seconds streamed(const Chain &chain) const {
    return streamTime(device, Bytes(chain.elements * valueBytes() * host.memoryPasses), passed);
  }

  void addPasses() {
    for (const Pass &pass : kind.passes)
      if (pass.kind == PassKind::Statistic) {
        const double elements = elementsOf(pass.reads.front().extents);
        const Seconds time = streamTime(device, host.statisticBytes * elements);
        forward().passes += kStatisticForward * time;
        backward().passes += (1 - kStatisticForward) * time;
        ++pieces;
      }
    const std::map<int, Chain> chains = chainsOf([](const Pass &) { return true; });
    for (const auto &[index, chain] : chains)
      passed += Bytes(chain.elements * valueBytes());
    for (const auto &[index, chain] : chains) {
      const Seconds time = streamed(chain);
      forward().passes += std::max(time, chain.forward);
      backward().passes += std::max(kBackwardPasses * time, chain.backward);
      ++pieces;
    }
  }

  /// A device that waits for its host takes the host's time; near each other both show.
  void addHost() {
    const double perExpert = layout.width >= 16   ? host.launchesPerExpert16
                             : layout.blockScaled ? host.launchesPerExpertScaled
                                                  : host.launchesPerExpert8;
    times.forward = launched(forward().sum(), pieces, experts * perExpert);
    times.backward = launched(backward().sum(), kBackwardLaunches * pieces,
                              kBackwardLaunches * experts * perExpert);
  }

  /// What takes `time` on the device, with launches for `pieces` of work and some more.
  Seconds launched(Seconds time, double pieces, double more = 0) const {
    const double launches = pieces * host.launchesPerPiece;
    // Commands of a processor run on what they command.
    if (device.command > Seconds())
      return time + device.command * launches;
    const Seconds launching = host.launch * (launches + more);
    return Seconds(std::pow(std::pow(time.value, 4) + std::pow(launching.value, 4), 0.25));
  }

  Seconds passesAgain() const {
    Seconds time;
    const std::map<int, Chain> chains = chainsOf([](const Pass &p) { return p.isDoneAgain; });
    for (const auto &[index, chain] : chains)
      time += std::max(streamed(chain), chain.forward);
    return launched(time, static_cast<double>(chains.size()));
  }

  void addRecompute() {
    times.whole = above(times.forward, host.stopsRecompute ? last : Seconds());
    times.passesAgain = passesAgain();
    times.recompute = times.again(layout.recompute);
  }

  const KindWork &kind;
  const Device &device;
  const HostProfile &host;
  const Layout &layout;
  const std::optional<Bytes> around;
  const Places places;
  const Cuts cuts;
  const double clock;
  LayerTimes times;
  double pieces = 0, experts = 0;
  /// What the passes of the layer move: it lies between two uses of a value.
  Bytes passed;
  /// Products whose results the backward does not need.
  Seconds last;
};

} // namespace

LayerTimes layerTimes(const KindWork &kind, const Device &device, const HostProfile &host,
                      const Layout &layout, std::optional<Bytes> around) {
  return LayerClock(kind, device, host, layout, around).run();
}

} // namespace cleave::cost
