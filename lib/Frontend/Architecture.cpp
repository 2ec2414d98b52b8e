//===- Architecture.cpp - Lists of parameters and layers ---------------------===//

#include "lib/Frontend/Architecture.h"

#include "dialects/Interfaces/LayerNames.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave::frontend {

int64_t Parameter::elements() const {
  int64_t count = 1;
  for (const NamedDim &dim : dims)
    count *= dim.size;
  return count;
}

int64_t Parameter::activeElements() const {
  return activeSlices ? elements() / dims.front().size * *activeSlices : elements();
}

int64_t ModelDescription::parameterCount() const {
  int64_t count = 0;
  for (const Parameter &p : parameters)
    count += p.elements();
  return count;
}

int64_t ModelDescription::activeParameterCount() const {
  int64_t count = 0;
  for (const Parameter &p : parameters)
    count += p.activeElements();
  return count;
}

int64_t ModelDescription::tensorCount() const {
  int64_t count = 0;
  for (const Parameter &p : parameters)
    count += p.tensors();
  return count;
}

size_t Architecture::addKind(LayerKind kind) {
  kinds.push_back(std::move(kind));
  return kinds.size() - 1;
}

void Architecture::call(size_t kind) { calls.push_back({kind, "", -1}); }

void Architecture::callBlock(size_t kind, std::string prefix, int64_t layer) {
  calls.push_back({kind, std::move(prefix), layer});
}

/// `prefix` with `number` for its braces.
static std::string numbered(const std::string &prefix, const std::string &number) {
  const size_t at = prefix.find("{}");
  return at == std::string::npos ? prefix : std::string(prefix).replace(at, 2, number);
}

std::string LayerCall::nameOf(const Parameter &local) const {
  return numbered(prefix, std::to_string(layer)) + local.name;
}

std::string LayerRun::symbolOf(const Parameter &local) const {
  if (first.layer < 0)
    return first.nameOf(local);
  return numbered(first.prefix, layerNumbers(first.layer, count, step)) + local.name;
}

std::vector<LayerRun> Architecture::runs() const {
  std::vector<LayerRun> runs;
  for (const LayerCall &call : calls) {
    if (!runs.empty() && call.layer >= 0) {
      LayerRun &last = runs.back();
      const int64_t step = last.count == 1 ? call.layer - last.first.layer : last.step;
      if (last.first.kind == call.kind && last.first.prefix == call.prefix && step > 0 &&
          last.first.layer >= 0 && call.layer == last.first.layer + last.count * step) {
        last.step = step;
        ++last.count;
        continue;
      }
    }
    runs.push_back({call});
  }
  return runs;
}

Parameter parameter(std::string name, std::vector<std::vector<NamedDim>> groups, Init init) {
  Parameter p;
  p.name = std::move(name);
  p.initMean = init.mean;
  p.initStd = init.std;
  for (std::vector<NamedDim> &group : groups) {
    int64_t size = 1;
    for (NamedDim &dim : group) {
      size *= dim.size;
      p.dims.push_back(std::move(dim));
    }
    p.fileShape.push_back(size);
  }
  return p;
}

Parameter expertParameter(std::string name, NamedDim experts, int64_t active,
                          std::vector<std::vector<NamedDim>> groups, Init init) {
  const bool perSlice = name.find("{}") != std::string::npos;
  const bool stack = !perSlice && groups.front().empty();
  if (perSlice)
    groups.insert(groups.begin(), {std::move(experts)});
  else
    groups.front().insert(groups.front().begin(), std::move(experts));
  Parameter p = parameter(std::move(name), std::move(groups), init);
  if (perSlice)
    p.fileShape.erase(p.fileShape.begin());
  p.tensorPerSlice = perSlice;
  p.isStack = stack;
  p.activeSlices = active;
  return p;
}

Parameter outputParameter(bool tied, std::string embedding, NamedDim vocab, NamedDim model,
                          Init init, const std::string &own) {
  Parameter p = parameter(tied ? std::move(embedding) : own, {{vocab}, {model}}, init);
  if (tied)
    p.aliases = {own};
  return p;
}

rt::StatusOr<std::vector<Parameter>> collectParameters(const Architecture &architecture) {
  std::vector<Parameter> all;
  llvm::StringMap<size_t> seen;
  int64_t total = 0;
  for (const LayerCall &call : architecture.calls)
    for (const Parameter &local : architecture.kinds[call.kind].parameters) {
      auto [it, fresh] = seen.try_emplace(call.nameOf(local), all.size());
      if (!fresh) {
        Parameter &first = all[it->second];
        assert(first.dims == local.dims && "one tensor used with two shapes");
        for (const std::string &alias : local.aliases)
          if (std::ranges::find(first.aliases, alias) == first.aliases.end())
            first.aliases.push_back(alias);
        continue;
      }
      int64_t elements = 1;
      for (const NamedDim &dim : local.dims)
        if (llvm::MulOverflow(elements, dim.size, elements))
          return rt::userError("config.too_large",
                               "\"" + it->getKey().str() + "\" has more than 2^63 elements");
      if (llvm::AddOverflow(total, elements, total))
        return rt::userError("config.too_large", "the model has more than 2^63 parameters");
      all.push_back(local);
      all.back().name = it->getKey().str();
    }
  return all;
}

std::vector<LayerSummary> summarizeLayers(const Architecture &architecture) {
  std::vector<LayerSummary> summaries;
  std::vector<size_t> slot(architecture.kinds.size(), SIZE_MAX);
  for (const LayerCall &call : architecture.calls) {
    const LayerKind &kind = architecture.kinds[call.kind];
    if (kind.role != LayerRole::Block)
      continue;
    if (slot[call.kind] == SIZE_MAX) {
      slot[call.kind] = summaries.size();
      LayerSummary summary{kind.name, 0, {}, 0};
      for (const Parameter &p : kind.parameters)
        summary.parametersPerLayer += p.elements();
      summaries.push_back(std::move(summary));
    }
    LayerSummary &summary = summaries[slot[call.kind]];
    ++summary.count;
    if (!summary.spans.empty() && summary.spans.back().second + 1 == call.layer)
      summary.spans.back().second = call.layer;
    else
      summary.spans.emplace_back(call.layer, call.layer);
  }
  return summaries;
}

} // namespace cleave::frontend
