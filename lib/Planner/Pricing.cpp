//===- Pricing.cpp - Prices that layouts have in common ----------------------===//

#include "lib/Planner/Pricing.h"
#include "cleave/CostModel/Bound.h"
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

std::vector<int64_t> PricedChoice::stageSizes() const {
  std::vector<int64_t> sizes;
  if (choice.pp > 1)
    for (size_t s = 1; s < prediction.stageBegins.size(); ++s)
      sizes.push_back(prediction.stageBegins[s] - prediction.stageBegins[s - 1]);
  return sizes;
}

cost::Layout layoutOf(const SearchProblem &problem, const Choice &choice) {
  cost::Layout layout;
  layout.devices = problem.request.ranks;
  layout.tensor = choice.tp;
  layout.context = choice.cp;
  layout.pipeline = choice.pp;
  layout.expert = choice.ep;
  layout.data = choice.dp;
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
  layout.recompute = choice.recompute ? cost::Recompute::All : cost::Recompute::None;
  return layout;
}

Pricing::Pricing(const SearchProblem &problem) : problem(problem), waiting(problem.host) {
  waiting.overlapsData = false;
}

const cost::HostProfile &Pricing::hostOf(const Choice &choice) const {
  return choice.overlap ? problem.host : waiting;
}

cost::LayerPrices &Pricing::timesOf(const Choice &c) {
  auto [it, fresh] = layers.try_emplace({c.tp, c.cp, c.ep, c.microBatch, c.sequence, c.vocabulary,
                                         c.recompute, dealsExpertsOverTensor(c)});
  if (fresh)
    it->second = cost::timeLayers(problem.work, problem.device, problem.host, layoutOf(problem, c));
  return it->second;
}

const std::vector<cost::LayerMemory> &Pricing::memoryOfSequence(const Choice &choice) {
  Choice c = choice;
  c.microBatch = 1;
  auto [it, fresh] = memory.try_emplace(
      {c.tp, c.cp, c.ep, c.sequence, c.vocabulary, c.recompute, dealsExpertsOverTensor(c)});
  if (fresh)
    it->second = cost::layerMemory(problem.work, problem.host, layoutOf(problem, c));
  return it->second;
}

const cost::LayerPrices &Pricing::layersOf(const Choice &choice) {
  cost::LayerPrices &prices = timesOf(choice);
  const auto micro = static_cast<double>(choice.microBatch);
  if (prices.memory.empty())
    for (const cost::LayerMemory &m : memoryOfSequence(choice))
      prices.memory.push_back(m * micro);
  return prices;
}

