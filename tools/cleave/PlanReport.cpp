//===- PlanReport.cpp - A plan in words and numbers ---------------------------===//

#include "PlanReport.h"

#include "llvm/ADT/MapVector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace cleave::tool {

static double secondsOf(cost::Seconds time) { return time.value; }

std::vector<std::pair<const char *, double>> partsOf(const cost::Prediction &p) {
  return {{"products", secondsOf(p.layers.products)},
          {"attention", secondsOf(p.layers.scores)},
          {"passes over memory", secondsOf(p.layers.passes)},
          {"launches", secondsOf(p.host)},
          {"recomputation", secondsOf(p.recompute)},
          {"tensor exchanges", secondsOf(p.layers.tensor)},
          {"context exchanges", secondsOf(p.layers.context)},
          {"expert exchanges", secondsOf(p.layers.experts)},
          {"data exchanges", secondsOf(p.data)},
          {"bubble", secondsOf(p.bubble)},
          {"update", secondsOf(p.update)},
          {"fixed", secondsOf(p.fixed)}};
}

rt::StatusOr<std::vector<ComparedChoice>> compareWith(PlanTask &task, const std::string &text,
                                                      double timeLimit) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<ComparedChoice> list;
  llvm::SmallVector<llvm::StringRef> questions;
  llvm::StringRef(text).split(questions, ';', -1, /*KeepEmpty=*/false);
  if (questions.empty())
    return rt::userError("plan.bad_pin", "there is nothing to compare with")
        .withGiven(text)
        .withRule("pins as of --pin; semicolons part several sets")
        .suggest("'tp=8,pp=2;zero=3'");
  for (llvm::StringRef question : questions) {
    CLEAVE_RT_ASSIGN_OR_RETURN(SearchProblem problem, task.problemWith(question.str()));
    ComparedChoice &out = list.emplace_back();
    out.pins = question.str();
    SearchOptions options;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (timeLimit > 0)
      options.timeLimit = std::max(timeLimit - spent.count(), 1e-3);
    const SearchResult found = task.find(problem, options);
    if (found.best.empty())
      out.obstacle = explainInfeasible(problem);
    else
      out.best = found.best.front();
  }
  return list;
}

std::string gigabytes(double bytes) {
  return bytes < 1e8 ? fmt::format("{:.2f} MB", bytes / 1e6)
                     : fmt::format("{:.1f} GB", bytes / 1e9);
}

std::vector<std::string> notesOf(const PlanReport &r) {
  const Cluster &cluster = *r.task.request.cluster;
  std::vector<std::string> notes = {noteOfCores(cluster),
                                    noteOfNetwork(cluster, r.task.step.device),
                                    noteOfRates(r.task.step, r.task.request.plan)};
  llvm::erase_if(notes, [](const std::string &note) { return note.empty(); });
  return notes;
}

static std::string headText(const PlanReport &r) {
  const PlanRequest &request = r.task.request.plan;
  const PricedChoice &best = r.best();
  const cost::Prediction &p = best.prediction;
  const StepOperations ops =
      operationsOf(r.task.step.work, request.sequence, request.globalBatch, best.choice.recompute);
  const cost::Width width = request.narrow ? 16 : 32;
  const auto peak = r.task.step.device.peak.find(width);
  const std::string cost =
      r.nodesTried.empty()
          ? ""
          : fmt::format("cost {:.4g} device-seconds a step, the least on {} {}\n",
                        best.seconds() * static_cast<double>(request.ranks),
                        fmt::join(r.nodesTried, ", "),
                        r.nodesTried == std::vector<int64_t>{1} ? "node" : "nodes");
  std::string text =
      fmt::format("{} ranks on {} ({}), {} × {} tokens a step, {}, software {}\n"
                  "{}\n\n"
                  "step {:.4g} s ±{:.0f} %: {:.4g} tokens/s\n",
                  request.ranks, r.task.request.cluster->name, r.task.step.device.name,
                  request.globalBatch, request.sequence, request.narrow ? "bf16" : "fp32",
                  r.task.step.host.name, pinTextOf(r.task.problem(), best.choice), best.seconds(),
                  100 * p.errorBar,
                  static_cast<double>(request.globalBatch * request.sequence) / best.seconds()) +
      cost;
  for (const std::string &note : notesOf(r))
    text += "(" + note + ")\n";
  if (peak != r.task.step.device.peak.end()) {
    const double all = best.seconds() * static_cast<double>(request.ranks) * peak->second.value;
    text +=
        fmt::format("utilization {:.1f} % of {:.4g} TFLOP/s a device by the model's operations, "
                    "{:.1f} % by those executed\n(products and causal attention, backward twice "
                    "the forward; executed: with recomputation)\n",
                    100 * ops.model / all, peak->second.value / 1e12, 100 * ops.executed / all);
  }
  return text;
}

