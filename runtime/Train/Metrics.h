// What a run tells while it goes on: a log of JSON lines for programs and a
// progress line for people. Lines of the log are written whole, one system call
// each, so a killed run leaves a readable log. Only rank 0 has these objects.
//
//   {"plan": …, "host": …}                                   first line
//   {"step": 1, "loss": …, "grad_norm": …, "lr": …, "tokens": …,
//    "tokens_per_s": …, "time": …}                           one per step
//   {"step": 10, "eval_loss": …, "eval_tokens": …}           one per evaluation
//   {"step": 10, "traffic": {"steps": …, "ranks": …}}        at the end, with --profile
//   {"step": 10, "summary": {"steps": …, "step_time": …,
//    "predicted_step_time": …, "peak_bytes": …,
//    "predicted_bytes": …}}                                  last
//
// A loss that is not finite is written as null.
#pragma once

#include "runtime/Base/Files.h"
#include "runtime/Base/Json.h"

#include <cstdint>
#include <optional>
#include <string>

namespace cleave::rt {

struct StepMetrics {
  /// From 1.
  uint64_t step = 0;
  /// Cross entropy before the update, mean over the valid tokens of the global
  /// batch, in nats.
  double loss = 0;
  /// What is minimised, where that is not the loss.
  std::optional<double> objective;
  /// Before clipping.
  double gradNorm = 0;
  double learningRate = 0;
  /// Targets trained on so far, all steps and ranks.
  uint64_t tokens = 0;
  double tokensPerSecond = 0;
  /// Of this step alone: not evaluations nor saves between steps.
  double stepSeconds = 0;
  /// Since the start of this process's run.
  double seconds = 0;
};

struct EvalMetrics {
  uint64_t step = 0;
  double loss = 0;
  uint64_t tokens = 0;
};

/// More ranks than the cores that they share.
struct CrowdedCores {
  int64_t ranks = 0, cores = 0;
};

/// What a run took beside what the compiler expected; absent: not measured, not predicted.
struct RunFigures {
  /// Steps of this run.
  uint64_t steps = 0;
  /// Mean of them without the first one, which warms up, where there are more; in seconds.
  std::optional<double> stepSeconds, predictedStepSeconds;
  /// Where ranks had less than a core each, which the prediction takes for granted: how many of
  /// them shared how many cores.
  std::optional<CrowdedCores> crowded;
  /// Of the process, at its peak; predicted for the ranks in it.
  std::optional<uint64_t> peakBytes, predictedBytes;
};

class MetricsLog {
public:
  /// A log that writes nothing.
  MetricsLog() = default;
  /// Starts a new file. Write failures are `log.write_failed`.
  static StatusOr<MetricsLog> create(const std::string &path);
  /// Goes on with the file of a run that is resumed after `lastStep`: lines of
  /// later steps, and a line cut by a kill, are dropped. A missing file is
  /// created.
  static StatusOr<MetricsLog> resume(const std::string &path, uint64_t lastStep);

  /// The first line; nothing if the file of a resumed run has one already.
  Status writeHeader(const JsonValue &plan, const JsonValue &host);
  Status write(const StepMetrics &metrics);
  Status write(const EvalMetrics &metrics);
  /// What the ranks of this process exchanged in the last `steps` steps, the last of which was
  /// `step`.
  Status writeTraffic(uint64_t step, uint64_t steps, const JsonValue &ranks);
  /// The end of a run, after `step`.
  Status writeSummary(uint64_t step, const RunFigures &figures);

private:
  Status writeLine(std::string line);
  FileDescriptor file;
  std::string path;
  bool hasHeader = false;
};

/// One line on a terminal, rewritten at most ten times a second; on anything
/// else a plain line every ten seconds. Always shows the first and last step.
class ProgressLine {
public:
  /// `descriptor` is usually standard error; not owned. `totalSteps` is the
  /// step at which the run ends.
  ProgressLine(int descriptor, bool isTerminal, uint64_t totalSteps);

  void update(const StepMetrics &metrics);
  /// A line of its own that stays.
  void evaluated(const EvalMetrics &metrics);
  /// Leaves the line standing, so that other output starts below it.
  void finish();
  /// "step 12/100  loss 5.4321  norm 1.23  lr 1.0e-03  3.4k tok/s  left 2:05"
  static std::string text(const StepMetrics &metrics, uint64_t totalSteps, double secondsPerStep);

private:
  void put(const std::string &text);
  int descriptor;
  bool isTerminal;
  uint64_t totalSteps;
  uint64_t firstStep = 0;
  double firstSeconds = 0;
  double shownAt = -1e9;
  size_t shownWidth = 0;
  bool lineOpen = false;
};

/// What is printed at the end of a run.
class RunSummary {
public:
  explicit RunSummary(uint64_t stepsRequested) : requested(stepsRequested) {}

  void add(const StepMetrics &metrics);
  void setMemory(std::optional<uint64_t> predictedBytes, uint64_t measuredBytes);
  /// `seconds`: with a core for each rank; `crowded`: where they had less.
  void setPredictedStep(std::optional<double> seconds, std::optional<CrowdedCores> crowded = {}) {
    predictedStep = seconds;
    crowdedCores = crowded;
  }
  /// A further line, as "data: 10 sequences, 2 tokens unused".
  void remark(std::string line) { remarks.push_back(std::move(line)); }

  /// True if the last requested step was done.
  bool complete() const { return last && last->step >= requested; }
  /// Tokens per second without the first step, which warms up; of all steps if
  /// there is only one. 0 before any.
  double tokensPerSecond() const;
  RunFigures figures() const;
  std::string text() const;

private:
  uint64_t requested;
  std::optional<StepMetrics> first;
  std::optional<StepMetrics> last;
  /// Seconds in steps, the first one included.
  double inSteps = 0;
  std::optional<double> predictedStep;
  std::optional<CrowdedCores> crowdedCores;
  std::optional<uint64_t> predictedMemory;
  uint64_t measuredMemory = 0;
  std::vector<std::string> remarks;
};

} // namespace cleave::rt
