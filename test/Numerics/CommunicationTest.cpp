//===- CommunicationTest.cpp - No plan lets ranks wait for ever ------------===//
//
// Images of random plans are played out, rank by rank, by a small model of the
// runtime that knows nothing of how the image's checks go about it: a rank goes on
// when all members of a group stand at one and the same collective, a send waits for
// room and a receive for its message. What `rt::validate` accepts ends; of commands
// and actions that were moved, it refuses all that don't.
//
//===----------------------------------------------------------------------===//

#include "cleave/Frontend/Model.h"
#include "cleave/Pipelines/Phases.h"
#include "cleave/Pipelines/Register.h"
#include "cleave/Target/Image/Image.h"
#include "runtime/Schema/Unroll.h"

#include <deque>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <regex>
#include <set>

using namespace cleave;

namespace {

/// One thing that a rank does and others must know of.
struct Event {
  enum Kind { Collective, Send, Receive, Start, Await } kind;
  /// Of a collective: its ranks. Of a transfer: from, to, and which kind.
  std::vector<int64_t> who;
  /// In what both sides agree; of a wait for a bucket which one.
  std::string what;
};

/// What a rank does in a step, and what it does beside that.
class Script {
public:
  Script(const rt::Image &image, int64_t rank)
      : program(image.of(rank)), rank(rank), unrolled(rt::unrollEntries(program)) {
    add(rt::EntryKind::Begin);
    for (int64_t m = 0; m < program.batch.microBatches; ++m)
      add(rt::EntryKind::Count);
    add(rt::EntryKind::Prepare);
    if (program.pipeline)
      for (size_t index = 0; index < program.pipeline->actions.size(); ++index)
        addAction(index);
    else
      for (int64_t m = 0; m < program.batch.microBatches; ++m)
        add(m + 1 < program.batch.microBatches || program.entry(rt::EntryKind::Last).empty()
                ? rt::EntryKind::MicroBatch
                : rt::EntryKind::Last);
    add(rt::EntryKind::Update);
  }
  std::vector<Event> events;
  /// Of buckets, in the order of their starts.
  std::vector<Event> beside;

private:
  void add(rt::EntryKind entry) { addList(rt::Program::entryIndex(entry)); }

  void addList(size_t index) {
    std::map<int64_t, std::string> started;
    for (const rt::Command &command : unrolled[index]) {
      if (const auto *await = std::get_if<rt::AwaitCommand>(&command.what)) {
        events.push_back({Event::Await, {}, started[await->number]});
        continue;
      }
      auto group = groupOf(command);
      if (const auto *bucket = std::get_if<rt::BesideCommand>(&command.what)) {
        started[bucket->number] = std::to_string(beside.size());
        events.push_back({Event::Start, {}, ""});
        std::string what;
        for (const rt::Command &exchange : bucket->exchanges)
          what += std::string(nameOf(exchange)) + " " + exchange.label + ", ";
        beside.push_back(
            {Event::Collective, program.groups[*group].ranksOf(program.mesh, rank), what});
        continue;
      }
      if (!group || program.groups[*group].size(program.mesh) == 1)
        continue;
      const auto *reduce = std::get_if<rt::AllReduceCommand>(&command.what);
      const auto bytes = std::visit(
          [](const auto &what) {
            if constexpr (requires { what.target.bytes; })
              return what.source.bytes + what.target.bytes;
            else
              return int64_t(0);
          },
          command.what);
      events.push_back({Event::Collective, program.groups[*group].ranksOf(program.mesh, rank),
                        std::string(nameOf(command)) + " of " + std::to_string(bytes) +
                            (reduce && reduce->kind == rt::ReductionKind::Max ? " max" : "")});
    }
  }

  void addAction(size_t index) {
    using Kind = rt::PipelineAction::Kind;
    const rt::PipelineAction &action = program.pipeline->actions[index];
    const auto stage = static_cast<size_t>(action.stage);
    if (!action.isTransfer())
      return addList(rt::Program::entryIndex(stage, program.pipeline->entryOf(index)));
    const int64_t other =
        program.mesh.groupOf(rank, program.pipeline->axes)[static_cast<size_t>(action.peer)];
    // A message is known by its micro-batch and the stage that an activation enters.
    int64_t number = program.pipeline->stages[stage].number;
    if (action.kind == Kind::SendActivation || action.kind == Kind::ReceiveGradient)
      ++number;
    const int64_t from = action.isSend() ? rank : other, to = action.isSend() ? other : rank;
    events.push_back({action.isSend() ? Event::Send : Event::Receive,
                      {from, to, action.isOfGradient()},
                      std::to_string(number) + "." + std::to_string(action.microBatch)});
  }

