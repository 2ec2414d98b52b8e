// Code of a GPU's kernels, compiled ahead for some architectures, as a binary carries it: for each
// a line "sm_90 SIZE" and that many bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cleave::rt {

/// Adds `code` of `architecture` ("sm_90", "sm_90a").
void addCode(std::string &archive, std::string_view architecture, std::string_view code);

/// The code that a device of the compute capability `major`.`minor` runs best; empty if there is
/// none. It runs that of its own architecture, the part that only this one has ("a") included, and
/// that of those before it with the same major number.
/// Source: CUDA C++ Programming Guide, 3.1.2 Binary Compatibility.
std::string_view codeFor(std::string_view archive, int major, int minor);

} // namespace cleave::rt
