//===- Toolkit.h - build emitted text with the CUDA toolkit -----*- C++ -*-===//
//
// Compile-only checks, which need no device. Where the build found no toolkit the
// test that asks is skipped, and says so.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <string>

namespace cleave::test {

/// Builds `source` with nvcc for sm_80 and sm_90a; registers must not spill.
void expectNvccCompiles(const std::string &source);

/// Builds `source` with NVRTC, which has no headers, for the same devices.
void expectNvrtcCompiles(const std::string &source);

} // namespace cleave::test
