// Log, progress line, summary.
#include "runtime/Train/Metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

namespace cleave::rt {

namespace {

const char *const writeFailed = "log.write_failed";

StatusOr<FileDescriptor> openLog(const std::string &path, int flags) {
  FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0644));
  if (!file.valid())
    return systemError(writeFailed, fmt::format("cannot open the log '{}'", path), errno);
  return file;
}

/// True for a whole line of a step that the resumed run has behind it.
bool isKept(std::string_view line, uint64_t lastStep) {
  const StatusOr<JsonValue> value = parseJson(line);
  if (!value.ok() || !value->isObject())
    return false;
  const JsonValue *step = value->find("step");
  return !step || (step->isInteger() && step->integer() >= 0 &&
                   static_cast<uint64_t>(step->integer()) <= lastStep);
}

/// "950", "3.4k", "12.0M"
std::string shortRate(double perSecond) {
  if (perSecond >= 1e6)
    return fmt::format("{:.1f}M", perSecond / 1e6);
  if (perSecond >= 1e3)
    return fmt::format("{:.1f}k", perSecond / 1e3);
  return fmt::format("{:.0f}", perSecond);
}

/// "2:05", "1:02:05"
std::string clockText(double seconds) {
  const auto whole = static_cast<uint64_t>(std::clamp(seconds, 0.0, 1e9));
  const uint64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  if (hours > 0)
    return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
  return fmt::format("{}:{:02}", minutes, rest);
}

std::string megabytes(uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

} // namespace

StatusOr<MetricsLog> MetricsLog::create(const std::string &path) {
  MetricsLog log;
  log.path = path;
  CLEAVE_RT_ASSIGN_OR_RETURN(log.file, openLog(path, O_TRUNC));
  return log;
}

StatusOr<MetricsLog> MetricsLog::resume(const std::string &path, uint64_t lastStep) {
  std::error_code ignored;
  // Devices and pipes keep no lines to go on from.
  if (!std::filesystem::is_regular_file(path, ignored))
    return create(path);
  MetricsLog log;
  log.path = path;
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string text, readWholeFile(path));
  CLEAVE_RT_ASSIGN_OR_RETURN(AtomicFileWriter kept, AtomicFileWriter::create(path, writeFailed));
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos)
      break;
    if (isKept(rest.substr(0, end), lastStep)) {
      CLEAVE_RT_RETURN_IF_ERROR(kept.append(rest.substr(0, end + 1)));
      log.hasHeader = true;
    }
    rest.remove_prefix(end + 1);
  }
  CLEAVE_RT_RETURN_IF_ERROR(kept.commit());
  CLEAVE_RT_ASSIGN_OR_RETURN(log.file, openLog(path, 0));
  return log;
}

Status MetricsLog::writeLine(std::string line) {
  if (!file.valid())
    return Status::success();
  line += '\n';
  return writeFully(file.get(), std::as_bytes(std::span(line.data(), line.size())), path,
                    writeFailed);
}

Status MetricsLog::writeHeader(const JsonValue &plan, const JsonValue &host) {
  if (hasHeader)
    return Status::success();
  hasHeader = true;
  JsonWriter out;
  out.beginObject().key("plan").value(plan).key("host").value(host).endObject();
  return writeLine(out.take());
}

Status MetricsLog::write(const StepMetrics &metrics) {
  JsonWriter out;
  out.beginObject().key("step").value(metrics.step).key("loss").value(metrics.loss);
  if (metrics.objective)
    out.key("objective").value(*metrics.objective);
  out.key("grad_norm").value(metrics.gradNorm).key("lr").value(metrics.learningRate);
  out.key("tokens").value(metrics.tokens).key("tokens_per_s").value(metrics.tokensPerSecond);
  out.key("time").value(metrics.seconds).endObject();
  return writeLine(out.take());
}

Status MetricsLog::write(const EvalMetrics &metrics) {
  JsonWriter out;
  out.beginObject().key("step").value(metrics.step).key("eval_loss").value(metrics.loss);
  out.key("eval_tokens").value(metrics.tokens).endObject();
  return writeLine(out.take());
}

Status MetricsLog::writeTraffic(uint64_t step, uint64_t steps, const JsonValue &ranks) {
  JsonWriter out;
  out.beginObject().key("step").value(step).key("traffic").beginObject();
  out.key("steps").value(steps).key("ranks").value(ranks).endObject().endObject();
  return writeLine(out.take());
}

Status MetricsLog::writeSummary(uint64_t step, const RunFigures &figures) {
  JsonWriter out;
  const auto put = [&out](const char *key, const auto &value) {
    out.key(key);
    value ? out.value(*value) : out.null();
  };
  out.beginObject().key("step").value(step).key("summary").beginObject();
  out.key("steps").value(figures.steps);
  put("step_time", figures.stepSeconds);
  put("predicted_step_time", figures.predictedStepSeconds);
  if (figures.crowded) {
    out.key("crowded").beginObject().key("ranks").value(figures.crowded->ranks);
    out.key("cores").value(figures.crowded->cores).endObject();
  }
  put("peak_bytes", figures.peakBytes);
  put("predicted_bytes", figures.predictedBytes);
  out.endObject().endObject();
  return writeLine(out.take());
}

