//===- Pricing.cpp - Prices that layouts have in common ----------------------===//

#include "lib/Planner/Pricing.h"
#include "cleave/Schedule/Schedule.h"
#include "lib/Planner/SearchSpace.h"
#include "lib/Planner/Stages.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <limits>

namespace cleave {

/// Sums in another order differ in their last bits.
static constexpr double kRounding = 1 - 1e-12;
/// Layers are weighed in this part of the heaviest one, so that layouts whose layers take about the
/// same parts have the same stages.
static constexpr double kWeightSteps = 64;
/// A micro-batch in which a sequence takes the least, but for what is left of waves of tiles.
static constexpr int64_t kHugeMicroBatch = int64_t(1) << 24;
static constexpr double kHugeRounding = 1 - 1e-5;
static constexpr double kNoLimit = std::numeric_limits<double>::max();

std::vector<int64_t> PricedChoice::stageSizes() const {
  std::vector<int64_t> sizes;
  if (choice.pp > 1)
    for (size_t s = 1; s < prediction.stageBegins.size(); ++s)
      sizes.push_back(prediction.stageBegins[s] - prediction.stageBegins[s - 1]);
  return sizes;
}

static cost::Recompute costOf(Recompute value) {
  switch (value) {
  case Recompute::None:
    return cost::Recompute::None;
  case Recompute::Selective:
    return cost::Recompute::Passes;
  case Recompute::Full:
    return cost::Recompute::All;
  }
  llvm_unreachable("all values are above");
}

cost::Layout layoutOf(const SearchProblem &problem, const Choice &choice) {
  cost::Layout layout;
  layout.devices = problem.request.ranks;
  layout.tensor = choice.tp;
  layout.context = choice.cp;
  layout.pipeline = choice.pp;
  layout.expert = choice.ep;
  layout.data = choice.dp;
  layout.order = choice.order;
  if (const auto spread = spreadExperts(choice.ep, degreesOf(choice));
      spread && !problem.foldsExperts)
    layout.experts = {spread->data, spread->context, spread->tensor};
  layout.sequence = choice.sequence && choice.tp > 1;
  layout.vocabulary = choice.vocabulary;
  layout.expertWidth = !dealsExpertsOverTensor(choice);
  layout.stagesPerRank = choice.vp;
  layout.schedule = std::string(choice.schedule);
  layout.sharing = static_cast<cost::Sharing>(choice.zero);
  layout.sharingGroup = choice.zeroGroup;
  layout.microBatch = choice.microBatch;
  layout.globalBatch = problem.request.globalBatch;
  layout.sequenceLength = problem.request.sequence;
  layout.width = problem.request.narrow ? 16 : 32;
  layout.gathered = layout.weightBytes();
  if (problem.operands) {
    layout.width = problem.operands->width;
    layout.blockScaled = problem.operands->blockScaled;
    layout.gathered = problem.operands->gathered;
  }
  layout.recompute = costOf(choice.recompute);
  return layout;
}

Pricing::Pricing(const SearchProblem &problem)
    : problem(problem), waiting(problem.host), best(problem.device.atBest()) {
  waiting.overlapsData = false;
}

const cost::HostProfile &Pricing::hostOf(const Choice &choice) const {
  return choice.overlap ? problem.host : waiting;
}

Pricing::ShapeKey Pricing::shapeKey(const Choice &c) {
  return {c.tp,
          c.cp,
          c.ep,
          c.microBatch,
          c.sequence,
          c.vocabulary,
          static_cast<int64_t>(c.recompute),
          dealsExpertsOverTensor(c)};
}

Pricing::Layers &Pricing::layersAt(const Choice &c) {
  const LayerKey key = {shapeKey(c),
                        cost::Places(layoutOf(problem, c), problem.device.link.domain).ofLayers()};
  // Layouts are looked at in groups that have their layers in common.
  if (lastLayers && lastKey == key)
    return *lastLayers;
  auto [it, fresh] = layers.try_emplace(key);
  if (fresh && c.recompute == Recompute::None) {
    it->second.prices =
        cost::timeLayers(problem.work, c.microBatch == kHugeMicroBatch ? best : problem.device,
                         problem.host, layoutOf(problem, c));
  } else if (fresh) {
    Choice keeping = c;
    keeping.recompute = Recompute::None;
    it->second.prices =
        cost::withRecompute(problem.work, layersAt(keeping).prices, costOf(c.recompute));
  }
  lastKey = key;
  lastLayers = &it->second;
  return it->second;
}

const Pricing::Sequence &Pricing::sequenceOf(const Choice &choice) {
  Choice c = choice;
  c.microBatch = 1;
  auto [it, fresh] = sequences.try_emplace(shapeKey(c));
  Sequence &sequence = it->second;
  if (!fresh)
    return sequence;
  const cost::Layout layout = layoutOf(problem, c);
  sequence.prices.memory = cost::layerMemory(problem.work, problem.host, layout);
  for (const cost::KindWork &kind : problem.work.kinds)
    sequence.prices.weights.push_back(cost::weightsOf(kind, layout));
  const std::vector<int> &order = problem.work.layers;
  const auto last = static_cast<int64_t>(order.size()) - 1;
  std::vector<std::pair<int64_t, int64_t>> between(problem.work.kinds.size());
  auto add = [&](int64_t layer, int64_t count) {
    sequence.loads.push_back({cost::loadOfLayer(problem.work, problem.device, problem.host, layout,
                                                sequence.prices, layer),
                              static_cast<double>(count), layer == 0 || layer == last});
  };
  for (int64_t i = 1; i < last; ++i)
    between[order[i]] = {i, between[order[i]].second + 1};
  add(0, 1);
  for (auto [layer, count] : between)
    if (count > 0)
      add(layer, count);
  if (last > 0) {
    add(last, 1);
    // It may take what the first one has.
    sequence.loads.back().load.plain -= sequence.prices.memory[order[last]].tied;
  }
  return sequence;
}

const cost::LayerPrices &Pricing::layersOf(const Choice &choice) {
  cost::LayerPrices &prices = layersAt(choice).prices;
  const auto micro = static_cast<double>(choice.microBatch);
  if (prices.memory.empty())
    for (const cost::LayerMemory &m : sequenceOf(choice).prices.memory)
      prices.memory.push_back(m * micro);
  return prices;
}

const std::vector<int64_t> &Pricing::stagesOf(const Choice &choice) {
  Layers &found = layersAt(choice);
  if (!found.splits) {
    double most = 0;
    for (const cost::LayerTimes &t : found.prices.times)
      most = std::max(most, (t.forward + t.back()).value);
    std::vector<int64_t> weights;
    for (int kind : problem.work.layers) {
      const cost::LayerTimes &t = found.prices.times[kind];
      weights.push_back(std::llround((t.forward + t.back()).value / most * kWeightSteps));
    }
    found.splits = &splits.try_emplace(weights, weights).first->second;
  }
  return found.splits->begins(choice.pp * choice.vp);
}

const std::vector<int64_t> &Pricing::Splits::begins(int64_t stages) {
  std::vector<int64_t> &found = known[stages];
  if (found.empty()) {
    found = {0};
    for (int64_t size : table.split(stages))
      found.push_back(found.back() + size);
  }
  return found;
}

const std::vector<int64_t> &Pricing::inFlightOf(const Choice &c) {
  const cost::Layout layout = layoutOf(problem, c);
  const Schedule *schedule = findSchedule(llvm::StringRef(layout.schedule));
  auto [it, fresh] =
      inFlight.try_emplace({schedule - allSchedules().begin(), c.pp, c.vp, layout.microBatches()});
  if (fresh)
    it->second = cost::inFlightOf(layout);
  return it->second;
}

double Pricing::familyBound(const Choice &family) {
  Choice huge = family;
  huge.microBatch = kHugeMicroBatch;
  const double part = static_cast<double>(problem.request.globalBatch / family.dp) /
                      static_cast<double>(kHugeMicroBatch);
  return kHugeRounding *
         cost::stepBound(problem.work, problem.host, layoutOf(problem, huge), timesOf(huge), part)
             .value;
}

Pricing::Exchanges Pricing::exchangesOf(const Choice &choice) {
  return cost::stateExchangesOf(problem.work, problem.device, problem.host,
                                layoutOf(problem, choice), timesOf(choice));
}

Pricing::Shares Pricing::sharesOf(const Choice &choice, const Exchanges &exchanges) {
  return cost::layerSharesOf(problem.work, problem.device, hostOf(choice),
                             layoutOf(problem, choice), timesOf(choice), exchanges);
}

double Pricing::groupBound(const Choice &group, const Shares &shares) {
  return kRounding * cost::stepBound(problem.work, problem.device, hostOf(group),
                                     layoutOf(problem, group), timesOf(group), shares)
                         .value;
}

double Pricing::pipelineBound(const Choice &pipeline, const Shares &shares) {
  return kRounding * cost::stepBound(problem.work, problem.device, hostOf(pipeline),
                                     layoutOf(problem, pipeline), timesOf(pipeline), shares,
                                     stagesOf(pipeline))
                         .value;
}

const cost::RankLoad &Pricing::loadOf(const Choice &choice, const cost::Layout &layout,
                                      int64_t rank) {
  // Who shares state does not matter, nor what is waited for.
  Choice key = choice;
  key.zero = key.zeroGroup = 0;
  key.overlap = false;
  if (!loadsKey || *loadsKey != key) {
    loads.clear();
    loadsKey = key;
  }
  while (static_cast<int64_t>(loads.size()) <= rank)
    loads.push_back(cost::loadOfRank(problem.work, problem.device, problem.host, layout,
                                     layersOf(choice), stagesOf(choice),
                                     static_cast<int64_t>(loads.size())));
  return loads[rank];
}

double Pricing::memoryOf(const Choice &choice, double enough) {
  const cost::Layout layout = layoutOf(problem, choice);
  const std::vector<int64_t> &inFlight = inFlightOf(choice);
  double most = 0;
  for (int64_t rank = 0; rank < choice.pp && most <= enough; ++rank)
    most = std::max(most, cost::memoryOfRank(problem.device, problem.host, layout,
                                             loadOf(choice, layout, rank), inFlight[rank])
                              .sum()
                              .value);
  return most;
}

std::vector<int64_t> Pricing::leastSharings(const Choice &choice) const {
  if (problem.request.pins.zero)
    return {*problem.request.pins.zero};
  // Stages 0 and 1 have no less of anything than stage 2, and groups no less than all. Stage 3 has
  // gathered weights besides.
  return choice.dp * choice.cp > 1 ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{0};
}

double Pricing::leastMemoryOf(const Choice &pipeline, double enough) {
  double least = kNoLimit;
  for (int64_t zero : leastSharings(pipeline)) {
    Choice shared = pipeline;
    shared.zero = zero;
    shared.zeroGroup = 0;
    least = std::min(least, memoryOf(shared, enough > 0 ? enough / kRounding : kNoLimit));
  }
  return least * kRounding;
}

double Pricing::leastMemoryOfGroup(const Choice &group) {
  double least = kNoLimit;
  for (int64_t zero : leastSharings(group)) {
    Choice shared = group;
    shared.zero = zero;
    least = std::min(least, leastMemoryOfWay(shared));
  }
  return least;
}

double Pricing::leastMemoryOfWay(const Choice &choice) {
  // Rank r of a pipeline keeps at least min(pp - r, micro-batches) micro-batches of each of its
  // layers, whatever the schedule. However layers are dealt out, the fullest rank has at least any
  // average over ranks. With λ as the weights of such an average, a layer counts with what it has
  // where that is least, and each rank that has layers between the first and the last one with what
  // the backward of one of these makes: the first and the last rank may have none.
  const Sequence &sequence = sequenceOf(choice);
  cost::Layout layout = layoutOf(problem, choice);
  // Under which a layer's backward holds the least.
  if (choice.pp > 1)
    layout.schedule = "zb-h1";
  const auto micro = static_cast<double>(choice.microBatch);
  std::vector<cost::RankLoad> loads;
  for (const LayerLoad &layer : sequence.loads) {
    loads.push_back(layer.load);
    loads.back().saved = micro * loads.back().saved;
    loads.back().working = micro * loads.back().working;
  }
  const std::vector<cost::MemoryParts> parts = cost::memoryOfRanks(
      problem.device, problem.host, layout, loads, std::vector<int64_t>(loads.size(), choice.vp));
  auto stateOf = [](const cost::MemoryParts &m) {
    return (m.weights + m.gradients + m.optimizer).value;
  };
  double state = 0, kept = 0, working = std::numeric_limits<double>::max();
  for (auto [layer, m] : llvm::zip(sequence.loads, parts)) {
    state += layer.count * stateOf(m);
    kept += layer.isEdge ? 0 : layer.count * m.activations.value;
    if (!layer.isEdge)
      working = std::min(working, m.temporary.value);
  }
  const int64_t micros = layout.microBatches();
  auto held = [&](int64_t rank) { return static_cast<double>(std::min(choice.pp - rank, micros)); };
  llvm::SmallVector<double, 64> lambda;
  double sum = 0, between = 0;
  for (int64_t rank = 0; rank < choice.pp; ++rank) {
    lambda.push_back(1 / (state + kept * held(rank)));
    sum += lambda.back();
    if (choice.pp == 1 || (rank > 0 && rank + 1 < choice.pp))
      between += lambda.back();
  }
  double least = problem.work.layers.size() > 2 ? between * working : 0;
  for (auto [layer, m] : llvm::zip(sequence.loads, parts)) {
    double most = std::numeric_limits<double>::max();
    for (int64_t rank = 0; rank < choice.pp; ++rank)
      most = std::min(most, lambda[rank] * (stateOf(m) + m.activations.value * held(rank)));
    least += layer.count * most;
  }
  return kRounding * least / sum;
}

PricedChoice Pricing::price(const Choice &choice) {
  cost::Layout layout = layoutOf(problem, choice);
  layout.stageBegins = stagesOf(choice);
  return {choice, cost::predict(problem.work, problem.device, hostOf(choice), layout,
                                layersOf(choice), book)};
}

PricedChoice price(const SearchProblem &problem, const Choice &choice) {
  return Pricing(problem).price(choice);
}

} // namespace cleave
