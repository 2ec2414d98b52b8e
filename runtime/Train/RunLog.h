// What a run tells while it goes: JSON lines in the `--log` file, a progress line
// on a terminal. Only rank 0 has one. The file is written line by line and
// flushed, so that a killed run leaves whole lines; a resumed run appends.
#pragma once

#include "runtime/Base/Json.h"
#include "runtime/Base/Status.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace cleave::rt {

/// One training step.
struct StepReport {
  /// From 1.
  uint64_t step = 0;
  /// Before the update, mean over the valid tokens of the global batch.
  double loss = 0;
  /// What was differentiated, where that is more than the loss.
  std::optional<double> objective;
  /// Before clipping.
  std::optional<double> gradientNorm;
  double learningRate = 0;
  /// Trained on since step 1.
  uint64_t tokens = 0;
  double tokensPerSecond = 0;
  /// Since the process started, in seconds.
  double time = 0;
};

class RunLog {
public:
  /// Without a path only the progress line; `terminal` is null or standard error
  /// if that is a terminal. `log.write_failed` if the file can't be opened.
  static StatusOr<RunLog> open(const std::string &path, bool append, std::FILE *terminal);

  /// The first line: {"plan": …, "host": …}.
  Status begin(const JsonValue &plan, const JsonValue &host);
  Status step(const StepReport &report, uint64_t steps);
  /// {"step", "eval_loss", "eval_tokens", "time"}.
  Status evaluation(uint64_t step, double loss, uint64_t tokens, double time);
  /// Ends the progress line, if there is one.
  void endProgress();

private:
  struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };

  Status writeLine(const std::string &line);

  std::unique_ptr<std::FILE, Close> file;
  std::string path;
  std::FILE *terminal = nullptr;
  bool inProgress = false;
};

} // namespace cleave::rt
