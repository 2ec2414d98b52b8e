// Repeats of the image: what they unroll to, how they are written, and that every
// iteration is checked.
#include "runtime/Schema/Image.h"
#include "runtime/Schema/Unroll.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

using namespace cleave::rt;

namespace {

constexpr int64_t least = std::numeric_limits<int64_t>::min();
constexpr int64_t most = std::numeric_limits<int64_t>::max();

/// One rank with an arena of 4096 bytes.
Program withUpdate(std::vector<Command> commands) {
  Program p;
  p.segments = {{"io", 64}, {"arena", 4096}};
  p.exchange.tokens = p.exchange.targets = {0, 0, 4};
  p.exchange.loss = {0, 8, 4};
  p.groups = {{}};
  p.entry(EntryKind::Update) = std::move(commands);
  return p;
}

Command repeat(int64_t count, std::vector<Command> body) {
  return {RepeatCommand{count, 0, 1, std::move(body)}, "layers", 0, 0};
}

Command zero(Region region) { return {ZeroCommand{region}, "layers.*/zero", 0, 0}; }

Command copy(Region source, Region target) {
  return {CopyCommand{source, target}, "layers.*/copy", 0, 0};
}

using MakeRegion = std::function<Region(int64_t offset, int64_t stride)>;

/// One command of every kind, with regions by `at` and labels of `layer`.
std::vector<Command> everyKind(const MakeRegion &at, const std::string &layer) {
  const std::string label = "layers." + layer + "/x";
  MatmulCommand matmul;
  matmul.a = {at(0, 8), 1, 1};
  matmul.b = {at(256, 16), 1, 1};
  matmul.c = {at(512, 32), 1, 1};
  const CutDimension cut{1, 4, 1};
  const DataType type = DataType::F32;
  return {
      {KernelCommand{"k", {at(0, 64), at(1024, -64)}, 4, 2}, label, 1, 2},
      {matmul, label + "." + layer, 0, 0},
      {ZeroCommand{at(2048, 16)}, "no layer", 0, 0},
      {CopyCommand{at(0, 0), at(256, 32)}, label, 0, 0},
      {AllReduceCommand{0, ReductionKind::Sum, type, at(0, 4), at(512, 4)}, label, 0, 0},
      {AllGatherCommand{0, type, cut, at(0, 4), at(512, -4)}, label, 0, 0},
      {ReduceScatterCommand{0, ReductionKind::Max, type, cut, at(0, 4), at(512, 8)}, label, 0, 0},
      {SliceCommand{0, type, cut, at(0, 4), at(512, 12)}, label, 0, 0},
      {AllToAllCommand{0, type, 1, 2, 1, 2, 1, true, at(0, 16), at(512, 16)}, label, 0, 0}};
}

TEST(Repeat, UnrollsToWhatAFlatListSays) {
  RepeatCommand layers{3, 5, -2, {}};
  layers.body =
      everyKind([](int64_t offset, int64_t stride) { return Region{1, offset, 16, stride}; }, "*");
  const Command outside{ZeroCommand{{1, 0, 64}}, "*", 3, 0};
  std::vector<Command> flat = {outside};
  for (int64_t i : {0, 1, 2})
    for (const Command &command : everyKind(
             [i](int64_t offset, int64_t stride) { return Region{1, offset + i * stride, 16}; },
             std::to_string(5 - 2 * i)))
      flat.push_back(command);
  flat.push_back(outside);
  const Program program = withUpdate({outside, {layers, "layers", 0, 0}, outside});
  ASSERT_TRUE(validate(program).ok()) << validate(program).error().message;

  Program unrolled = program, written = withUpdate(flat);
  for (size_t i = 0; i < entryCount; ++i)
    unrolled.entries[i] = unroll(program.entries[i]);
  EXPECT_EQ(unrolled.entry(EntryKind::Update).size(), 29u);
  EXPECT_EQ(toImageText(unrolled), toImageText(written));
  EXPECT_TRUE(validate(unrolled).ok());

  int64_t commands = 0;
  double flops = 0;
  forEachCommand(program.entry(EntryKind::Update), [&](const Command &command, int64_t times) {
    commands += times;
    flops += command.flops * static_cast<double>(times);
  });
  EXPECT_EQ(commands, 29);
  EXPECT_EQ(flops, 6);
}

TEST(Repeat, IsWrittenWithALineForEachCommand) {
  Program program = withUpdate(
      {repeat(2, {zero({1, 0, 4, 8}), zero({1, 96, 4, -8})}), repeat(1, {}), zero({1, 0, 4})});
  std::get<RepeatCommand>(program.entry(EntryKind::Update)[0].what).firstLayer = 7;
  const std::string text = toImageText(program);
  EXPECT_NE(text.find(R"("update": [
  {"op": "repeat", "label": "layers", "count": 2, "first_layer": 7, "layer_step": 1, "body": [
    {"op": "zero", "label": "layers.*/zero", "region": [1, 0, 4, 8]},
    {"op": "zero", "label": "layers.*/zero", "region": [1, 96, 4, -8]}
  ]},
  {"op": "repeat", "label": "layers", "count": 1, "first_layer": 0, "layer_step": 1, "body": []},
  {"op": "zero", "label": "layers.*/zero", "region": [1, 0, 4]}
],
)"),
            std::string::npos)
      << text;
  auto back = imageFromText(text);
  ASSERT_TRUE(back.ok()) << renderText(back.error());
  EXPECT_EQ(toImageText(*back), text);
}

