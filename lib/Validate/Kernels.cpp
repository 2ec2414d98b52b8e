//===- Kernels.cpp - Predicting a table of kernels --------------------------===//

#include "cleave/CostModel/Kernels.h"
#include "lib/Validate/StepRow.h"
#include "lib/Validate/Tables.h"
#include "llvm/ADT/StringRef.h"
#include <fmt/format.h>

namespace cleave::validate {

static std::optional<cost::Width> widthOf(const std::string &dtype) {
  const llvm::StringRef text = dtype;
  if (text.contains("fp4"))
    return 4;
  if (text.contains("fp8") || text.contains("e4m3"))
    return 8;
  if (text.contains("16"))
    return 16;
  return std::nullopt;
}

static std::string whyNotCompared(const Row &row) {
  if (row.number("time_us") <= 0 && row.number("tflops") <= 0)
    return "no time is measured";
  if (deviceName(row.text("gpu_class"), row.text("gpu")).empty())
    return "no description of the device \"" + row.text("gpu_class") + "\"";
  const std::string &kind = row.text("kind");
  if (kind != "gemm" && kind != "attention")
    return "another kind of kernel (" + kind + ")";
  if (!widthOf(row.text("dtype")))
    return "the type is not stated";
  if (kind == "attention" && widthOf(row.text("dtype")) != 16)
    return "attention below 16 bits: training keeps 16";
  if (kind == "gemm" && (row.number("m") <= 0 || row.number("n") <= 0 || row.number("k") <= 0))
    return "m, n, k are not stated";
  if (kind == "attention" &&
      (row.text("causal") == "no" || row.text("causal") == "false" || row.text("causal") == "0"))
    return "attention without a causal mask";
  if (kind == "attention" && row.integer("seq_q") != row.integer("seq_kv", row.integer("seq_q")))
    return "queries and keys of different numbers";
  if (kind == "attention" && (row.integer("seq_q") == 0 || row.integer("head_dim") == 0))
    return "the sizes are not stated";
  return "";
}

static cost::Seconds attentionTime(const Row &row, const cost::Device &device) {
  cost::ScoresSize size;
  const std::string &width = row.text("head_dim");
  size.keyWidth = std::stod(width);
  const size_t slash = width.find('/');
  size.valueWidth = slash == std::string::npos ? size.keyWidth : std::stod(width.substr(slash + 1));
  size.keys = static_cast<double>(row.integer("seq_q"));
  size.queries = size.keys * static_cast<double>(row.integer("heads", 1) * row.integer("batch", 1));
  const llvm::StringRef impl = row.text("impl");
  const char *kernel =
      impl.contains("2") && impl.contains_insensitive("flash") ? "flash2" : "flash3";
  const std::string &direction = row.text("direction");
  const bool back = llvm::StringRef(direction).contains("bwd");
  cost::Seconds time;
  if (!back || llvm::StringRef(direction).contains("fwd"))
    time += cost::scoresTime(device, kernel, size, false, 1);
  if (back)
    time += cost::scoresTime(device, kernel, size, true, 1);
  return time;
}

rt::Status compareKernels(const Table &table, const std::string &share, Report &report) {
  for (size_t i = 0; i < table.cells.size(); ++i) {
    const Row row = table.row(i);
    const std::string &id = row.text("id"), &source = row.text("source");
    if (std::string reason = whyNotCompared(row); !reason.empty()) {
      report.leftOut.push_back({id, source, reason});
      continue;
    }
    CLEAVE_RT_ASSIGN_OR_RETURN(
        const cost::Device device,
        cost::readDevice(share, deviceName(row.text("gpu_class"), row.text("gpu"))));
    Comparison out{id, source, row.text("group"), {}, {}, {}, {}, {}, {}, false};
    if (row.text("kind") == "gemm") {
      const double m = row.number("m"), n = row.number("n"), k = row.number("k");
      out.time = row.number("time_us") > 0 ? row.number("time_us") * 1e-6
                                           : 2 * m * n * k / (row.number("tflops") * 1e12);
      const bool isBlock = llvm::StringRef(row.text("dtype")).contains("block");
      out.predictedTime =
          cost::productTime(device, {m, n, k, *widthOf(row.text("dtype")), 2, true, isBlock}, 1)
              .value;
    } else {
      if (row.number("time_us") <= 0) {
        report.leftOut.push_back({id, source, "a rate without a time"});
        continue;
      }
      out.time = row.number("time_us") * 1e-6;
      out.predictedTime = attentionTime(row, device).value;
    }
    out.what =
        fmt::format("{} {} on {}", row.text("kind"), row.text("dtype"), row.text("gpu_class"));
    report.rows.push_back(std::move(out));
  }
  return rt::Status::success();
}

} // namespace cleave::validate
