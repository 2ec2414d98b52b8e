//===- Validate.cpp - cleave validate -----------------------------------------===//
//
// The cost model against a table of published measurements: per source and in all how far
// off it is, and which rows were left out and why.
//
//===----------------------------------------------------------------------===//

#include "CompileRequest.h"
#include "Driver.h"

#include "cleave/Validate/Ranks.h"
#include "cleave/Validate/Validate.h"
#include "runtime/Base/Json.h"

#include <fmt/format.h>

#include <cstdio>
#include <set>

namespace cleave::tool {

using validate::Comparison;
using validate::Errors;
using validate::Quantity;
using validate::Report;

/// In the order in which they first appear.
static std::vector<std::string> sourcesOf(const Report &report) {
  std::vector<std::string> names;
  auto add = [&](const std::string &name) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  };
  for (const Comparison &row : report.rows)
    add(row.source);
  for (const validate::LeftOut &row : report.leftOut)
    add(row.source);
  return names;
}

/// Devices and kinds of kernels or exchanges, in alphabetical order.
static std::set<std::string> unitsOf(const Report &report) {
  std::set<std::string> units;
  for (const Comparison &row : report.rows)
    if (!row.unit.empty())
      units.insert(row.unit);
  return units;
}

static std::vector<std::pair<std::string, int64_t>> reasonsOf(const Report &report,
                                                              const std::string &source) {
  std::vector<std::pair<std::string, int64_t>> reasons;
  for (const validate::LeftOut &row : report.leftOut) {
    if (!source.empty() && row.source != source)
      continue;
    auto it = std::find_if(reasons.begin(), reasons.end(),
                           [&](const auto &entry) { return entry.first == row.reason; });
    if (it == reasons.end())
      reasons.emplace_back(row.reason, 1);
    else
      ++it->second;
  }
  return reasons;
}

static void writeErrors(rt::JsonWriter &out, const char *key, const Errors &errors) {
  out.key(key).beginObject();
  out.key("rows").value(errors.rows).key("groups").value(errors.groups);
  out.key("median_abs").value(errors.median).key("p90_abs").value(errors.p90);
  out.key("mean_abs").value(errors.mean).key("bias").value(errors.bias);
  out.key("worst").value(errors.worst).key("worst_error").value(errors.worstError);
  out.endObject();
}

/// Times and memory of the rows that `keep` keeps, and what was left out of `source`.
template <typename Keep>
static void writePart(rt::JsonWriter &out, const Report &report, const std::string &source,
                      Keep keep) {
  writeErrors(out, "time", errorsOf(report, Quantity::Time, keep));
  writeErrors(out, "memory", errorsOf(report, Quantity::Memory, keep));
  out.key("left_out").beginObject();
  for (const auto &[reason, count] : reasonsOf(report, source))
    out.key(reason).value(count);
  out.endObject();
}

static void writeRow(rt::JsonWriter &out, const Comparison &row) {
  out.beginObject().key("id").value(row.id).key("source").value(row.source);
  out.key("what").value(row.what);
  for (auto [key, value] : {std::pair("time", row.time),
                            {"predicted_time", row.predictedTime},
                            {"memory", row.memory},
                            {"predicted_memory", row.predictedMemory}})
    if (value)
      out.key(key).value(*value);
  for (auto [key, parts] :
       {std::pair("parts", &row.parts), std::pair("memory_parts", &row.memoryParts)}) {
    if (parts->empty())
      continue;
    out.key(key).beginObject();
    for (const auto &[name, amount] : *parts)
      out.key(name).value(amount);
    out.endObject();
  }
  out.endObject();
}

static bool always(const Comparison &) { return true; }

