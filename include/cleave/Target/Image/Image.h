//===- Image.h - From a partitioned module to a training binary ------------===//
//
// The last phases for the CPU. `lowerToExec` makes every entry of the program of
// one rank (of each place in a pipeline) a list of commands over packed memory, and kernels for
// them (dialect exec); `buildImage` writes that as a program image, which runtime/Schema/Program.h
// defines; `emitBinary` compiles the kernels and links both with the runtime into
// one executable.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Target/CPU/KernelCompiler.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/Base/Status.h"
#include "runtime/Schema/Image.h"

namespace cleave {

/// What an image carries besides the program.
struct ImageSettings {
  cpu::Profile profile = cpu::Profile::avx2();
  /// Device of the program: cpu or cuda.
  std::string device = "cpu";
  std::string modelName;
  /// The model's config.json, byte for byte.
  std::string configText;
  /// The whole recipe, and an account of the plan for the log.
  rt::JsonValue recipe, plan;
  int64_t globalBatch = 0, microBatch = 0, sequence = 0, vocabulary = 0;
  /// Blocks of a sequence in zig-zag order; 1: tokens stand in order.
  int64_t zigzag = 1;
  /// What a step is expected to take, in seconds, where that is known.
  std::optional<double> stepSeconds;
  /// The mesh axes that deal out the batch.
  std::vector<std::string> dataAxes;
};

struct CompiledImage {
  rt::Image image;
  /// Kernel functions in linalg or vectors, before lowering.
  mlir::OwningOpRef<mlir::ModuleOp> kernels;
  /// Source of the kernels that a GPU launches; empty for the cpu.
  std::string gpuText;
  /// Their code for the architectures that were asked for (rt::addCode).
  std::string gpuCode;
};

/// Rewrites a module after the dist phase: what it holds then is its mesh, an
/// `exec.program`, or one for each place in a pipeline and the schedule, and the
/// kernels that are launched. Fails, with a diagnostic, at
/// what that phase does not leave and at an operator that nothing on a CPU computes.
mlir::LogicalResult lowerToExec(mlir::ModuleOp module, const cpu::Profile &profile);

/// Registers `cleave-lower-to-exec{profile=avx2}` for textual pipelines.
void registerImagePasses();

/// A copy of a module in `exec` for people: its kernels have no bodies.
mlir::OwningOpRef<mlir::ModuleOp> withKernelsDeclared(mlir::ModuleOp module);

/// Builds the image of a verified module in `exec`, whose kernels move to the image.
/// It is valid (`rt::validate`).
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
