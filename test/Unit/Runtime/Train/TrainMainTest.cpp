// Whole runs of the tiny program: numbers against float64, the same bits for any
// threads, resumes after kills, clean stops, export and import.
#include "TrainRun.h"

#include "runtime/Base/Files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

using namespace cleave::rt;

namespace {

/// Loss and norm of every step, and the final line, equal in every bit.
void expectSameRun(const TrainRun &run, const std::string &logA, const std::string &logB,
                   int64_t steps) {
  auto a = run.log(logA), b = run.log(logB);
  for (int64_t step = 1; step <= steps; ++step) {
    ASSERT_TRUE(a.contains(step) && b.contains(step)) << step;
    EXPECT_EQ(a[step]["loss"], b[step]["loss"]) << step;
    EXPECT_EQ(a[step]["grad_norm"], b[step]["grad_norm"]) << step;
  }
}

TEST(TrainMain, LearnsAsTheReferenceDoesOnAnyRanksAndMicroBatches) {
  TrainRun run;
  ASSERT_EQ(run(tiny::program(1, 4, 1), {"--steps", "0", "--export", run.file("start")}), 0);
  const std::vector<float> start = run.tensor("start", "line.weight");
  const tiny::Reference expected = tiny::reference(run.tokens(), 4, 15, start[0], start[1], 0.01);
  const Program programs[] = {tiny::program(1, 4, 1), tiny::program(1, 1, 4),
                              tiny::program(2, 2, 1), tiny::program(2, 1, 2),
                              tiny::program(4, 1, 1)};
  for (const Program &program : programs) {
    ASSERT_EQ(run(program, {"--steps", "15", "--log", run.file("log"), "--export", run.file("out"),
                            "--threads", "1"}),
              0);
    auto log = run.log();
    ASSERT_EQ(log.size(), 15u);
    for (int64_t step = 1; step <= 15; ++step) {
      EXPECT_TRUE(std::abs(log[step]["loss"] - expected.loss[step - 1]) <= 1e-6) << step;
      EXPECT_TRUE(std::abs(log[step]["grad_norm"] - expected.norm[step - 1]) <= 2e-6) << step;
      EXPECT_EQ(log[step]["lr"], 0.01);
      EXPECT_EQ(log[step]["tokens"], static_cast<double>(step * 24));
      EXPECT_GT(log[step]["tokens_per_s"], 0);
    }
    EXPECT_LT(log[15]["loss"], log[1]["loss"]);
    const std::vector<float> line = run.tensor("out", "line.weight");
    EXPECT_TRUE(std::abs(line[0] - expected.a) <= 1e-5 && std::abs(line[1] - expected.b) <= 1e-5);
    // The cut vector: exact rows, no padding, decayed 15 times.
    const std::vector<float> before = run.tensor("start", "shrink.weight");
    const std::vector<float> after = run.tensor("out", "shrink.weight");
    ASSERT_EQ(after.size(), static_cast<size_t>(tiny::shrinkSize));
    for (size_t i = 0; i < after.size(); ++i)
      EXPECT_NEAR(after[i], before[i] * std::pow(1 - 0.01 * 0.1, 15), 1e-6);
    EXPECT_EQ(readWholeFile(run.file("out/config.json")).value(), program.configText);
  }
}

TEST(TrainMain, ThreadsChangeNoBit) {
  TrainRun run;
  for (int64_t ranks : {1, 2}) {
    const Program program = tiny::program(ranks, 4, 2);
    ASSERT_EQ(run(program, {"--steps", "8", "--threads", "1", "--log", run.file("one")}), 0);
    ASSERT_EQ(run(program, {"--steps", "8", "--threads", "3", "--log", run.file("three")}), 0);
    expectSameRun(run, "one", "three", 8);
  }
}

TEST(TrainMain, ExportsWhatItImports) {
  TrainRun run;
  const Program two = tiny::program(2, 2, 1), one = tiny::program(1, 4, 1);
  ASSERT_EQ(run(two, {"--steps", "5", "--export", run.file("a")}), 0);
  ASSERT_EQ(run(one, {"--steps", "0", "--init", run.file("a"), "--export", run.file("b")}), 0);
  for (const char *name : {"line.weight", "shrink.weight"})
    EXPECT_EQ(run.tensor("a", name), run.tensor("b", name));
  ASSERT_EQ(run(one, {"--steps", "0", "--init", run.file("a"), "--export", run.file("c"),
                      "--export-dtype", "bf16"}),
            0);
  const std::vector<float> rounded = run.tensor("c", "line.weight");
  const std::vector<float> exact = run.tensor("a", "line.weight");
  EXPECT_NE(rounded, exact);
  EXPECT_TRUE(std::abs(rounded[0] - exact[0]) <= std::abs(exact[0]) / 256);
}

TEST(TrainMain, ResumesBitwiseOnTheSameLayoutAndCloselyOnAnother) {
  TrainRun run;
  const Program program = tiny::program(2, 1, 2);
  ASSERT_EQ(run(program,
                {"--steps", "12", "--log", run.file("whole"), "--export", run.file("whole-out")}),
            0);
  ASSERT_EQ(
      run(program, {"--steps", "5", "--log", run.file("parts"), "--checkpoint", run.file("save")}),
      0);
  std::filesystem::copy(run.file("save"), run.file("copy"),
                        std::filesystem::copy_options::recursive);
  ASSERT_EQ(run(program, {"--steps", "12", "--log", run.file("parts"), "--checkpoint",
                          run.file("save"), "--resume", "--export", run.file("parts-out")}),
            0);
  expectSameRun(run, "whole", "parts", 12);
  EXPECT_EQ(run.tensor("whole-out", "line.weight"), run.tensor("parts-out", "line.weight"));
  EXPECT_EQ(run.tensor("whole-out", "shrink.weight"), run.tensor("parts-out", "shrink.weight"));

  ASSERT_EQ(run(tiny::program(1, 4, 1), {"--steps", "12", "--log", run.file("other"),
                                         "--checkpoint", run.file("copy"), "--resume"}),
            0);
  auto whole = run.log("whole"), other = run.log("other");
  EXPECT_FALSE(other.contains(5));
  for (int64_t step = 6; step <= 12; ++step)
    EXPECT_TRUE(std::abs(whole[step]["loss"] - other[step]["loss"]) <= 1e-6) << step;
}

TEST(TrainMain, AKillDuringASaveLosesNothingPublished) {
  for (SavePoint point :
       {SavePoint::Begin, SavePoint::MidShard, SavePoint::AfterShard, SavePoint::BeforeManifest,
        SavePoint::BeforePublish, SavePoint::AfterPublish}) {
    SCOPED_TRACE(static_cast<int>(point));
    TrainRun run;
    const Program program = tiny::program(2, 2, 1);
    ASSERT_EQ(run(program, {"--steps", "12", "--log", run.file("whole")}), 0);
    TrainHooks hooks;
    uint64_t reached = 0;
    hooks.step = [&](uint64_t step) { reached = step; };
    hooks.save = [&](SavePoint at) {
      if (at == point && reached == 10)
        ::kill(::getpid(), SIGKILL);
    };
    const std::vector<std::string> flags = {"--steps",      "12", "--checkpoint", run.file("save"),
                                            "--save-every", "5",  "--resume"};
    EXPECT_EQ(run.inChild(program, flags, hooks), -SIGKILL);
    std::vector<std::string> again = flags;
    again.insert(again.end(), {"--log", run.file("resumed")});
    ASSERT_EQ(run(program, again), 0);
    auto whole = run.log("whole"), resumed = run.log("resumed");
    const int64_t first = point == SavePoint::AfterPublish ? 11 : 6;
    EXPECT_EQ(resumed.begin()->first, first);
    for (int64_t step = first; step <= 12; ++step)
      EXPECT_EQ(whole[step]["loss"], resumed[step]["loss"]);
  }
}

TEST(TrainMain, ALongerRunSaysThatTheRateDoesNotStretch) {
  TrainRun run;
  Program program = tiny::program(1, 4, 1);
  Recipe recipe = parseRecipe(program.recipe, "r").value();
  const auto noted = [&](ScheduleKind kind, const std::string &folder) {
    recipe.learningRate.kind = kind;
    program.recipe = recipeToJson(recipe);
    const std::string save = run.file(folder);
    EXPECT_EQ(run(program, {"--steps", "3", "--checkpoint", save}), 0);
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    EXPECT_EQ(run(program, {"--steps", "5", "--checkpoint", save, "--resume"}), 0);
    EXPECT_NE(testing::internal::GetCapturedStdout().find("saved: " + save + "/step-5\n"),
              std::string::npos);
    return testing::internal::GetCapturedStderr().find("--set learning_rate.total=5") !=
           std::string::npos;
  };
  EXPECT_TRUE(noted(ScheduleKind::Cosine, "descends"));
  EXPECT_FALSE(noted(ScheduleKind::Constant, "stays"));
}

TEST(TrainMain, SignalsStopAfterTheStepAndSave) {
  TrainRun run;
  const Program program = tiny::program(2, 2, 1);
  ASSERT_EQ(run(program, {"--steps", "12", "--log", run.file("whole")}), 0);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const std::string folder = run.file("save" + std::to_string(signal));
    TrainHooks hooks;
    hooks.step = [&](uint64_t step) {
      if (step == 4)
        ::kill(::getpid(), signal);
      if (step >= 4)
        ::usleep(100'000); // the watcher looks up within this time
    };
    EXPECT_EQ(run.inChild(program,
                          {"--steps", "12", "--checkpoint", folder, "--log", run.file("parts")},
                          hooks),
              130);
    const int64_t stopped = run.log("parts").rbegin()->first;
    EXPECT_GE(stopped, 4);
    EXPECT_LE(stopped, 6);
    ASSERT_EQ(run(program, {"--steps", "12", "--checkpoint", folder, "--resume", "--log",
                            run.file("parts")}),
              0);
    expectSameRun(run, "whole", "parts", 12);
  }
  // Stopped in the last step: all that was asked for is done.
  TrainHooks last;
  last.step = [](uint64_t step) {
    if (step == 3)
      ::kill(::getpid(), SIGTERM);
  };
  EXPECT_EQ(run.inChild(program, {"--steps", "3"}, last), 0);
}

TEST(TrainMain, EveryEpochIsWholeAcrossStops) {
  TrainRun run(6 * 16 + 1); // 16 sequences, global batch 4: an epoch is 4 steps
  const Program program = tiny::program(2, 2, 1);
  ASSERT_EQ(run(program, {"--steps", "12", "--log", run.file("whole")}), 0);
  for (const char *steps : {"4", "8", "12"})
    ASSERT_EQ(run(program, {"--steps", steps, "--checkpoint", run.file("save"), "--resume", "--log",
                            run.file("parts")}),
              0);
  EXPECT_EQ(run.log("parts").size(), 12u);
  expectSameRun(run, "whole", "parts", 12);
}

TEST(TrainMain, EvaluatesOverAllSequencesWhateverTheBatch) {
  TrainRun run;
  // 7 sequences do not fill the last micro-batch of any of these.
  std::string bytes = readWholeFile(run.file("tokens.bin")).value().substr(0, 2 * (6 * 7 + 1));
  ASSERT_TRUE(writeFileAtomically(run.file("eval.bin"), bytes).ok());
  ASSERT_EQ(run(tiny::program(1, 1, 1), {"--steps", "0", "--export", run.file("start")}), 0);
  const std::vector<float> line = run.tensor("start", "line.weight");
  double expected = 0;
  for (int i = 0; i < 6 * 7; ++i) {
    const double error = line[0] * (run.tokens()[i] / 64.0) + line[1] - run.tokens()[i + 1] / 64.0;
    expected += error * error / (6 * 7);
  }
  for (const Program &program :
       {tiny::program(1, 1, 1), tiny::program(2, 2, 1), tiny::program(3, 1, 2)}) {
    ASSERT_EQ(run(program,
                  {"--steps", "0", "--eval-data", run.file("eval.bin"), "--log", run.file("log")}),
              0);
    EXPECT_TRUE(std::abs(run.log()[0]["eval_loss"] - expected) <= 1e-6);
    EXPECT_EQ(run.log()[0]["eval_tokens"], 42);
  }
}

TEST(TrainMain, AnErrorOnOneRankEndsAllOfThemAndNamesItsCause) {
  TrainRun run;
  // Sequence 7 is rank 1's in the second step of a global batch of 4. It is spoilt
  // while the run is on, since a run looks at its tokens before it starts.
  const size_t token = 7 * tiny::sequence + 2;
  TrainHooks hooks;
  hooks.step = [&](uint64_t) {
    FileDescriptor file(::open(run.file("tokens.bin").c_str(), O_WRONLY | O_CLOEXEC));
    EXPECT_EQ(::pwrite(file.get(), "d", 1, static_cast<off_t>(2 * token)), 1);
  };
  testing::internal::CaptureStderr();
  const int code = run(tiny::program(2, 2, 1), {"--steps", "5", "--log", run.file("log")}, hooks);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 2) << text;
  EXPECT_NE(text.find("error[data.token_out_of_range]"), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(token)), std::string::npos) << text;
  EXPECT_NE(text.find("on rank 1 in step 2"), std::string::npos) << text;
  EXPECT_EQ(run.log().size(), 1u);
}

