//===- Stages.cpp - Which layers are which stage of a pipeline -------------===//

#include "lib/Planner/Stages.h"
#include "cleave/Schedule/Schedule.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
namespace cleave {

static rt::Error badPin(const std::string &message, const std::string &given,
                        const std::string &rule, const std::string &suggestion) {
  return rt::userError("plan.bad_pin", message).withGiven(given).withRule(rule).suggest(suggestion);
}

static std::string pinText(const Pins &pins) {
  std::string text = "pp=" + std::to_string(pins.pp.value_or(1));
  if (pins.vp)
    text += ", vp=" + std::to_string(*pins.vp);
  if (pins.schedule)
    text += ", schedule=" + *pins.schedule;
  return text;
}

/// Every stage has a layer.
static rt::Status checkStageCount(const PipelineChoice &choice, const Pins &pins, int64_t ranks,
                                  int64_t layers) {
  int64_t stages;
  if (!llvm::MulOverflow(choice.ranks, choice.stagesOfRank, stages) && stages <= layers)
    return rt::Status::success();
  rt::Error error = rt::userError("plan.stages_gt_layers", "there are more stages than layers")
                        .withGiven(pinText(pins) + ", layers=" + std::to_string(layers) +
                                   " (embedding and head are layers too)")
                        .withRule("pp × vp is at most the number of layers");
  if (choice.stagesOfRank > 1 && layers / choice.ranks > 1) {
    error.suggestions.push_back("vp=" + std::to_string(layers / choice.ranks));
    return error;
  }
  // As many stages as ranks, in the order that has one on each.
  if (choice.stagesOfRank > 1 && choice.ranks <= layers) {
    error.suggestions.push_back("vp=1, schedule=1f1b");
    return error;
  }
  int64_t fits = std::max<int64_t>(layers / choice.stagesOfRank, 1);
  while (ranks % fits != 0)
    --fits;
  error.suggestions.push_back("pp=" + std::to_string(fits) + (fits == 1 ? ", vp=1" : ""));
  return error;
}

/// The least divisor above 1.
static int64_t leastDivisor(int64_t ranks) {
  for (int64_t d = 2; d <= ranks / d; ++d)
    if (ranks % d == 0)
      return d;
  return ranks;
}

rt::StatusOr<PipelineChoice> settlePipeline(const Pins &pins, int64_t ranks, ModuleOp model) {
  PipelineChoice choice;
  choice.ranks = pins.pp.value_or(1);
  const StringRef asked = pins.schedule ? StringRef(*pins.schedule) : StringRef("1f1b");
  if (!choice.isPipeline()) {
    if (pins.vp.value_or(1) > 1 || asked != "1f1b")
      return badPin("a pipeline's stages and schedule are given, and no pipeline", pinText(pins),
                    "vp and schedule are of a pipeline, which has pp of at least 2",
                    ranks > 1 ? "pp=" + std::to_string(leastDivisor(ranks)) : "vp=1,schedule=1f1b");
    return choice;
  }
  choice.stagesOfRank = pins.vp.value_or(asked == "interleaved" ? 2 : 1);
  // By itself, 1f1b is the same idea for any number of stages.
  const Schedule *schedule =
      findSchedule(asked == "1f1b" && choice.stagesOfRank > 1 ? StringRef("interleaved") : asked);
  if (!schedule->takes(choice.stagesOfRank))
    return rt::userError("plan.schedule_stages",
                         (asked + " does not run " + Twine(choice.stagesOfRank) +
                          (choice.stagesOfRank == 1 ? " stage" : " stages") + " on a rank")
                             .str())
        .withGiven(pinText(pins))
        .withRule(schedule->severalStages ? "interleaved takes vp of at least 2"
                                          : (asked + " takes vp=1").str())
        .suggest(schedule->severalStages ? "vp=2" : "vp=1")
        .suggest(schedule->severalStages ? "schedule=1f1b" : "schedule=interleaved");
  choice.schedule = schedule->name;
  auto layers = layersOf(model);
  if (rt::Status s =
          checkStageCount(choice, pins, ranks, layers ? static_cast<int64_t>(layers->size()) : 0);
      !s.ok())
    return s;
  return choice;
}

StageTable::StageTable(ArrayRef<int64_t> weights) : sums(1, 0), scores(weights.size() + 1) {
  for (int64_t weight : weights)
    sums.push_back(sums.back() + weight);
}

void StageTable::addRow() {
  const auto layers = static_cast<int64_t>(sums.size()) - 1;
  const auto s = static_cast<int64_t>(rows.size()) + 1;
  std::vector<int32_t> &sizes = rows.emplace_back(layers + 1);
  if (s == 1) {
    for (int64_t i = 0; i < layers; ++i) {
      const int64_t sum = sums[layers] - sums[i];
      scores[i] = {sum, double(sum) * double(sum)};
      sizes[i] = static_cast<int32_t>(layers - i);
    }
    return;
  }
  // A longer first stage weighs more and leaves less to the others. The largest sum is least where
  // the one gets above the other, which is no earlier for a later layer. From the first layer on,
  // so that what a layer needs of the row before is still there.
  const int64_t last = layers - s + 1;
  auto sumTo = [&](int64_t i, int64_t end) { return sums[end] - sums[i]; };
  for (int64_t i = 0, turn = 1; i + s <= layers; ++i) {
    turn = std::max(turn, i + 1);
    while (turn < last && sumTo(i, turn) < scores[turn].largest)
      ++turn;
    int64_t largest = std::max(sumTo(i, turn), scores[turn].largest);
    if (turn > i + 1)
      largest = std::min(largest, scores[turn - 1].largest);
    int64_t end = turn;
    while (end > i + 1 && scores[end - 1].largest <= largest)
      --end;
    Score best;
    for (; end <= last && sumTo(i, end) <= largest; ++end) {
      const int64_t sum = sumTo(i, end);
      const Score score{std::max(sum, scores[end].largest),
                        double(sum) * double(sum) + scores[end].squares};
      // The longest first stage wins ties.
      if (score.largest <= largest && (!sizes[i] || !(best < score))) {
        best = score;
        sizes[i] = static_cast<int32_t>(end - i);
      }
    }
    scores[i] = best;
  }
}

SmallVector<int64_t> StageTable::split(int64_t stages) {
  while (static_cast<int64_t>(rows.size()) < stages)
    addRow();
  SmallVector<int64_t> sizes;
  for (int64_t i = 0, s = stages; s > 0; --s) {
    sizes.push_back(rows[s - 1][i]);
    i += sizes.back();
  }
  return sizes;
}

SmallVector<int64_t> splitEvenly(ArrayRef<int64_t> weights, int64_t stages) {
  return StageTable(weights).split(stages);
}

/// Whole numbers in proportion to what layers take; the heaviest has 2^20.
static SmallVector<int64_t> weightsOf(ArrayRef<Layer> layers, ModuleOp model) {
  llvm::StringMap<double> work;
  double most = 0;
  for (const Layer &layer : layers)
    if (auto [it, fresh] = work.try_emplace(layer.kind, 0); fresh) {
      auto kind = model.lookupSymbol<func::FuncOp>(layer.kind);
      it->second = kind ? productsPerToken(kind) : 0;
      most = std::max(most, it->second);
    }
  SmallVector<int64_t> weights;
  for (const Layer &layer : layers)
    weights.push_back(most > 0 ? static_cast<int64_t>(work[layer.kind] / most * (1 << 20)) : 1);
  return weights;
}

/// Kinds that follow each other, and how many of each.
static std::pair<SmallVector<StringRef>, SmallVector<int64_t>> runsOf(ArrayRef<Layer> layers) {
  std::pair<SmallVector<StringRef>, SmallVector<int64_t>> runs;
  for (const Layer &layer : layers) {
    if (runs.first.empty() || runs.first.back() != layer.kind) {
      runs.first.push_back(layer.kind);
      runs.second.push_back(0);
    }
    ++runs.second.back();
  }
  return runs;
}

void writePipeline(OpBuilder &b, Location loc, ModuleOp model, const PipelineChoice &choice,
                   ArrayRef<int64_t> given) {
  const std::vector<Layer> layers = *layersOf(model);
  SmallVector<int64_t> sizes(given);
  if (given.empty())
    sizes = splitEvenly(weightsOf(layers, model), choice.ranks * choice.stagesOfRank);
  auto pipeline = plan::PipelineOp::create(b, loc, choice.schedule, kPipelineAxis);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&pipeline.getBody().emplaceBlock());
  ArrayRef<Layer> left = layers;
  for (int64_t size : sizes) {
    auto [kinds, counts] = runsOf(left.take_front(size));
    plan::StageOp::create(b, loc, b.getStrArrayAttr(kinds), counts);
    left = left.drop_front(size);
  }
  for (const auto &[name, stages] : sharedTensors(layers, sizes))
    plan::SharedOp::create(b, loc, name, stages);
}

