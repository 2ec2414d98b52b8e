// The log's lines, what a resumed log keeps, the progress line, the summary.
#include "runtime/Train/Metrics.h"

#include "test/Unit/Runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fcntl.h>
#include <sstream>
#include <unistd.h>

using namespace cleave::rt;

namespace {

StepMetrics metricsAt(uint64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 5.5 - 0.1 * static_cast<double>(step);
  metrics.gradNorm = 1.25;
  metrics.learningRate = 1e-3;
  metrics.tokens = 256 * step;
  metrics.tokensPerSecond = 1234.5;
  metrics.seconds = 0.5 * static_cast<double>(step);
  return metrics;
}

std::vector<JsonValue> linesOf(const std::string &path) {
  std::istringstream text(*readWholeFile(path));
  std::vector<JsonValue> lines;
  for (std::string line; std::getline(text, line);) {
    StatusOr<JsonValue> value = parseJson(line);
    EXPECT_TRUE(value.ok()) << line;
    lines.push_back(value.ok() ? *value : JsonValue());
  }
  return lines;
}

TEST(MetricsLog, WritesTheDocumentedKeys) {
  TemporaryFolder folder;
  StatusOr<MetricsLog> log = MetricsLog::create(folder.file("log"));
  ASSERT_TRUE(log.ok());
  ASSERT_TRUE(log->writeHeader(*parseJson("{\"dp\": 2}"), *parseJson("{\"cores\": 2}")).ok());
  ASSERT_TRUE(log->write(metricsAt(1)).ok());
  StepMetrics bad = metricsAt(2);
  bad.loss = NAN;
  bad.objective = 7.0;
  ASSERT_TRUE(log->write(bad).ok());
  ASSERT_TRUE(log->write(EvalMetrics{2, 5.25, 100}).ok());
  const std::vector<JsonValue> lines = linesOf(folder.file("log"));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].find("plan")->find("dp")->integer(), 2);
  EXPECT_EQ(lines[0].find("loss"), nullptr);
  std::vector<std::string> keys;
  for (const JsonMember &member : lines[1].members())
    keys.push_back(member.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"step", "loss", "grad_norm", "lr", "tokens",
                                            "tokens_per_s", "time"}));
  EXPECT_EQ(lines[1].find("loss")->number(), 5.4);
  EXPECT_EQ(lines[1].find("tokens")->integer(), 256);
  EXPECT_TRUE(lines[2].find("loss")->isNull());
  EXPECT_EQ(lines[2].find("objective")->number(), 7.0);
  EXPECT_EQ(lines[3].find("eval_loss")->number(), 5.25);
}

TEST(MetricsLog, AResumedLogHasEachStepOnce) {
  TemporaryFolder folder;
  const std::string path = folder.file("log");
  {
    StatusOr<MetricsLog> log = MetricsLog::create(path);
    ASSERT_TRUE(log->writeHeader(JsonValue(), JsonValue()).ok());
    for (uint64_t step = 1; step <= 8; ++step)
      ASSERT_TRUE(log->write(metricsAt(step)).ok());
  }
  // The run was killed in the middle of a line.
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND);
  ASSERT_EQ(::write(file, "{\"step\": 9, \"lo", 15), 15);
  ::close(file);
  StatusOr<MetricsLog> log = MetricsLog::resume(path, 5);
  ASSERT_TRUE(log.ok());
  ASSERT_TRUE(log->writeHeader(JsonValue(), JsonValue()).ok());
  for (uint64_t step = 6; step <= 10; ++step)
    ASSERT_TRUE(log->write(metricsAt(step)).ok());
  const std::vector<JsonValue> lines = linesOf(path);
  ASSERT_EQ(lines.size(), 11u);
  for (int64_t step = 1; step <= 10; ++step)
    EXPECT_EQ(lines[step].find("step")->integer(), step);
}

TEST(MetricsLog, NoPathWritesNothingAndBadPathsAreErrors) {
  MetricsLog none;
  EXPECT_TRUE(none.write(metricsAt(1)).ok());
  TemporaryFolder folder;
  EXPECT_EQ(MetricsLog::create(folder.file("no/log")).error().kind, "log.write_failed");
  EXPECT_TRUE(MetricsLog::resume(folder.file("new"), 3).ok());
}

