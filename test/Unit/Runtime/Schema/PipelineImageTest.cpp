// Images of a pipeline survive the round trip, and what would make a run wrong or
// stand still is refused before anything runs.
#include "../Train/TinyPipeline.h"

#include "runtime/Schema/Image.h"

#include <gtest/gtest.h>

#include <functional>

using namespace cleave::rt;

namespace {

using Kind = PipelineAction::Kind;

TEST(PipelineImage, RoundTripsByteForByte) {
  for (const tiny::PipelineShape &shape :
       {tiny::PipelineShape{},
        tiny::PipelineShape{.dataRanks = 2, .stagesEach = 2, .buffers = 4, .inTurn = false},
        tiny::PipelineShape{.pipelineRanks = 3, .weightsApart = true}}) {
    const Image image = tiny::pipeline(shape);
    const std::string text = toImageText(image);
    auto back = imageFromText(text);
    ASSERT_TRUE(back.ok()) << renderText(back.error());
    EXPECT_EQ(toImageText(*back), text);
    EXPECT_EQ(back->stages(), shape.pipelineRanks * shape.stagesEach);
    EXPECT_EQ(text.find("microbatch\""), std::string::npos);
  }
}

TEST(PipelineImage, RanksRunTheProgramOfTheirPlace) {
  // Ranks count row-major over pipe, data.
  const Image image = tiny::pipeline({.dataRanks = 2, .pipelineRanks = 3});
  for (int64_t rank = 0; rank < 6; ++rank)
    EXPECT_EQ(image.of(rank).pipeline->index, rank / 2);
  const Program whole = tiny::wholeModel({.pipelineRanks = 3});
  EXPECT_EQ(image.parameterCount(), Image(whole).parameterCount());
  EXPECT_EQ(image.predictedBytesPerRank(), int64_t(6) << 20);
}

class Refusal {
public:
  explicit Refusal(tiny::PipelineShape shape = {}) : shape(shape) {}

