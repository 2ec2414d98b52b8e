//===- Compile.cpp - cleave compile ------------------------------------------===//

#include "Driver.h"
#include "ModelInput.h"

#include "runtime/Base/Files.h"
#include "runtime/Base/Json.h"
#include "runtime/Base/Suggest.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

namespace cleave::tool {

/// A phase after which the module can be printed.
struct Phase {
  std::string_view name;
  /// Carries the module from the phase before to this one.
  rt::Status (*run)(mlir::ModuleOp module);
};

/// In order of execution; `compile` runs all up to the one asked for.
static std::span<const Phase> phases() {
  static constexpr Phase all[] = {
      {"nn", [](mlir::ModuleOp) { return rt::Status::success(); }},
  };
  return all;
}

static rt::StatusOr<size_t> findPhase(const std::string &name) {
  std::vector<std::string> names;
  for (const Phase &phase : phases()) {
    if (phase.name == name)
      return names.size();
    names.emplace_back(phase.name);
  }
  rt::Error error = rt::userError("usage.emit", fmt::format("this build has no phase \"{}\"", name))
                        .withGiven("--emit=" + name)
                        .withRule(fmt::format("phases: {}", fmt::join(names, ", ")));
  error.suggestions.push_back("--emit=" + rt::nearestName(name, names).value_or(names.front()));
  return error;
}

/// Prints the module as it is after `phase`; with `json`, as one document.
static rt::Status writeOutput(mlir::ModuleOp module, std::string_view phase, bool json,
                              const std::string &path) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  stream << "\n";
  if (json) {
    rt::JsonWriter out;
    out.beginObject().key("phase").value(phase).key("module").value(text).endObject();
    text = out.take() + "\n";
  }
  if (!path.empty())
    return rt::writeFileAtomically(path, text);
  std::fputs(text.c_str(), stdout);
  return rt::Status::success();
}

rt::Status runCompile(const Words &words) {
  CommandLine line("compile", "compile a model into a training binary, or print a phase of it",
                   {"MODEL"});
  line.add()("emit", "phase to stop after and print",
             cxxopts::value<std::string>())("o,output", "file to write instead of standard output",
                                            cxxopts::value<std::string>()->default_value(""));
  CLEAVE_RT_RETURN_IF_ERROR(line.parse(words));
  if (line.helped())
    return rt::Status::success();
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string path, line.required("MODEL"));
  if (!line.has("emit"))
    return rt::userError("usage.emit", "this build can't make a training binary yet")
        .withRule("--emit names a phase to stop after")
        .suggest(fmt::format("--emit={}", phases().back().name));
  CLEAVE_RT_ASSIGN_OR_RETURN(const size_t last, findPhase(line.text("emit")));

  mlir::MLIRContext context;
  CLEAVE_RT_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module, loadModel(path, context));
  for (const Phase &phase : phases().first(last + 1))
    CLEAVE_RT_RETURN_IF_ERROR(phase.run(*module));
  return writeOutput(*module, phases()[last].name, line.json(), line.text("output"));
}

} // namespace cleave::tool
