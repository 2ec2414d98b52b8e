//===- LayOut.cpp - What a rank of a program allocates -------------------------===//

#include "cleave/Pipelines/LayOut.h"
#include "dialects/Exec/Exec.h"

using namespace mlir;
namespace cleave {

LaidOutMemory memoryOf(ModuleOp module) {
  LaidOutMemory memory;
  for (auto program : module.getOps<exec::ProgramOp>()) {
    auto &place = memory.places.emplace_back();
    for (auto segment : program.getOps<exec::SegmentOp>())
      place.push_back({segment.getName().str(),
                       static_cast<int64_t>(segment.getBytes() * segment.getCopies())});
  }
  return memory;
}

void fixChoice(PlanRequest &request, const PricedChoice &found) {
  const Pins asked = request.pins;
  request.pins = pinsOf(found.choice);
  request.pins.narrow = asked.narrow;
  request.pins.bucketMegabytes = asked.bucketMegabytes;
  request.stageSizes = found.stageSizes();
}

std::optional<LaidOutMemory> ExecLayouter::layOut(ModuleOp plan) {
  OwningOpRef<ModuleOp> copy = model.clone();
  if (!applyPhase(*copy, plan, optimizer).ok() || !distPhase(*copy).ok() ||
      !execPhase(*copy, profile).ok())
    return std::nullopt;
  return memoryOf(*copy);
}

std::optional<LaidOutMemory> ExecLayouter::layOut(const PricedChoice &found) {
  auto [it, isNew] = known.try_emplace({found.choice, found.stageSizes()});
  if (!isNew)
    return it->second;
  PlanRequest asked = request;
  fixChoice(asked, found);
  if (auto plan = planPhase(model, asked); plan.ok())
    it->second = layOut(**plan);
  return it->second;
}

} // namespace cleave
