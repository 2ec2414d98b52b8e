//===- IdlePins.cpp - Pins that ask for what is so anyhow ------------------===//

#include "cleave/Planner/Planner.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
namespace cleave {

static std::string textOf(ModuleOp model, const PlanRequest &request) {
  std::string text;
  if (auto plan = planFromPins(model, request); plan.ok()) {
    llvm::raw_string_ostream stream(text);
    (**plan).print(stream);
  }
  return text;
}

std::vector<std::string> idlePins(ModuleOp model, const PlanRequest &request) {
  struct Choice {
    std::string name;
    bool isAsked;
    void (*drop)(Pins &);
  };
  const Pins &pins = request.pins;
  const Recompute recompute = pins.recompute.value_or(Recompute::None);
  const Choice choices[] = {
      {"zero=" + std::to_string(pins.zero.value_or(0)), pins.zero.value_or(0) > 0,
       [](Pins &p) { p.zero = 0, p.zeroGroup.reset(); }},
      {"sp=1", pins.sequence.value_or(false), [](Pins &p) { p.sequence = false; }},
      {"vocab=1", pins.vocabulary.value_or(false), [](Pins &p) { p.vocabulary = false; }},
      {"order=" + pins.order.value_or(cost::AxisOrder()).text(),
       pins.order.value_or(cost::AxisOrder()) != cost::AxisOrder(),
       [](Pins &p) { p.order.reset(); }},
      {std::string("recompute=") + recomputeName(recompute), recompute != Recompute::None,
       [](Pins &p) { p.recompute = Recompute::None; }},
  };
  std::vector<std::string> idle;
  std::string asked;
  for (const Choice &choice : choices) {
    if (!choice.isAsked)
      continue;
    if (asked.empty())
      asked = textOf(model, request);
    PlanRequest without = request;
    choice.drop(without.pins);
    if (textOf(model, without) == asked)
      idle.push_back(choice.name);
  }
  return idle;
}

} // namespace cleave