static std::string partsText(const cost::Prediction &p) {
  std::string text = "\ntime of a step             s      %\n";
  for (auto [name, seconds] : partsOf(p))
    // What rounds to nothing beside four digits of the step is none.
    if (seconds >= 1e-5 * p.step.value)
      text +=
          fmt::format("{:<22} {:>8.4g} {:>6.1f}\n", name, seconds, 100 * seconds / p.step.value);
  return text;
}

/// The limit, at the end of a line.
static std::string limitText(const PlanReport &r) {
  if (const double limit = r.task.problem().memory; limit > 0)
    return fmt::format("; at most {} of {}\n", gigabytes(limit),
                       gigabytes(*r.task.request.cluster->deviceMemory));
  return r.task.request.allowOverBudget ? "; no limit\n" : "; what a device has is not known\n";
}

/// What ranks allocate, a column for each segment that any of them has.
static std::string segmentsText(const PlanReport &r) {
  const LaidOutMemory &memory = *r.best().laidOut;
  llvm::MapVector<llvm::StringRef, std::vector<double>> columns;
  for (size_t place = 0; place < memory.places.size(); ++place)
    for (const LaidOutMemory::Segment &segment : memory.places[place]) {
      auto &column = columns[segment.name];
      column.resize(memory.places.size());
      column[place] = static_cast<double>(segment.bytes) / 1e6;
    }
  std::string text = "\nmemory, MB  ";
  for (const auto &[name, bytes] : columns)
    text += fmt::format(" {:>10}", name.str());
  text += fmt::format(" {:>10}\n", "all");
  for (size_t place = 0; place < memory.places.size(); ++place) {
    text += fmt::format("{:<12}",
                        memory.places.size() == 1 ? "each rank" : fmt::format("place {}", place));
    for (const auto &[name, bytes] : columns)
      text += fmt::format(" {:>10.3f}", bytes[place]);
    text += fmt::format(" {:>10.3f}\n", static_cast<double>(memory.bytesOf(place)) / 1e6);
  }
  return text + fmt::format("as the compiler lays it out, most on place {}; by the cost model's "
                            "formula {}{}",
                            memory.fullest(), gigabytes(r.best().prediction.memory.sum().value),
                            limitText(r));
}

static std::string memoryText(const PlanReport &r) {
  const PricedChoice &best = r.best();
  if (best.laidOut)
    return segmentsText(r);
  std::string text =
      fmt::format("\n{:<12} {:>7} {:>9} {:>9} {:>9} {:>11} {:>9} {:>8}\n", "memory, GB", "layers",
                  "weights", "gradients", "optimizer", "activations", "temporary", "all");
  const std::vector<int64_t> sizes = best.stageSizes();
  for (const cost::MemoryParts &m : best.prediction.memoryOfRanks) {
    int64_t layers = sizes.empty() ? static_cast<int64_t>(r.task.step.work.layers.size()) : 0;
    for (size_t s = m.rank; s < sizes.size(); s += best.choice.pp)
      layers += sizes[s];
    text += fmt::format("{:<12} {:>7} {:>9.3f} {:>9.3f} {:>9.3f} {:>11.3f} {:>9.3f} {:>8.3f}\n",
                        sizes.empty() ? "each rank" : fmt::format("place {}", m.rank), layers,
                        m.weights.value / 1e9, m.gradients.value / 1e9, m.optimizer.value / 1e9,
                        m.activations.value / 1e9, m.temporary.value / 1e9, m.sum().value / 1e9);
  }
  return text + fmt::format("by the cost model's formula, most on place {}, in the backward of a "
                            "micro-batch while all that can be are in flight{}",
                            best.prediction.memory.rank, limitText(r));
}

std::vector<std::pair<int64_t, int64_t>> otherRanksOf(const PlanReport &r) {
  std::vector<std::pair<int64_t, int64_t>> list;
  SearchProblem problem = r.task.problem();
  Choice c = r.best().choice;
  c.zeroGroup = 0;
  for (int64_t dp = c.dp; dp >= 1; --dp) {
    c.dp = dp;
    problem.request.ranks = dp * c.tp * c.cp * c.pp;
    if (!brokenRule(problem, c))
      list.emplace_back(problem.request.ranks, problem.request.globalBatch / dp / c.microBatch);
  }
  return list;
}

static std::string otherRanksText(const PlanReport &r) {
  const auto list = otherRanksOf(r);
  std::vector<std::string> shown;
  for (auto [ranks, micros] : list)
    if (shown.size() < 8)
      shown.push_back(fmt::format("{} × {}", ranks, micros));
  return fmt::format("ranks × micro-batches that keep the batch: {}{}\n", fmt::join(shown, ", "),
                     list.size() > shown.size() ? ", …" : "");
}

