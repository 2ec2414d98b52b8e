//===- WriteProgram.h - The exec dialect as a program image ----------------===//
#pragma once

#include "dialects/Exec/Exec.h"
#include "dialects/Pipe/Table.h"
#include "runtime/Schema/Program.h"

namespace cleave::image {

/// All of a program that `source`, which is verified, says: mesh, memory, state and
/// commands. One of a pipeline does what `table` says, which is not null then.
rt::Program writeProgram(exec::ProgramOp source, const pipe::Table *table);

} // namespace cleave::image