  const rt::Program &program;
  const int64_t rank;
  const rt::EntryLists unrolled;
};

/// Whether a step of all ranks ends, with the same on both sides of everything. Each rank is
/// two actors: 2 · rank runs its commands, the next one its buckets.
bool ends(const rt::Image &image) {
  std::vector<std::vector<Event>> scripts;
  for (int64_t rank = 0; rank < image.first().mesh.world(); ++rank) {
    Script script(image, rank);
    scripts.push_back(std::move(script.events));
    scripts.push_back(std::move(script.beside));
  }
  std::vector<size_t> at(scripts.size(), 0), started(scripts.size(), 0);
  std::map<std::vector<int64_t>, std::deque<std::string>> channels;
  auto current = [&](size_t actor) -> const Event * {
    const bool isStarted = actor % 2 == 0 || at[actor] < started[actor];
    return isStarted && at[actor] < scripts[actor].size() ? &scripts[actor][at[actor]] : nullptr;
  };
  auto step = [&](size_t actor) {
    const Event *mine = current(actor);
    if (!mine)
      return false;
    if (mine->kind == Event::Collective) {
      auto actorOf = [&](int64_t member) { return 2 * static_cast<size_t>(member) + actor % 2; };
      for (int64_t member : mine->who) {
        const Event *theirs = current(actorOf(member));
        if (!theirs || theirs->kind != Event::Collective || theirs->who != mine->who ||
            theirs->what != mine->what)
          return false;
      }
      for (int64_t member : std::vector<int64_t>(mine->who))
        ++at[actorOf(member)];
      return true;
    }
    auto &messages = channels[mine->who];
    if (mine->kind == Event::Start) {
      ++started[actor + 1];
    } else if (mine->kind == Event::Await) {
      if (mine->what.empty() || at[actor + 1] <= std::stoul(mine->what))
        return false;
    } else if (mine->kind == Event::Send) {
      if (static_cast<int64_t>(messages.size()) >= image.of(mine->who[0]).pipeline->buffers)
        return false;
      messages.push_back(mine->what);
    } else {
      if (messages.empty() || messages.front() != mine->what)
        return false;
      messages.pop_front();
    }
    ++at[actor];
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t actor = 0; actor < scripts.size(); ++actor)
      while (step(actor))
        moved = true;
  }
  for (size_t actor = 0; actor < scripts.size(); ++actor)
    if (at[actor] < scripts[actor].size())
      return false;
  return true;
}

/// What a random plan pins.
PlanRequest randomRequest(std::mt19937 &random) {
  auto pick = [&](auto... values) {
    const int64_t all[] = {values...};
    return all[random() % sizeof...(values)];
  };
  PlanRequest request;
  Pins &pins = request.pins;
  pins.dp = pick(1, 2, 3);
  pins.cp = pick(1, 1, 2);
  pins.tp = pick(1, 2, 4);
  const int64_t pp = pick(1, 2, 2, 3, 4);
  if (pp > 1) {
    pins.pp = pp;
    pins.vp = pick(1, 1, 2);
    const char *schedules[] = {"gpipe", "1f1b", "zb-h1"};
    pins.schedule = *pins.vp > 1 ? "interleaved" : schedules[random() % 3];
  }
  pins.sequence = random() % 2;
  pins.vocabulary = random() % 4 != 0;
  pins.zero = pick(0, 1, 2, 3);
  pins.recompute = std::array{Recompute::None, Recompute::None, Recompute::Selective,
                              Recompute::Full}[random() % 4];
  pins.overlap = random() % 2;
  const auto &orders = cost::AxisOrder::all();
  if (random() % 2)
    pins.order = orders[random() % orders.size()];
  const int64_t micro = pick(1, 2), micros = pick(1, 2, 4, 5);
  pins.microBatch = micro;
  request.globalBatch = *pins.dp * micro * micros;
  request.sequence = 16;
  request.ranks = *pins.dp * *pins.cp * *pins.tp * pp;
  return request;
}