/// The exit code of a run and what it said on standard error.
std::pair<int, std::string> refused(const TrainRun &run, std::vector<std::string> flags) {
  testing::internal::CaptureStderr();
  const int code = run(tiny::program(2, 2, 1), std::move(flags));
  return {code, testing::internal::GetCapturedStderr()};
}

void expectSays(const std::pair<int, std::string> &result, int code, const std::string &text) {
  EXPECT_EQ(result.first, code) << result.second;
  EXPECT_NE(result.second.find(text), std::string::npos) << result.second;
  EXPECT_NE(result.second.find("suggestion: "), std::string::npos) << result.second;
}

TEST(TrainMain, TokensAreCheckedBeforeTheFirstStep) {
  TrainRun run;
  std::string bytes = readWholeFile(run.file("tokens.bin")).value();
  bytes[2 * 23] = 100;
  ASSERT_TRUE(writeFileAtomically(run.file("bad.bin"), bytes).ok());
  const std::vector<std::string> common = {"--steps", "2", "--log", run.file("log")};
  for (const char *flag : {"--data", "--eval-data"}) {
    std::vector<std::string> flags = common;
    flags.insert(flags.end(), {flag, run.file("bad.bin"), "--checkpoint", run.file("save")});
    expectSays(refused(run, flags), 2, "token 23 of");
    EXPECT_FALSE(std::filesystem::exists(run.file("log")));
    EXPECT_FALSE(std::filesystem::exists(run.file("save")));
  }
  // Sequences of an evaluation that are not asked for do not count.
  std::vector<std::string> flags = common;
  flags.insert(flags.end(), {"--eval-data", run.file("bad.bin"), "--eval-sequences", "3"});
  EXPECT_EQ(run(tiny::program(2, 2, 1), flags), 0);
}