  /// Through the text, as a run meets it, and as the compiler asks.
  void operator()(const std::string &kind, const std::string &mention,
                  const std::function<void(Image &)> &breakIt) const {
    Image image = tiny::pipeline(shape);
    ASSERT_TRUE(validate(image).ok()) << renderText(validate(image).error());
    breakIt(image);
    const Status status = validate(image);
    ASSERT_FALSE(status.ok()) << "expected " << kind << " with " << mention;
    EXPECT_EQ(status.error().kind, kind) << status.error().message;
    EXPECT_NE(status.error().message.find(mention), std::string::npos) << status.error().message;
    auto back = imageFromText(toImageText(image));
    // What programs have in common is written once, and so can't differ in a text;
    // nor has it a place for what a pipeline lacks.
    if (mention.find("differ") == std::string::npos &&
        mention.find("microbatch") == std::string::npos)
      EXPECT_FALSE(back.ok());
  }

private:
  const tiny::PipelineShape shape;
};

Pipeline &pipe(Image &image, size_t program) { return *image.programs[program].pipeline; }

/// The first action of a kind.
size_t find(Image &image, size_t program, Kind kind, int32_t microBatch = 0) {
  const auto &actions = pipe(image, program).actions;
  for (size_t i = 0; i < actions.size(); ++i)
    if (actions[i].kind == kind && actions[i].microBatch == microBatch)
      return i;
  ADD_FAILURE() << nameOf(kind);
  return 0;
}

TEST(PipelineImage, RefusesProgramsThatAreNotOfOneRun) {
  const Refusal refused;
  refused("image.pipeline", "differ in their batch", [](Image &i) {
    i.programs[1].batch.sequence = 12, i.programs[1].exchange.tokens.bytes *= 2,
    i.programs[1].exchange.tokens.offset = 1024,
    i.programs[1].exchange.targets = i.programs[1].exchange.tokens,
    i.programs[1].segments[2].bytes = 4096;
  });
  refused("image.pipeline", "differ in their model",
          [](Image &i) { i.programs[1].modelName = "another"; });
  refused("image.pipeline", "differ in their config",
          [](Image &i) { i.programs[1].configText = "{}"; });
  refused("image.pipeline", "1 programs for a pipeline of 2 ranks", [](Image &i) {
    i.programs.pop_back();
    // So that the rest would do: a whole model of one stage.
    Stage &only = pipe(i, 0).stages[0];
    only.boundary = {};
  });
  refused("image.pipeline", "has index 1", [](Image &i) { pipe(i, 0).index = 1; });
  refused("image.pipeline", "differ in their buffers", [](Image &i) { pipe(i, 1).buffers = 2; });
  refused("image.pipeline", "has commands in microbatch", [](Image &i) {
    i.programs[0].entry(EntryKind::MicroBatch) = i.programs[0].entry(EntryKind::Begin);
  });
  refused("image.pipeline", "has commands in survey", [](Image &i) {
    i.programs[0].entry(EntryKind::Survey) = i.programs[0].entry(EntryKind::Begin);
  });
  refused("image.pipeline", "has commands in last", [](Image &i) {
    i.programs[0].entry(EntryKind::Last) = i.programs[0].entry(EntryKind::Begin);
  });
  refused("image.pipeline", "differ in their surveyed stages",
          [](Image &i) { pipe(i, 1).surveyed = 1; });
  refused("image.pipeline", "3 of 2 stages are surveyed",
          [](Image &i) { pipe(i, 0).surveyed = pipe(i, 1).surveyed = 3; });
  refused("image.pipeline", "stage 1 has a survey, and only 1 stages are surveyed", [](Image &i) {
    pipe(i, 0).surveyed = pipe(i, 1).surveyed = 1;
    Stage &stage = pipe(i, 1).stages[0];
    stage.entry(StageEntry::Survey) = stage.entry(StageEntry::Evaluate);
  });
  refused("image.pipeline", "batch is cut over an axis", [](Image &i) {
    for (Program &program : i.programs) {
      program.batch.dataAxes = {0};
      program.batch.globalBatch *= 2;
    }
  });
  refused("image.state", "counted by 2 programs",
          [](Image &i) { i.programs[1].state.back().counted = true; });
  refused("image.state", "counted by 0 programs",
          [](Image &i) { i.programs[0].state[0].counted = false; });
  refused("image.state", "not alike", [](Image &i) { i.programs[1].state.back().initial.std = 1; });
}

TEST(PipelineImage, RefusesWhatLiesInTheWrongCopies) {
  const Refusal refused;
  refused("image.segment",
          "\"slots\" has 2 copies; segments have one, or as many as a pipeline has slots (5)",
          [](Image &i) {
            i.programs[0].segments[3].copies = 5;
            i.programs[0].segments[4].copies = 2;
          });
  refused("image.region", "of which there are 2 copies",
          [](Image &i) { i.programs[0].exchange.loss = {4, 0, 4}; });
  refused("image.region", "of which there are 2 copies",
          [](Image &i) { i.programs[0].state[0].slots[0]->segment = 4; });
  refused("image.pipeline", "has 1 copies for 2 slots",
          [](Image &i) { pipe(i, 0).stages[0].boundary.outputs[0].segment = 3; });
  refused("image.region", "forward of stage 0 command 0", [](Image &i) {
    auto &forward = pipe(i, 0).stages[0].entry(StageEntry::Forward);
    std::get<KernelCommand>(forward[0].what).args[2].offset = int64_t(1) << 20;
  });
}

TEST(PipelineImage, RefusesStagesThatDoNotFitTogether) {
  const Refusal refused;
  refused("image.pipeline", "beyond the last or there twice",
          [](Image &i) { pipe(i, 1).stages[0].number = 2; });
  refused("image.pipeline", "stage 0 has inputs", [](Image &i) {
    pipe(i, 0).stages[0].boundary.inputs = pipe(i, 0).stages[0].boundary.outputs;
  });
  refused("image.pipeline", "is the last and has outputs", [](Image &i) {
    pipe(i, 1).stages[0].boundary.outputs = pipe(i, 1).stages[0].boundary.inputs;
  });
  refused("image.pipeline", "activations from stage 0 to stage 1: region 0 has 44 bytes",
          [](Image &i) { pipe(i, 0).stages[0].boundary.outputs[0].bytes = 44; });
  refused("image.pipeline", "gradients against from stage 0 to stage 1: 0 regions are sent",
          [](Image &i) { pipe(i, 1).stages[0].boundary.inputGradients.clear(); });
  refused("image.pipeline", "no whole words",
          [](Image &i) { pipe(i, 1).stages[0].boundary.inputs[0].bytes = 46; });
  refused("image.pipeline", "has no stage", [](Image &i) { pipe(i, 0).stages.clear(); });
  const Refusal interleaved({.stagesEach = 2, .buffers = 4, .inTurn = false});
  interleaved("image.pipeline", "are both on index 0",
              [](Image &i) { pipe(i, 0).stages[1].number = 1; });
  interleaved("image.pipeline", "ascending order",
              [](Image &i) { std::swap(pipe(i, 0).stages[0], pipe(i, 0).stages[1]); });
}

TEST(PipelineImage, RefusesBrokenLists) {
  const Refusal refused({.weightsApart = true});
  auto at = [](size_t program, Kind kind, auto change) {
    return [=](Image &i) { change(pipe(i, program).actions[find(i, program, kind)]); };
  };
  auto erase = [](size_t program, Kind kind) {
    return [=](Image &i) {
      auto &actions = pipe(i, program).actions;
      actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(find(i, program, kind)));
    };
  };
  refused("image.pipeline", "names stage 3 of 1",
          at(0, Kind::Forward, [](PipelineAction &a) { a.stage = 3; }));
  refused("image.pipeline", "names micro-batch 4 of 4",
          at(0, Kind::Forward, [](PipelineAction &a) { a.microBatch = 4; }));
  refused("image.pipeline", "names slot 2 of 2",
          at(0, Kind::Forward, [](PipelineAction &a) { a.slot = 2; }));
  refused("image.pipeline", "in slot 0 and",
          at(0, Kind::Backward, [](PipelineAction &a) { a.slot = 1; }));
  refused("image.pipeline", "with index 0, but stage 1 is on index 1",
          at(0, Kind::SendActivation, [](PipelineAction &a) { a.peer = 0; }));
  refused("image.pipeline", "beyond which there is no stage",
          at(0, Kind::Forward, [](PipelineAction &a) { a.kind = Kind::ReceiveActivation; }));
  refused("image.pipeline", "twice", [](Image &i) {
    pipe(i, 0).actions.push_back(pipe(i, 0).actions[find(i, 0, Kind::Forward)]);
  });
  for (Kind kind :
       {Kind::Forward, Kind::Backward, Kind::Weights, Kind::SendActivation, Kind::ReceiveGradient})
    refused("image.pipeline", std::string("index 0 of the pipeline lacks ") + nameOf(kind),
            erase(0, kind));
  for (Kind kind : {Kind::ReceiveActivation, Kind::SendGradient})
    refused("image.pipeline", std::string("index 1 of the pipeline lacks ") + nameOf(kind),
            erase(1, kind));
  refused("image.pipeline", "which it needs", [](Image &i) {
    std::swap(pipe(i, 0).actions[find(i, 0, Kind::ReceiveGradient)],
              pipe(i, 0).actions[find(i, 0, Kind::Backward)]);
  });
  refused("image.pipeline", "still needs it", [](Image &i) {
    for (PipelineAction &action : pipe(i, 0).actions)
      action.slot = 0;
  });
}

