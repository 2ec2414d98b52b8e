//===- Choice.cpp - One layout, as pins can say it ---------------------------===//

#include "cleave/Planner/Choice.h"
#include "cleave/Schedule/Schedule.h"
#include "dialects/Plan/Plan.h"
#include "lib/Planner/Stages.h"
#include "runtime/Base/Suggest.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
namespace cleave {

const std::vector<ChoiceField> &choiceFields() {
  // A table of constants, made once.
  static const std::vector<ChoiceField> fields = {
      {"dp", [](const Choice &c) { return std::to_string(c.dp); }, "1"},
      {"tp", [](const Choice &c) { return std::to_string(c.tp); }, "1"},
      {"cp", [](const Choice &c) { return std::to_string(c.cp); }, "1"},
      {"pp", [](const Choice &c) { return std::to_string(c.pp); }, "1"},
      {"vp", [](const Choice &c) { return std::to_string(c.vp); }, "1"},
      {"ep", [](const Choice &c) { return std::to_string(c.ep); }, "1"},
      {"schedule", [](const Choice &c) { return std::string(c.schedule); }, "1f1b"},
      {"zero", [](const Choice &c) { return std::to_string(c.zero); }, "0"},
      {"zero_group", [](const Choice &c) { return std::to_string(c.zeroGroup); }, "0"},
      {"sp", [](const Choice &c) { return std::string(c.sequence ? "1" : "0"); }, "0"},
      {"vocab", [](const Choice &c) { return std::string(c.vocabulary ? "1" : "0"); }, "1"},
      {"recompute", [](const Choice &c) { return std::string(recomputeName(c.recompute)); },
       "none"},
      {"overlap", [](const Choice &c) { return std::string(c.overlap ? "1" : "0"); }, "0"},
      {"micro_batch", [](const Choice &c) { return std::to_string(c.microBatch); }, "1"},
      {"order", [](const Choice &c) { return c.order.text(); }, "tp-cp-dp-pp"},
  };
  return fields;
}

/// By `MeshAxis`, as plans have them.
static constexpr std::array<std::string_view, cost::kMeshAxes> kAxisNames = {"tensor", "context",
                                                                             "data", "pipe"};

std::vector<PlacedAxis> placedAxes(const Choice &choice) {
  const cost::AxisSizes sizes = choice.axisSizes();
  std::vector<PlacedAxis> placed;
  for (cost::MeshAxis axis : choice.order.axes) {
    const auto at = static_cast<size_t>(axis);
    placed.push_back({kAxisNames[at], sizes[at], choice.order.strideOf(axis, sizes)});
  }
  return placed;
}

std::string textOf(const Choice &choice) {
  std::vector<std::string> parts;
  for (const ChoiceField &field : choiceFields())
    // The size of a micro-batch has no neutral value: it is always said.
    if (std::string text = field.text(choice); text != field.neutral || field.name == "micro_batch")
      parts.push_back(std::string(field.name) + "=" + text);
  return llvm::join(parts, ",");
}

Pins pinsOf(const Choice &choice) {
  Pins pins;
  pins.dp = choice.dp;
  pins.tp = choice.tp;
  pins.cp = choice.cp;
  pins.pp = choice.pp;
  if (choice.pp > 1) {
    pins.vp = choice.vp;
    pins.schedule = std::string(choice.schedule);
  }
  pins.experts = choice.ep;
  pins.zero = choice.zero;
  if (choice.zeroGroup)
    pins.zeroGroup = choice.zeroGroup;
  pins.sequence = choice.sequence;
  pins.vocabulary = choice.vocabulary;
  pins.recompute = choice.recompute;
  pins.overlap = choice.overlap;
  pins.microBatch = choice.microBatch;
  pins.order = choice.order;
  return pins;
}

bool satisfies(const Choice &choice, const Pins &pins) {
  auto is = [](const auto &pinned, const auto &value) { return !pinned || *pinned == value; };
  return is(pins.dp, choice.dp) && is(pins.tp, choice.tp) && is(pins.cp, choice.cp) &&
         is(pins.pp, choice.pp) && is(pins.vp, choice.vp) && is(pins.experts, choice.ep) &&
         is(pins.zero, choice.zero) && is(pins.zeroGroup, choice.zeroGroup) &&
         is(pins.sequence, choice.sequence) && is(pins.vocabulary, choice.vocabulary) &&
         is(pins.recompute, choice.recompute) && is(pins.overlap, choice.overlap) &&
         is(pins.microBatch, choice.microBatch) && is(pins.schedule, choice.schedule) &&
         (!pins.order || pins.order->leastFor(choice.axisSizes()) == choice.order);
}

rt::StatusOr<std::vector<Ban>> parseBans(StringRef text) {
  std::vector<Ban> bans;
  SmallVector<StringRef> parts;
  if (!text.empty())
    text.split(parts, ',');
  std::vector<std::string> known;
  for (const ChoiceField &field : choiceFields())
    known.emplace_back(field.name);
  for (StringRef part : parts) {
    auto [key, value] = part.trim().split('=');
    key = key.trim();
    if (!llvm::is_contained(known, key)) {
      rt::Error error =
          rt::userError("plan.unknown_pin", "nothing that is chosen is called '" + key.str() + "'")
              .withGiven("\"" + key.str() + "\"")
              .withRule("what can be forbidden: " + llvm::join(known, ", "));
      error.suggestions.push_back(rt::nearestName(key.str(), known).value_or("tp=8"));
      return error;
    }
    if (!part.contains('=')) {
      bans.push_back({key.str(), std::nullopt});
      continue;
    }
    // A value that could be pinned, in the form that choices have.
    if (auto pins = parsePins(part.trim()); !pins.ok())
      return pins.status();
    bans.push_back({key.str(), value.trim().str()});
  }
  return bans;
}

bool isBanned(const Choice &choice, const std::vector<Ban> &bans) {
  return llvm::any_of(bans, [&](const Ban &ban) {
    const auto field = llvm::find_if(choiceFields(), [&](const ChoiceField &f) {
      return f.name == std::string_view(ban.field);
    });
    const std::string text = field->text(choice);
    return ban.value ? text == *ban.value : text != field->neutral;
  });
}

/// Stage of ZeRO, and how many ranks share what it cuts: told by a parameter whose state is cut
/// further than its values, or whose values are cut by axes of tokens.
static void readSharing(plan::SolutionOp solution, const plan::AxisTable &axes, Choice &choice) {
  SmallVector<StringAttr> tokens = axes.expand("data");
  llvm::append_range(tokens, axes.expand("context"));
  auto waysOfTokens = [&](DictionaryAttr places) {
    int64_t ways = 1;
    for (NamedAttribute place : places)
      if (auto list = dyn_cast<ArrayAttr>(place.getValue()))
        for (StringAttr axis : axes.expand(list))
          if (llvm::is_contained(tokens, axis))
            ways *= axes.size(axis);
    return ways;
  };
  int64_t most = 1;
  for (auto parameter : solution.getOps<plan::ParameterOp>()) {
    // Experts are dealt out over some of these axes whoever shares state.
    if (llvm::any_of(parameter.getStored(),
                     [](NamedAttribute place) { return place.getName() == "expert"; }))
      continue;
    const SmallVector<DictionaryAttr> places = parameter.getPlaces();
    const int64_t stored = waysOfTokens(places[0]), gradient = waysOfTokens(places[1]),
                  optimizer = waysOfTokens(places[2]);
    const int64_t zero = stored > 1 ? 3 : gradient > 1 ? 2 : optimizer > 1 ? 1 : 0;
    choice.zero = std::max(choice.zero, zero);
    most = std::max(most, optimizer);
  }
  if (choice.zero && most < choice.dp * choice.cp)
    choice.zeroGroup = most;
}

/// In which order the axes of `solution` lie.
static cost::AxisOrder orderOf(plan::SolutionOp solution, const cost::AxisSizes &sizes,
                               StringRef pipeline) {
  SmallVector<cost::MeshAxis> found;
  for (auto axis : solution.getOps<plan::AxisOp>())
    for (cost::MeshAxis known : cost::AxisOrder().axes) {
      const StringRef name = known == cost::MeshAxis::Pipeline
                                 ? pipeline
                                 : StringRef(kAxisNames[static_cast<size_t>(known)]);
      if (axis.getName() == name && !llvm::is_contained(found, known))
        found.push_back(known);
    }
  // The last one lies innermost; where those that are not there lie does not matter.
  std::reverse(found.begin(), found.end());
  for (cost::MeshAxis axis : cost::AxisOrder().axes)
    if (!llvm::is_contained(found, axis))
      found.push_back(axis);
  cost::AxisOrder order;
  llvm::copy(found, order.axes.begin());
  return order.leastFor(sizes);
}

Choice choiceOf(plan::SolutionOp solution) {
  const plan::AxisTable axes(solution);
  auto sizeOf = [&](StringRef name) { return axes.size(axes.expand(name)); };
  Choice choice;
  choice.dp = sizeOf("data");
  choice.tp = sizeOf("tensor");
  choice.cp = sizeOf("context");
  choice.microBatch = plan::entry<plan::BatchOp>(solution).getMicro();
  StringRef pipelineAxis = kPipelineAxis;
  if (auto pipeline = plan::entry<plan::PipelineOp>(solution)) {
    pipelineAxis = pipeline.getAxis();
    choice.pp = axes.size(axes.expand(pipeline.getAxis()));
    choice.vp = static_cast<int64_t>(stageSizes(pipeline).size()) / choice.pp;
    if (const Schedule *schedule = findSchedule(pipeline.getSchedule()))
      choice.schedule = schedule->name;
  }
  auto layout = plan::entry<plan::LayoutOp>(solution).getDims().getAs<ArrayAttr>("sequence");
  choice.sequence = layout && llvm::is_contained(layout.getAsValueRange<StringAttr>(), "tensor");
  bool cutsVocabulary = false;
  for (auto assign : solution.getOps<plan::AssignOp>()) {
    if (auto experts = assign.getFactors().getAs<ArrayAttr>("expert"))
      choice.ep = std::max(choice.ep, axes.size(axes.expand(experts)));
    cutsVocabulary |= static_cast<bool>(assign.getFactors().get("vocab"));
  }
  choice.vocabulary = choice.tp == 1 || cutsVocabulary;
  // A plan that keeps other paths is nearest to what keeps some.
  if (auto recompute = plan::entry<plan::RecomputeOp>(solution))
    choice.recompute = recompute.getSaved().empty() ? Recompute::Full : Recompute::Selective;
  choice.overlap = static_cast<bool>(plan::entry<plan::OverlapOp>(solution));
  choice.order = orderOf(solution, choice.axisSizes(), pipelineAxis);
  readSharing(solution, axes, choice);
  return choice;
}

} // namespace cleave
