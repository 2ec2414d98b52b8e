// A model of stages small enough to follow: stage k maps a stream of numbers, one for
// each token, by h = scale · h + bias; the first starts from the tokens, the last
// compares with the next ones. A parameter "tie.weight" is added in the first and in
// the last stage; a vector "shrink.weight", cut over the data ranks, only decays. The
// same kernels make one program of all stages, or one for each rank of a pipeline.
#pragma once

#include "runtime/Exec/KernelTable.h"
#include "runtime/Schema/Image.h"

namespace tiny {

struct PipelineShape {
  int64_t dataRanks = 1;
  int64_t pipelineRanks = 2;
  /// On each rank; stage s is on rank s mod pipelineRanks.
  int64_t stagesEach = 1;
  int64_t microBatch = 2;
  int64_t microBatches = 4;
  int64_t buffers = 1;
  /// Forward and backward in turn; needs stagesEach = 1. Else all forwards first.
  bool inTurn = true;
  /// The gradients of weights are actions of their own.
  bool weightsApart = false;
};

/// A program for each rank of the pipeline.
cleave::rt::Image pipeline(const PipelineShape &shape);
/// All stages in one program on the data ranks.
cleave::rt::Program wholeModel(const PipelineShape &shape);

cleave::rt::KernelTable pipelineKernels();

} // namespace tiny
