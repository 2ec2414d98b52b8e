//===- Assemble.h - CUDA text to a device's code ------------------*- C++ -*-===//
#pragma once

#include "runtime/Base/Status.h"
#include <string>

namespace cleave::cuda {

/// Whether `name` is that of an architecture: "sm_80", "sm_90a".
bool isArchitecture(const std::string &name);

/// The code (cubin) of `text` for `architecture`, by nvcc on PATH, under CUDA_HOME or in
/// /usr/local/cuda. Kinds: `emit.cuda_compiler_missing` (exit 3); `emit.architecture_unsupported`
/// (exit 3) where this nvcc does not know it; `file.write_failed`; an internal error where nvcc
/// refuses the text.
rt::StatusOr<std::string> assemble(const std::string &text, const std::string &architecture);

} // namespace cleave::cuda
