// One run of a training binary: what flags and files make of the image, checked
// before memory is allocated, then a world and its training.
#pragma once

#include "runtime/Base/Machine.h"
#include "runtime/Comm/Processes/ProcessTeam.h"
#include "runtime/Train/Launch.h"
#include "runtime/Train/StopSignals.h"
#include "runtime/Train/Trainer.h"

namespace cleave::rt {

/// A run being set up; what `RunSetup` refers to lives here.
class Run {
public:
  /// `team` is null for a process that runs alone. `launch` is what brought it.
  Run(const TrainFlags &flags, const ProgramKernels &kernels, const TrainHooks &hooks,
      const std::optional<Launch> &launch, ProcessTeam *team)
      : flags(flags), kernels(kernels), hooks(hooks), launch(launch), team(team),
        start(std::chrono::steady_clock::now()) {}

  /// Everything that can be refused before memory is allocated. All processes of a
  /// team prepare the same run, or it fails with `runtime.program_mismatch` or
  /// `runtime.settings_mismatch`.
  Status prepare(std::string_view text, Image given);
  /// Trains. `signals` were held back before any thread was started.
  StatusOr<ExitCode> execute(StopSignals &signals);

private:
  Status openLog();
  Status openData();
  Status openCheckpoint();
  Status holdCheckpoints();
  Status checkFolders();
  Status openWeights();
  Status createSchedule();
  Status agreeOnProgram(std::string_view text);
  Status agreeOnSettings();
  Status agreeOnFolder();
  StatusOr<std::unique_ptr<HostedRanks>> createWorld();
  uint64_t steps() const { return *flags.steps; }
  /// This process does what a run does once.
  bool leads() const { return !team || team->leads(); }
  int64_t processes() const { return team ? team->processes() : 1; }
  int64_t ranksHere() const { return program().mesh.world() / processes(); }
  void note(const std::string &text) const;

  const TrainFlags &flags;
  const ProgramKernels kernels;
  const TrainHooks &hooks;
  const std::optional<Launch> &launch;
  ProcessTeam *const team;
  const std::chrono::steady_clock::time_point start;
  MachineInfo machine;
  Image image;
  /// For what all programs have in common.
  const Program &program() const { return image.first(); }
  /// For a program of a GPU.
  std::unique_ptr<Device> device;
  Recipe recipe;
  std::optional<TokenDataset> data, evalData;
  std::optional<Schedule> schedule;
  RunState state;
  uint64_t firstStep = 0;
  unsigned threads = 1;
  CrowdedCores cores{1, 1};
  /// Keeps other runs out of the checkpoint folder while this one is there.
  std::optional<FileDescriptor> heldFolder;
  SharedRun shared;
};

} // namespace cleave::rt