/// What only steps have: models with and without experts apart, and the order of layouts.
static void writeSteps(rt::JsonWriter &out, const Report &report) {
  for (auto [key, experts] : {std::pair("dense", false), {"experts", true}}) {
    out.key(key).beginObject();
    for (auto [name, quantity] : {std::pair("time", Quantity::Time), {"memory", Quantity::Memory}})
      writeErrors(out, name, errorsOf(report, quantity, [&](const Comparison &row) {
                    return row.hasExperts == experts;
                  }));
    out.endObject();
  }
  out.key("mean_of_source_medians").value(meanOfSourceMedians(report, Quantity::Time));
  const validate::Ordering order = orderingOf(report);
  out.key("sweeps").beginObject();
  out.key("sweeps").value(order.sweeps).key("pairs").value(order.pairs);
  out.key("right").value(order.right);
  out.key("median_regret").value(order.medianRegret).key("p90_regret").value(order.p90Regret);
  out.endObject();
}

static void writeJson(const Report &report, bool withRows) {
  rt::JsonWriter out(2);
  out.beginObject().key("table").value(report.table);
  out.key("overall").beginObject();
  writePart(out, report, "", always);
  out.endObject();
  if (report.table == "steps") {
    writeSteps(out, report);
  } else {
    out.key("units").beginObject();
    for (const std::string &unit : unitsOf(report))
      writeErrors(out, unit.c_str(), errorsOf(report, Quantity::Time, [&](const Comparison &row) {
                    return row.unit == unit;
                  }));
    out.endObject();
  }
  out.key("sources").beginObject();
  for (const std::string &source : sourcesOf(report)) {
    out.key(source).beginObject();
    writePart(out, report, source, [&](const Comparison &row) { return row.source == source; });
    out.endObject();
  }
  out.endObject();
  if (withRows) {
    out.key("rows").beginArray();
    for (const Comparison &row : report.rows)
      writeRow(out, row);
    out.endArray();
  }
  out.endObject();
  std::fputs((out.take() + "\n").c_str(), stdout);
}

static void printLine(std::string_view name, const Errors &e) {
  fmt::print("{:<44} {:>5} {:>6} {:>7.1f} {:>6.1f} {:>6.1f} {:>+6.1f}  {} {:+.0f}\n", name, e.rows,
             e.groups, 100 * e.median, 100 * e.p90, 100 * e.mean, 100 * e.bias, e.worst,
             100 * e.worstError);
}

static void printTable(const Report &report, Quantity quantity) {
  fmt::print("{:<44} {:>5} {:>6} {:>7} {:>6} {:>6} {:>6}  worst\n",
             quantity == Quantity::Time ? "time, error in %" : "memory, error in %", "rows",
             "groups", "median", "p90", "mean", "bias");
  for (const std::string &source : sourcesOf(report)) {
    const Errors errors =
        errorsOf(report, quantity, [&](const Comparison &row) { return row.source == source; });
    if (errors.rows)
      printLine(source, errors);
  }
  printLine("all", errorsOf(report, quantity, always));
  for (auto [name, experts] : {std::pair("without experts", false), {"with experts", true}}) {
    const Errors errors = errorsOf(
        report, quantity, [&](const Comparison &row) { return row.hasExperts == experts; });
    if (report.table == "steps" && errors.rows)
      printLine(name, errors);
  }
}

static void printOrder(const Report &report) {
  const validate::Ordering order = orderingOf(report);
  fmt::print("mean of the sources' medians: {:.1f} %\n",
             100 * meanOfSourceMedians(report, Quantity::Time));
  if (order.pairs)
    fmt::print(
        "{} sweeps of layouts: {} of {} pairs more than 5 % apart in the right order ({:.0f} "
        "%); regret of the predicted best {:.1f} % (median), {:.1f} % (90th percentile)\n",
        order.sweeps, order.right, order.pairs,
        100. * static_cast<double>(order.right) / static_cast<double>(order.pairs),
        100 * order.medianRegret, 100 * order.p90Regret);
}

static void printUnits(const Report &report) {
  for (const std::string &unit : unitsOf(report))
    printLine(unit, errorsOf(report, Quantity::Time,
                             [&](const Comparison &row) { return row.unit == unit; }));
}