void expectAccepted(const std::vector<Command> &commands) {
  auto back = imageFromText(toImageText(withUpdate(commands)));
  EXPECT_TRUE(back.ok()) << renderText(back.error());
}

/// Both as a program and through the text, as a run meets it.
void expectRefused(const std::string &kind, const std::vector<Command> &commands,
                   const std::string &mention) {
  const Program program = withUpdate(commands);
  const Status direct = validate(program);
  ASSERT_FALSE(direct.ok()) << "expected " << kind << ": " << mention;
  auto back = imageFromText(toImageText(program));
  ASSERT_FALSE(back.ok());
  for (const Error &error : {direct.error(), back.error()}) {
    EXPECT_EQ(error.kind, kind) << error.message;
    EXPECT_NE(error.message.find(mention), std::string::npos) << error.message;
  }
}

TEST(Repeat, IsCheckedInEveryIteration) {
  expectAccepted({repeat(64, {zero({1, 0, 64, 64})})});
  expectRefused("image.region", {zero({1, 0, 64}), repeat(65, {zero({1, 0, 64, 64})})},
                "update command 1 (repeat layers), iteration 64, command 0 (zero layers.64/zero)");
  expectAccepted({repeat(64, {zero({1, 4032, 64, -64})})});
  expectRefused("image.region", {repeat(65, {zero({1, 4032, 64, -64})})}, "iteration 64");
  // Ends meet in the middle only.
  expectAccepted({repeat(2, {copy({1, 0, 64, 64}, {1, 256, 64, -64})})});
  expectRefused("image.command",
                {repeat(5, {zero({1, 0, 4}), copy({1, 0, 64, 64}, {1, 256, 64, -64})})},
                "iteration 2, command 1 (copy layers.2/copy)");
  const Region moving{1, 0, 8, 2};
  expectRefused("image.region",
                {repeat(2, {{AllReduceCommand{0, {}, {}, moving, moving}, "", 0, 0}})},
                "iteration 1, command 0 (all_reduce) starts at byte 2");
}

TEST(Repeat, SurvivesStridesBeyondAllNumbers) {
  for (int64_t stride : {most, least, most / 2 + 1, least / 2, least + 1})
    for (int64_t count : {2, 3, 5, 65536})
      for (int64_t offset : {0, 64, 4032}) {
        expectRefused("image.region", {repeat(count, {zero({1, offset, 64, stride})})},
                      "iteration 1");
        expectAccepted({repeat(1, {zero({1, offset, 64, stride})})});
      }
  // 4 · 2^62 is 0 in 64 bits.
  const RepeatCommand wraps{5, 0, 1, {}};
  const Command moved = inIteration(wraps, zero({1, 64, 64, int64_t(1) << 62}), 4);
  EXPECT_EQ(std::get<ZeroCommand>(moved.what).region.offset, most);
  const Command back = inIteration(wraps, zero({1, 64, 64, least / 2}), 4);
  EXPECT_EQ(std::get<ZeroCommand>(back.what).region.offset, least);
  expectRefused("image.region", {zero({1, most, most})}, "takes");
}