TEST(PipelineImage, RefusesChannelsThatDisagreeOrStandStill) {
  Refusal()("image.pipeline", "where index 1 does receive_activation of stage 1, micro-batch 0",
            [](Image &i) {
              auto &actions = pipe(i, 0).actions;
              std::swap(actions[find(i, 0, Kind::SendActivation, 0)],
                        actions[find(i, 0, Kind::SendActivation, 1)]);
              // The forward must still come first.
              std::swap(actions[find(i, 0, Kind::SendActivation, 1)],
                        actions[find(i, 0, Kind::Forward, 1)]);
            });
  // All forwards of two stages on a rank need room for the first stage's results.
  Refusal({.stagesEach = 2, .buffers = 4, .inTurn = false})(
      "image.pipeline", "never ends with channels of 1 messages: index 0 waits at send_activation",
      [](Image &i) { pipe(i, 0).buffers = pipe(i, 1).buffers = 1; });
}

TEST(PipelineImage, RefusesCollectivesThatMeetInAnotherOrder) {
  const Refusal refused;
  auto update = [](Image &i, size_t program) -> std::vector<Command> & {
    return i.programs[program].entry(EntryKind::Update);
  };
  auto reduceOf = [&](Image &i, size_t program, const std::string &label) -> Command & {
    for (Command &command : update(i, program))
      if (command.label == label)
        return command;
    ADD_FAILURE() << label;
    return update(i, program).front();
  };
  const Refusal wide({.dataRanks = 2});
  wide("image.group", "in update index 0 of the pipeline waits for ever",
       [&](Image &i) { std::swap(reduceOf(i, 0, "norm"), reduceOf(i, 0, "loss")); });
  refused("image.group", "index 1 is at its end", [&](Image &i) {
    std::erase_if(update(i, 1), [](const Command &command) { return command.label == "loss"; });
  });
  refused("image.group", "is at all_reduce", [&](Image &i) {
    std::get<AllReduceCommand>(reduceOf(i, 1, "norm").what).kind = ReductionKind::Max;
  });
  refused("image.group", "backward of stage 0 has all_reduce of norm in a group of several",
          [&](Image &i) {
            pipe(i, 0).stages[0].entry(StageEntry::Backward).push_back(reduceOf(i, 0, "norm"));
          });
  refused("image.group", "members are 0 to 1 in ascending order",
          [](Image &i) { i.programs[0].groups[2].members = {1, 0}; });
  refused("image.group", "lacks ranks of its own program",
          [](Image &i) { i.programs[0].groups[2].members = {1}; });
  wide("image.group", "has some ranks of a program and lacks others",
       [](Image &i) { i.programs[0].groups[2].members = {0, 1, 2}; });
}

