// A model trained in stages is the model trained whole: losses, weights, checkpoints
// in both directions, evaluation, export; and a lost rank ends the run.
#include "TinyPipeline.h"
#include "TinyProgram.h"
#include "TrainRun.h"

#include "runtime/Base/Files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

using namespace cleave::rt;

namespace tiny {
void PrintTo(const PipelineShape &shape, std::ostream *out) {
  *out << shape.pipelineRanks << " ranks with " << shape.stagesEach << " stages and "
       << shape.dataRanks << " data ranks, " << shape.microBatches << " micro-batches"
       << (shape.inTurn ? ", in turn" : "") << (shape.weightsApart ? ", weights apart" : "");
}
} // namespace tiny

namespace {

std::vector<std::string> tensorsOf(const tiny::PipelineShape &shape) {
  std::vector<std::string> names{"shrink.weight", "tie.weight"};
  for (int64_t stage = 0; stage < shape.pipelineRanks * shape.stagesEach; ++stage)
    names.push_back("layers." + std::to_string(stage) + ".weight");
  return names;
}

void expectClose(double a, double b, const std::string &what) {
  EXPECT_TRUE(std::abs(a - b) <= 2e-6 * std::max(1.0, std::abs(b)))
      << what << ": " << a << ", " << b;
}

void expectSameLog(const TrainRun &run, const std::string &a, const std::string &b, int64_t first,
                   int64_t last) {
  auto logA = run.log(a), logB = run.log(b);
  for (int64_t step = first; step <= last; ++step)
    for (const char *key : {"loss", "grad_norm"}) {
      ASSERT_TRUE(logA[step].contains(key) && logB[step].contains(key)) << step << " " << key;
      expectClose(logA[step][key], logB[step][key], "step " + std::to_string(step) + " " + key);
    }
}

void expectSameWeights(const TrainRun &run, const tiny::PipelineShape &shape, const std::string &a,
                       const std::string &b) {
  for (const std::string &name : tensorsOf(shape)) {
    const std::vector<float> left = run.tensor(a, name), right = run.tensor(b, name);
    ASSERT_EQ(left.size(), right.size()) << name;
    for (size_t i = 0; i < left.size(); ++i)
      expectClose(left[i], right[i], name);
  }
}

class Stages : public testing::TestWithParam<tiny::PipelineShape> {};

TEST_P(Stages, TrainAsTheWholeModelDoes) {
  TrainRun run(6 * 100 + 1, tiny::pipelineKernels());
  const Image stages = tiny::pipeline(GetParam());
  ASSERT_TRUE(validate(stages).ok()) << renderText(validate(stages).error());
  const Program whole = tiny::wholeModel(GetParam());
  for (auto [image, name] : {std::pair(Image(whole), "whole"), std::pair(stages, "stages")})
    ASSERT_EQ(run(image, {"--steps", "10", "--log", run.file(std::string(name) + "-log"),
                          "--eval-data", run.file("tokens.bin"), "--eval-every", "4",
                          "--eval-sequences", "13", "--export", run.file(name)}),
              0);
  expectSameLog(run, "whole-log", "stages-log", 1, 10);
  expectSameWeights(run, GetParam(), "whole", "stages");
  auto log = run.log("stages-log"), expected = run.log("whole-log");
  EXPECT_LT(log[10]["loss"], log[1]["loss"]);
  for (int64_t step : {4, 8, 10}) {
    ASSERT_TRUE(log[step].contains("eval_loss") && expected[step].contains("eval_loss"));
    expectClose(log[step]["eval_loss"], expected[step]["eval_loss"], "evaluation");
  }
}

/// Whatever wrote a checkpoint, the other goes on from it; and so does another split.
TEST_P(Stages, ReadWhatTheWholeModelSavedAndTheOtherWayRound) {
  TrainRun run(6 * 100 + 1, tiny::pipelineKernels());
  const Image stages = tiny::pipeline(GetParam()), whole = tiny::wholeModel(GetParam());
  ASSERT_EQ(run(whole, {"--steps", "9", "--log", run.file("straight"), "--export",
                        run.file("straight-out")}),
            0);
  const std::vector<std::pair<const Image *, const Image *>> orders = {
      {&whole, &stages}, {&stages, &whole}, {&stages, &stages}};
  for (size_t i = 0; i < orders.size(); ++i) {
    const std::string save = run.file("save" + std::to_string(i)), log = "log" + std::to_string(i),
                      out = "out" + std::to_string(i);
    ASSERT_EQ(run(*orders[i].first, {"--steps", "4", "--checkpoint", save, "--log", run.file(log)}),
              0);
    ASSERT_EQ(run(*orders[i].second, {"--steps", "9", "--checkpoint", save, "--resume", "--log",
                                      run.file(log), "--export", run.file(out)}),
              0);
    expectSameLog(run, "straight", log, 1, 9);
    expectSameWeights(run, GetParam(), "straight-out", out);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Pipelines, Stages,
    testing::Values(tiny::PipelineShape{},
                    tiny::PipelineShape{.buffers = 4, .inTurn = false, .weightsApart = true},
                    tiny::PipelineShape{.dataRanks = 2, .pipelineRanks = 3, .microBatch = 1},
                    tiny::PipelineShape{.stagesEach = 2, .buffers = 4, .inTurn = false},
                    tiny::PipelineShape{
                        .pipelineRanks = 4, .microBatches = 7, .weightsApart = true}));

TEST(Pipeline, TakesWeightsFromFilesByEitherName) {
  TrainRun run(6 * 100 + 1, tiny::pipelineKernels());
  const tiny::PipelineShape shape;
  const Image stages = tiny::pipeline(shape);
  ASSERT_EQ(run(stages, {"--steps", "3", "--export", run.file("a")}), 0);
  ASSERT_EQ(run(stages, {"--steps", "0", "--init", run.file("a"), "--export", run.file("b")}), 0);
  for (const std::string &name : tensorsOf(shape))
    EXPECT_EQ(run.tensor("a", name), run.tensor("b", name)) << name;
}

TEST(Pipeline, WeightsOfEveryStageAreAskedFor) {
  TrainRun run(6 * 100 + 1, tiny::pipelineKernels());
  // Of a model with a stage less.
  ASSERT_EQ(
      run(tiny::wholeModel({.pipelineRanks = 1}), {"--steps", "0", "--export", run.file("a")}), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(tiny::pipeline({}), {"--steps", "1", "--init", run.file("a")}), 2);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("error[import.missing_tensor]: the weights lack tensor \"layers.1.weight\""),
            std::string::npos)
      << text;
  // And of one with a stage more: what is not used is said once.
  ASSERT_EQ(
      run(tiny::wholeModel({.pipelineRanks = 3}), {"--steps", "0", "--export", run.file("b")}), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(tiny::pipeline({}), {"--steps", "1", "--init", run.file("b")}), 0);
  const std::string note = testing::internal::GetCapturedStderr();
  EXPECT_NE(note.find("note: 1 tensor of"), std::string::npos) << note;
  EXPECT_NE(note.find("\"layers.2.weight\""), std::string::npos) << note;
}

TEST(Pipeline, SaysWhatItIsMadeOf) {
  TrainRun run(6 * 100 + 1, tiny::pipelineKernels());
  testing::internal::CaptureStdout();
  ASSERT_EQ(run(tiny::pipeline({}), {"--info"}), 0);
  const std::string text = testing::internal::GetCapturedStdout();
  for (const char *part :
       {"10 in 4 tensors", "stages         2 on 2 ranks, predicted at most 5.2 MB a rank",
        "index 0: stage 0 in 2 slots", "forward of stage 1 2 commands"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(Pipeline, ProfilesStagesApart) {
  TrainRun run(6 * 100 + 1, tiny::pipelineKernels());
  testing::internal::CaptureStdout();
  ASSERT_EQ(run(tiny::pipeline({}), {"--steps", "2", "--profile"}), 0);
  const std::string text = testing::internal::GetCapturedStdout();
  // 2 steps of 4 micro-batches.
  EXPECT_NE(text.find("affine of stage 0                               8"), std::string::npos)
      << text;
}

TEST(Pipeline, AFailureInAStageIsNamed) {
  TrainRun run(6 * 100 + 1, tiny::pipelineKernels());
  Image stages = tiny::pipeline({});
  auto &backward = stages.programs[1].pipeline->stages[0].entry(StageEntry::Backward);
  std::get<KernelCommand>(backward[0].what).symbol = "fail_late";
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(stages, {"--steps", "2"}), 70);
  const std::string text = testing::internal::GetCapturedStderr();
  for (const char *part : {"broken kernel", "on rank 1 in backward of stage 1, micro-batch 2",
                           "on rank 1, backward of stage 1 command 0"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

} // namespace
