//===- Inspect.cpp - cleave inspect ------------------------------------------===//
//
// Says what a model is before anything is planned or compiled: its sizes, its
// exact number of parameters, what the file left out and what nothing reads.
// Never refuses a model for what training alone minds (dropout, features without
// operators).
//
//===----------------------------------------------------------------------===//

#include "Driver.h"
#include "ModelInput.h"

#include "dialects/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <fmt/format.h>

#include <cstdio>

namespace cleave::tool {

using frontend::ModelDescription;

namespace {

/// What both kinds of MODEL can answer. Sizes are unknown for an .mlir file.
struct Report {
  std::string family;
  int64_t parameters = 0;
  int64_t activeParameters = 0;
  int64_t tensors = 0;
  std::vector<frontend::LayerSummary> layers;
  std::vector<std::pair<std::string, int64_t>> sizes;
  std::vector<frontend::DefaultedKey> defaults;
  std::vector<frontend::UnusedKey> unused;
  std::vector<std::string> notes;
};

} // namespace

static Report reportOf(const ModelDescription &model) {
  Report report;
  report.family = model.family;
  report.parameters = model.parameterCount();
  report.activeParameters = model.activeParameterCount();
  report.tensors = model.tensorCount();
  report.layers = model.layers;
  const frontend::ModelSizes &s = model.sizes;
  report.sizes = {{"hidden_size", s.hiddenSize},    {"num_hidden_layers", s.layers},
                  {"num_attention_heads", s.heads}, {"num_key_value_heads", s.kvHeads},
                  {"head_dim", s.headDim},          {"intermediate_size", s.intermediateSize},
                  {"vocab_size", s.vocabSize},      {"max_position_embeddings", s.maxPositions}};
  report.sizes.insert(report.sizes.end(), s.others.begin(), s.others.end());
  std::erase_if(report.sizes, [](const auto &size) { return size.second == 0; });
  report.defaults = model.defaults;
  report.unused = model.unusedKeys;
  report.notes = model.notes;
  for (const rt::Error &reason : model.untrained)
    report.notes.push_back(reason.message);
  for (const frontend::DropoutKey &d : model.dropouts)
    report.notes.push_back(fmt::format(
        "\"{}\" is {}: training needs \"dropout\": 0 in the recipe, since dropout is not built",
        d.key, d.probability));
  return report;
}

/// The blocks of a module by kind, from the calls that are made for each layer.
static std::vector<frontend::LayerSummary> layersOf(mlir::ModuleOp module) {
  std::vector<frontend::LayerSummary> layers;
  module.walk([&](mlir::func::CallOp call) {
    auto repeat = call->getParentOfType<nn::RepeatOp>();
    auto kind = module.lookupSymbol<mlir::func::FuncOp>(call.getCallee());
    if (!repeat || !repeat.getLayers() || !kind)
      return;
    const std::string name = call.getCallee().str();
    auto it = llvm::find_if(layers, [&](const auto &layer) { return layer.kind == name; });
    if (it == layers.end()) {
      layers.push_back({name, 0, {}, 0});
      it = std::prev(layers.end());
      for (unsigned i = 0; i < kind.getNumArguments(); ++i)
        if (auto type = llvm::dyn_cast<mlir::RankedTensorType>(kind.getArgumentTypes()[i]);
            type && type.hasStaticShape() && kind.getArgAttr(i, "nn.parameter"))
          it->parametersPerLayer += type.getNumElements();
    }
    const int64_t first = (*repeat.getLayers())[0], step = (*repeat.getLayers())[1];
    for (int64_t i = 0; i < static_cast<int64_t>(repeat.getCount()); ++i) {
      const int64_t layer = first + i * step;
      ++it->count;
      if (!it->spans.empty() && it->spans.back().second + 1 == layer)
        it->spans.back().second = layer;
      else
        it->spans.emplace_back(layer, layer);
    }
  });
  return layers;
}

static Report reportOf(mlir::ModuleOp module) {
  Report report;
  if (auto family = module->getAttrOfType<mlir::StringAttr>("nn.family"))
    report.family = family.str();
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    report.parameters += parameter.getTensorType().getNumElements() * parameter.getCount();
    report.tensors += parameter.getCount();
  }
  report.activeParameters = report.parameters;
  report.layers = layersOf(module);
  for (auto [name, key] : {std::pair("nn.vocab", "vocab_size"),
                           std::pair("nn.max_positions", "max_position_embeddings")})
    if (auto size = module->getAttrOfType<mlir::IntegerAttr>(name))
      report.sizes.emplace_back(key, size.getInt());
  report.notes.push_back("read from IR: what is not in the graph is not listed");
  return report;
}