/// The image of a plan, or why there is none; with buckets of at most `bucketBytes` where that
/// is not 0.
rt::StatusOr<rt::Image> imageOf(const std::string &model, const PlanRequest &request,
                                int64_t bucketBytes = 0) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  cpu::registerKernelDialects(registry);
  mlir::MLIRContext context(registry);
  auto config = frontend::readModel(std::string(CLEAVE_TEST_GOLDEN) + "/" + model + "/config.json");
  if (!config.ok())
    return config.status();
  auto module = frontend::importModel(*config, context);
  CLEAVE_RT_RETURN_IF_ERROR(differentiatePhase(*module));
  CLEAVE_RT_ASSIGN_OR_RETURN(auto plan, planPhase(*module, request));
  if (bucketBytes)
    plan->walk([&](plan::OverlapOp overlap) { overlap.setBucket(bucketBytes); });
  CLEAVE_RT_RETURN_IF_ERROR(applyPhase(*module, *plan, OptimizerSettings()));
  CLEAVE_RT_RETURN_IF_ERROR(distPhase(*module));
  CLEAVE_RT_RETURN_IF_ERROR(execPhase(*module, cpu::Profile::avx2()));
  auto batch = plan::entry<plan::BatchOp>(solutionOf(*plan));
  ImageSettings settings;
  settings.globalBatch = batch.getGlobal();
  settings.microBatch = batch.getMicro();
  settings.sequence = batch.getSequence();
  settings.vocabulary = 256;
  settings.dataAxes = {"data"};
  settings.recipe = rt::JsonValue::object();
  CLEAVE_RT_ASSIGN_OR_RETURN(CompiledImage compiled, buildImage(*module, settings));
  return std::move(compiled.image);
}

/// Swaps two commands that follow each other and communicate, or two actions not far apart, of one
/// program; false if it has none.
bool swapSome(rt::Image &image, std::mt19937 &random) {
  rt::Program &program = image.programs[random() % image.programs.size()];
  if (program.pipeline && random() % 2) {
    auto &actions = program.pipeline->actions;
    const size_t i = random() % actions.size(), j = i + 1 + random() % 4;
    if (j >= actions.size())
      return false;
    std::swap(actions[i], actions[j]);
    return true;
  }
  // Half of the time of those that programs exchange together, most of which are in the update.
  const bool together = program.pipeline && random() % 2;
  std::vector<rt::Command> &list =
      together ? program.entry(rt::EntryKind::Update) : program.entries[random() % rt::entryCount];
  auto isTogether = [&](int32_t group) {
    const rt::AxisList &axes = program.groups[group].axes;
    return llvm::is_contained(axes, program.pipeline->axes[0]);
  };
  std::vector<size_t> places;
  for (size_t i = 0; i < list.size(); ++i)
    if (auto group = groupOf(list[i]);
        together ? group && isTogether(*group)
                 : group || std::holds_alternative<rt::RepeatCommand>(list[i].what))
      places.push_back(i);
  if (places.size() < 2)
    return false;
  const size_t i = random() % (places.size() - 1);
  std::swap(list[places[i]], list[places[i + 1]]);
  return true;
}

TEST(Communication, OfRandomPlansEndsAndOfMovedCommandsIsRefused) {
  std::mt19937 random(20261130);
  const std::string models[] = {"t0", "t0-tied", "gpt2-mini"};
  int images = 0, pipelines = 0, harmful = 0, harmless = 0;
  for (int trial = 0; trial < 400 && images < 24; ++trial) {
    const PlanRequest request = randomRequest(random);
    if (request.ranks > 16)
      continue;
    auto image = imageOf(models[trial % 3], request);
    if (!image.ok()) {
      EXPECT_TRUE(llvm::StringRef(image.error().kind).starts_with("plan."))
          << rt::renderText(image.error());
      continue;
    }
    SCOPED_TRACE("trial " + std::to_string(trial));
    ++images;
    pipelines += image->programs.size() > 1;
    ASSERT_TRUE(rt::validate(*image).ok());
    ASSERT_TRUE(ends(*image));
    for (int swap = 0; swap < (image->programs.size() > 1 ? 20 : 2); ++swap) {
      rt::Image moved = *image;
      if (!swapSome(moved, random))
        continue;
      if (ends(moved)) {
        ++harmless;
        continue;
      }
      ++harmful;
      const rt::Status status = rt::validate(moved);
      ASSERT_FALSE(status.ok()) << "swap " << swap;
      EXPECT_TRUE(status.error().kind == "image.group" || status.error().kind == "image.pipeline")
          << rt::renderText(status.error());
    }
  }
  EXPECT_EQ(images, 24);
  EXPECT_GT(pipelines, 8);
  EXPECT_GT(harmful, 30);
  EXPECT_GT(harmless, 20);
}

