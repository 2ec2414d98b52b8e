//===- ModelInput.cpp - MODEL arguments --------------------------------------===//

#include "ModelInput.h"

#include "cleave/Support/Nesting.h"
#include "dialects/NN/NN.h"
#include "runtime/Base/Files.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace cleave::tool {

bool isModuleFile(std::string_view path) { return path.ends_with(".mlir"); }

/// The place a location points at, through names and fusions.
static rt::Where placeOf(Location location) {
  rt::Where where;
  location->walk([&](Location inner) {
    auto file = dyn_cast<FileLineColLoc>(inner);
    if (!file)
      return WalkResult::advance();
    where = {file.getFilename().str(), static_cast<int>(file.getLine()),
             static_cast<int>(file.getColumn())};
    return WalkResult::interrupt();
  });
  return where;
}

rt::StatusOr<OwningOpRef<ModuleOp>> parseModule(const std::string &path, MLIRContext &context) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string text, rt::readWholeFile(path));
  if (const auto deep = findDeepNesting(text, path))
    return rt::userError("model.ir_invalid", "brackets are nested too deeply")
        .at(*deep)
        .withRule("no more than 512 brackets are open at a time")
        .suggest("`cleave compile CONFIG --emit=nn -o model.mlir` writes one");
  context.loadDialect<nn::NNDialect, func::FuncDialect>();
  std::optional<rt::Error> first;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && !first)
      first = rt::userError("model.ir_invalid", diagnostic.str())
                  .at(placeOf(diagnostic.getLocation()))
                  .withRule("an .mlir model is a valid module in the nn dialect")
                  .suggest("`cleave compile CONFIG --emit=nn -o model.mlir` writes one");
    return success();
  });
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, ParserConfig(&context, /*verifyAfterParse=*/true), path);
  if (!module)
    return first ? std::move(*first) : rt::userError("model.ir_invalid", "no module in the file");
  return module;
}

rt::StatusOr<OwningOpRef<ModuleOp>> loadModel(const std::string &path, MLIRContext &context) {
  if (isModuleFile(path)) {
    CLEAVE_RT_ASSIGN_OR_RETURN(OwningOpRef<ModuleOp> module, parseModule(path, context));
    if (!module->lookupSymbol<func::FuncOp>("forward"))
      return rt::userError("model.ir_invalid", "the module has no function @forward")
          .at({path, 0, 0})
          .withRule("@forward calls the layers of an .mlir model in order")
          .suggest("`cleave compile CONFIG --emit=nn -o model.mlir` writes one");
    return module;
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(const frontend::ModelDescription model, frontend::readModel(path));
  CLEAVE_RT_RETURN_IF_ERROR(frontend::refuseUntrained(model));
  OwningOpRef<ModuleOp> module = frontend::importModel(model, context);
  if (failed(verify(*module)))
    return rt::internalError("the imported graph does not verify");
  return module;
}

} // namespace cleave::tool
