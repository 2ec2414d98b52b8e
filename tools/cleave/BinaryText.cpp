//===- BinaryText.cpp - What is told of a training binary ----------------------===//

#include "BinaryText.h"

#include "Output.h"
#include "StepModel.h"

#include "cleave/Planner/Machines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cleave::tool {

/// A path as a shell reads it back.
static std::string quoted(const std::string &path) {
  if (path.find_first_of(" \t\n'\"\\$`&|;<>()*?[]{}~#!") == std::string::npos)
    return path;
  std::string text = "'";
  for (char c : path)
    text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

/// Warns where a rank takes more than its device has: the program, where it is one for these
/// devices, and else, as far as it is known, what the cost model says of a step on them.
static void tellMemory(const MadeBinary &made) {
  const std::optional<Cluster> &cluster = made.request.cluster;
  if (!cluster || !cluster->deviceMemory)
    return;
  const bool isForThem = isOurs(*cluster) || made.request.target != "cpu";
  double bytes = 0;
  if (isForThem)
    bytes = static_cast<double>(made.image.predictedBytesPerRank().value_or(0));
  else if (made.price)
    bytes = made.price->bytes();
  const double has = isForThem ? *cluster->deviceMemory : usableMemory(*cluster);
  if (bytes <= has)
    return;
  tell("warning[plan.over_budget]: {}a rank takes {:.1f} GB with the values of a micro-batch, a "
       "device of {} has {:.1f} GB{}; less: a smaller micro_batch, recompute=selective or "
       "full, zero=3, more of cp, tp and pp\n",
       isForThem ? "" : "by the cost model ", bytes / 1e9, cluster->name, has / 1e9,
       isForThem ? "" : " to give");
}

void tellBinary(const MadeBinary &made) {
  const rt::Program &program = made.image.first();
  std::vector<std::string> axes;
  for (const rt::MeshAxis &axis : program.mesh.axes)
    axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  const int64_t ranks = program.mesh.world();
  std::string memory;
  if (auto bytes = made.image.predictedBytesPerRank())
    memory = fmt::format(", {:.0f} MB a rank", static_cast<double>(*bytes) / 1e6);
  if (const auto seconds = made.stepSeconds)
    memory += fmt::format(", predicted {:.4g} s a step", *seconds);
  tell("{}: {} parameters, {} rank{} ({}), {} × {} tokens a step{}\n", made.request.output,
       grouped(made.image.parameterCount()), ranks, ranks == 1 ? "" : "s", fmt::join(axes, " × "),
       program.batch.globalBatch, program.batch.sequence, memory);
  const std::optional<Cluster> &cluster = made.request.cluster;
  tellMemory(made);
  if (cluster && !isOurs(*cluster) && made.request.target == "cpu")
    tell(
        "note: it runs on processors, whatever the cluster's devices are, and its {:.3g} GB a rank "
        "are memory of a host; what a plan for {} says of time and memory is of these devices and "
        "of software for them. A program for GPUs: --target cuda\n",
        static_cast<double>(made.image.predictedBytesPerRank().value_or(0)) / 1e9, cluster->name);
  else if (const std::string note = cluster ? noteOfCores(*cluster) : ""; !note.empty())
    tell("note: {}\n", note);
  const bool here = made.request.output.find('/') == std::string::npos;
  tell("run it: {}{} --data TOKENS.bin --steps N{}\n", here ? "./" : "",
       quoted(made.request.output),
       made.request.target == "cuda" ? " (without a GPU: --device emulated)" : "");
}

} // namespace cleave::tool