/// Ranks of one program can't come to anything in another order, however its commands stand:
/// what moves, moves on all of them.
TEST(Communication, OfOneProgramEndsInAnyOrder) {
  std::mt19937 random(1);
  PlanRequest request;
  request.ranks = 8;
  request.pins.dp = 2;
  request.pins.tp = 4;
  request.pins.sequence = true;
  request.pins.zero = 3;
  request.pins.microBatch = 1;
  request.globalBatch = 4;
  request.sequence = 16;
  auto image = imageOf("t0", request);
  ASSERT_TRUE(image.ok()) << rt::renderText(image.error());
  ASSERT_TRUE(ends(*image));
  for (int trial = 0; trial < 20; ++trial) {
    for (std::vector<rt::Command> &list : image->programs[0].entries)
      std::shuffle(list.begin(), list.end(), random);
    EXPECT_TRUE(ends(*image));
  }
}

/// Two ranks of ZeRO-3 whose exchanges run beside the computation.
PlanRequest overlapped() {
  PlanRequest request;
  request.ranks = request.pins.dp.emplace(2);
  request.pins.zero = 3;
  request.pins.overlap = true;
  request.globalBatch = 4;
  request.sequence = 16;
  return request;
}

/// The layers of a micro-batch, forward and back.
std::vector<rt::RepeatCommand *> layersOf(rt::Image &image) {
  std::vector<rt::RepeatCommand *> repeats;
  for (rt::Command &command : image.programs[0].entry(rt::EntryKind::MicroBatch))
    if (auto *repeat = std::get_if<rt::RepeatCommand>(&command.what))
      repeats.push_back(repeat);
  return repeats;
}

/// Weights come ahead and gradients stay behind; whatever moves a start, a wait or one of
/// the two places is found.
TEST(Overlap, OfMovedBucketsIsRefused) {
  const PlanRequest request = overlapped();
  auto image = imageOf("t0", request);
  ASSERT_TRUE(image.ok()) << rt::renderText(image.error());
  using Body = std::vector<rt::Command>;
  const std::pair<const char *, std::function<void(Body &, size_t)>> changes[] = {
      {"a wait that comes later",
       [](Body &body, size_t at) { std::rotate(&body[at], &body[at] + 1, &body.back() + 1); }},
      {"a wait that is left out", [](Body &body, size_t at) { body.erase(body.begin() + at); }},
      {"a start that comes first",
       [](Body &body, size_t at) { std::rotate(&body[0], &body[at], &body[at] + 1); }},
      {"a start that is left out", [](Body &body, size_t at) { body.erase(body.begin() + at); }},
      {"a start in the turn of its wait", [](Body &body, size_t at) { body[at].ahead -= 1; }}};
  int starts = 0, waits = 0;
  for (size_t repeat : {0, 1}) {
    const Body &body = layersOf(*image)[repeat]->body;
    for (size_t at = 0; at < body.size(); ++at) {
      const bool isStart = std::holds_alternative<rt::BesideCommand>(body[at].what);
      const bool isWait = std::holds_alternative<rt::AwaitCommand>(body[at].what);
      starts += isStart;
      waits += isWait;
      for (const auto &[what, change] : changes) {
        const bool isOfStarts = llvm::StringRef(what).starts_with("a start");
        // What comes ahead may as well start before the wait for what is due.
        const bool mayBeFirst = llvm::StringRef(what).ends_with("first") && body[at].ahead > 0;
        if (!(isOfStarts ? isStart : isWait) || mayBeFirst)
          continue;
        rt::Image moved = *image;
        change(layersOf(moved)[repeat]->body, at);
        EXPECT_FALSE(rt::validate(moved).ok())
            << what << ": command " << at << " of repeat " << repeat;
      }
    }
  }
  EXPECT_EQ(starts, 3);
  EXPECT_EQ(waits, 3);
}

