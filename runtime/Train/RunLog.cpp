// JSON lines and the progress line.
#include "runtime/Train/RunLog.h"

#include <fmt/format.h>

#include <cerrno>

namespace cleave::rt {

StatusOr<RunLog> RunLog::open(const std::string &path, bool append, std::FILE *terminal) {
  RunLog log;
  log.path = path;
  log.terminal = terminal;
  if (!path.empty()) {
    log.file.reset(std::fopen(path.c_str(), append ? "ae" : "we"));
    if (!log.file)
      return systemError("log.write_failed", fmt::format("cannot open the log \"{}\"", path),
                         errno);
  }
  return log;
}

Status RunLog::writeLine(const std::string &line) {
  if (!file)
    return {};
  if (std::fwrite(line.data(), 1, line.size(), file.get()) != line.size() ||
      std::fputc('\n', file.get()) == EOF || std::fflush(file.get()) != 0)
    return systemError("log.write_failed", fmt::format("cannot write to the log \"{}\"", path),
                       errno);
  return {};
}

Status RunLog::begin(const JsonValue &plan, const JsonValue &host) {
  JsonWriter out;
  out.beginObject().key("plan").value(plan).key("host").value(host).endObject();
  return writeLine(out.take());
}

Status RunLog::step(const StepReport &report, uint64_t steps) {
  JsonWriter out;
  out.beginObject();
  out.key("step").value(report.step).key("loss").value(report.loss);
  if (report.objective)
    out.key("objective").value(*report.objective);
  if (report.gradientNorm)
    out.key("grad_norm").value(*report.gradientNorm);
  out.key("lr").value(report.learningRate).key("tokens").value(report.tokens);
  out.key("tokens_per_s").value(report.tokensPerSecond).key("time").value(report.time);
  out.endObject();
  CLEAVE_RT_RETURN_IF_ERROR(writeLine(out.take()));
  if (terminal) {
    fmt::print(terminal, "\r\033[Kstep {}/{}  loss {:.4f}  {:.0f} tokens/s", report.step, steps,
               report.loss, report.tokensPerSecond);
    std::fflush(terminal);
    inProgress = true;
  }
  return {};
}

Status RunLog::evaluation(uint64_t step, double loss, uint64_t tokens, double time) {
  JsonWriter out;
  out.beginObject().key("step").value(step).key("eval_loss").value(loss);
  out.key("eval_tokens").value(tokens).key("time").value(time).endObject();
  return writeLine(out.take());
}

void RunLog::endProgress() {
  if (inProgress)
    fmt::print(terminal, "\n");
  inProgress = false;
}

} // namespace cleave::rt
