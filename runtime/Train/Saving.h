// Checkpoints of a running program: which pieces a rank saves, and how the ranks
// meet while they do; and the way back from a checkpoint of any layout into a
// rank's memory. Files and formats are runtime/Checkpoint's.
#pragma once

#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Checkpoint/CheckpointWriter.h"
#include "runtime/Comm/Communicator.h"
#include "runtime/Exec/RankMemory.h"
#include "runtime/Schema/Program.h"

namespace cleave::rt {

/// Called by all ranks together, each with its program, `everyone` holding them all; writes the
/// rank's values and moments and returns when the checkpoint is published. On failure the
/// unfinished folder is removed and the error ends the run.
Status saveCheckpoint(const Program &program, const SaveTarget &target, RunState state,
                      const RankMemory &memory, Communicator &everyone);

/// Fills the rank's values and moments. Kinds of Checkpoint::readBox.
Status loadCheckpoint(const Program &program, int64_t rank, const Checkpoint &checkpoint,
                      const RankMemory &memory);

} // namespace cleave::rt
