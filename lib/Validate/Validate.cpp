//===- Validate.cpp - The cost model against published measurements --------===//

#include "cleave/Validate/Validate.h"
#include "lib/Validate/StepRow.h"
#include "lib/Validate/Tables.h"
#include <algorithm>
#include <cmath>

namespace cleave::validate {

rt::Status compareRows(const Table &table, const std::string &share, WhyNot whyNot, Compare compare,
                       Report &report) {
  for (size_t i = 0; i < table.cells.size(); ++i) {
    const Row row = table.row(i);
    if (std::string reason = whyNot(row); !reason.empty()) {
      report.leftOut.push_back({row.text("id"), row.text("source"), reason});
      continue;
    }
    CLEAVE_RT_ASSIGN_OR_RETURN(
        const cost::Device device,
        cost::readDevice(share, deviceName(row.text("gpu_class"), row.text("gpu"))));
    Comparison out;
    out.id = row.text("id");
    out.source = row.text("source");
    out.group = row.text("group");
    compare(row, device, out);
    report.rows.push_back(std::move(out));
  }
  return rt::Status::success();
}

/// The least error that is not below a share of the weight.
static double quantile(const std::vector<std::pair<double, double>> &sorted, double all,
                       double share) {
  double sum = 0;
  for (auto [error, weight] : sorted) {
    sum += weight;
    if (sum >= share * all - 1e-12)
      return error;
  }
  return 0;
}

Errors summarize(std::vector<std::pair<double, double>> errors) {
  Errors out;
  out.rows = static_cast<int64_t>(errors.size());
  double all = 0;
  for (auto &[error, weight] : errors) {
    all += weight;
    out.bias += error * weight;
    out.mean += std::abs(error) * weight;
    error = std::abs(error);
  }
  if (all == 0)
    return out;
  out.bias /= all;
  out.mean /= all;
  std::sort(errors.begin(), errors.end());
  out.median = quantile(errors, all, 0.5);
  out.p90 = quantile(errors, all, 0.9);
  return out;
}

rt::StatusOr<Report> validateRows(const std::string &path, const std::string &share) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const Table table, readCsv(path));
  Report report;
  rt::Status (*compare)(const Table &, const std::string &, Report &) = nullptr;
  if (table.hasColumns({"id", "source", "gpu_class", "gpus", "seq_len", "gbs", "framework"})) {
    report.table = "steps";
    compare = compareSteps;
  } else if (table.hasColumns({"id", "source", "gpu_class", "collective", "size_bytes"})) {
    report.table = "collectives";
    compare = compareCollectives;
  } else if (table.hasColumns({"id", "source", "gpu_class", "kind", "dtype", "m", "n", "k"})) {
    report.table = "kernels";
    compare = compareKernels;
  } else {
    return rt::userError("rows.unknown_table",
                         "the header is that of no table that can be compared")
        .at({path, 1, 0})
        .withRule(
            "a table has columns id, source, gpu_class, and those of steps (gpus, seq_len, gbs, "
            "framework), of collectives (collective, size_bytes) or of kernels (kind, dtype, m, n, "
            "k)")
        .suggest("the columns of docs/CostModel.md");
  }
  if (rt::Status s = compare(table, share, report); !s.ok())
    return s;
  return report;
}

} // namespace cleave::validate
