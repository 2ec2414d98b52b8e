// Flags a user may get wrong, and requests the program can't follow: refused by
// kind and exit code before anything runs.
#include "TrainRun.h"

#include "runtime/Train/Report.h"
#include "runtime/Train/World.h"

#include <gtest/gtest.h>

using namespace cleave::rt;

namespace {

std::string kindOf(std::vector<std::string> arguments) {
  auto flags = parseTrainFlags(arguments);
  return flags.ok() ? "accepted" : flags.error().kind;
}

TEST(Flags, AreRead) {
  const std::vector<std::string> arguments = {
      "--data",    "a.bin,b.bin", "--data=c.bin",   "--steps=10", "--resume", "--checkpoint", "d",
      "--threads", "2",           "--export-dtype", "bf16"};
  auto flags = parseTrainFlags(arguments);
  ASSERT_TRUE(flags.ok()) << flags.error().message;
  EXPECT_EQ(flags->data, (std::vector<std::string>{"a.bin", "b.bin", "c.bin"}));
  EXPECT_EQ(flags->steps, 10u);
  EXPECT_TRUE(flags->resume);
  EXPECT_EQ(flags->threads, 2u);
  EXPECT_EQ(flags->exportType, FloatType::BF16);
}

TEST(Flags, AreRefusedByKind) {
  EXPECT_EQ(kindOf({"--data", "x", "--steps", "1", "--stpes", "2"}), "flags.unknown");
  auto misspelt = parseTrainFlags(std::vector<std::string>{"--chekpoint", "d"});
  ASSERT_FALSE(misspelt.ok());
  EXPECT_EQ(misspelt.error().suggestions, std::vector<std::string>{"--checkpoint"});
  EXPECT_EQ(kindOf({"--data"}), "flags.missing_value");
  EXPECT_EQ(kindOf({"--data", "--steps", "3"}), "flags.missing_value");
  EXPECT_EQ(kindOf({"--steps", "ten"}), "flags.bad_value");
  EXPECT_EQ(kindOf({"--steps", "-1"}), "flags.bad_value");
  EXPECT_EQ(kindOf({"--threads", "0"}), "flags.bad_value");
  EXPECT_EQ(kindOf({"--token-bits", "12"}), "flags.bad_value");
  EXPECT_EQ(kindOf({"--data", "a,,b"}), "flags.bad_value");
  EXPECT_EQ(kindOf({"--resume=yes"}), "flags.bad_value");
  EXPECT_EQ(kindOf({"tokens.bin"}), "flags.unexpected");
  EXPECT_EQ(kindOf({"--data", "x"}), "flags.missing");
  EXPECT_EQ(kindOf({"--steps", "5"}), "flags.missing");
  EXPECT_EQ(kindOf({"--data", "x", "--steps", "5", "--save-every", "2"}), "flags.missing");
  EXPECT_EQ(kindOf({"--data", "x", "--steps", "5", "--resume"}), "flags.missing");
  EXPECT_EQ(kindOf({"--data", "x", "--steps", "5", "--steps", "6"}), "flags.unexpected");
  EXPECT_EQ(kindOf({"--data", "x", "--steps=5", "--log", "a", "--log=a"}), "flags.unexpected");
  EXPECT_EQ(kindOf({"--info"}), "accepted");
}

TEST(Flags, AllThatIsMissingIsNamedAtOnce) {
  const auto suggested = [](std::vector<std::string> arguments) {
    return parseTrainFlags(arguments).error().suggestions;
  };
  EXPECT_EQ(suggested({}), std::vector<std::string>{"add --data FILE --steps N"});
  EXPECT_EQ(suggested({"--data", "x"}), std::vector<std::string>{"add --steps N"});
  EXPECT_EQ(suggested({"--steps", "5"}), std::vector<std::string>{"add --data FILE"});
  EXPECT_EQ(kindOf({"--steps", "0"}), "accepted");
}

using Variables = std::map<std::string, std::string>;

std::optional<Launch> launchOf(const Variables &variables) {
  return detectLaunch([&](const char *name) -> const char * {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string worldKind(const Variables &variables, std::optional<int64_t> ranks = {},
                      int64_t compiled = 2) {
  TrainFlags flags;
  flags.ranks = ranks;
  const Status status = checkWorld(tiny::program(compiled, 1, 1), flags, launchOf(variables));
  return status.ok() ? "accepted" : status.error().kind;
}

TEST(World, IsTheCompiledOne) {
  EXPECT_EQ(worldKind({}), "accepted");
  EXPECT_EQ(worldKind({}, 2), "accepted");
  EXPECT_EQ(worldKind({}, 3), "runtime.world_mismatch");
  EXPECT_EQ(worldKind({{"OMPI_COMM_WORLD_SIZE", "4"}}), "runtime.world_mismatch");
  EXPECT_EQ(worldKind({{"OMPI_COMM_WORLD_SIZE", "2"}}), "accepted");
  EXPECT_EQ(worldKind({{"OMPI_COMM_WORLD_SIZE", "1"}}), "accepted");
  EXPECT_EQ(worldKind({{"OMPI_COMM_WORLD_SIZE", "2"}}, {}, 4), "accepted"); // two ranks each
  EXPECT_EQ(worldKind({{"OMPI_COMM_WORLD_SIZE", "3"}}, {}, 4), "runtime.world_mismatch");
  EXPECT_EQ(worldKind({{"OMPI_COMM_WORLD_SIZE", "2"}}, 2, 4), "runtime.world_mismatch");
  EXPECT_EQ(worldKind({{"WORLD_SIZE", "8"}}), "accepted"); // without RANK not torchrun's
  EXPECT_EQ(worldKind({{"WORLD_SIZE", "8"}, {"RANK", "0"}}), "runtime.world_mismatch");
}

TEST(Launch, TheInnermostLauncherCounts) {
  auto text = [](const Variables &variables) {
    const auto launch = launchOf(variables);
    return launch ? launch->launcher + " " + std::to_string(launch->process) + "/" +
                        std::to_string(launch->processes) + " local " +
                        std::to_string(launch->localProcess) + (launch->bringsMpi ? " mpi" : "")
                  : "alone";
  };
  const Variables srun = {{"SLURM_STEP_NUM_TASKS", "4"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_PROCID", "3"},
                          {"SLURM_LOCALID", "1"}};
  const Variables mpirun = {{"OMPI_COMM_WORLD_SIZE", "8"},
                            {"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}};
  const Variables torch = {{"WORLD_SIZE", "6"}, {"RANK", "4"}, {"LOCAL_RANK", "1"}};
  auto with = [](Variables base, const Variables &more) {
    base.insert(more.begin(), more.end());
    return base;
  };
  EXPECT_EQ(text({}), "alone");
  EXPECT_EQ(text(srun), "srun 3/4 local 1");
  EXPECT_EQ(text(with(srun, {{"PMIX_RANK", "3"}})), "srun 3/4 local 1 mpi");
  EXPECT_EQ(text({{"SLURM_STEP_NUM_TASKS", "4"}}), "alone"); // a shell in a batch job
  EXPECT_EQ(text(mpirun), "mpirun 5/8 local 2 mpi");
  EXPECT_EQ(text(with(mpirun, srun)), "mpirun 5/8 local 2 mpi");
  EXPECT_EQ(text(with(mpirun, torch)), "mpirun 5/8 local 2 mpi"); // RANK set for PyTorch
  EXPECT_EQ(text(with(mpirun, with(torch, {{"TORCHELASTIC_RUN_ID", "x"}}))),
            "torchrun 4/6 local 1");
  EXPECT_EQ(text(torch), "the launcher 4/6 local 1");
  EXPECT_EQ(text({{"PMI_SIZE", "3"}, {"PMI_RANK", "2"}, {"MPI_LOCALRANKID", "0"}}),
            "mpiexec 2/3 local 0 mpi");
}

/// Processes that were started as several and cannot know it do not each train all.
TEST(Launch, NumbersThatAreHalfSetAreRefused) {
  auto kind = [](const Variables &variables) -> std::string {
    EXPECT_FALSE(launchOf(variables));
    const Status status = checkAlone([&](const char *name) -> const char * {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
    if (status.ok())
      return "alone";
    EXPECT_EQ(status.error().kind, "runtime.bad_launch");
    EXPECT_EQ(status.error().suggestions.size(), 2u);
    return status.error().given;
  };
  for (const Variables &alone :
       std::vector<Variables>{{},
                              {{"WORLD_SIZE", "8"}},
                              {{"RANK", "0"}},
                              {{"RANK", ""}, {"WORLD_SIZE", ""}},
                              {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"TORCHELASTIC_RUN_ID", "x"}},
                              {{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}},
                              {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}}}) // of no step
    EXPECT_EQ(kind(alone), "alone");
  EXPECT_EQ(kind({{"RANK", "2"}}), "RANK = 2, WORLD_SIZE is not set");
  EXPECT_EQ(kind({{"RANK", "2"}, {"WORLD_SIZE", ""}}), "RANK = 2, WORLD_SIZE is not set");
  for (const char *size : {"four", "4 ", "-4", "0", "18446744073709551620"})
    EXPECT_EQ(kind({{"RANK", "0"}, {"WORLD_SIZE", size}}),
              std::string("RANK = 0, WORLD_SIZE = ") + size);
  EXPECT_EQ(kind({{"RANK", "3"}, {"WORLD_SIZE", "1"}}), "RANK = 3, WORLD_SIZE = 1");
  EXPECT_EQ(kind({{"RANK", "x"}, {"WORLD_SIZE", "1"}}), "RANK = x, WORLD_SIZE = 1");
  EXPECT_EQ(kind({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}}),
            "SLURM_PROCID = 1, SLURM_STEP_NUM_TASKS is not set");
}

TEST(Launch, MpiThatIsNotThereIsRefused) {
  TrainFlags flags;
  flags.transport = TransportKind::MPI;
  auto kind = [&](const Variables &variables) {
    const auto launch = launchOf(variables);
    const auto team = joinTeam(*launch, flags, {}, [](const char *) { return nullptr; }, {});
    EXPECT_EQ(team.error().exitCode, ExitCode::Missing);
    EXPECT_FALSE(team.error().suggestions.empty());
    return team.error().kind + ": " + team.error().message;
  };
  EXPECT_EQ(kind({{"WORLD_SIZE", "2"}, {"RANK", "0"}}),
            "runtime.transport_missing: the launcher started 2 processes, but gives them no MPI "
            "to talk with");
  EXPECT_EQ(kind({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_ID", "0"}}),
            "runtime.transport_missing: srun started 2 processes, but gives them no MPI to talk "
            "with");
  flags.transport.reset();
  EXPECT_EQ(kind({{"OMPI_COMM_WORLD_SIZE", "2"}}),
            "runtime.transport_missing: this binary was made without MPI");
}

TEST(World, NeedsTheInstructionsOfTheProgram) {
  Program program = tiny::program(1, 1, 1);
  MachineInfo machine;
  machine.processor = "Some processor";
  const char *profiles[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  for (unsigned needed = 1; needed <= 4; ++needed)
    for (machine.x86Level = 0; machine.x86Level <= 4; ++machine.x86Level) {
      program.profile = profiles[needed - 1];
      EXPECT_EQ(checkHost(program, machine).ok(), machine.x86Level >= needed)
          << program.profile << " on level " << machine.x86Level;
    }
  machine.x86Level = 3;
  const Status avx512 = checkHost(program, machine);
  EXPECT_EQ(avx512.error().kind, "runtime.host_unsupported");
  EXPECT_EQ(avx512.error().exitCode, ExitCode::Missing);
  const std::string text = renderText(avx512.error());
  for (const char *part : {"x86-64-v4", "x86-64-v3 (Some processor)", "--profile avx2"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

TEST(World, NeedsWhatIsBeyondALevel) {
  Program program = tiny::program(1, 1, 1);
  program.profile = "x86-64-v4+avx512bf16";
  MachineInfo machine;
  machine.x86Level = 4;
  const Status refused = checkHost(program, machine);
  EXPECT_EQ(refused.error().kind, "runtime.host_unsupported");
  const std::string text = renderText(refused.error());
  for (const char *part : {"x86-64-v4+avx512bf16", "AVX512_BF16", "--profile avx512"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  machine.avx512Bf16 = true;
  EXPECT_TRUE(checkHost(program, machine).ok());
  program.profile = "x86-64-v4";
  EXPECT_TRUE(checkHost(program, machine).ok());
}

TEST(World, SharesTheCores) {
  TrainFlags flags;
  EXPECT_EQ(threadsPerRank(flags, 8, 2), 4u);
  EXPECT_EQ(threadsPerRank(flags, 2, 4), 1u);
  flags.threads = 5;
  EXPECT_EQ(threadsPerRank(flags, 8, 2), 5u);
}

TEST(Report, CountsCommandsAsTheyRun) {
  Program program = tiny::program(2, 1, 1);
  const Command zero{ZeroCommand{{0, 0, 4}}, "layers.*/zero", 4, 50};
  program.entry(EntryKind::Prepare) = {zero, {RepeatCommand{7, 0, 1, {zero, zero}}, "", 0, 0}};
  const std::string text = describeImage(program);
  EXPECT_NE(text.find("prepare      15 commands, 750 operations"), std::string::npos) << text;
}

/// Exit code and first line on standard error.
std::pair<int, std::string> outcome(const TrainRun &run, const Program &program,
                                    std::vector<std::string> flags) {
  testing::internal::CaptureStderr();
  const int code = run(program, std::move(flags));
  return {code, testing::internal::GetCapturedStderr()};
}

void expectRefused(const TrainRun &run, const Program &program, std::vector<std::string> flags,
                   int code, const std::string &kind) {
  const auto [got, text] = outcome(run, program, std::move(flags));
  EXPECT_EQ(got, code) << text;
  EXPECT_NE(text.find("error[" + kind + "]"), std::string::npos) << text;
}

TEST(TrainMain, RefusesRequestsItCannotFollow) {
  TrainRun run;
  const Program program = tiny::program(2, 1, 1);
  expectRefused(run, program, {"--steps", "2", "--ranks", "4"}, 2, "runtime.world_mismatch");
  expectRefused(run, program, {"--steps", "2", "--device", "cuda"}, 3, "device.unavailable");
  expectRefused(run, program, {"--steps", "2", "--data", run.file("none.bin")}, 2,
                "file.read_failed");
  expectRefused(run, program, {"--steps", "2", "--token-bits", "8", "--bogus"}, 2, "flags.unknown");
  expectRefused(run, program, {"--steps", "2", "--log", run.file("no/such/log")}, 4,
                "log.write_failed");
  Program broken = program;
  broken.entry(EntryKind::Count)[0] = {KernelCommand{"absent", {}, 1, 1}, "", 0, 0};
  expectRefused(run, broken, {"--steps", "2"}, 2, "image.missing_kernel");
  broken = program;
  broken.entry(EntryKind::Evaluate).clear();
  expectRefused(run, broken, {"--steps", "2", "--eval-data", run.file("tokens.bin")}, 2,
                "runtime.no_evaluation");

  ASSERT_EQ(run(program, {"--steps", "4", "--checkpoint", run.file("save")}), 0);
  expectRefused(run, program, {"--steps", "4", "--checkpoint", run.file("save")}, 2,
                "checkpoint.exists");
  expectRefused(run, program, {"--steps", "3", "--checkpoint", run.file("save"), "--resume"}, 2,
                "resume.past_end");
}

TEST(TrainMain, ReportsErrorsAsJsonWhenAsked) {
  TrainRun run;
  const auto [code, text] =
      outcome(run, tiny::program(2, 1, 1), {"--steps", "2", "--json", "--ranks", "1"});
  EXPECT_EQ(code, 2);
  auto json = parseJson(text);
  ASSERT_TRUE(json.ok()) << text;
  EXPECT_EQ(json->find("error")->find("kind")->string(), "runtime.world_mismatch");
}

} // namespace