std::vector<std::pair<std::string, SmallVector<int64_t>>> sharedTensors(ArrayRef<Layer> layers,
                                                                        ArrayRef<int64_t> sizes) {
  llvm::MapVector<StringRef, SmallVector<int64_t>, llvm::StringMap<unsigned>> readers;
  ArrayRef<Layer> left = layers;
  for (auto [stage, size] : llvm::enumerate(sizes)) {
    for (const Layer &layer : left.take_front(size))
      for (const Layer::Tensor &tensor : layer.tensors)
        if (auto &stages = readers[tensor.name];
            stages.empty() || stages.back() != static_cast<int64_t>(stage))
          stages.push_back(static_cast<int64_t>(stage));
    left = left.drop_front(size);
  }
  std::vector<std::pair<std::string, SmallVector<int64_t>>> shared;
  for (const auto &[name, stages] : readers)
    if (stages.size() > 1)
      shared.push_back({name.str(), stages});
  return shared;
}

SmallVector<int64_t> stageSizes(plan::PipelineOp pipeline) {
  SmallVector<int64_t> sizes;
  for (auto stage : pipeline.getOps<plan::StageOp>()) {
    int64_t size = 0;
    for (int64_t count : stage.getCounts())
      if (llvm::AddOverflow(size, count, size))
        size = std::numeric_limits<int64_t>::max();
    sizes.push_back(size);
  }
  return sizes;
}

} // namespace cleave
