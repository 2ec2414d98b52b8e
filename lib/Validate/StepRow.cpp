//===- StepRow.cpp - Layout, device and host of a row of steps --------------===//

#include "lib/Validate/StepRow.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>
#include <regex>

using llvm::StringRef;
namespace cleave::validate {

static bool says(const std::string &text, StringRef part) {
  return StringRef(text).contains_insensitive(part);
}

/// What takes no longer than a moment to play through.
static constexpr double kMostLayers = 10000, kMostActions = 1e7;

static std::string whyTooLarge(const Row &row) {
  const double devices = row.number("tp") * row.number("pp");
  const double stages = row.number("pp") * static_cast<double>(row.integer("vp", 1));
  const double layers = row.number("layers");
  if (layers > kMostLayers)
    return "more than 10,000 layers";
  if (stages > layers + 2)
    return "more stages than layers, embedding and head";
  if (devices > row.number("gpus"))
    return "tp and pp need more devices than there are";
  if (row.number("gbs") / row.number("mbs") * stages > kMostActions)
    return "more micro-batches than can be played through";
  return "";
}

/// A layout that is none of the row's devices and batch.
static std::string whyContradictory(const Row &row) {
  // In turn, since products may be no number.
  int64_t replicas = row.integer("gpus");
  for (const char *column : {"tp", "pp", "cp"}) {
    if (replicas % row.integer(column, 1) != 0)
      return "tp, pp and cp do not divide the devices";
    replicas /= row.integer(column, 1);
  }
  const int64_t batch = row.integer("gbs");
  if (batch % replicas != 0 || batch / replicas % row.integer("mbs") != 0)
    return "the data ranks and mbs do not divide gbs";
  return "";
}

std::string whyLeftOut(const Row &row) {
  if (!row.has("iter_time_s") && !row.has("iter_time_derived_s"))
    return "no step time is measured";
  if (row.number(row.has("iter_time_s") ? "iter_time_s" : "iter_time_derived_s") < 1e-9)
    return "the step time is no positive number";
  if (row.text("task") != "pretrain" && row.text("task") != "SFT")
    return "not all parameters are trained (" + row.text("task") + ")";
  for (const char *column : {"layers", "hidden", "heads", "kv_heads", "seq_len", "gpus", "tp", "pp",
                             "vp", "cp", "dp", "mbs", "gbs"})
    if (const double value = row.number(column);
        row.has(column) && (value < 1 || value >= 1e15 || value != std::floor(value)))
      return std::string(column) + " is no whole number of at least 1";
  for (const char *column : {"layers", "hidden", "heads", "seq_len"})
    if (row.integer(column) == 0)
      return std::string("the model's ") + column + " is not stated";
  for (const char *column : {"gpus", "tp", "pp", "mbs", "gbs"})
    if (row.integer(column) == 0)
      return std::string(column) + " is not stated";
  // An evident default of recomputation is that of the frameworks whose recipes say so.
  if (!row.has("recompute") && !says(row.text("framework"), "megatron") &&
      !says(row.text("framework"), "nemo"))
    return "recompute is not stated";
  if (deviceName(row.text("gpu_class"), row.text("gpu")).empty())
    return "no description of the device \"" + row.text("gpu_class") + "\"";
  if (std::string reason = whyTooLarge(row); !reason.empty())
    return reason;
  return whyContradictory(row);
}

std::string deviceName(const std::string &gpuClass, const std::string &gpu) {
  if (gpuClass == "A100" && says(gpu, "40GB"))
    return "a100-sxm-40gb";
  return llvm::StringSwitch<std::string>(gpuClass)
      .Cases({"A100", "A800"}, "a100-sxm-80gb")
      .Case("H100", "h100-sxm-80gb")
      .Case("H800", "h800-sxm-80gb")
      .Case("H200", "h200-sxm-141gb")
      .Case("B200", "b200-sxm-180gb")
      .Case("B300", "b300-sxm-270gb")
      .Case("GB200", "gb200-186gb")
      .Case("GB300", "gb300-277gb")
      .Case("MI300X", "mi300x-192gb")
      .Default("");
}

/// Bytes/s of one device between domains, where the row says it.
static std::optional<double> networkOf(const std::string &text, int64_t perNode) {
  std::smatch m;
  const double node = 8. * static_cast<double>(perNode);
  static const std::regex perDevice("([0-9]{1,9}) ?Gb/s RDMA per GPU");
  static const std::regex several(
      "^(?:[^,]*[ :])?([0-9]{1,9})x ?(?:Omni-Path |HDR |NDR )?([0-9]{1,9}) ?Gb");
  static const std::regex whole("([0-9]{1,9}) ?Gbps");
  if (std::regex_search(text, m, perDevice))
    return std::stod(m[1]) * 1e9 / 8;
  if (says(text, "per node") && std::regex_search(text, m, several))
    return std::stod(m[1]) * std::stod(m[2]) * 1e9 / node;
  static const std::regex inText("([0-9]{1,9})x ?(?:Omni-Path |HDR )?([0-9]{1,9}) ?Gb");
  if (says(text, "per node") && std::regex_search(text, m, inText))
    return std::stod(m[1]) * std::stod(m[2]) * 1e9 / node;
  if (std::regex_search(text, m, whole))
    return std::stod(m[1]) * 1e9 / node;
  return std::nullopt;
}

rt::StatusOr<cost::Device> deviceOf(const Row &row, const std::string &share) {
  const std::string &gpu = row.text("gpu");
  CLEAVE_RT_ASSIGN_OR_RETURN(cost::Device device,
                             cost::readDevice(share, deviceName(row.text("gpu_class"), gpu)));
  if (int64_t domain = row.integer("nvlink_domain"))
    device.link.domain = domain;
  if (auto rate = networkOf(row.text("interconnect"), row.integer("gpus_per_node", 8)))
    device.network.bandwidth = cost::BytesPerSecond(*rate);
  // The Hopper with HBM2e is the one of 500 W that its owners describe elsewhere.
  if (says(gpu, "HBM2e")) {
    device.bandwidth = cost::BytesPerSecond(2.4e12);
    device.powerClock = std::pow(500. / 700., 0.4);
  }
  return device;
}

rt::StatusOr<cost::HostProfile> hostOf(const Row &row, const std::string &share) {
  const std::string &framework = row.text("framework");
  const bool isNarrow = says(row.text("precision"), "fp8") || says(row.text("precision"), "fp4") ||
                        says(row.text("precision"), "float8");
  static const std::regex graphs("NeMo 2[6-9]\\.(0[6-9]|1)");
  const bool replays =
      says(row.text("recompute_detail"), "cuda_graph=full") || std::regex_search(framework, graphs);
  struct Rule {
    const char *part;
    const char *profile;
  };
  static constexpr Rule rules[] = {
      {"Megatron-DeepSpeed", "megatron-deepspeed"},
      {"DeepSpeed ZeRO-3", "zero3-2021"},
      {"PTD-P", "megatron-2021"},
      {"DDP local", "megatron-2021"},
      {"DDP torch", "megatron-2021"},
      {"1F1B", "megatron-local"},
      {"ZB-", "megatron-local"},
      {"Composer", "fsdp-eager-flash1"},
      {"InternEvo", "zero1-eager"},
      {"torch.compile", "fsdp-compiled"},
      {"torchtitan", "fsdp-eager"},
      {"FSDP", "fsdp-eager"},
      {"MaxText", "jax"},
      {"JAX", "jax"},
      {"llm.c", "llmc"},
      {"NeMo", "megatron"},
      {"NVIDIA Release", "megatron"},
      {"Megatron-Core", "megatron"},
      {"Megatron-LM", "megatron-2022"},
  };
  std::string name = row.integer("tp", 1) * row.integer("pp", 1) > 1 ? "megatron" : "fsdp-compiled";
  for (const Rule &rule : rules)
    if (says(framework, rule.part)) {
      name = rule.profile;
      break;
    }
  if (name == "megatron" && replays)
    name = "megatron-graph";
  else if (name == "megatron" && isNarrow)
    name = "megatron-fp8";
  CLEAVE_RT_ASSIGN_OR_RETURN(cost::HostProfile host, cost::readHostProfile(share, name));
  const std::string &kernel = row.text("attn_kernel");
  if (says(kernel, "no flash"))
    host.attention = "unfused";
  else if (says(kernel, "FlashAttention-2") || says(kernel, "flash v2"))
    host.attention = "flash2";
  else if (says(kernel, "cuDNN") || says(kernel, "FlashAttention-3"))
    host.attention = "flash3";
  if (says(row.text("recompute_detail"), "moe_a2a_overlap"))
    host.hiddenExperts = std::max(host.hiddenExperts, 0.75);
  if (says(framework, "balanced"))
    host.balancesStages = true;
  if (says(row.text("precision"), "fp32 grad")) {
    // Kept in fp32 beside those of 16 bits, which are turned into fp32 one by one (6 bytes), then
    // added (12); the update reads its part of the sums as they lie, and the buckets are fp32.
    host.gradient += cost::Bytes(4);
    host.gradientExchange = cost::Bytes(4);
    host.accumulate = cost::Bytes(18);
    host.addedGradient = cost::Bytes(6);
    host.ownedGradient = {};
    host.buckets = host.buckets * 2;
  }
  return host;
}

static cost::Recompute recomputeOf(const Row &row) {
  const std::string &text = row.text("recompute");
  if (says(text, "some layers"))
    return cost::Recompute::EveryThird;
  if (says(text, "full"))
    return cost::Recompute::All;
  if (says(text, "(op)"))
    return cost::Recompute::Some;
  if (says(text, "layer"))
    return cost::Recompute::EverySecond;
  if (says(text, "selective"))
    return says(row.text("framework"), "FSDP") ? cost::Recompute::EveryThird
                                               : cost::Recompute::Scores;
  return cost::Recompute::None;
}

static void setSharing(const Row &row, cost::Layout &layout) {
  const std::string &zero = row.text("zero");
  std::smatch m;
  static const std::regex groups("groups of ([0-9]{1,9})");
  using enum cost::Sharing;
  if (says(zero, "GRAD_OP"))
    layout.sharing = Gradients;
  else if (says(zero, "FSDP") || says(zero, "SHARD") || says(zero, "HSDP") || zero[0] == '3')
    layout.sharing = Parameters;
  else
    layout.sharing = zero == "0" ? None : Optimizer;
  if (says(zero, "HSDP"))
    layout.sharingGroup = row.integer("gpus_per_node", 8);
  if (std::regex_search(zero, m, groups))
    layout.sharingGroup = std::stoll(m[1]);
}

/// Stages on a rank, where a recipe of Megatron-Core does not print them: it interleaves.
static int64_t stagesPerRank(const Row &row) {
  const int64_t pipeline = row.integer("pp", 1), layers = row.integer("layers");
  if (pipeline == 1)
    return 1;
  if (int64_t printed = row.integer("vp"))
    return printed;
  const std::string &framework = row.text("framework");
  if (says(framework, "NeMo") || says(framework, "NVIDIA Release"))
    for (int64_t v : {5, 4, 3, 2})
      if (layers % (pipeline * v) == 0)
        return v;
  return 1;
}

cost::Layout layoutOf(const Row &row) {
  cost::Layout layout;
  layout.devices = row.integer("gpus", 1);
  layout.tensor = row.integer("tp", 1);
  layout.context = row.integer("cp", 1);
  layout.pipeline = row.integer("pp", 1);
  layout.expert = row.has("moe_experts") ? row.integer("ep", 1) : 1;
  const int64_t model = layout.tensor * layout.context * layout.pipeline;
  layout.data = row.integer("dp", std::max<int64_t>(1, layout.devices / model));
  layout.sequence = layout.tensor > 1 && row.text("sp") != "no";
  layout.stagesPerRank = stagesPerRank(row);
  const std::string &framework = row.text("framework");
  layout.schedule = says(framework, "ZB-2p")   ? "zb-2p"
                    : says(framework, "ZB-1p") ? "zb-h1"
                    : layout.stagesPerRank > 1 ? "interleaved"
                                               : "1f1b";
  layout.microBatch = row.integer("mbs", 1);
  layout.globalBatch = row.integer("gbs", 1);
  layout.sequenceLength = row.integer("seq_len", 1);
  const std::string &precision = row.text("precision");
  const bool isScaled = says(precision, "mx") || says(precision, "nvfp4");
  layout.width = says(precision, "fp4")                                ? 4
                 : says(precision, "fp8") || says(precision, "float8") ? 8
                                                                       : 16;
  layout.blockScaled = isScaled;
  if (says(precision, "f8 all-gather"))
    layout.gathered = cost::Bytes(1);
  layout.recompute = recomputeOf(row);
  setSharing(row, layout);
  return layout;
}

/// Counters print units of 2^30 bytes, whatever they call them.
static constexpr double kPrintedUnit = 1073741824;

std::optional<double> measuredMemory(const Row &row) {
  const double shown = row.number("mem_gb");
  if (shown <= 0)
    return std::nullopt;
  return shown * kPrintedUnit;
}

std::optional<double> shownMemory(const Row &row, cost::Bytes bytes) {
  const std::string &note = row.text("mem_note");
  // What an allocator reserves above its peak, and the context of the driver.
  constexpr double reserved = 1.05, context = 1e9, all = 2.5e9;
  if (says(note, "nvidia-smi") || says(note, "first/last node"))
    return bytes.value * reserved + all;
  if (says(note, "max over GPUs"))
    return bytes.value * reserved + context;
  if (says(note, "peak"))
    return bytes.value;
  return std::nullopt;
}

} // namespace cleave::validate
