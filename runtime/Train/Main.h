// `main` of a training binary: flags, checks, the run, its report. The compiler
// emits a binary whose main does nothing but call this with its image and its
// kernels.
//
// Errors go to standard error as `error[kind]: …`, or as one line of JSON with
// `--json`; the summary of a run goes to standard output.
#pragma once

#include "runtime/Exec/KernelTable.h"
#include "runtime/Train/Trainer.h"

#include <string_view>

namespace cleave::rt {

/// What a binary consists of besides the runtime.
struct TrainParts {
  /// The program's text.
  std::string_view image;
  ProgramKernels kernels;
  /// The bytes of the MPI plugin; empty where Cleave was built without MPI.
  std::string_view mpiPlugin = {};
  /// For tests.
  TrainHooks hooks = {};
};

/// Returns the exit code (formats: 0 done, 2 the user's request, 3 something
/// missing here, 4 failed while running, 70 ours, 130 interrupted before the
/// requested steps were done). Where a launcher started several processes, a failed
/// run ends the process here.
int trainMain(int argc, const char *const *argv, const TrainParts &parts);

} // namespace cleave::rt
