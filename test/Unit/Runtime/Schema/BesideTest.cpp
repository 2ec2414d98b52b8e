// Buckets of the image: turns that come early and late, how they are written, and that
// a bucket whose memory is touched too early is refused.
#include "runtime/Schema/Image.h"
#include "runtime/Schema/Unroll.h"

#include <gtest/gtest.h>

using namespace cleave::rt;

namespace {

/// Two ranks along "data", an arena of 4096 bytes, a group for commands and one beside.
Program withUpdate(std::vector<Command> commands) {
  Program p;
  p.mesh.axes = {{"data", 2}};
  p.segments = {{"io", 64}, {"arena", 4096}};
  p.exchange.tokens = p.exchange.targets = {0, 0, 4};
  p.exchange.loss = {0, 8, 4};
  p.groups = {{{0}, {}}, {{0}, {}, true}};
  p.entry(EntryKind::Update) = std::move(commands);
  return p;
}

Command ahead(int64_t turns, Command command) {
  command.ahead = turns;
  return command;
}

Command gather(int32_t group, Region source, Region target) {
  return {AllGatherCommand{group, DataType::F32, {1, 8, 1}, source, target}, "layers.*/gather", 16,
          0};
}

Command bucket(int64_t number, std::vector<Command> exchanges) {
  return {BesideCommand{number, std::move(exchanges)}, "layers.*/weights", 0, 0};
}

Command await(int64_t number) { return {AwaitCommand{number}, "layers.*/weights", 0, 0}; }

Command zero(Region region) { return {ZeroCommand{region}, "zero", 0, 0}; }

Command copy(Region source, Region target) { return {CopyCommand{source, target}, "copy", 0, 0}; }

Command repeat(int64_t count, std::vector<Command> body) {
  return {RepeatCommand{count, 0, 1, std::move(body)}, "layers", 0, 0};
}

/// Blocks of 16 bytes at 0, 64, …; wholes of 32 in two places from 2048 on.
constexpr Region block{1, 0, 16, 64}, whole{1, 2048, 32, 256, 2};

/// A layer's weights are gathered while the layer before works with its own.
std::vector<Command> gatheredAhead() {
  return {await(0), ahead(1, bucket(0, {gather(1, block, whole)})), copy(whole, {1, 3072, 32, 64})};
}

std::string refusalOf(std::vector<Command> commands) {
  const Status status = validate(withUpdate(std::move(commands)));
  return status.ok() ? "" : status.error().kind + ": " + status.error().message;
}

void expectRefused(std::vector<Command> commands, const std::string &what) {
  const std::string refusal = refusalOf(std::move(commands));
  EXPECT_NE(refusal.find(what), std::string::npos) << what << " is not in: " << refusal;
}

TEST(Beside, TurnsComeEarlyAndLate) {
  const Region slice{1, 0, 4, 4};
  std::vector<Command> body;
  for (int64_t turns : {-1, 2, 0})
    body.push_back(ahead(turns, {ZeroCommand{slice}, "layers.*/" + std::to_string(turns), 0, 0}));
  std::vector<std::string> labels;
  for (const Command &command : unroll({repeat(3, body)}))
    labels.push_back(command.label);
  const std::vector<std::string> wanted = {"layers.0/2",                // turn -2
                                           "layers.1/2",                // turn -1
                                           "layers.2/2",  "layers.0/0", // turn 0
                                           "layers.0/-1", "layers.1/0", // turn 1
                                           "layers.1/-1", "layers.2/0",
                                           "layers.2/-1"}; // turns 2 and 3
  EXPECT_EQ(labels, wanted);
}

TEST(Beside, APeriodBringsRegionsBack) {
  const Command command{RepeatCommand{5, 0, 1, {zero({1, 64, 4, 32, 2})}}, "", 0, 0};
  std::vector<int64_t> offsets;
  for (const Command &each : unroll({command})) {
    const Region &region = std::get<ZeroCommand>(each.what).region;
    offsets.push_back(region.offset);
    EXPECT_EQ(region.stride, 0);
    EXPECT_EQ(region.period, 0);
  }
  EXPECT_EQ(offsets, (std::vector<int64_t>{64, 96, 64, 96, 64}));
}

TEST(Beside, EachIterationHasABucketOfItsOwn) {
  const std::vector<Command> flat =
      unroll({bucket(7, {gather(1, block, whole)}), await(7), repeat(3, gatheredAhead())});
  std::vector<std::pair<std::string, int64_t>> numbers;
  for (const Command &command : flat) {
    if (const auto *start = std::get_if<BesideCommand>(&command.what)) {
      numbers.emplace_back("beside", start->number);
      EXPECT_EQ(start->exchanges.size(), 1u);
    } else if (const auto *end = std::get_if<AwaitCommand>(&command.what)) {
      numbers.emplace_back("await", end->number);
    }
  }
  const std::vector<std::pair<std::string, int64_t>> wanted = {
      {"beside", 0}, {"await", 0}, {"beside", 1}, {"await", 1},
      {"beside", 2}, {"await", 2}, {"beside", 3}, {"await", 3}};
  EXPECT_EQ(numbers, wanted);
  const auto &last = std::get<BesideCommand>(flat[flat.size() - 4].what).exchanges[0];
  EXPECT_EQ(last.label, "layers.2/gather");
  EXPECT_EQ(std::get<AllGatherCommand>(last.what).source.offset, 128);
  EXPECT_EQ(std::get<AllGatherCommand>(last.what).target.offset, 2048);
}

TEST(Beside, IsWrittenAndReadAgain) {
  Image image;
  image.programs = {withUpdate({repeat(3, gatheredAhead())})};
  image.programs[0].configText = "{}";
  const std::string text = toImageText(image);
  const auto read = imageFromText(text, "image");
  ASSERT_TRUE(read.ok()) << renderText(read.error());
  EXPECT_EQ(toImageText(*read), text);
  const Program &program = read->first();
  EXPECT_FALSE(program.groups[0].beside);
  EXPECT_TRUE(program.groups[1].beside);
  const auto &body = std::get<RepeatCommand>(program.entry(EntryKind::Update)[0].what).body;
  EXPECT_EQ(body[1].ahead, 1);
  EXPECT_EQ(std::get<CopyCommand>(body[2].what).source.period, 2);
}

TEST(Beside, WhatIsApartIsAccepted) {
  EXPECT_EQ(refusalOf({repeat(4, gatheredAhead())}), "");
  // A late reduction: its source has two places, its target one.
  const Region gradient{1, 2048, 32, 256, 2}, sum{1, 3072, 16};
  const Command reduce{
      ReduceScatterCommand{1, ReductionKind::Sum, DataType::F32, {1, 8, 1}, gradient, sum}, "", 0,
      0};
  EXPECT_EQ(refusalOf({repeat(4, {zero(gradient), ahead(-1, await(0)), ahead(-1, copy(sum, block)),
                                  bucket(0, {reduce})})}),
            "");
}

TEST(Beside, MemoryThatMeetsIsRefused) {
  // With one place, a layer's weights are overwritten while it works with them.
  const Region onePlace{1, 2048, 32};
  expectRefused({repeat(2, {await(0), ahead(1, bucket(0, {gather(1, block, onePlace)})),
                            copy(onePlace, {1, 3072, 32, 64})})},
                "update: copy copy touches what beside layers.1/weights writes");
  auto withBetween = [](Command command) {
    return std::vector<Command>{bucket(0, {gather(1, {1, 0, 16}, {1, 2048, 32})}),
                                std::move(command), await(0)};
  };
  EXPECT_EQ(refusalOf(withBetween(copy({1, 0, 16}, {1, 1024, 16}))), "");
  expectRefused(withBetween(zero({1, 12, 8})), "writes what beside");
  expectRefused(withBetween(zero({1, 2076, 16})), "touches what beside");
  expectRefused(withBetween(copy({1, 2048, 4}, {1, 1024, 4})), "touches what beside");
  expectRefused(withBetween({KernelCommand{"k", {{1, 0, 16}}, 1, 1}, "", 0, 0}),
                "writes what beside");
  expectRefused(
      {bucket(0, {gather(1, {1, 0, 16}, {1, 2048, 32}), gather(1, {1, 64, 16}, {1, 2064, 32})}),
       await(0)},
      "has exchanges that meet");
}

TEST(Beside, EachBucketIsAwaitedOnce) {
  const Command start = bucket(0, {gather(1, {1, 0, 16}, {1, 2048, 32})});
  expectRefused({start}, "is awaited by nobody");
  expectRefused({await(0)}, "awaits a bucket that is not under way");
  expectRefused({await(0), start}, "awaits a bucket that is not under way");
  expectRefused({start, await(0), await(0)}, "awaits a bucket that is not under way");
  expectRefused({start, await(0), start, await(0)}, "has the number of another bucket");
  // The last turn waits for a layer that there is not.
  expectRefused(
      {repeat(2, {ahead(-1, await(0)), bucket(0, {gather(1, block, whole)}), ahead(-1, await(0))})},
      "is not under way");
}

TEST(Beside, BucketsAreOfOneKindAndGroup) {
  const Command one = gather(1, {1, 0, 16}, {1, 2048, 32});
  Command max{AllReduceCommand{1, ReductionKind::Max, DataType::F32, {1, 256, 4}, {1, 256, 4}}, "",
              0, 0};
  Command sum{AllReduceCommand{1, ReductionKind::Sum, DataType::F32, {1, 512, 4}, {1, 512, 4}}, "",
              0, 0};
  expectRefused({bucket(0, {}), await(0)}, "without exchanges");
  expectRefused({bucket(0, {one, sum}), await(0)}, "several kinds or groups");
  expectRefused({bucket(0, {max, sum}), await(0)}, "several kinds or groups");
  expectRefused({bucket(0, {ahead(1, one)}), await(0)}, "several kinds or groups");
  expectRefused({bucket(0, {zero({1, 0, 4})}), await(0)}, "no exchange of a bucket");
  expectRefused({bucket(0, {gather(0, {1, 0, 16}, {1, 2048, 32})}), await(0)},
                "its group is not for exchanges beside");
  expectRefused({one}, "is in no bucket, but its group is for exchanges beside");
  expectRefused({ahead(1, zero({1, 0, 4}))}, "stands in none");
  expectRefused({repeat(2, {ahead(17, zero({1, 0, 4}))})}, "17 turns ahead");
}

} // namespace
