//===- Collectives.cpp - Predicting a table of exchanges --------------------===//

#include "cleave/CostModel/Collectives.h"
#include "lib/Validate/StepRow.h"
#include "lib/Validate/Tables.h"
#include <fmt/format.h>

namespace cleave::validate {

/// Below this, a time is latency alone, which steps hardly see.
static constexpr double kLeastBytes = 1 << 20;

static std::optional<cost::Exchange> exchangeOf(const std::string &name) {
  using enum cost::Exchange;
  if (name == "all_reduce")
    return AllReduce;
  if (name == "all_gather")
    return AllGather;
  if (name == "reduce_scatter")
    return ReduceScatter;
  if (name == "alltoall" || name == "all_to_all")
    return AllToAll;
  return std::nullopt;
}

static std::string whyNotCompared(const Row &row) {
  if (row.number("time_us") <= 0)
    return "no time is measured";
  if (row.number("size_bytes") < kLeastBytes)
    return "smaller than 1 MiB";
  if (row.integer("nodes", 1) > 1 ||
      row.integer("gpus_per_node", row.integer("gpus")) < row.integer("gpus"))
    return "more than one node: the network is not described";
  if (deviceName(row.text("gpu_class"), row.text("gpu")).empty())
    return "no description of the device \"" + row.text("gpu_class") + "\"";
  if (!exchangeOf(row.text("collective")))
    return "another exchange (" + row.text("collective") + ")";
  return "";
}

static void compareExchange(const Row &row, const cost::Device &device, Comparison &out) {
  const int64_t ranks = row.integer("gpus", 1);
  out.unit = row.text("gpu_class") + ", " + row.text("collective");
  out.time = row.number("time_us") * 1e-6;
  out.predictedTime = cost::exchangeTime(device, *exchangeOf(row.text("collective")),
                                         {ranks, ranks}, cost::Bytes(row.number("size_bytes")))
                          .value;
  out.what = fmt::format("{} of {} {}, {} bytes", row.text("collective"), ranks,
                         row.text("gpu_class"), row.text("size_bytes"));
}

rt::Status compareCollectives(const Table &table, const std::string &share, Report &report) {
  return compareRows(table, share, whyNotCompared, compareExchange, report);
}

} // namespace cleave::validate