TEST(PipelineImage, RefusesTrafficOfNobody) {
  auto counted = [](auto change) {
    return [change](Image &i) {
      Traffic &traffic = i.programs[0].traffic.emplace();
      traffic.collectives.push_back({2, "all_reduce", {2, 8}});
      traffic.transfers.push_back({Kind::SendActivation, 1, {4, 64}});
      change(traffic);
    };
  };
  Image image = tiny::pipeline({});
  counted([](Traffic &) {})(image);
  ASSERT_TRUE(validate(image).ok()) << renderText(validate(image).error());
  auto back = imageFromText(toImageText(image));
  ASSERT_TRUE(back.ok()) << renderText(back.error());
  EXPECT_EQ(toImageText(*back), toImageText(image));
  EXPECT_FALSE(back->programs[1].traffic.has_value());

  const Refusal refused;
  refused("image.traffic", "in group 9, which is none of several ranks",
          counted([](Traffic &t) { t.collectives[0].group = 9; }));
  refused("image.traffic", "\"broadcast\" is no collective",
          counted([](Traffic &t) { t.collectives[0].kind = "broadcast"; }));
  refused("image.traffic", "all_reduce of group 2 is counted twice",
          counted([](Traffic &t) { t.collectives.push_back(t.collectives[0]); }));
  for (int32_t peer : {0, 2})
    refused("image.traffic", "which is no other of a pipeline",
            counted([peer](Traffic &t) { t.transfers[0].peer = peer; }));
  refused("image.traffic", "send_activation with index 1 is counted twice",
          counted([](Traffic &t) { t.transfers.push_back(t.transfers[0]); }));
}

// Whatever number of an image is replaced by whatever other, the reader answers with
// programs that keep all promises or with an error, and never crashes.
TEST(PipelineImage, SurvivesEveryReplacedNumber) {
  const std::string text = toImageText(tiny::pipeline({.microBatches = 2}));
  int refused = 0, accepted = 0;
  for (size_t at = text.find("\"programs\""); at < text.size();) {
    if (!std::isdigit(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    const size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    for (const char *other : {"-1", "7", "9223372036854775807"}) {
      auto back = imageFromText(text.substr(0, at) + other + text.substr(end));
      ++(back.ok() ? accepted : refused);
      if (back.ok())
        EXPECT_TRUE(validate(*back).ok());
      else
        EXPECT_TRUE(back.error().kind.starts_with("image.") ||
                    back.error().kind.starts_with("json."))
            << back.error().kind;
    }
    at = end;
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 50);
}

} // namespace
