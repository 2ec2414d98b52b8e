//===- Kernels.cpp - Predicting a table of kernels --------------------------===//

#include "cleave/CostModel/Kernels.h"
#include "lib/Validate/StepRow.h"
#include "lib/Validate/Tables.h"
#include "llvm/ADT/StringRef.h"
#include <fmt/format.h>
#include <regex>
#include <tuple>

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

/// "128", or "192/128" where values have another width than keys; nothing for anything else.
static std::optional<std::pair<double, double>> widthsOf(const std::string &text) {
  static const std::regex widths("([0-9]{1,9})(?:/([0-9]{1,9}))?");
  std::smatch m;
  if (!std::regex_match(text, m, widths))
    return std::nullopt;
  const double keys = std::stod(m[1]), values = m[2].matched ? std::stod(m[2]) : keys;
  if (keys <= 0 || values <= 0)
    return std::nullopt;
  return std::pair(keys, values);
}

/// The name in `Device::attention` of the kernel that a row measured; empty: none of them.
static std::string attentionKernel(const Row &row) {
  const llvm::StringRef impl = row.text("impl");
  if (impl.starts_with("FlashAttention-3") || impl.contains_insensitive("cudnn"))
    return "flash3";
  if (impl == "FlashAttention-2")
    return "flash2";
  return impl == "FlashAttention" ? "flash1" : "";
}

static std::string whyNoAttention(const Row &row) {
  if (widthOf(row.text("dtype")) != 16)
    return "attention below 16 bits: training keeps 16";
  if (attentionKernel(row).empty())
    return "no such kernel of attention is described (" + row.text("impl") + ")";
  if (row.integer("seq_q") != row.integer("seq_kv", row.integer("seq_q")))
    return "queries and keys of different numbers";
  if (row.integer("seq_q") == 0 || !widthsOf(row.text("head_dim")))
    return "the sizes are not stated";
  return "";
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
  if (kind == "gemm" && (row.number("m") <= 0 || row.number("n") <= 0 || row.number("k") <= 0))
    return "m, n, k are not stated";
  return kind == "attention" ? whyNoAttention(row) : "";
}

static void compareProduct(const Row &row, const cost::Device &device, Comparison &out) {
  const double m = row.number("m"), n = row.number("n"), k = row.number("k");
  const cost::Width width = *widthOf(row.text("dtype"));
  out.time = row.number("time_us") > 0 ? row.number("time_us") * 1e-6
                                       : 2 * m * n * k / (row.number("tflops") * 1e12);
  const bool isBlock = llvm::StringRef(row.text("dtype")).contains("block");
  // Times of torch._scaled_mm are of operands that have been cast.
  const bool casts = !llvm::StringRef(row.text("impl")).starts_with("torch ");
  out.predictedTime = cost::productTime(device, {m, n, k, width, 2, casts, isBlock}, 1).value;
  out.unit = fmt::format("{}, product in {}", row.text("gpu_class"),
                         width == 16  ? "bf16"
                         : width == 4 ? "fp4"
                         : isBlock    ? "fp8 by blocks"
                                      : "fp8");
}

static void compareAttention(const Row &row, const cost::Device &device, Comparison &out) {
  cost::ScoresSize size;
  std::tie(size.keyWidth, size.valueWidth) = *widthsOf(row.text("head_dim"));
  size.keys = static_cast<double>(row.integer("seq_q"));
  size.queries = size.keys * static_cast<double>(row.integer("heads", 1) * row.integer("batch", 1));
  size.causal = row.text("causal") != "no";
  static const std::regex window("sliding window ([0-9]{1,9})");
  if (std::smatch m; std::regex_search(row.text("notes"), m, window))
    size.window = std::stod(m[1]);
  const llvm::StringRef direction = row.text("direction");
  const bool back = direction.contains("bwd"), ahead = !back || direction.contains("fwd");
  const std::string kernel = attentionKernel(row);
  cost::Seconds time;
  if (ahead)
    time += cost::scoresTime(device, kernel, size, false, 1);
  if (back)
    time += cost::scoresTime(device, kernel, size, true, 1);
  // A rate counts the backward as 2.5 forwards, and half of the square with a mask.
  const double work = 2 * size.queries * size.keys * (size.keyWidth + size.valueWidth) *
                      (size.window   ? *size.window / size.keys
                       : size.causal ? 0.5
                                     : 1) *
                      ((ahead ? 1 : 0) + (back ? 2.5 : 0));
  out.time = row.number("time_us") > 0 ? row.number("time_us") * 1e-6
                                       : work / (row.number("tflops") * 1e12);
  out.predictedTime = time.value;
  out.unit = row.text("gpu_class") + ", attention";
}

rt::Status compareKernels(const Table &table, const std::string &share, Report &report) {
  return compareRows(
      table, share, whyNotCompared,
      [](const Row &row, const cost::Device &device, Comparison &out) {
        if (row.text("kind") == "gemm")
          compareProduct(row, device, out);
        else
          compareAttention(row, device, out);
        out.what =
            fmt::format("{} {} on {}", row.text("kind"), row.text("dtype"), row.text("gpu_class"));
      },
      report);
}

} // namespace cleave::validate