/// Layers that alternate in kind stand in no repeat: their weights come a layer early all the
/// same, and their gradients are kept a layer late; so do the head's.
TEST(Overlap, OfLayersThatAlternateIsRefusedIfMoved) {
  const PlanRequest request = overlapped();
  auto image = imageOf("gemma2-mini", request);
  ASSERT_TRUE(image.ok()) << rt::renderText(image.error());
  using List = std::vector<rt::Command>;
  const List &list = image->programs[0].entry(rt::EntryKind::MicroBatch);
  auto isOf = [&](size_t at, const char *kind) {
    const auto *bucket = std::get_if<rt::BesideCommand>(&list[at].what);
    return bucket && rt::nameOf(bucket->exchanges.front()) == llvm::StringRef(kind);
  };
  auto isRefused = [&](const char *what, size_t at, const std::function<void(List &)> &change) {
    rt::Image moved = *image;
    change(moved.programs[0].entry(rt::EntryKind::MicroBatch));
    EXPECT_FALSE(rt::validate(moved).ok()) << what << ": command " << at;
  };
  int gathers = 0, sums = 0, waits = 0;
  for (size_t at = 0; at < list.size(); ++at) {
    EXPECT_FALSE(std::holds_alternative<rt::RepeatCommand>(list[at].what));
    const bool isSum = isOf(at, "reduce_scatter"), isGather = isOf(at, "all_gather");
    const bool isWait = std::holds_alternative<rt::AwaitCommand>(list[at].what);
    gathers += isGather;
    sums += isSum;
    waits += isWait;
    if (isWait) {
      // Between its start and it there are other commands.
      const auto *before = std::get_if<rt::BesideCommand>(&list[at - 1].what);
      EXPECT_FALSE(before && before->number == std::get<rt::AwaitCommand>(list[at].what).number);
      isRefused("a wait that comes last", at,
                [&](List &moved) { std::rotate(&moved[at], &moved[at] + 1, &moved.back() + 1); });
    }
    if (isSum)
      isRefused("a sum of what is still to be made", at,
                [&](List &moved) { std::rotate(&moved[0], &moved[at], &moved[at] + 1); });
    if (isWait || isSum || isGather)
      isRefused("a start or a wait that is left out", at,
                [&](List &moved) { moved.erase(moved.begin() + at); });
  }
  // Three layers and the head; behind the first layer's gradients comes the embedding's.
  EXPECT_EQ(gathers, 3 + 1 + 3);
  EXPECT_EQ(sums, 1 + 3);
  EXPECT_EQ(waits, gathers + sums);
}

/// What is larger than a bucket goes in several, each proven by itself.
TEST(Overlap, OfSmallBucketsIsTheSame) {
  const PlanRequest request = overlapped();
  size_t buckets[2], exchanges[2];
  for (bool isSmall : {false, true}) {
    auto image = imageOf("t0", request, isSmall ? 65536 : 0);
    ASSERT_TRUE(image.ok()) << rt::renderText(image.error());
    buckets[isSmall] = exchanges[isSmall] = 0;
    for (const rt::RepeatCommand *repeat : layersOf(*image))
      for (const rt::Command &command : repeat->body)
        if (const auto *bucket = std::get_if<rt::BesideCommand>(&command.what)) {
          ++buckets[isSmall];
          exchanges[isSmall] += bucket->exchanges.size();
        }
  }
  // 9 tensors of 156 KB a layer, gathered twice and summed once.
  EXPECT_EQ(buckets[0], 3u);
  EXPECT_EQ(buckets[1], 9u);
  EXPECT_EQ(exchanges[0], 27u);
  EXPECT_EQ(exchanges[1], 27u);
}

/// Without its second place every buffer of a bucket meets what the next turn does.
TEST(Overlap, OfBuffersInOnePlaceIsRefused) {
  const PlanRequest request = overlapped();
  auto image = imageOf("t0", request);
  ASSERT_TRUE(image.ok()) << rt::renderText(image.error());
  std::string text = rt::toImageText(*image);
  // Of each region with a period, in turn: everywhere the first place alone.
  std::set<std::string> regions;
  const std::regex periodic(R"(\[(\d+), (\d+), (\d+), \d+, 2\])");
  for (std::sregex_iterator it(text.begin(), text.end(), periodic), end; it != end; ++it)
    regions.insert(it->str());
  EXPECT_GT(regions.size(), 20u);
  for (const std::string &region : regions) {
    std::smatch numbers;
    ASSERT_TRUE(std::regex_match(region, numbers, periodic));
    const std::string one =
        "[" + numbers.str(1) + ", " + numbers.str(2) + ", " + numbers.str(3) + "]";
    std::string changed = text;
    for (size_t at = changed.find(region); at != std::string::npos; at = changed.find(region, at))
      changed.replace(at, region.size(), one);
    const auto read = rt::imageFromText(changed, "image");
    EXPECT_FALSE(read.ok()) << region;
  }
}

} // namespace
