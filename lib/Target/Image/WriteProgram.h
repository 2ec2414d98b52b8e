//===- WriteProgram.h - The exec dialect as a program image ----------------===//
#pragma once

#include "dialects/Exec/Exec.h"
#include "runtime/Schema/Program.h"

namespace cleave::image {

/// All of a program that `source`, which is verified, says: mesh, memory, state and
/// commands.
rt::Program writeProgram(exec::ProgramOp source);

} // namespace cleave::image
