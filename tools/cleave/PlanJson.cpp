//===- PlanJson.cpp - A plan for scripts --------------------------------------===//

#include "PlanReport.h"

#include <algorithm>
#include <cmath>

namespace cleave::tool {

static void writeOptional(rt::JsonWriter &out, const char *key,
                          const std::optional<double> &value) {
  out.key(key);
  value ? out.value(*value) : out.null();
}

static void writeChoice(rt::JsonWriter &out, const PlanReport &r, const Choice &choice) {
  out.key("pins").value(pinTextOf(r.task.problem(), choice));
  out.key("layout").beginObject();
  for (const ChoiceField &field : choiceFields()) {
    const std::string text = field.text(choice);
    const bool isNumber = text.find_first_not_of("0123456789") == std::string::npos;
    out.key(field.name);
    isNumber ? out.value(static_cast<int64_t>(std::stoll(text))) : out.value(text);
  }
  out.endObject();
}

static void writeMemory(rt::JsonWriter &out, const cost::MemoryParts &m) {
  out.beginObject().key("place").value(m.rank);
  out.key("weights").value(m.weights.value).key("gradients").value(m.gradients.value);
  out.key("optimizer").value(m.optimizer.value).key("activations").value(m.activations.value);
  out.key("temporary").value(m.temporary.value).key("all").value(m.sum().value);
  out.endObject();
}

/// For each place what its ranks allocate, by segment.
static void writeSegments(rt::JsonWriter &out, const LaidOutMemory &memory) {
  out.key("segments_of_places").beginArray();
  for (const auto &place : memory.places) {
    out.beginObject();
    for (const LaidOutMemory::Segment &segment : place)
      out.key(segment.name).value(segment.bytes);
    out.endObject();
  }
  out.endArray();
}

static void writePriced(rt::JsonWriter &out, const PlanReport &r, const PricedChoice &c) {
  out.beginObject();
  writeChoice(out, r, c.choice);
  out.key("step").value(c.seconds()).key("error_bar").value(c.prediction.errorBar);
  out.key("memory").value(c.bytes());
  out.key("memory_source").value(c.laidOut ? "laid_out" : "formula");
  out.key("formula_memory").value(c.prediction.memory.sum().value);
  out.key("parts").beginObject();
  for (auto [name, seconds] : partsOf(c.prediction))
    out.key(name).value(seconds);
  out.endObject();
  out.key("memory_of_places").beginArray();
  for (const cost::MemoryParts &m : c.prediction.memoryOfRanks)
    writeMemory(out, m);
  out.endArray();
  if (c.laidOut)
    writeSegments(out, *c.laidOut);
  out.key("stages").beginArray();
  for (int64_t size : c.stageSizes())
    out.value(size);
  out.endArray().endObject();
}

static void writeList(rt::JsonWriter &out, const PlanReport &r, const char *key,
                      const std::vector<PricedChoice> &list) {
  out.key(key).beginArray();
  for (const PricedChoice &choice : list)
    writePriced(out, r, choice);
  out.endArray();
}

static void writeRanks(rt::JsonWriter &out, const PlanReport &r) {
  const Choice &c = r.best().choice;
  out.key("ranks").beginObject();
  out.key("count").value(r.task.request.plan.ranks);
  out.key("devices_per_node").value(r.task.request.cluster->devicesPerNode);
  out.key("axes").beginArray();
  std::vector<PlacedAxis> placed = placedAxes(c);
  std::reverse(placed.begin(), placed.end());
  for (const PlacedAxis &axis : placed) {
    out.beginObject().key("name").value(axis.name).key("size").value(axis.size);
    out.key("stride").value(axis.stride).endObject();
  }
  out.endArray().endObject();
}

static void writeRun(rt::JsonWriter &out, const PlanReport &r) {
  const RunFacts run = runFactsOf(r);
  out.key("run").beginObject();
  out.key("tokens").value(static_cast<int64_t>(*r.task.request.recipe.tokens));
  out.key("steps").value(run.steps).key("days").value(run.days);
  out.key("device_hours").value(run.deviceHours);
  writeOptional(out, "power_watts", run.power);
  writeOptional(out, "energy_kwh", run.energy);
  writeOptional(out, "money", run.money);
  writeOptional(out, "seconds_between_interruptions", run.between);
  writeOptional(out, "interruptions", run.interruptions);
  writeOptional(out, "checkpoint_seconds", run.checkpoint);
  writeOptional(out, "checkpoint_interval", run.interval);
  writeOptional(out, "goodput", run.goodput);
  writeOptional(out, "days_with_interruptions", run.daysWithInterruptions);
  out.endObject();
}

static void writeCompared(rt::JsonWriter &out, const PlanReport &r) {
  out.key("compared").beginArray();
  for (const ComparedChoice &c : r.compared) {
    out.beginObject().key("with").value(c.pins).key("best");
    if (c.best)
      writePriced(out, r, *c.best);
    else
      out.null();
    if (c.obstacle) {
      out.key("conflict").beginArray();
      for (const std::string &member : c.obstacle->conflict)
        out.value(member);
      out.endArray();
      writeOptional(out, "least_memory",
                    c.obstacle->smallest ? std::optional(c.obstacle->smallest->bytes)
                                         : std::nullopt);
    }
    out.endObject();
  }
  out.endArray();
}

static void writeAtHand(rt::JsonWriter &out, const PlanReport &r) {
  const PlanAtHand &hand = *r.atHand;
  out.key("at_hand").beginObject();
  out.key("is_best").value(hand.isBest);
  if (!hand.keptOtherwise.empty())
    out.key("kept_otherwise").value(hand.keptOtherwise);
  if (hand.broken)
    out.key("not_searched").value(*hand.broken);
  if (hand.priced) {
    out.key("plan");
    writePriced(out, r, *hand.priced);
  }
  out.endObject();
}

static void writeDecisions(rt::JsonWriter &out, const PlanReport &r) {
  out.key("decisions").beginArray();
  for (const Decision &d : r.decisions) {
    out.beginObject().key("field").value(d.field).key("value").value(d.value);
    if (d.other) {
      out.key("more").value(d.other->seconds() / r.best().seconds() - 1);
      out.key("without");
      writePriced(out, r, *d.other);
    } else if (d.needs) {
      out.key("without_needs_memory").value(*d.needs);
    }
    out.endObject();
  }
  out.endArray();
}

void writePlanJson(rt::JsonWriter &out, const PlanReport &r) {
  const PlanRequest &request = r.task.request.plan;
  const auto tokens = static_cast<double>(request.globalBatch * request.sequence);
  const StepOperations ops = operationsOf(r.task.step.work, request.sequence, request.globalBatch,
                                          r.best().choice.recompute);
  out.beginObject();
  out.key("cluster")
      .value(r.task.request.cluster->name)
      .key("device")
      .value(r.task.step.device.name);
  out.key("host").value(r.task.step.host.name);
  out.key("sequence_length").value(request.sequence);
  out.key("global_batch").value(request.globalBatch);
  out.key("precision").value(request.narrow ? "bf16" : "fp32");
  out.key("plan");
  writePriced(out, r, r.best());
  out.key("notes").beginArray();
  for (const std::string &note : notesOf(r))
    out.value(note);
  out.endArray();
  out.key("tokens_per_second").value(tokens / r.best().seconds());
  const auto peak = r.task.step.device.peak.find(request.narrow ? 16 : 32);
  if (peak != r.task.step.device.peak.end()) {
    const double all = r.best().seconds() * static_cast<double>(request.ranks) * peak->second.value;
    out.key("model_utilization").value(ops.model / all);
    out.key("executed_utilization").value(ops.executed / all);
  }
  out.key("operations").beginObject();
  out.key("exact").value(ops.model).key("executed").value(ops.executed);
  out.key("six_nd").value(sixND(r.task.activeParameters, tokens)).endObject();
  const double state = r.task.parameters * bytesOfState(request.narrow);
  out.key("parameters").value(r.task.parameters);
  out.key("active_parameters").value(r.task.activeParameters);
  out.key("state_bytes").value(state);
  if (const auto memory = r.task.request.cluster->deviceMemory)
    out.key("least_devices").value(static_cast<int64_t>(std::ceil(state / *memory)));
  out.key("memory_limit").value(r.task.problem().memory);
  writeRanks(out, r);
  out.key("other_ranks").beginArray();
  for (auto [ranks, micros] : otherRanksOf(r)) {
    out.beginObject().key("ranks").value(ranks);
    out.key("micro_batches").value(micros).endObject();
  }
  out.endArray();
  if (r.task.request.recipe.tokens)
    writeRun(out, r);
  writeList(out, r, "next", r.result.best);
  writeList(out, r, "pareto", r.result.pareto);
  writeCompared(out, r);
  if (r.atHand)
    writeAtHand(out, r);
  if (!r.decisions.empty())
    writeDecisions(out, r);
  const SearchCounts &c = r.result.counts;
  out.key("search").beginObject();
  out.key("space").value(r.space).key("bounded").value(c.bounded);
  out.key("too_large").value(c.tooLarge).key("predicted").value(c.predicted);
  out.key("put_aside").value(c.putAside);
  out.key("complete").value(r.result.complete);
  out.key("by_formula_alone").value(r.result.isByFormulaAlone);
  out.key("gap").value(r.result.gap());
  out.endObject().endObject();
}

} // namespace cleave::tool
