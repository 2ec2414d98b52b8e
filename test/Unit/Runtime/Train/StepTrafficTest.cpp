// Counters of a run's steps beside what its program says of them.
#include "TinyPipeline.h"
#include "TrainRun.h"

#include "runtime/Base/Files.h"
#include "runtime/Base/Json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

using namespace cleave::rt;

namespace {

/// The run's exit code, and what it wrote on standard error.
std::pair<int, std::string> runOf(const TrainRun &run, const Image &image,
                                  std::vector<std::string> flags) {
  testing::internal::CaptureStderr();
  const int code = run(image, std::move(flags));
  return {code, testing::internal::GetCapturedStderr()};
}

/// What each rank counted in a step, of a run of `steps` that logged it.
std::map<int64_t, std::vector<JsonValue>> logged(const std::string &path, int64_t steps) {
  std::istringstream lines(readWholeFile(path).value());
  std::map<int64_t, std::vector<JsonValue>> ranks;
  for (std::string line; std::getline(lines, line);) {
    const JsonValue row = parseJson(line).value();
    const JsonValue *traffic = row.find("traffic");
    if (!traffic)
      continue;
    EXPECT_EQ(traffic->find("steps")->integer(), steps);
    for (const JsonValue &rank : traffic->find("ranks")->elements())
      for (const JsonValue &exchange : rank.find("exchanges")->elements())
        ranks[rank.find("rank")->integer()].push_back(exchange);
  }
  return ranks;
}

MessageCount countOf(const JsonValue &exchange, int64_t steps) {
  return {exchange.find("count")->integer() / steps, exchange.find("bytes")->integer() / steps};
}

TEST(StepTraffic, IsComparedWithTheProgramAtTheEnd) {
  TrainRun run;
  Program program = tiny::program(2, 2, 2);
  const std::vector<std::string> flags = {"--steps", "3", "--profile", "--log", run.file("log")};
  ASSERT_EQ(run(program, flags), 0);
  const auto counted = logged(run.file("log"), 3);
  ASSERT_EQ(counted.size(), 2u);
  program.traffic.emplace();
  for (const JsonValue &exchange : counted.at(0))
    program.traffic->collectives.push_back(
        {0, exchange.find("kind")->string(), countOf(exchange, 3)});
  ASSERT_EQ(program.traffic->collectives.size(), 1u);
  ASSERT_GT(program.traffic->collectives[0].count.calls, 0);
  ASSERT_EQ(program.groups.size(), 1u);

  // Evaluations, checkpoints and votes are none of a step's.
  EXPECT_EQ(run(program, {"--steps", "3", "--eval-data", run.file("tokens.bin"), "--eval-every",
                          "1", "--checkpoint", run.file("saved"), "--save-every", "2"}),
            0);

  for (MessageCount more : {MessageCount{1, 0}, MessageCount{0, 4}, MessageCount{-1, 0}}) {
    Program other = program;
    other.traffic->collectives[0].count.calls += more.calls;
    other.traffic->collectives[0].count.bytes += more.bytes;
    const auto [code, text] = runOf(run, other, flags);
    EXPECT_EQ(code, 70);
    EXPECT_NE(text.find("error[runtime.traffic_mismatch]: rank"), std::string::npos) << text;
    EXPECT_NE(text.find("all_reduce over"), std::string::npos) << text;
  }
  Program silent = program;
  silent.traffic.emplace();
  EXPECT_EQ(runOf(run, silent, flags).first, 70);
}

TEST(StepTraffic, CostsNothingThatIsKept) {
  TrainRun run;
  Program program = tiny::program(2, 2, 2);
  program.traffic.emplace();
  EXPECT_EQ(runOf(run, program,
                  {"--steps", "3", "--checkpoint", run.file("saved"), "--export", run.file("out")})
                .first,
            70);
  EXPECT_TRUE(std::filesystem::exists(run.file("saved/step-3/manifest.json")));
  EXPECT_TRUE(std::filesystem::exists(run.file("out/model.safetensors")));
}

TEST(StepTraffic, OfChannelsAtBothEnds) {
  TrainRun run(6 * 100 + 1, tiny::pipelineKernels());
  Image image = tiny::pipeline({.dataRanks = 2, .microBatches = 4});
  const std::vector<std::string> flags = {"--steps", "2", "--profile", "--log", run.file("log")};
  ASSERT_EQ(run(image, flags), 0);
  const auto counted = logged(run.file("log"), 2);
  ASSERT_EQ(counted.size(), 4u);
  using Kind = PipelineAction::Kind;
  for (int64_t rank = 0; rank < 4; ++rank) {
    Program &program = image.programs[static_cast<size_t>(
        image.first().mesh.indexOf(rank, image.first().pipeline->axes))];
    Traffic own;
    for (const JsonValue &exchange : counted.at(rank)) {
      const std::string kind = exchange.find("kind")->string();
      const MessageCount count = countOf(exchange, 2);
      if (!exchange.find("peer")) {
        // Which group it was does not matter as long as it is of the same ranks.
        const auto size = exchange.find("ranks")->integer();
        for (size_t group = 0; group < program.groups.size(); ++group) {
          std::vector<std::string> axes;
          for (int32_t axis : program.groups[group].axes)
            if (program.mesh.axes[axis].size > 1)
              axes.push_back(program.mesh.axes[axis].name);
          std::vector<std::string> wanted;
          for (const JsonValue &axis : exchange.find("axes")->elements())
            wanted.push_back(axis.string());
          if (axes == wanted && program.groups[group].size(program.mesh) == size) {
            own.collectives.push_back({static_cast<int32_t>(group), kind, count});
            break;
          }
        }
        continue;
      }
      const auto peer = static_cast<int32_t>(image.first().mesh.indexOf(
          exchange.find("peer")->integer(), image.first().pipeline->axes));
      for (Kind each : {Kind::SendActivation, Kind::SendGradient, Kind::ReceiveActivation,
                        Kind::ReceiveGradient})
        if (kind == nameOf(each))
          own.transfers.push_back({each, peer, count});
    }
    EXPECT_EQ(own.transfers.size(), 2u);
    for (const Traffic::Transfer &each : own.transfers)
      EXPECT_EQ(each.count.calls, 4);
    program.traffic = own;
  }
  EXPECT_EQ(run(image, flags), 0);
  for (size_t program = 0; program < 2; ++program)
    for (size_t i = 0; i < 2; ++i) {
      Image other = image;
      other.programs[program].traffic->transfers[i].count.bytes += 4;
      const auto [code, text] = runOf(run, other, flags);
      EXPECT_EQ(code, 70);
      EXPECT_NE(text.find("traffic_mismatch"), std::string::npos) << text;
      EXPECT_NE(text.find(" with rank "), std::string::npos) << text;
    }
}

} // namespace