static void writeJson(const Report &report) {
  rt::JsonWriter out(2);
  out.beginObject();
  out.key("family").value(report.family);
  out.key("parameters").value(report.parameters);
  out.key("active_parameters").value(report.activeParameters);
  out.key("tensors").value(report.tensors);
  out.key("layers").beginArray();
  for (const frontend::LayerSummary &layer : report.layers) {
    out.beginObject().key("kind").value(layer.kind).key("count").value(layer.count);
    out.key("spans").beginArray();
    for (auto [first, last] : layer.spans)
      out.beginArray().value(first).value(last).endArray();
    out.endArray().key("parameters_per_layer").value(layer.parametersPerLayer).endObject();
  }
  out.endArray().key("sizes").beginObject();
  for (const auto &[key, size] : report.sizes)
    out.key(key).value(size);
  out.endObject().key("defaults").beginObject();
  for (const frontend::DefaultedKey &entry : report.defaults)
    out.key(entry.key).value(entry.value);
  out.endObject().key("unused_keys").beginArray();
  for (const frontend::UnusedKey &entry : report.unused)
    out.value(entry.key);
  out.endArray().key("notes").beginArray();
  for (const std::string &note : report.notes)
    out.value(note);
  out.endArray().endObject();
  std::fputs((out.take() + "\n").c_str(), stdout);
}

/// 124439808 as "124,439,808".
static void writeText(const Report &report) {
  fmt::print("family      {}\n", report.family.empty() ? "unknown" : report.family);
  fmt::print("parameters  {} in {} tensors\n", grouped(report.parameters), report.tensors);
  if (report.activeParameters != report.parameters)
    fmt::print("active      {} a token\n", grouped(report.activeParameters));
  for (const frontend::LayerSummary &layer : report.layers) {
    std::string spans;
    for (auto [first, last] : layer.spans)
      spans += fmt::format("{}{}–{}", spans.empty() ? "" : ", ", first, last);
    fmt::print("layers      {} × {} ({}), {} parameters each\n", layer.count, layer.kind, spans,
               grouped(layer.parametersPerLayer));
  }
  for (const auto &[key, size] : report.sizes)
    fmt::print("  {:<26} {}\n", key, grouped(size));
  if (!report.defaults.empty())
    fmt::print("defaults (not in the file)\n");
  for (const frontend::DefaultedKey &entry : report.defaults)
    fmt::print("  {:<26} {} ({})\n", entry.key, rt::toString(entry.value), entry.reason);
  if (!report.unused.empty())
    fmt::print("unused keys\n");
  for (const frontend::UnusedKey &entry : report.unused)
    fmt::print("  {:<26} {}\n", entry.key, entry.reason.empty() ? "unknown" : entry.reason);
  for (const std::string &note : report.notes)
    fmt::print("note: {}\n", note);
}

rt::Status runInspect(const Words &words) {
  CommandLine line("inspect", "say what a model is: sizes, parameters, what was assumed",
                   {"MODEL"});
  CLEAVE_RT_RETURN_IF_ERROR(line.parse(words));
  if (line.helped())
    return rt::Status::success();
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string path, line.required("MODEL"));
  Report report;
  if (isModuleFile(path)) {
    mlir::MLIRContext context;
    CLEAVE_RT_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module,
                               parseModule(path, context));
    report = reportOf(*module);
  } else {
    CLEAVE_RT_ASSIGN_OR_RETURN(const ModelDescription model, frontend::readModel(path));
    report = reportOf(model);
  }
  if (line.json())
    writeJson(report);
  else
    writeText(report);
  return rt::Status::success();
}

} // namespace cleave::tool
