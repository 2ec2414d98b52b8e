//===- PipeText.cpp - A pipeline's schedule for people and scripts -----------===//

#include "PipeText.h"

#include "cleave/Schedule/Schedule.h"
#include "dialects/Pipe/Pipe.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cleave::tool {

namespace {
/// A schedule, played out at equal times.
struct Played {
  explicit Played(mlir::ModuleOp module)
      : op(*module.getOps<pipe::ScheduleOp>().begin()), table(op.getTable()),
        timeline(playOut(table, pipe::equalTimes(table.hasWeightGradients()))),
        facts(factsOf(table, timeline)) {}

  pipe::ScheduleOp op;
  pipe::Table table;
  pipe::Timeline timeline;
  ScheduleFacts facts;
};
} // namespace

std::string drawnSchedule(mlir::ModuleOp module, bool surveys) {
  Played played(module);
  const pipe::Table &table = played.table;
  std::string text = fmt::format(
      "{}: {} stage{} on {} rank{}, {} micro-batch{}\n", played.op.getSchedule().str(),
      table.stages(), table.stages() == 1 ? "" : "s", table.ranks.size(),
      table.ranks.size() == 1 ? "" : "s", table.microBatches, table.microBatches == 1 ? "" : "es");
  text += fmt::format("drawn as if stages took equal times: forward 1, backward {}\n",
                      table.hasWeightGradients() ? "1, gradients of weights 1" : "2");
  text += drawSchedule(table, played.timeline);
  text += fmt::format("time {}, bubble {:.4f}; micro-batches in flight on each rank: {}\n",
                      played.facts.makespan, played.facts.bubble(),
                      fmt::join(played.facts.inFlight, " "));
  if (surveys)
    text += fmt::format("before that all {} go forward once more, alone, to be counted\n",
                        table.microBatches);
  std::string comments;
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).rtrim('\n').split(lines, '\n');
  for (llvm::StringRef line : lines)
    comments += ("// " + line).str() + "\n";
  return comments;
}

void writeScheduleJson(rt::JsonWriter &out, mlir::ModuleOp module, bool surveys) {
  Played played(module);
  const pipe::Table &table = played.table;
  out.beginObject().key("name").value(played.op.getSchedule().str());
  out.key("ranks").value(static_cast<int64_t>(table.ranks.size()));
  out.key("stages").value(table.stages());
  out.key("micro_batches").value(table.microBatches);
  out.key("makespan").value(played.facts.makespan);
  out.key("bubble").value(played.facts.bubble());
  out.key("survey").value(surveys);
  out.key("busy").beginArray();
  for (double busy : played.facts.busy)
    out.value(busy);
  out.endArray().key("in_flight").beginArray();
  for (int64_t slots : played.facts.inFlight)
    out.value(slots);
  out.endArray().key("cells").beginArray();
  for (auto [rank, list] : llvm::enumerate(table.ranks))
    for (auto [action, span] : llvm::zip(list.actions, played.timeline.ranks[rank])) {
      if (!action.isComputation())
        continue;
      const bool forward = action.kind == pipe::ActionKind::Forward;
      const bool backward = action.kind == pipe::ActionKind::Backward;
      out.beginObject().key("rank").value(static_cast<int64_t>(rank));
      out.key("kind").value(forward ? "forward" : backward ? "backward" : "weight_gradient");
      out.key("stage").value(action.stage).key("micro_batch").value(action.micro);
      out.key("slot").value(action.slot);
      out.key("start").value(span.start).key("end").value(span.end).endObject();
    }
  out.endArray().endObject();
}

} // namespace cleave::tool