ProgressLine::ProgressLine(int descriptor, bool isTerminal, uint64_t totalSteps)
    : descriptor(descriptor), isTerminal(isTerminal), totalSteps(totalSteps) {}

std::string ProgressLine::text(const StepMetrics &metrics, uint64_t totalSteps,
                               double secondsPerStep) {
  std::string line = fmt::format("step {}/{}  loss {:.4f}  norm {:.3g}  lr {:.2e}  {} tok/s",
                                 metrics.step, totalSteps, metrics.loss, metrics.gradNorm,
                                 metrics.learningRate, shortRate(metrics.tokensPerSecond));
  if (metrics.step < totalSteps)
    line += fmt::format("  left {}",
                        clockText(secondsPerStep * static_cast<double>(totalSteps - metrics.step)));
  return line;
}

void ProgressLine::put(const std::string &text) {
  // A progress line that can't be shown is no reason to stop a run.
  [[maybe_unused]] const ssize_t written = ::write(descriptor, text.data(), text.size());
}

void ProgressLine::update(const StepMetrics &metrics) {
  const bool isFirst = firstStep == 0;
  if (isFirst) {
    firstStep = metrics.step;
    firstSeconds = metrics.seconds;
  }
  const double interval = isTerminal ? 0.1 : 10.0;
  const bool due = metrics.seconds - shownAt >= interval;
  if (!due && !isFirst && metrics.step != totalSteps)
    return;
  shownAt = metrics.seconds;
  // The first step is left out of the pace: it touches all memory anew.
  const double pace =
      isFirst ? metrics.seconds
              : (metrics.seconds - firstSeconds) / static_cast<double>(metrics.step - firstStep);
  std::string line = text(metrics, totalSteps, pace);
  if (!isTerminal) {
    put(line + "\n");
    return;
  }
  // Blanks wipe what a longer line before left behind.
  const size_t width = line.size();
  line.resize(std::max(width, shownWidth), ' ');
  shownWidth = width;
  lineOpen = true;
  put("\r" + line);
}

void ProgressLine::evaluated(const EvalMetrics &metrics) {
  finish();
  put(fmt::format("step {}/{}  evaluation loss {:.4f} over {} tokens\n", metrics.step, totalSteps,
                  metrics.loss, metrics.tokens));
}

void ProgressLine::finish() {
  if (lineOpen)
    put("\n");
  lineOpen = false;
  shownWidth = 0;
}

void RunSummary::add(const StepMetrics &metrics) {
  if (!first)
    first = metrics;
  last = metrics;
  inSteps += metrics.stepSeconds;
}

void RunSummary::setMemory(std::optional<uint64_t> predictedBytes, uint64_t measuredBytes) {
  predictedMemory = predictedBytes;
  measuredMemory = measuredBytes;
}

double RunSummary::tokensPerSecond() const {
  if (!first)
    return 0;
  if (last->step == first->step)
    return first->tokensPerSecond;
  return static_cast<double>(last->tokens - first->tokens) / (last->seconds - first->seconds);
}

RunFigures RunSummary::figures() const {
  RunFigures out;
  out.predictedStepSeconds = predictedStep;
  if (predictedStep)
    out.crowded = crowdedCores;
  out.predictedBytes = predictedMemory;
  if (measuredMemory > 0)
    out.peakBytes = measuredMemory;
  if (!first)
    return out;
  out.steps = last->step - first->step + 1;
  const double seconds = out.steps == 1
                             ? inSteps
                             : (inSteps - first->stepSeconds) / static_cast<double>(out.steps - 1);
  if (seconds > 0)
    out.stepSeconds = seconds;
  return out;
}

std::string RunSummary::text() const {
  std::string out;
  if (!first) {
    out = fmt::format("steps: 0 of {} done\n", requested);
  } else {
    out = fmt::format("steps: {} of {} done{}\n", last->step, requested,
                      complete() ? "" : " (stopped early)");
    out += fmt::format("loss: {:.4f} at step {}, {:.4f} at step {}\n", first->loss, first->step,
                       last->loss, last->step);
    out += fmt::format("speed: {} tokens/s; {} tokens so far, {:.1f} s\n",
                       shortRate(tokensPerSecond()), last->tokens, last->seconds);
  }
  if (const RunFigures found = figures(); found.stepSeconds) {
    out += fmt::format("step: {:.4g} s measured", *found.stepSeconds);
    // How far off a prediction for other machines is says nothing.
    if (found.crowded)
      out += fmt::format(", {:.4g} s predicted with a core for each rank; here {} ranks shared {} "
                         "core{}",
                         *predictedStep, found.crowded->ranks, found.crowded->cores,
                         found.crowded->cores == 1 ? "" : "s");
    else if (predictedStep)
      out += fmt::format(", {:.4g} s predicted ({:+.1f} %)", *predictedStep,
                         100 * (*predictedStep / *found.stepSeconds - 1));
    out += '\n';
  }
  if (measuredMemory > 0) {
    out += fmt::format("memory: {} measured at its peak", megabytes(measuredMemory));
    if (predictedMemory)
      out += fmt::format(", {} predicted", megabytes(*predictedMemory));
    out += '\n';
  }
  for (const std::string &line : remarks)
    out += line + "\n";
  return out;
}

} // namespace cleave::rt
