//===- Nesting.h - Texts that nest too deeply -------------------*- C++ -*-===//
//
// MLIR's parser calls itself for what is inside of brackets, so a text of nothing but opening
// brackets ends the process by a signal. It is looked for before a text is parsed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Base/Status.h"

#include <optional>
#include <string>
#include <string_view>

namespace cleave {

/// Brackets inside of each other, as many as a text of ours never has.
constexpr int mostNested = 512;

/// Where more than `mostNested` brackets of an MLIR text are open; brackets in strings and
/// comments are none. Nothing for other texts.
std::optional<rt::Where> findDeepNesting(std::string_view text, const std::string &file);

} // namespace cleave