/// What a ProgressLine writes to a pipe.
std::string shown(bool isTerminal, const std::vector<StepMetrics> &updates, uint64_t total) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  ProgressLine progress(ends[1], isTerminal, total);
  for (const StepMetrics &metrics : updates)
    progress.update(metrics);
  progress.finish();
  ::close(ends[1]);
  std::string text(100000, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(ends[0], text.data(), text.size()))));
  ::close(ends[0]);
  return text;
}

TEST(ProgressLine, SaysWhatMattersAndWhatIsLeft) {
  EXPECT_EQ(ProgressLine::text(metricsAt(12), 100, 1.5),
            "step 12/100  loss 4.3000  norm 1.25  lr 1.00e-03  1.2k tok/s  left 2:12");
  EXPECT_EQ(ProgressLine::text(metricsAt(100), 100, 1.5).find("left"), std::string::npos);
}

TEST(ProgressLine, IsRewrittenOnATerminalButNotTooOften) {
  std::vector<StepMetrics> updates;
  for (uint64_t step = 1; step <= 1000; ++step) {
    updates.push_back(metricsAt(step));
    updates.back().seconds = 0.001 * static_cast<double>(step);
  }
  const std::string text = shown(true, updates, 1000);
  const auto returns = std::count(text.begin(), text.end(), '\r');
  EXPECT_GE(returns, 10);
  EXPECT_LE(returns, 12);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_NE(text.find("step 1/1000"), std::string::npos);
  EXPECT_NE(text.find("step 1000/1000"), std::string::npos);
}

TEST(ProgressLine, ElsewhereAPlainLineNowAndThen) {
  std::vector<StepMetrics> updates;
  for (uint64_t step = 1; step <= 60; ++step)
    updates.push_back(metricsAt(step)); // half a second each
  const std::string text = shown(false, updates, 60);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 0);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4); // steps 1, 21, 41, 60
}

TEST(ProgressLine, AnEvaluationHasALineOfItsOwn) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ProgressLine progress(ends[1], /*isTerminal=*/true, 60);
  progress.update(metricsAt(1));
  progress.evaluated({1, 3.25, 512});
  progress.finish();
  ::close(ends[1]);
  std::string text(1000, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(ends[0], text.data(), text.size()))));
  ::close(ends[0]);
  EXPECT_TRUE(text.ends_with("\nstep 1/60  evaluation loss 3.2500 over 512 tokens\n")) << text;
}

TEST(RunSummary, CountsWithoutTheFirstStep) {
  RunSummary summary(4);
  EXPECT_EQ(summary.text(), "steps: 0 of 4 done\n");
  EXPECT_FALSE(summary.complete());
  for (uint64_t step = 1; step <= 4; ++step) {
    StepMetrics metrics = metricsAt(step);
    metrics.seconds = 10 + static_cast<double>(step); // a slow first step
    metrics.stepSeconds = step == 1 ? 10 : 0.25;      // the rest saves
    summary.add(metrics);
  }
  EXPECT_TRUE(summary.complete());
  EXPECT_DOUBLE_EQ(summary.tokensPerSecond(), 256.0);
  summary.setMemory(2'000'000, 2'500'000);
  summary.setPredictedStep(0.2);
  summary.remark("data: 10 sequences");
  EXPECT_EQ(summary.text(), "steps: 4 of 4 done\n"
                            "loss: 5.4000 at step 1, 5.1000 at step 4\n"
                            "speed: 256 tokens/s; 1024 tokens so far, 14.0 s\n"
                            "step: 0.25 s measured, 0.2 s predicted (-20.0 %)\n"
                            "memory: 2.5 MB measured at its peak, 2.0 MB predicted\n"
                            "data: 10 sequences\n");
  // Ranks that share cores are slower than predicted, by no mistake of the prediction.
  summary.setPredictedStep(0.2, CrowdedCores{4, 2});
  EXPECT_NE(summary.text().find("step: 0.25 s measured, 0.2 s predicted with a core for each rank; "
                                "here 4 ranks shared 2 cores\n"),
            std::string::npos)
      << summary.text();
  EXPECT_EQ(summary.figures().crowded->ranks, 4);
  summary.setPredictedStep(std::nullopt, CrowdedCores{4, 2});
  EXPECT_FALSE(summary.figures().crowded);
}

} // namespace