/// Which ranks are along an axis, and where they stand.
static std::string ranksText(const PlanReport &r) {
  const Choice &c = r.best().choice;
  const int64_t node = r.task.request.cluster->devicesPerNode;
  std::string text = "\nranks, by axis (of one group)\n";
  std::vector<std::string> lines;
  for (const PlacedAxis &axis : placedAxes(c)) {
    const int64_t stride = axis.stride;
    if (axis.size > 1) {
      const int64_t last = (axis.size - 1) * stride;
      std::vector<int64_t> shown;
      for (int64_t i = 0; i < std::min<int64_t>(axis.size, 4); ++i)
        shown.push_back(i * stride);
      const bool more = axis.size > 4;
      lines.push_back(fmt::format(
          "{:<8} {:>6}  {}{}{}\n", axis.name, axis.size, fmt::join(shown, ", "),
          more ? fmt::format(" … {}", last) : "",
          last < node ? ", on one node"
                      : fmt::format(", on {} nodes", std::min(axis.size, last / node + 1))));
    }
  }
  for (const std::string &line : llvm::reverse(lines))
    text += line;
  return text +
         fmt::format("rank r is device r mod {} of node r div {}; order {}, the innermost first\n",
                     node, node, c.order.text()) +
         otherRanksText(r);
}

static std::string operationsText(const PlanReport &r) {
  const PlanRequest &request = r.task.request.plan;
  const StepOperations ops = operationsOf(r.task.step.work, request.sequence, request.globalBatch,
                                          r.best().choice.recompute);
  const auto tokens = static_cast<double>(request.globalBatch * request.sequence);
  const double state = r.task.parameters * bytesOfState(request.narrow);
  std::string text = fmt::format(
      "\noperations of a step {:.4g} exact, {:.4g} executed, {:.4g} as 6ND (N = {:.6g}{})\n",
      ops.model, ops.executed, sixND(r.task.activeParameters, tokens), r.task.activeParameters,
      r.task.activeParameters < r.task.parameters
          ? fmt::format(" of {:.6g} for a token", r.task.parameters)
          : "");
  text += fmt::format("state {} ({} bytes a parameter)", gigabytes(state),
                      bytesOfState(request.narrow));
  if (const auto memory = r.task.request.cluster->deviceMemory)
    text += state <= *memory ? fmt::format(", which one device of {} holds", gigabytes(*memory))
                             : fmt::format(", which {:.0f} devices of {} hold",
                                           std::ceil(state / *memory), gigabytes(*memory));
  return text + "\n";
}

static std::string orUnknown(const std::optional<double> &value, const std::string &text) {
  return value ? text : "unknown";
}

static std::string runText(const PlanReport &r) {
  if (!r.task.request.recipe.tokens)
    return "";
  const auto tokens = static_cast<double>(*r.task.request.recipe.tokens);
  const RunFacts run = runFactsOf(r);
  auto say = [](const std::optional<double> &value, fmt::format_string<double> text, double by) {
    return orUnknown(value, value ? fmt::format(text, *value / by) : "");
  };
  std::string text = fmt::format("\nrun of {:.4g} tokens: {:.0f} steps, {:.4g} days, {:.6g} "
                                 "device-hours\n",
                                 tokens, run.steps, run.days, run.deviceHours);
  text += fmt::format("power {}{}, energy {}, money {}\n", say(run.power, "{:.4g} kW", 1000),
                      run.power && !r.task.request.cluster->powerOverhead ? " of the devices alone"
                                                                          : "",
                      say(run.energy, "{:.6g} kWh", 1), say(run.money, "{:.6g}", 1));
  text += fmt::format("interruptions {}, one in {}; a checkpoint takes {}, best every {} (Young, "
                      "Daly); goodput {}, {} days with it\n",
                      say(run.interruptions, "{:.4g}", 1), say(run.between, "{:.4g} h", 3600),
                      say(run.checkpoint, "{:.4g} s", 1), say(run.interval, "{:.4g} min", 60),
                      say(run.goodput, "{:.4g}", 1), say(run.daysWithInterruptions, "{:.4g}", 1));
  return text;
}

RunFacts runFactsOf(const PlanReport &r) {
  const PlanRequest &request = r.task.request.plan;
  return runOf(r.best().seconds(), static_cast<double>(request.globalBatch * request.sequence),
               static_cast<double>(r.task.request.recipe.tokens.value_or(0)),
               *r.task.request.cluster, r.task.step.device.power,
               r.task.parameters * bytesOfCheckpoint());
}

