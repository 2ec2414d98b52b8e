// The image survives the round trip byte for byte, and every broken number in it
// is refused by kind.
#include "runtime/Schema/Base64.h"
#include "runtime/Schema/Image.h"

#include <gtest/gtest.h>

#include <cctype>
#include <functional>
#include <limits>

using namespace cleave::rt;

namespace {

Command command(decltype(Command::what) what, std::string label) {
  return {std::move(what), std::move(label), 12, 34.5};
}

PickedOuterCommand pickedOuter() {
  PickedOuterCommand outer{
      {2, 512, 48}, {0, 0, 12}, {2, 0, 24}, {0, 1024, 64}, {}, 6, 4, 2, 2, 1, 2, true};
  outer.operandType = DataType::BF16;
  return outer;
}

/// One command of every sort on a mesh of data=2 × tensor=2.
Program everything() {
  Program p;
  p.modelName = "llama \"x\"";
  p.profile = "x86-64-v3";
  p.mesh.axes = {{"data", 2}, {"tensor", 2}};
  p.batch = {.globalBatch = 12,
             .microBatch = 2,
             .microBatches = 3,
             .sequence = 5,
             .vocabulary = 251,
             .dataAxes = {0},
             .sequenceAxes = {},
             .zigzag = 2};
  p.segments = {{"weights", 4096}, {"io", 4096}, {"arena", 4096}};
  StateEntry w;
  w.name = "model.embed_tokens.weight";
  w.aliases = {"lm_head.weight"};
  w.fileShape = {7, 6};
  w.shape = {7, 2, 3};
  w.sharding.axes = {{1}, {}, {}};
  w.decay = true;
  w.initial = {0.5, 0.02};
  w.slot(Slot::Value) = Region{0, 0, 96};
  w.slot(Slot::Gradient) = Region{0, 128, 96};
  // Cut over all four ranks: blocks of 2 rows.
  w.slot(Slot::Moment1) = Region{0, 256, 48};
  w.ownShardings[static_cast<size_t>(Slot::Moment1)] = Sharding{{{1, 0}, {}, {}}};
  StateEntry experts;
  experts.name = "layers.0.experts.{}.weight";
  experts.fileShape = {4, 2};
  experts.shape = {3, 4, 2};
  experts.sharding.axes = {{1}, {}, {}};
  experts.slot(Slot::Value) = Region{0, 1024, 64};
  p.state = {w, experts};
  p.exchange.tokens = {1, 0, 40};
  p.exchange.targets = {1, 64, 40};
  p.exchange.positions = Region{1, 128, 40};
  p.exchange.loss = {1, 256, 4};
  p.exchange.learningRate = Region{1, 260, 4};
  p.constants = {
      {"numbers", {2, 0, 8}, DataType::F32, Constant::Numbers{{0.1, -3e-12}}},
      {"bytes", {2, 8, 4}, DataType::BF16, Constant::Bytes{std::string("\0\xff\x01z", 4)}},
      {"iota", {2, 64, 32}, DataType::I32, Constant::Iota{3, 2}},
      {"row", {2, 96, 8}, DataType::I64, Constant::BlockStart{{1}, 4}}};
  p.groups = {Group{{0}, {}}, Group{{0, 1}, {}}};
  KernelCommand kernel{"cleave_k0", {{0, 0, 96}, {2, 0, 8}}, 7, 2, {DataType::BF16}};
  MatmulCommand matmul;
  matmul.a = {{0, 0, 96}, 3, 1};
  matmul.b = {{0, 0, 96}, 1, 3};
  matmul.c = {{2, 512, 256}, 4, 1};
  matmul.m = 4;
  matmul.n = 4;
  matmul.k = 3;
  matmul.batch = {{2, 12, 0, 16}};
  matmul.accumulate = true;
  p.entry(EntryKind::Begin) = {command(ZeroCommand{{2, 0, 64}}, "zero")};
  p.entry(EntryKind::Count) = {command(kernel, "count")};
  p.entry(EntryKind::MicroBatch) = {
      command(matmul, "layers.0/mlp.gate"),
      command(CopyCommand{{0, 0, 16}, {2, 0, 16}}, ""),
      command(AllGatherCommand{0, DataType::F32, {2, 5, 3}, {2, 0, 72}, {2, 128, 120}}, "gather"),
      command(SliceCommand{0, DataType::F32, {2, 5, 3}, {2, 128, 120}, {2, 0, 72}}, "slice"),
      command(
          ReduceScatterCommand{
              0, ReductionKind::Max, DataType::F32, {2, 5, 3}, {2, 128, 120}, {2, 0, 72}},
          "scatter"),
      command(AllToAllCommand{0, DataType::BF16, 1, 3, 2, 5, 1, false, {2, 0, 40}, {2, 64, 36}},
              "exchange"),
      command(PickedMatmulCommand{{0, 0, 24},
                                  {0, 1024, 64},
                                  {2, 0, 24},
                                  {2, 512, 96},
                                  Region{2, 64, 4},
                                  6,
                                  4,
                                  2,
                                  2,
                                  2,
                                  true},
              "layers.0/mlp.up"),
      command(pickedOuter(), "layers.0/mlp.up")};
  p.entry(EntryKind::Update) = {command(
      AllReduceCommand{1, ReductionKind::Sum, DataType::F32, {0, 128, 96}, {0, 128, 96}}, "sum")};
  RepeatCommand repeat{3, 2, -1, {}};
  repeat.body = {command(KernelCommand{"cleave_k1", {{0, 0, 96, 96}, {2, 2048, 8, -16}}, 7, 2},
                         "layers.*/norm"),
                 command(CopyCommand{{0, 0, 16, 16}, {2, 0, 16}}, "layers.*/copy")};
  p.entry(EntryKind::Evaluate) = {{repeat, "layers", 0, 0}, command(ZeroCommand{{2, 0, 64}}, "")};
  p.prediction.bytesPerRank = 123456;
  p.configText = "{\n\t\"model_type\": \"llama\"\n}\n";
  p.recipe.set("seed", JsonValue(1));
  return p;
}

TEST(Program, RoundTripsByteForByte) {
  const Program program = everything();
  ASSERT_TRUE(validate(program).ok()) << validate(program).error().message;
  const std::string text = toImageText(program);
  auto back = imageFromText(text);
  ASSERT_TRUE(back.ok()) << renderText(back.error());
  EXPECT_EQ(toImageText(*back), text);
  EXPECT_EQ(back->first().configText, program.configText);
  EXPECT_EQ(std::get<Constant::Bytes>(back->first().constants[1].contents).bytes.size(), 4u);
  EXPECT_EQ(std::get<Constant::Numbers>(back->first().constants[0].contents).values[1], -3e-12);
}

/// Most programs have no `last`, and say nothing of it.
TEST(Program, RoundTripsALastMicroBatch) {
  Program program = everything();
  EXPECT_EQ(toImageText(program).find("\"last\""), std::string::npos);
  program.entry(EntryKind::Last) = program.entry(EntryKind::MicroBatch);
  const std::string text = toImageText(program);
  auto back = imageFromText(text);
  ASSERT_TRUE(back.ok()) << renderText(back.error());
  EXPECT_EQ(toImageText(*back), text);
  EXPECT_EQ(back->first().entry(EntryKind::Last).size(),
            program.entry(EntryKind::MicroBatch).size());
  EXPECT_FALSE(back->first().entry(EntryKind::Last).empty());
}

void expectRefused(const std::string &kind, const std::function<void(Program &)> &breakIt,
                   const std::string &mention = "") {
  Program program = everything();
  breakIt(program);
  // Through the text, as a run meets it.
  auto back = imageFromText(toImageText(program));
  ASSERT_FALSE(back.ok()) << "expected " << kind;
  EXPECT_EQ(back.error().kind, kind) << back.error().message;
  EXPECT_NE(back.error().message.find(mention), std::string::npos) << back.error().message;
}

TEST(Program, RefusesBrokenStructures) {
  expectRefused("image.mesh", [](Program &p) { p.mesh.axes[1].name = "data"; });
  expectRefused("image.mesh", [](Program &p) { p.mesh.axes[1].size = int64_t(1) << 40; });
  expectRefused("image.batch", [](Program &p) { p.batch.globalBatch = 11; });
  expectRefused("image.batch", [](Program &p) { p.batch.dataAxes = {0, 0}; });
  expectRefused("image.batch", [](Program &p) { p.batch.dataAxes = {7}; });
  expectRefused("image.out_of_range", [](Program &p) { p.batch.zigzag = 0; });
  expectRefused("image.batch", [](Program &p) {
    p.batch.zigzag = 2;
    p.exchange.positions.reset();
  });
  expectRefused("image.region", [](Program &p) { p.state[0].slots[0]->offset = 4096 - 92; });
  expectRefused("image.region", [](Program &p) { p.state[0].slots[0]->segment = 3; });
  expectRefused("image.region", [](Program &p) { p.state[0].slots[0]->offset = 2; });
  expectRefused("image.state", [](Program &p) { p.state[0].slots[0]->bytes = 92; });
  expectRefused("image.state", [](Program &p) { p.state[0].fileShape = {7, 7}; });
  expectRefused("image.state", [](Program &p) { p.state[0].sharding.axes[1] = {1}; });
  expectRefused("image.state", [](Program &p) { p.state[0].slots[2]->bytes = 96; }, "moment1");
  expectRefused("image.state", [](Program &p) { p.state[0].ownShardings[2]->axes = {{1}}; });
  expectRefused("image.state", [](Program &p) { p.state[0].ownShardings[2]->axes[0] = {1, 1}; });
  expectRefused("image.state", [](Program &p) { p.state.push_back(p.state[0]); }, "twice");
  expectRefused("image.state", [](Program &p) { p.state[0].slots[0].reset(); });
  expectRefused("image.state", [](Program &p) { p.state[1].shape = {4, 3, 2}; });
  expectRefused("image.state", [](Program &p) { p.state[1].name = "{"; }, "elements");
  expectRefused(
      "image.state", [](Program &p) { p.state[0].name = "layers.0.experts.2.weight"; }, "twice");
  expectRefused("image.exchange", [](Program &p) { p.exchange.targets.bytes = 36; });
  expectRefused("image.constant", [](Program &p) { p.constants[0].region.bytes = 4; });
  expectRefused("image.constant", [](Program &p) { p.constants[3].region.bytes = 16; });
  expectRefused("image.group", [](Program &p) { p.groups[1].axes = {2}; });
  expectRefused("image.wrong_type", [](Program &p) { p.recipe = JsonValue(3); });
}

Command &micro(Program &p, size_t i) { return p.entry(EntryKind::MicroBatch)[i]; }

TEST(Program, RefusesBrokenCommandsByPlace) {
  auto matmul = [](Program &p) -> MatmulCommand & {
    return std::get<MatmulCommand>(micro(p, 0).what);
  };
  expectRefused(
      "image.command", [&](Program &p) { matmul(p).batch[0].strideC = 0; },
      "microbatch command 0 (matmul layers.0/mlp.gate)");
  expectRefused("image.command", [&](Program &p) { matmul(p).a.rowStride = 6; });
  expectRefused("image.command", [&](Program &p) { matmul(p).a = {{0, 0, 4096}, 3, 2}; });
  expectRefused("image.command",
                [&](Program &p) { matmul(p).batch[0].strideA = int64_t(1) << 62; });
  expectRefused("image.command",
                [](Program &p) { std::get<CopyCommand>(micro(p, 1).what).target = {0, 8, 16}; });
  expectRefused("image.command",
                [](Program &p) { std::get<AllGatherCommand>(micro(p, 2).what).cut.full = 6; });
  expectRefused("image.command",
                [](Program &p) { std::get<SliceCommand>(micro(p, 3).what).group = 2; });
  expectRefused("image.command", [](Program &p) {
    std::get<ReduceScatterCommand>(micro(p, 4).what).target.offset = 64;
  });
  expectRefused("image.command",
                [](Program &p) { std::get<AllToAllCommand>(micro(p, 5).what).middle = 3; });
  auto picked = [](Program &p) -> PickedMatmulCommand & {
    return std::get<PickedMatmulCommand>(micro(p, 6).what);
  };
  expectRefused("image.command", [&](Program &p) { picked(p).rows = 8; }, "picked_matmul");
  expectRefused("image.command", [&](Program &p) { picked(p).share = 4; }, "shares a row");
  expectRefused("image.command", [&](Program &p) { picked(p).matrices = 3; }, "has a b");
  expectRefused("image.command", [&](Program &p) { picked(p).offset->bytes = 8; }, "offset");
  expectRefused("image.command", [&](Program &p) { picked(p).c = {2, 0, 96}; }, "reads");
  auto outer = [](Program &p) -> PickedOuterCommand & {
    return std::get<PickedOuterCommand>(micro(p, 7).what);
  };
  expectRefused("image.command", [&](Program &p) { outer(p).shareB = 1; }, "has a b");
  expectRefused("image.command", [&](Program &p) { outer(p).n = 4; });
  expectRefused("image.command", [&](Program &p) { outer(p).operandType = DataType::F32; });
  expectRefused(
      "image.command",
      [](Program &p) {
        std::get<KernelCommand>(p.entry(EntryKind::Count)[0].what).writes.resize(3, DataType::F32);
      },
      "writes more than its arguments");
  expectRefused("image.out_of_range", [](Program &p) {
    std::get<KernelCommand>(p.entry(EntryKind::Count)[0].what).grain = 0;
  });
}

TEST(Program, RefusesForeignText) {
  const std::string text = toImageText(everything());
  auto kindOf = [](const std::string &changed) {
    auto back = imageFromText(changed);
    return back.ok() ? std::string("accepted") : back.error().kind;
  };
  auto replaced = [&](const std::string &from, const std::string &to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return changed.replace(at, from.size(), to);
  };
  EXPECT_EQ(kindOf(replaced("\"version\": 3", "\"version\": 4")), "image.version_unsupported");
  EXPECT_EQ(kindOf(replaced("\"version\": 3", "\"version\": 1")), "accepted");
  EXPECT_EQ(kindOf(replaced("\"groups\"", "\"groupz\"")), "image.unknown_key");
  EXPECT_EQ(kindOf(replaced("\"op\": \"zero\"", "\"op\": \"zeros\"")), "image.unknown_value");
  EXPECT_EQ(kindOf(text.substr(0, text.size() / 2)), "json.syntax");
  EXPECT_EQ(kindOf("[]"), "image.wrong_type");
}

TEST(Program, RefusesConstantsBeyondTheirType) {
  expectRefused("image.constant",
                [](Program &p) { p.constants[0].contents = Constant::Numbers{{1e300, 0}}; });
  expectRefused("image.constant",
                [](Program &p) { p.constants[2].contents = Constant::Iota{0, 1e9}; });
  expectRefused("image.constant", [](Program &p) {
    p.constants[3].contents = Constant::BlockStart{{1}, std::numeric_limits<int64_t>::max()};
    p.constants[3].type = DataType::I32;
    p.constants[3].region.bytes = 4;
  });
}

// Whatever number of an image is replaced by whatever other, the reader answers
// with a program that keeps all promises or with an error, and never crashes.
TEST(Program, SurvivesEveryReplacedNumber) {
  const std::string text = toImageText(everything());
  int refused = 0, accepted = 0;
  for (size_t at = 0; at < text.size();) {
    if (!std::isdigit(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    const size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    for (const char *other : {"-1", "0", "3", "9223372036854775807", "4611686018427387904",
                              "99999999999999999999", "1e308", "null", "[]", "\"\""}) {
      auto back = imageFromText(text.substr(0, at) + other + text.substr(end));
      ++(back.ok() ? accepted : refused);
      if (!back.ok()) {
        EXPECT_TRUE(back.error().kind.starts_with("image.") ||
                    back.error().kind.starts_with("json."))
            << back.error().kind;
      } else {
        EXPECT_TRUE(validate(*back).ok());
      }
    }
    at = end;
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 50); // a label's, a recipe's or a cost's number may be anything
}

TEST(Base64, RoundTripsAndRefusesOtherForms) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(fromBase64(toBase64(bytes)), bytes);
    bytes += static_cast<char>(i * 37);
  }
  EXPECT_EQ(toBase64("foob"), "Zm9vYg==");
  for (const char *bad : {"Zg", "Zg=", "Zh==", "Z===", "Zm9=", "Zg==Zg==", "Zm 9"})
    EXPECT_FALSE(fromBase64(bad)) << bad;
}

} // namespace
