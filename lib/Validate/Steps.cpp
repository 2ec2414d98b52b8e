//===- Steps.cpp - Predicting a table of training steps ---------------------===//

#include "cleave/Frontend/Model.h"
#include "lib/Validate/Models.h"
#include "lib/Validate/StepRow.h"
#include "lib/Validate/Tables.h"
#include <fmt/format.h>

namespace cleave::validate {

rt::StatusOr<const KnownModel *> KnownModels::of(const std::string &config,
                                                 const std::string &file) {
  auto it = known.find(config);
  if (it != known.end())
    return &it->second;
  CLEAVE_RT_ASSIGN_OR_RETURN(const frontend::ModelDescription model,
                             frontend::readModelText(config, file));
  if (rt::Status s = frontend::refuseUntrained(model); !s.ok())
    return s;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module = frontend::importModel(model, context);
  auto work = cost::workOf(*module);
  if (!work)
    return rt::internalError("a model without layers");
  return &known.emplace(config, KnownModel{std::move(*work), limitsOf(*module)}).first->second;
}

void addParts(const cost::Prediction &p, Comparison &out) {
  const cost::LayerParts &l = p.layers;
  for (auto [name, time] : {std::pair("products", l.products),
                            {"scores", l.scores},
                            {"passes", l.passes},
                            {"tensor", l.tensor},
                            {"context", l.context},
                            {"experts", l.experts},
                            {"host", p.host},
                            {"recompute", p.recompute},
                            {"bubble", p.bubble},
                            {"data", p.data},
                            {"update", p.update},
                            {"fixed", p.fixed}})
    out.parts.push_back({name, time.value});
  const cost::MemoryParts &m = p.memory;
  for (auto [name, bytes] : {std::pair("weights", m.weights),
                             {"gradients", m.gradients},
                             {"optimizer", m.optimizer},
                             {"activations", m.activations},
                             {"temporary", m.temporary}})
    out.memoryParts.push_back({name, bytes.value});
}

/// Rows of one machine, model and software, and what of them is the layout. How many sequences a
/// step has is part of the layout, since it follows from the other parts as much as it is chosen.
static void nameSweep(const Row &row, const cost::Layout &layout, const cost::HostProfile &host,
                      Comparison &out) {
  for (const char *column :
       {"model", "layers", "hidden", "heads", "seq_len", "gpu", "gpus", "precision"})
    out.sweep += row.text(column) + "|";
  out.sweep += host.name;
  for (const char *column : {"tp", "sp", "pp", "cp", "ep", "dp", "zero", "mbs", "gbs", "recompute"})
    out.layout += row.text(column) + "|";
  out.layout += fmt::format("{}|{}|{}", layout.stagesPerRank, layout.schedule, host.balancesStages);
  out.sequences = static_cast<double>(layout.globalBatch);
}

rt::Status compareSteps(const Table &table, const std::string &share, Report &report) {
  KnownModels models;
  for (size_t i = 0; i < table.cells.size(); ++i) {
    const Row row = table.row(i);
    const std::string &id = row.text("id"), &source = row.text("source");
    if (std::string reason = whyLeftOut(row); !reason.empty()) {
      report.leftOut.push_back({id, source, reason});
      continue;
    }
    auto model = models.of(configOf(row), id);
    if (!model.ok()) {
      report.leftOut.push_back({id, source, model.error().message});
      continue;
    }
    CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Device device, deviceOf(row, share));
    CLEAVE_RT_ASSIGN_OR_RETURN(const cost::HostProfile host, hostOf(row, share));
    const cost::Layout layout = layoutOf(row);
    const cost::Prediction p = cost::predict((*model)->work, device, host, layout);
    Comparison out;
    out.id = id;
    out.source = source;
    out.group = row.text("group");
    out.hasExperts = row.has("moe_experts");
    out.time =
        row.has("iter_time_s") ? row.number("iter_time_s") : row.number("iter_time_derived_s");
    out.predictedTime = p.step.value;
    if (auto measured = measuredMemory(row))
      if (auto shown = shownMemory(row, p.memory.sum())) {
        out.memory = measured;
        out.predictedMemory = shown;
      }
    out.what = fmt::format("{} on {} {}, {}", row.text("model"), layout.devices, row.text("gpu"),
                           host.name);
    addParts(p, out);
    nameSweep(row, layout, host, out);
    report.rows.push_back(std::move(out));
  }
  return rt::Status::success();
}

} // namespace cleave::validate
