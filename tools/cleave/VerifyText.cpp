//===- VerifyText.cpp - What verify found, for people and scripts ----------===//

#include "VerifyText.h"
#include "Driver.h"

#include "runtime/Base/Json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cleave::tool {

/// "layer 3: forward of mlp.down (nn.contract)", or the tensor.
static std::string subjectOf(const Divergence &d) {
  if (d.path.empty())
    return d.tensor.empty() ? d.phase : fmt::format("{} of {}", d.phase, d.tensor);
  const std::string phase = d.phase == "again" ? "forward (computed again)" : d.phase;
  std::string text = d.layer >= 0 ? fmt::format("layer {}: ", d.layer) : d.kind + ": ";
  text += fmt::format("{} of {} ({}", phase, d.path, d.op);
  return text + (d.result > 0 ? fmt::format(", result {})", d.result) : ")");
}

/// Layers are counted in a model; embedding and head are called by their kind.
static std::string layerOf(const Divergence &d) {
  return d.layer >= 0 ? std::to_string(d.layer) : d.kind;
}

rt::Error mismatchError(const Divergence &d, const VerifyCase &checked) {
  std::string where = fmt::format("step {}", d.step);
  if (d.micro)
    where += fmt::format(", micro-batch {}", *d.micro);
  std::string at;
  if (d.rank)
    at += fmt::format(" on rank {}", *d.rank);
  if (d.place)
    at += fmt::format(" (place {} of the pipeline)", *d.place);
  if (!d.index.empty())
    at += fmt::format(" at [{}]", fmt::join(d.index, ", "));
  rt::Error error =
      rt::runError("verify.mismatch",
                   fmt::format("{}, {} differs{}: {}, and {} in the other layout", where,
                               subjectOf(d), at, d.got, d.want))
          .withGiven(fmt::format("{} against {}", checked.layout, checked.against))
          .withRule(fmt::format("all layouts compute the same, within {} of a tensor's largest "
                                "number",
                                checked.tolerance));
  auto note = [&](std::string_view key, const std::string &value) {
    error.notes.push_back({{}, fmt::format("{}: {}", key, value)});
  };
  note("step", std::to_string(d.step));
  if (d.micro)
    note("micro_batch", std::to_string(*d.micro));
  note("phase", d.phase);
  if (!d.path.empty()) {
    note("layer", layerOf(d));
    note("path", d.path);
    note("op", d.op);
  }
  if (!d.tensor.empty())
    note("tensor", d.tensor);
  if (d.rank)
    note("rank", std::to_string(*d.rank));
  if (!d.reads.empty())
    note("reads", fmt::format("{}", fmt::join(d.reads, ", ")));
  if (checked.rounds) {
    // Nothing can be said of exchanges and operators before rounding is out of the way.
    error.suggestions.push_back("the same layout in fp32, where nothing is rounded: --set "
                                "precision=fp32, or a plan without its lines plan.precision");
    return std::move(error).suggest(
        "--tolerance 0.05, as bf16 rounds (not with experts, whose choices follow rounded scores)");
  }
  if (d.readsAgree)
    return std::move(error).suggest(
        "what it reads agrees where it is made: look at the exchanges behind that, and at the "
        "operator itself");
  return std::move(error).suggest("look at the exchanges before it in the program: --keep DIR "
                                  "writes that");
}

std::string describeCase(const VerifyCase &checked) {
  std::string text = fmt::format("{} on {} rank{} ({}) against {} ({})\n", checked.model,
                                 checked.ranks, checked.ranks == 1 ? "" : "s", checked.layout,
                                 checked.againstRanks, checked.against);
  if (checked.changes.empty())
    return text;
  std::vector<std::string> changes;
  for (const auto &change : checked.changes)
    changes.push_back(
        fmt::format("{} {} → {}", change.key, grouped(change.from), grouped(change.to)));
  return text + fmt::format("shrunk: {}\n", fmt::join(changes, ", "));
}

std::string describeReport(const VerifyReport &report, const VerifyCase &checked) {
  return fmt::format("equal: {} steps; {} values, {} gradients and {} kept tensors compared, the "
                     "largest difference {:.2g} of what {} allows\n",
                     report.steps, grouped(report.values), grouped(report.gradients),
                     grouped(report.states), report.largest, checked.tolerance);
}

std::string reportJson(const VerifyReport &report, const VerifyCase &checked) {
  rt::JsonWriter out(2);
  out.beginObject();
  out.key("equal").value(true);
  out.key("layout").value(checked.layout);
  out.key("ranks").value(checked.ranks);
  out.key("against").value(checked.against);
  out.key("against_ranks").value(checked.againstRanks);
  out.key("tolerance").value(checked.tolerance);
  out.key("shrunk").beginObject();
  for (const auto &change : checked.changes)
    out.key(change.key).beginArray().value(change.from).value(change.to).endArray();
  out.endObject();
  out.key("steps").value(report.steps);
  out.key("values").value(report.values);
  out.key("gradients").value(report.gradients);
  out.key("kept_tensors").value(report.states);
  out.key("largest_difference").value(report.largest * checked.tolerance);
  out.key("losses").beginArray();
  for (double loss : report.losses)
    out.value(loss);
  out.endArray().endObject();
  return out.take() + "\n";
}

} // namespace cleave::tool
