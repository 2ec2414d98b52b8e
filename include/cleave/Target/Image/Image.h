//===- Image.h - From a partitioned module to a training binary ------------===//
//
// The last phases for the CPU: every entry of the program of one rank becomes a
// list of runtime commands over packed memory (a program image) and a module of
// kernels; both are compiled and linked with the runtime into one executable.
// What an image holds is defined by runtime/Schema/Program.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Target/CPU/KernelCompiler.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/Base/Status.h"
#include "runtime/Schema/Program.h"

namespace cleave {

/// What an image carries besides the program.
struct ImageSettings {
  cpu::Profile profile = cpu::Profile::avx2();
  std::string modelName;
  /// The model's config.json, byte for byte.
  std::string configText;
  /// The whole recipe, and an account of the plan for the log.
  rt::JsonValue recipe, plan;
  int64_t globalBatch = 0, microBatch = 0, sequence = 0, vocabulary = 0;
  /// The mesh axes that deal out the batch.
  std::vector<std::string> dataAxes;
};

struct CompiledImage {
  rt::Program program;
  /// Kernel functions in linalg or vectors, before lowering.
  mlir::OwningOpRef<mlir::ModuleOp> kernels;
};

/// Builds the image of a module after the dist phase. `module` is consumed: its
/// entries are flattened. The program is valid (`rt::validate`).
rt::StatusOr<CompiledImage> buildImage(mlir::ModuleOp module, const ImageSettings &settings);

/// Where the parts of the runtime lie that a binary is linked with.
struct LinkSettings {
  /// Folder of the runtime's static libraries.
  std::string libraries;
};

/// Compiles the kernels, embeds the image and links `output`. Errors:
/// `emit.linker_missing`, `emit.runtime_missing`, `emit.link_failed`.
rt::Status emitBinary(const CompiledImage &image, const cpu::Profile &profile,
                      const LinkSettings &link, const std::string &output);

} // namespace cleave