const std::vector<int64_t> &Pricing::stagesOf(const Choice &choice) {
  const cost::LayerPrices &prices = timesOf(choice);
  double most = 0;
  for (const cost::LayerTimes &t : prices.times)
    most = std::max(most, (t.forward + t.back()).value);
  std::vector<int64_t> key = {choice.pp * choice.vp};
  for (const cost::LayerTimes &t : prices.times)
    key.push_back(std::llround((t.forward + t.back()).value / most * kWeightSteps));
  auto [it, fresh] = stages.try_emplace(key);
  if (!fresh)
    return it->second;
  std::vector<int64_t> weights;
  for (int kind : problem.work.layers)
    weights.push_back(key[1 + kind]);
  it->second = {0};
  for (int64_t size : splitEvenly(weights, choice.pp * choice.vp))
    it->second.push_back(it->second.back() + size);
  return it->second;
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

double Pricing::groupBound(const Choice &group) {
  const cost::Layout layout = layoutOf(problem, group);
  return kRounding * cost::stepBound(problem.work, problem.host, layout, timesOf(group),
                                     static_cast<double>(layout.microBatches()))
                         .value;
}

double Pricing::boundOf(const Choice &choice, bool sharing) {
  return kRounding * cost::stepBound(problem.work, problem.device, hostOf(choice),
                                     layoutOf(problem, choice), timesOf(choice), stagesOf(choice),
                                     sharing)
                         .value;
}

std::vector<cost::MemoryParts> Pricing::ranksOf(const Choice &choice) {
  return cost::memoryOfRanks(problem.work, problem.device, problem.host, layoutOf(problem, choice),
                             layersOf(choice), stagesOf(choice), inFlightOf(choice));
}

double Pricing::memoryOf(const Choice &choice) {
  double most = 0;
  for (const cost::MemoryParts &rank : ranksOf(choice))
    most = std::max(most, rank.sum().value);
  return most;
}

double Pricing::leastMemoryOf(const Choice &pipeline) {
  Choice shared = pipeline;
  shared.zero = 3;
  double most = 0;
  // Nobody keeps less than a part of all state, and nobody does without activations.
  for (const cost::MemoryParts &rank : ranksOf(shared))
    most =
        std::max(most, (rank.weights + rank.gradients + rank.optimizer + rank.activations).value);
  return most * kRounding;
}

double Pricing::leastMemoryOfGroup(const Choice &group) {
  // Rank r of a pipeline keeps at least min(pp - r, micro-batches) micro-batches of each of its
  // layers, whatever the schedule, and each layer's state is shared by all at most. However layers
  // are dealt out, the fullest rank has at least any average over ranks. With λ as the weights of
  // such an average, a layer counts with what it has where that is least.
  const std::vector<cost::LayerMemory> &sequence = memoryOfSequence(group);
  const cost::Layout layout = layoutOf(problem, group);
  const auto micro = static_cast<double>(group.microBatch);
  const auto shared = static_cast<double>(group.dp * group.cp);
  const double bytes = (layout.weightBytes() + problem.host.gradient + layout.optimizerBytes() +
                        problem.host.ownedGradient)
                           .value;
  std::vector<double> state, kept;
  double allState = 0, allKept = 0;
  const std::vector<int> &order = problem.work.layers;
  for (size_t k = 0; k < sequence.size(); ++k) {
    const cost::LayerMemory &memory = sequence[k];
    cost::WeightCount w = weightsOf(problem.work.kinds[k], layout);
    // The last layer may take what the first one has.
    if (static_cast<int>(k) == order.back())
      w.plain -= memory.tied;
    const double ofExpert =
        std::max(1., shared * static_cast<double>(layout.expertWidth ? 1 : group.tp) /
                         static_cast<double>(group.ep));
    state.push_back(bytes * (w.plain / shared + w.experts / ofExpert));
    kept.push_back(memory.saved.value * micro);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    allState += state[order[i]];
    allKept += i > 0 && i + 1 < order.size() ? kept[order[i]] : 0;
  }
  std::vector<double> lambda;
  double sum = 0;
  auto held = [&](int64_t rank) {
    return static_cast<double>(std::min(group.pp - rank, layout.microBatches()));
  };
  for (int64_t rank = 0; rank < group.pp; ++rank) {
    lambda.push_back(1 / (allState + allKept * held(rank)));
    sum += lambda.back();
  }
  double least = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool isEdge = i == 0 || i + 1 == order.size();
    double most = std::numeric_limits<double>::max();
    for (int64_t rank = 0; rank < group.pp; ++rank)
      most = std::min(most, lambda[rank] / sum *
                                (state[order[i]] + (isEdge ? 0 : kept[order[i]]) * held(rank)));
    least += most;
  }
  return least * kRounding;
}

PricedChoice Pricing::price(const Choice &choice) {
  cost::Layout layout = layoutOf(problem, choice);
  layout.stageBegins = stagesOf(choice);
  return {choice,
          cost::predict(problem.work, problem.device, hostOf(choice), layout, layersOf(choice))};
}

PricedChoice price(const SearchProblem &problem, const Choice &choice) {
  return Pricing(problem).price(choice);
}

} // namespace cleave