TEST(Repeat, IsBounded) {
  const Command one = zero({1, 0, 4});
  for (int64_t count : {int64_t(0), int64_t(-1), RepeatCommand::maxCount + 1, most, least})
    expectRefused("image.command", {repeat(count, {one})}, "update command 0 (repeat layers) runs");
  expectAccepted({repeat(RepeatCommand::maxCount, {one})});
  const std::vector<Command> many(65, one);
  expectRefused("image.command", {repeat(RepeatCommand::maxCount, many)}, "at most 4194304");
  // Together they are too many.
  const std::vector<Command> two(2, one), rest(63, one);
  expectRefused("image.command",
                {repeat(RepeatCommand::maxCount, two), repeat(RepeatCommand::maxCount, rest)},
                "update command 1 (repeat layers) runs 63 commands");
}

TEST(Repeat, RefusesWhatHasNoMeaning) {
  const Command one = zero({1, 0, 4});
  expectRefused("image.command", {repeat(2, {one, repeat(2, {one})})},
                "update command 0 (repeat layers), iteration 0, command 1 (repeat layers) stands "
                "in a repeat");
  Command costly = repeat(2, {one});
  costly.flops = 1;
  expectRefused("image.command", {costly}, "of its own");
  auto layers = [&](int64_t first, int64_t step) {
    return std::vector<Command>{{RepeatCommand{3, first, step, {one}}, "", 0, 0}};
  };
  expectAccepted(layers(2, -1));
  expectAccepted(layers(0, 0));
  for (auto [first, step] : {std::pair(int64_t(1), int64_t(-1)),
                             {-1, 1},
                             {most, 0},
                             {0, most},
                             {0, least},
                             {RepeatCommand::maxLayer, 1}})
    expectRefused("image.command", layers(first, step), "layer");
  expectRefused("image.region", {zero({1, 0, 4, 4})}, "outside of a repeat");
  Program program = withUpdate({});
  program.exchange.loss.stride = 4;
  const Status status = validate(program);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, "image.region");
}

TEST(Repeat, RefusesForeignText) {
  const std::string text = toImageText(withUpdate({repeat(2, {zero({1, 0, 4, 8})})}));
  auto errorOf = [&](const std::string &from, const std::string &to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    auto back = imageFromText(changed.replace(at, from.size(), to));
    return back.ok() ? std::string("accepted") : back.error().kind + " " + back.error().message;
  };
  auto expectError = [&](const std::string &from, const std::string &to, const std::string &kind,
                         const std::string &mention) {
    const std::string error = errorOf(from, to);
    EXPECT_TRUE(error.starts_with(kind + " ")) << error;
    EXPECT_NE(error.find(mention), std::string::npos) << error;
  };
  expectError("\"count\"", "\"times\"", "image.unknown_key", "times");
  expectError("\"count\": 2, ", "", "image.missing_key", "count");
  expectError("\"body\"", "\"body\": [], \"boddy\"", "image.unknown_key", "boddy");
  expectError("\"region\"", "\"place\"", "image.unknown_key", "update[0].body[0]");
  expectError("[1, 0, 4, 8]", "[1, 0, 4, 8, 2, 0]", "image.wrong_type", "update[0].body[0].region");
  expectError("[1, 0, 4, 8]", "[1, 0, 4, 8, -2]", "image.wrong_type", "region");
  expectError("[1, 0, 4, 8]", "[1, 0]", "image.wrong_type", "region");
  expectError("[1, 0, 4, 8]", "[1, -1, 4, 8]", "image.wrong_type", "region");
  expectError("[1, 0, 4, 8]", "[1, 0, 4, 1.5]", "image.wrong_type", "region");
  EXPECT_EQ(errorOf("\"first_layer\": 0, \"layer_step\": 1, ", ""), "accepted");
  EXPECT_EQ(errorOf("[1, 0, 4, 8]", "[1, 0, 4]"), "accepted");
}

TEST(Repeat, NestsAsDeepAsTextMayWithoutHarm) {
  std::string body = "[]";
  for (int i = 0; i < 240; ++i)
    body = "[{\"op\": \"repeat\", \"count\": 1, \"body\": " + body + "}]";
  std::string text = toImageText(withUpdate({}));
  const std::string empty = "\"update\": []";
  const size_t at = text.find(empty);
  ASSERT_NE(at, std::string::npos);
  auto back = imageFromText(text.replace(at, empty.size(), "\"update\": " + body));
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(back.error().kind, "image.command") << back.error().message;
}

} // namespace