std::string choicesText(const std::vector<const PricedChoice *> &choices) {
  const PricedChoice &first = *choices.front();
  std::string text;
  for (const PricedChoice *choice : choices) {
    const double slower = choice->seconds() / first.seconds() - 1;
    const bool isTie = choice != &first && slower <= first.prediction.errorBar;
    text += fmt::format("{:>9.4g} s {:>+6.1f} % {:>8.1f} GB  {}{}\n", choice->seconds(),
                        100 * slower, choice->bytes() / 1e9, textOf(choice->choice),
                        isTie ? "  (tie: within the error bar)" : "");
    std::vector<std::string> parts;
    for (auto [name, seconds] : partsOf(choice->prediction))
      if (seconds >= choice->seconds() / 1000)
        parts.push_back(fmt::format("{} {:.3g}", name, seconds));
    text += fmt::format("            {}\n", fmt::join(parts, ", "));
  }
  return text;
}

std::string comparedText(const PlanReport &r) {
  std::string text;
  for (const ComparedChoice &c : r.compared) {
    text += fmt::format("\nwith {}:\n", c.pins);
    if (!c.best) {
      text += fmt::format(
          "  no layout: {} cannot hold together{}{}\n", fmt::join(c.obstacle->conflict, ", "),
          c.obstacle->rules.empty() ? "" : ": ", fmt::join(c.obstacle->rules, "; "));
      const double limit = r.task.problem().memory;
      if (c.obstacle->smallest && limit > 0 && c.obstacle->smallest->bytes > limit)
        text += fmt::format("  the least memory is {} ({}), {} above the limit\n",
                            gigabytes(c.obstacle->smallest->bytes),
                            textOf(c.obstacle->smallest->choice),
                            gigabytes(c.obstacle->smallest->bytes - limit));
      continue;
    }
    if (c.best->choice == r.best().choice) {
      text += "  the best plan is one with these\n";
      continue;
    }
    text += choicesText({&r.best(), &*c.best});
    std::vector<std::string> costs;
    const auto ours = partsOf(r.best().prediction), theirs = partsOf(c.best->prediction);
    for (size_t i = 0; i < ours.size(); ++i)
      if (const double more = theirs[i].second - ours[i].second;
          std::abs(more) >= r.best().seconds() / 1000)
        costs.push_back(fmt::format("{} {:+.3g}", ours[i].first, more));
    text += fmt::format("  costs {:+.4g} s: {}\n", c.best->seconds() - r.best().seconds(),
                        costs.empty() ? "nothing" : fmt::format("{}", fmt::join(costs, ", ")));
  }
  return text;
}

static std::string searchText(const PlanReport &r) {
  const SearchCounts &c = r.result.counts;
  std::string text = fmt::format(
      "\nsearched {} layouts: {} bounded, {} of those too large, {} predicted, {:.2f} s; ", r.space,
      c.bounded, c.tooLarge, c.predicted, r.spent);
  if (c.putAside)
    text +=
        fmt::format("{} put aside, which do not fit as the compiler lays them out; ", c.putAside);
  if (r.result.isByFormulaAlone)
    text += "the time was up before one that fits was laid out; ";
  text += r.result.complete ? "none of them is predicted to be faster (gap 0 %)\n"
                            : fmt::format("stopped: none is faster by more than {:.1f} % (bound "
                                          "of the predicted step)\n",
                                          100 * r.result.gap());
  return text + fmt::format("constants, each with its source: share/hardware/{}.json, "
                            "share/hosts/{}.json, and the cluster's file\n",
                            r.task.step.device.name, r.task.step.host.name);
}

/// Steps along the front that are worth reading: each saves something beside the one above it.
static std::string paretoText(const PlanReport &r) {
  constexpr double kWorth = 0.02;
  std::vector<const PricedChoice *> list;
  for (const PricedChoice &choice : r.result.pareto)
    if (list.empty() || choice.bytes() <= (1 - kWorth) * list.back()->bytes())
      list.push_back(&choice);
  if (list.empty())
    return "";
  return fmt::format("\nfaster or smaller than all others: {} of {}, each {:.0f} % smaller than "
                     "the one above or more (all: --json)\n",
                     list.size(), r.result.pareto.size(), 100 * kWorth) +
         choicesText(list);
}

std::string planText(const PlanReport &r) {
  std::string text = headText(r) + partsText(r.best().prediction) + memoryText(r) + ranksText(r) +
                     operationsText(r) + runText(r) + searchText(r);
  if (r.result.best.size() > 1) {
    std::vector<const PricedChoice *> list;
    for (const PricedChoice &choice : r.result.best)
      list.push_back(&choice);
    text += "\nbest of each mesh, with the time of each part (neutral values left out; as pins: "
            "--json)\n" +
            choicesText(list);
  }
  return text + paretoText(r) + comparedText(r);
}

} // namespace cleave::tool