TEST(TrainMain, FoldersAreTriedBeforeTheFirstStep) {
  TrainRun run;
  ASSERT_TRUE(writeFileAtomically(run.file("file"), "").ok());
  for (const char *flag : {"--export", "--checkpoint"})
    for (const std::string &folder : {run.file("file/below"), std::string("/proc/none")}) {
      const std::string kind = std::string(flag).substr(2) + ".write_failed";
      expectSays(refused(run, {"--steps", "2", "--log", run.file("log"), flag, folder}), 4, kind);
      EXPECT_FALSE(std::filesystem::exists(run.file("log")));
    }
}

TEST(TrainMain, ALogReplacesNoInput) {
  TrainRun run;
  const std::string tokens = readWholeFile(run.file("tokens.bin")).value();
  std::filesystem::create_symlink("tokens.bin", run.file("link"));
  for (const char *log : {"tokens.bin", "link"})
    expectSays(refused(run, {"--steps", "2", "--log", run.file(log)}), 2, "error[flags.bad_value]");
  EXPECT_EQ(readWholeFile(run.file("tokens.bin")).value(), tokens);
}

TEST(TrainMain, ADeviceIsALogOfAResumedRunToo) {
  TrainRun run;
  for (const char *steps : {"2", "4"})
    EXPECT_EQ(run(tiny::program(2, 2, 1), {"--steps", steps, "--log", "/dev/null", "--checkpoint",
                                           run.file("save"), "--resume"}),
              0);
}

