// The training loop of one rank. All ranks run the same loop in step: what a
// rank does depends only on the setup, its number and what it hears from the
// others in collectives, so every decision (stop, save, evaluate) is taken by
// all of them alike.
//
// The ranks of a process are its threads; `SharedRun` is what those share.
// Everything else of a rank is its own.
#pragma once

#include "runtime/Comm/Communicator.h"
#include "runtime/Data/TokenDataset.h"
#include "runtime/Exec/Executor.h"
#include "runtime/Schema/Image.h"
#include "runtime/Train/Batches.h"
#include "runtime/Train/Device.h"
#include "runtime/Train/Flags.h"
#include "runtime/Train/Metrics.h"
#include "runtime/Train/Saving.h"
#include "runtime/Train/Schedule.h"
#include "runtime/Train/StepTraffic.h"
#include "runtime/Train/Weights.h"

#include <chrono>
#include <functional>
#include <optional>

namespace cleave::rt {

/// Moments of a run, for tests that kill the process there.
struct TrainHooks {
  SaveHook save;
  /// After each step, on rank 0.
  std::function<void(uint64_t step)> step;
};

/// What stays as it is during a run.
struct RunSetup {
  const Image &image;
  KernelTable kernels;
  /// Null for a program of the processor.
  Device *device = nullptr;
  /// The place of this process's first rank among those of its machine.
  int64_t firstPlace = 0;
  const TrainFlags &flags;
  Recipe recipe;
  Schedule schedule;
  unsigned threads = 1;
  /// Of all processes, those that share the cores of this one.
  CrowdedCores cores{1, 1};
  int64_t processes = 1;
  /// Null with zero steps.
  const TokenDataset *data = nullptr;
  const TokenDataset *evalData = nullptr;
  /// Steps done before this run, and of the whole run.
  uint64_t firstStep = 0;
  uint64_t steps = 0;
  /// All of a checkpoint's state but step and samples.
  RunState state;
  /// Asked after each step, on the first rank of each process.
  std::function<bool()> stopRequested;
  TrainHooks hooks;
  std::chrono::steady_clock::time_point start;
};

/// What the run came to, as rank 0 saw it.
struct RunResult {
  /// On all processes.
  uint64_t stepsDone = 0;
  /// Step of the newest checkpoint.
  std::optional<uint64_t> savedStep;
  std::optional<EvalMetrics> evaluation;
  /// Of all ranks of this process.
  MemoryUse memory;
  std::vector<ProfileLine> profile;
  /// With --profile what the steps of rank 0 sent and received.
  std::vector<TrafficLine> traffic;
};

/// What the ranks of this process share. Between two barriers only its first rank
/// writes it, but for `memories`, `uses` and `traffic`, of which each rank writes its own.
/// Progress and summary are there in the process of rank 0.
struct SharedRun {
  /// Where parameters come from; freed once every rank has its blocks, since
  /// mapped files count as resident memory.
  std::optional<InitialWeights> weights;
  std::optional<Checkpoint> checkpoint;
  std::vector<const RankMemory *> memories;
  std::vector<MemoryUse> uses;
  /// What each rank here counted in its steps.
  std::vector<std::vector<TrafficLine>> traffic;
  MetricsLog log;
  std::optional<ProgressLine> progress;
  std::optional<RunSummary> summary;
  RunResult result;
};

/// Runs one rank from its first step to the end of the run (steps, saves,
/// evaluations, export). Kinds: those of its parts, and
/// `train.loss_not_finite` and `train.gradient_not_finite`, which name the step, and
/// `runtime.traffic_mismatch` at the end.
Status trainRank(const RunSetup &setup, SharedRun &shared, World &world);

} // namespace cleave::rt
