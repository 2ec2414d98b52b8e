//===- Ranks.cpp - Published layouts among all that there were --------------===//

#include "cleave/Validate/Ranks.h"
#include "cleave/Planner/Machines.h"
#include "lib/Validate/Models.h"
#include "lib/Validate/StepRow.h"
#include "lib/Validate/Tables.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <fmt/format.h>

namespace cleave::validate {

/// Layouts that are drawn for a row at most, and of those how many that fit.
static constexpr int64_t kMostDrawn = 20000, kMostFeasible = 400;

static const char *nameOf(cost::Recompute recompute) {
  switch (recompute) {
  case cost::Recompute::None:
    return "none";
  case cost::Recompute::Scores:
    return "scores";
  case cost::Recompute::Some:
    return "some";
  case cost::Recompute::EverySecond:
    return "every second layer";
  case cost::Recompute::EveryThird:
    return "every third layer";
  case cost::Recompute::Passes:
    return "selective";
  case cost::Recompute::All:
    return "full";
  }
  return "";
}

static std::string textOf(const cost::Layout &l) {
  std::string text;
  auto add = [&](const char *name, int64_t value, int64_t neutral) {
    if (value != neutral)
      text += fmt::format("{}={},", name, value);
  };
  add("dp", l.data, 1);
  add("tp", l.tensor, 1);
  add("cp", l.context, 1);
  add("pp", l.pipeline, 1);
  add("vp", l.stagesPerRank, 1);
  add("ep", l.expert, 1);
  if (l.pipeline > 1 && l.schedule != "1f1b")
    text += "schedule=" + l.schedule + ",";
  add("zero", static_cast<int64_t>(l.sharing), 0);
  add("zero_group", l.sharingGroup, 0);
  add("sp", l.sequence, 0);
  if (l.recompute != cost::Recompute::None)
    text += fmt::format("recompute={},", nameOf(l.recompute));
  return text + fmt::format("micro_batch={}", l.microBatch);
}

static RankedLayout rankedOf(std::string text, const cost::Prediction &p) {
  Comparison parts;
  addParts(p, parts);
  return {std::move(text), p.step.value, p.memory.sum().value, std::move(parts.parts)};
}

/// What bans say of a field as a whole is a pin, so that nobody looks there.
static rt::Status forbid(const std::string &lacks, SearchProblem &problem) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::vector<Ban> bans, parseBans(lacks));
  std::vector<std::string> pins;
  for (const Ban &ban : bans) {
    const auto field = llvm::find_if(choiceFields(), [&](const ChoiceField &f) {
      return f.name == std::string_view(ban.field);
    });
    if (ban.value || ban.field == "schedule" || ban.field == "zero_group")
      problem.bans.push_back(ban);
    else
      pins.push_back(fmt::format("{}={}", ban.field, field->neutral));
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(problem.request.pins, parsePins(llvm::join(pins, ",")));
  return rt::Status::success();
}

static rt::StatusOr<Ranked> rankOf(const Row &row, const KnownModel &model,
                                   const std::string &share) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Device device, deviceOf(row, share));
  CLEAVE_RT_ASSIGN_OR_RETURN(const cost::HostProfile host, hostOf(row, share));
  const cost::Layout layout = layoutOf(row);
  SearchProblem problem{model.work, device, host, model.limits, {}, {}, 0, 1};
  if (rt::Status s = forbid(host.lacks, problem); !s.ok())
    return s;
  problem.orders = host.orders;
  problem.foldsExperts = true;
  problem.request.ranks = layout.devices;
  problem.request.globalBatch = layout.globalBatch;
  problem.request.sequence = layout.sequenceLength;
  problem.request.narrow = true;
  problem.memory = usableMemory(device.memory.value);
  problem.ranksOfNode = row.integer("gpus_per_node", 8);
  problem.operands = Operands{layout.width, layout.blockScaled, layout.gathered};

  Ranked out;
  out.id = row.text("id");
  out.source = row.text("source");
  out.group = row.text("group");
  out.what =
      fmt::format("{} on {} {}, {}", row.text("model"), layout.devices, row.text("gpu"), host.name);
  out.measured =
      row.has("iter_time_s") ? row.number("iter_time_s") : row.number("iter_time_derived_s");
  out.usable = problem.memory;
  out.published = rankedOf(textOf(layout), cost::predict(model.work, device, host, layout));
  if (const SearchResult found = search(problem); !found.best.empty())
    out.best = rankedOf(cleave::textOf(found.best.front().choice), found.best.front().prediction);
  const Standing standing = standingOf(problem, out.published.seconds, kMostDrawn, kMostFeasible);
  out.space = standing.space;
  out.feasible = standing.feasible;
  out.faster = standing.faster;
  return out;
}

rt::StatusOr<std::vector<Ranked>> rankRows(const std::string &path, const std::string &share,
                                           const std::vector<std::string> &ids) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const Table table, readCsv(path));
  if (!table.hasColumns({"id", "source", "gpu_class", "gpus", "seq_len", "gbs", "framework"}))
    return rt::userError("rows.unknown_table", "layouts are of training steps")
        .at({path, 1, 0})
        .withRule("a table of steps has columns id, source, gpu_class, gpus, seq_len, gbs, "
                  "framework")
        .suggest("steps.csv");
  KnownModels models;
  std::vector<Ranked> ranks;
  for (size_t i = 0; i < table.cells.size(); ++i) {
    const Row row = table.row(i);
    const std::string &id = row.text("id");
    const bool isAsked = ids.empty() || llvm::any_of(ids, [&](const std::string &part) {
                           return id.find(part) != std::string::npos;
                         });
    if (!isAsked || !whyLeftOut(row).empty())
      continue;
    auto model = models.of(configOf(row), id);
    if (!model.ok())
      continue;
    CLEAVE_RT_ASSIGN_OR_RETURN(Ranked ranked, rankOf(row, **model, share));
    ranks.push_back(std::move(ranked));
  }
  return ranks;
}

} // namespace cleave::validate