TEST(TrainMain, OneRunAtATimeSavesIntoAFolder) {
  TrainRun run;
  const std::vector<std::string> flags = {"--steps", "4", "--checkpoint", run.file("save"),
                                          "--resume"};
  TrainHooks hooks;
  hooks.step = [&](uint64_t step) {
    if (step == 2)
      EXPECT_EQ(run.inChild(tiny::program(2, 2, 1), flags), 2);
  };
  EXPECT_EQ(run(tiny::program(2, 2, 1), flags, hooks), 0);
  auto held = lockFolder(run.file("save"));
  ASSERT_TRUE(held.ok() && *held);
  expectSays(refused(run, flags), 2, "error[checkpoint.in_use]");
  held->reset();
  EXPECT_EQ(run(tiny::program(2, 2, 1), flags), 0);
}

TEST(TrainMain, DamagedCheckpointsAloneAreNoReasonToStartAnew) {
  TrainRun run;
  const std::vector<std::string> flags = {"--steps",      "4", "--checkpoint", run.file("save"),
                                          "--save-every", "2", "--resume",     "--log",
                                          run.file("log")};
  ASSERT_EQ(run(tiny::program(2, 2, 1), flags), 0);
  for (const char *step : {"step-2", "step-4"})
    ASSERT_TRUE(writeFileAtomically(run.file("save/") + step + "/manifest.json", "{").ok());
  expectSays(refused(run, flags), 2, "error[checkpoint.bad_manifest]");
  EXPECT_EQ(run.log().size(), 4u);
  // What was never published is no checkpoint.
  for (const char *step : {"step-2", "step-4"})
    std::filesystem::remove_all(run.file("save/") + step);
  std::filesystem::create_directory(run.file("save/step-2.tmp"));
  EXPECT_EQ(run(tiny::program(2, 2, 1), flags), 0);
}

TEST(TrainMain, ALossThatIsNotFiniteEndsTheRun) {
  TrainRun run;
  Program program = tiny::program(2, 2, 1);
  program.state[0].initial = {3e38, 0};
  EXPECT_EQ(run(program, {"--steps", "3", "--log", run.file("log")}), 4);
  EXPECT_EQ(run.log().size(), 1u);
}

} // namespace