static void writeText(const Report &report, bool withRows) {
  if (withRows)
    for (const Comparison &row : report.rows)
      fmt::print("{:<28} {:+6.1f} %  {:.4g} s for {:.4g} s  {}\n", row.id,
                 100 * (*row.predictedTime / *row.time - 1), *row.predictedTime, *row.time,
                 row.what);
  printTable(report, Quantity::Time);
  printUnits(report);
  if (report.table == "steps")
    printOrder(report);
  if (errorsOf(report, Quantity::Memory, always).rows)
    printTable(report, Quantity::Memory);
  for (const auto &[reason, count] : reasonsOf(report, ""))
    fmt::print("left out: {} rows, {}\n", count, reason);
}

static void writeLayout(rt::JsonWriter &out, const char *key,
                        const validate::RankedLayout &layout) {
  out.key(key).beginObject().key("pins").value(layout.text);
  out.key("step").value(layout.seconds).key("memory").value(layout.bytes);
  out.key("parts").beginObject();
  for (const auto &[name, seconds] : layout.parts)
    out.key(name).value(seconds);
  out.endObject().endObject();
}

static void writeRanks(const std::vector<validate::Ranked> &ranks) {
  rt::JsonWriter out(2);
  out.beginArray();
  for (const validate::Ranked &row : ranks) {
    out.beginObject().key("id").value(row.id).key("source").value(row.source);
    out.key("group").value(row.group).key("what").value(row.what);
    out.key("measured").value(row.measured).key("usable_memory").value(row.usable);
    out.key("layouts").value(row.space).key("feasible").value(row.feasible);
    out.key("faster").value(row.faster);
    writeLayout(out, "published", row.published);
    if (!row.best.text.empty())
      writeLayout(out, "best", row.best);
    out.endObject();
  }
  out.endArray();
  std::fputs((out.take() + "\n").c_str(), stdout);
}

static void printRanks(const std::vector<validate::Ranked> &ranks) {
  for (const validate::Ranked &row : ranks) {
    fmt::print("{:<28} {}\n  published  {:8.4g} s {:6.1f} GB  {}\n", row.id, row.what,
               row.published.seconds, row.published.bytes / 1e9, row.published.text);
    if (row.best.text.empty())
      fmt::print("  nothing fits in {:.1f} GB\n", row.usable / 1e9);
    else
      fmt::print("  found      {:8.4g} s {:6.1f} GB  {}: {:+.1f} %; {} of {} are faster\n",
                 row.best.seconds, row.best.bytes / 1e9, row.best.text,
                 100 * (row.published.seconds / row.best.seconds - 1), row.faster, row.feasible);
  }
}

rt::Status runValidate(const Words &words) {
  CommandLine line("validate", "compare the cost model with a table of published measurements",
                   {"TABLE"});
  line.add()("rows", "every row too");
  line.add()("ranks", "where the layouts of a table of steps stand among all that fit, and what "
                      "the search finds instead");
  line.add()("ids", "with --ranks: only rows whose id has one of these in it",
             cxxopts::value<std::vector<std::string>>(), "ID,…");
  CLEAVE_RT_RETURN_IF_ERROR(line.parse(words));
  if (line.helped())
    return rt::Status::success();
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string path, line.required("TABLE"));
  if (line.has("ranks")) {
    CLEAVE_RT_ASSIGN_OR_RETURN(
        const std::vector<validate::Ranked> ranks,
        validate::rankRows(path, shareFolder(),
                           line.has("ids") ? line.list("ids") : std::vector<std::string>()));
    line.json() ? writeRanks(ranks) : printRanks(ranks);
    return rt::Status::success();
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(const Report report, validate::validateRows(path, shareFolder()));
  if (line.json())
    writeJson(report, line.has("rows"));
  else
    writeText(report, line.has("rows"));
  return rt::Status::success();
}

} // namespace cleave::tool
