//===- ModelInput.h - MODEL arguments ----------------------------------------===//
//
// What MODEL may be on the command line: a config.json, a folder that holds
// one, or an .mlir file in nn.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Frontend/Model.h"

#include <string_view>

namespace cleave::tool {

/// True for the name of an .mlir file.
bool isModuleFile(std::string_view path);

/// Parses and verifies an .mlir file. `model.ir_invalid` with the parser's first
/// message and its place.
rt::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> parseModule(const std::string &path,
                                                            mlir::MLIRContext &context);

/// The nn graph of MODEL, from either kind of file.
rt::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> loadModel(const std::string &path,
                                                          mlir::MLIRContext &context);

} // namespace cleave::tool
