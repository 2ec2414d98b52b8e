// Kernels and programs of the model of stages.
#include "TinyPipeline.h"

#include "TinyProgram.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>

using namespace cleave::rt;

namespace tiny {
namespace {

float *floats(void *pointer) { return static_cast<float *>(pointer); }
int32_t *ints(void *pointer) { return static_cast<int32_t *>(pointer); }

/// Of all kernels the last argument: how many values (i32 constant).
int32_t last(void *const *args, int at) { return *ints(args[at]); }

/// targets, count, n.
void countTargets(void *const *args, int64_t, int64_t) {
  for (int32_t i = 0; i < last(args, 2); ++i)
    *floats(args[1]) += ints(args[0])[i] >= 0;
}

/// tokens, tie, stream, n.
void enter(void *const *args, int64_t, int64_t) {
  for (int32_t i = 0; i < last(args, 3); ++i)
    floats(args[2])[i] = static_cast<float>(ints(args[0])[i]) / vocabulary + *floats(args[1]);
}

/// stream, layer, result, n.
void affine(void *const *args, int64_t, int64_t) {
  for (int32_t i = 0; i < last(args, 3); ++i)
    floats(args[2])[i] = floats(args[0])[i] * floats(args[1])[0] + floats(args[1])[1];
}

/// stream, targets, tie, count, loss, its gradient by the stream, n.
void compare(void *const *args, int64_t, int64_t) {
  for (int32_t i = 0; i < last(args, 6); ++i) {
    const int32_t target = ints(args[1])[i];
    const float error = floats(args[0])[i] + *floats(args[2]) -
                        static_cast<float>(target) / static_cast<float>(vocabulary);
    const float scale = target < 0 ? 0 : 1 / *floats(args[3]);
    *floats(args[4]) += error * error * scale;
    floats(args[5])[i] = 2 * error * scale;
  }
}

/// gradient of the stream, that of a parameter added to it, n.
void addUp(void *const *args, int64_t, int64_t) {
  for (int32_t i = 0; i < last(args, 2); ++i)
    *floats(args[1]) += floats(args[0])[i];
}

/// gradient of the result, layer, gradient of the stream, n.
void affineBack(void *const *args, int64_t, int64_t) {
  for (int32_t i = 0; i < last(args, 3); ++i)
    floats(args[2])[i] = floats(args[0])[i] * floats(args[1])[0];
}

/// stream, gradient of the result, gradient of the layer, n.
void affineWeights(void *const *args, int64_t, int64_t) {
  for (int32_t i = 0; i < last(args, 3); ++i) {
    floats(args[2])[0] += floats(args[1])[i] * floats(args[0])[i];
    floats(args[2])[1] += floats(args[1])[i];
  }
}

/// gradient, sum of squares, n.
void addSquares(void *const *args, int64_t, int64_t) {
  for (int32_t i = 0; i < last(args, 2); ++i)
    *floats(args[1]) += floats(args[0])[i] * floats(args[0])[i];
}

/// sum, its root.
void root(void *const *args, int64_t, int64_t) { *floats(args[1]) = std::sqrt(*floats(args[0])); }

/// a += b.
void add(void *const *args, int64_t, int64_t) { *floats(args[0]) += *floats(args[1]); }

/// As affineBack, but for its third call, which fails.
void failLate(void *const *args, int64_t begin, int64_t end) {
  thread_local int calls = 0;
  if (++calls == 3)
    throw std::runtime_error("broken kernel");
  affineBack(args, begin, end);
}

constexpr KernelSymbol table[] = {{"fail_late", failLate},
                                  {"count_targets", countTargets},
                                  {"enter", enter},
                                  {"affine", affine},
                                  {"compare", compare},
                                  {"add_up", addUp},
                                  {"affine_back", affineBack},
                                  {"affine_weights", affineWeights},
                                  {"add_squares", addSquares},
                                  {"root", root},
                                  {"add", add}};

struct Packer {
  int32_t segment;
  int64_t next = 0;
  Region take(int64_t bytes) {
    const Region region{segment, next, bytes};
    next += (bytes + 63) / 64 * 64;
    return region;
  }
};

Command kernel(const char *symbol, std::vector<Region> args, int64_t extent = 1) {
  return {KernelCommand{symbol, std::move(args), extent, 1}, symbol, 8, 2};
}

Command sum(int32_t group, const Region &region, const char *label) {
  return {AllReduceCommand{group, ReductionKind::Sum, DataType::F32, region, region}, label, 0, 0};
}

void append(std::vector<Command> &to, const std::vector<Command> &more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// Writes the program of some of the stages.
class Builder {
public:
  /// `index` in the pipeline; negative for all stages in one program.
  Builder(const PipelineShape &shape, int64_t index)
      : shape(shape), index(index), stages(shape.pipelineRanks * shape.stagesEach) {}

  Program build() {
    if (inPipeline())
      p.mesh.axes = {{"pipe", shape.pipelineRanks}, {"data", shape.dataRanks}};
    else
      p.mesh.axes = {{"data", shape.dataRanks}};
    dataAxis = inPipeline() ? 1 : 0;
    describe();
    addGroups();
    addExchange();
    for (int64_t number = 0; number < stages; ++number)
      if (isHere(number))
        addLayer(number);
    if (isHere(0))
      addFirst();
    if (isHere(stages - 1))
      addLast();
    addUpdate();
    if (inPipeline())
      addPipeline();
    else
      addMicroBatch();
    p.segments = {{"weights", weights.next},
                  {"moments", moments.next},
                  {"io", io.next},
                  {"arena", arena.next},
                  {"slots", slot.next, slots}};
    p.prediction.bytesPerRank = (int64_t(4) + std::max<int64_t>(index, 0)) << 20;
    return std::move(p);
  }

private:
  /// What one layer has: parameter, gradient, and in each slot stream and gradients.
  struct Layer {
    StateEntry entry;
    Region in, out, outGradient, inGradient;
  };

  bool inPipeline() const { return index >= 0; }
  bool isHere(int64_t number) const {
    return !inPipeline() || number % shape.pipelineRanks == index;
  }

  void describe() {
    p.modelName = "tiny-stages";
    p.batch = {.globalBatch = shape.dataRanks * shape.microBatch * shape.microBatches,
               .microBatch = shape.microBatch,
               .microBatches = shape.microBatches,
               .sequence = sequence,
               .vocabulary = vocabulary,
               .dataAxes = {dataAxis},
               .sequenceAxes = {}};
    p.configText = "{\"model_type\": \"stages\"}\n";
    p.recipe = parseJson(R"({"optimizer": {"type": "adamw", "beta1": 0.9, "beta2": 0.95,
      "eps": 1e-8, "weight_decay": 0.1}, "learning_rate": {"schedule": "constant", "peak": 0.01},
      "clip_norm": 1.0, "seed": 1, "data": {"order": "sequential"}})")
                   .value();
    p.plan = JsonValue::object();
  }

  void addGroups() {
    p.groups = {Group{{dataAxis}, {}}};
    if (!inPipeline())
      return;
    p.groups.push_back({{0, 1}, {}});
    // First and last stage, with all data ranks.
    const int64_t lastRank = (stages - 1) % shape.pipelineRanks;
    Group tied{{0, 1}, {}};
    for (int64_t d = 0; d < shape.dataRanks; ++d)
      tied.members.push_back(d);
    for (int64_t d = 0; d < shape.dataRanks && lastRank != 0; ++d)
      tied.members.push_back(lastRank * shape.dataRanks + d);
    if (isHere(0) || isHere(stages - 1))
      p.groups.push_back(tied);
  }

  void addExchange() {
    const int64_t ids = 4 * shape.microBatch * sequence;
    Exchange &e = p.exchange;
    e.tokens = io.take(ids);
    e.targets = io.take(ids);
    for (auto *scalar :
         {&e.learningRate, &e.correction1, &e.correction2, &e.gradientNorm, &e.validCount})
      *scalar = io.take(4);
    e.loss = io.take(4);
    values = constant("values", static_cast<double>(shape.microBatch * sequence));
    two = constant("two", 2);
    one = constant("one", 1);
    squares = arena.take(4);
    for (const Region &region : {e.loss, *e.validCount, squares})
      begin({ZeroCommand{region}, "", 0, 0});
    p.entry(EntryKind::Count) = {kernel("count_targets", {e.targets, *e.validCount, values})};
    p.entry(EntryKind::Prepare) = {sum(0, *e.validCount, "count")};
  }

  Region constant(const char *name, double value) {
    const Region region = arena.take(4);
    p.constants.push_back({name, region, DataType::I32, Constant::Numbers{{value}}});
    return region;
  }

  void begin(Command command) { p.entry(EntryKind::Begin).push_back(std::move(command)); }

  StateEntry parameter(std::string name, int64_t size, AxisList axes, int64_t local,
                       Initial initial) {
    StateEntry entry;
    entry.name = std::move(name);
    entry.shape = entry.fileShape = {size};
    entry.sharding.axes = {std::move(axes)};
    entry.initial = initial;
    entry.slot(Slot::Value) = weights.take(4 * local);
    entry.slot(Slot::Moment1) = moments.take(4 * local);
    entry.slot(Slot::Moment2) = moments.take(4 * local);
    entry.slot(Slot::Gradient) = arena.take(4 * local);
    begin({ZeroCommand{*entry.slot(Slot::Gradient)}, "", 0, 0});
    return entry;
  }

  void addLayer(int64_t number) {
    const int64_t bytes = 4 * shape.microBatch * sequence;
    Layer layer;
    layer.entry = parameter("layers." + std::to_string(number) + ".weight", 2, {}, 2, {0.5, 0.3});
    layer.in = slot.take(bytes);
    layer.out = slot.take(bytes);
    layer.outGradient = slot.take(bytes);
    layer.inGradient = slot.take(bytes);
    p.state.push_back(layer.entry);
    layers.push_back(layer);
  }

  void addFirst() {
    tie = parameter("tie.weight", 1, {}, 1, {0.1, 0.2});
    tie.aliases = {"tied.weight"};
    p.state.push_back(tie);
    p.state.push_back(parameter("shrink.weight", shrinkSize, {dataAxis},
                                blockSize(shrinkSize, shape.dataRanks), {0, 1}));
  }

  /// Where the first stage is too, its tensor serves both; the gradients are added in
  /// the update, as those of two ranks are.
  void addLast() {
    lastTieGradient = arena.take(4);
    begin({ZeroCommand{lastTieGradient}, "", 0, 0});
    if (isHere(0))
      return;
    tie = parameter("tie.weight", 1, {}, 1, {0.1, 0.2});
    tie.aliases = {"tied.weight"};
    tie.counted = false;
    p.state.push_back(tie);
  }

  std::vector<Command> forwardOf(int64_t number, const Layer &layer) const {
    std::vector<Command> commands;
    if (number == 0)
      commands.push_back(
          kernel("enter", {p.exchange.tokens, *tie.slot(Slot::Value), layer.in, values}));
    commands.push_back(
        kernel("affine", {layer.in, *layer.entry.slot(Slot::Value), layer.out, values}));
    if (number == stages - 1)
      commands.push_back(
          kernel("compare", {layer.out, p.exchange.targets, *tie.slot(Slot::Value),
                             *p.exchange.validCount, p.exchange.loss, layer.outGradient, values}));
    return commands;
  }

  std::vector<Command> backwardOf(int64_t number, const Layer &layer) const {
    std::vector<Command> commands = {
        kernel("affine_back",
               {layer.outGradient, *layer.entry.slot(Slot::Value), layer.inGradient, values})};
    if (number == stages - 1)
      commands.push_back(kernel("add_up", {layer.outGradient, lastTieGradient, values}));
    if (number == 0)
      commands.push_back(kernel("add_up", {layer.inGradient, *tie.slot(Slot::Gradient), values}));
    if (!shape.weightsApart)
      append(commands, weightsOf(layer));
    return commands;
  }

  std::vector<Command> weightsOf(const Layer &layer) const {
    return {kernel("affine_weights",
                   {layer.in, layer.outGradient, *layer.entry.slot(Slot::Gradient), values})};
  }

  void addMicroBatch() {
    std::vector<Command> &micro = p.entry(EntryKind::MicroBatch);
    std::vector<Command> &evaluate = p.entry(EntryKind::Evaluate);
    for (int64_t number = 0; number < stages; ++number) {
      append(micro, forwardOf(number, layers[number]));
      append(evaluate, forwardOf(number, layers[number]));
      if (number + 1 == stages)
        continue;
      const Command on{CopyCommand{layers[number].out, layers[number + 1].in}, "", 0, 0};
      micro.push_back(on);
      evaluate.push_back(on);
    }
    for (int64_t number = stages; number-- > 0;) {
      append(micro, backwardOf(number, layers[number]));
      if (shape.weightsApart)
        append(micro, weightsOf(layers[number]));
      if (number > 0)
        micro.push_back(
            {CopyCommand{layers[number].inGradient, layers[number - 1].outGradient}, "", 0, 0});
    }
    evaluate.push_back(sum(0, p.exchange.loss, "loss"));
  }

  void addUpdate() {
    const Exchange &e = p.exchange;
    std::vector<Command> &update = p.entry(EntryKind::Update);
    for (const Layer &layer : layers)
      update.push_back(sum(0, *layer.entry.slot(Slot::Gradient), "gradient"));
    if (isHere(0) && isHere(stages - 1))
      update.push_back(kernel("add", {*tie.slot(Slot::Gradient), lastTieGradient}));
    else if (isHere(stages - 1))
      update.push_back({CopyCommand{lastTieGradient, *tie.slot(Slot::Gradient)}, "", 0, 0});
    if (isHere(0) || isHere(stages - 1))
      update.push_back(sum(inPipeline() ? 2 : 0, *tie.slot(Slot::Gradient), "tied gradient"));
    for (const Layer &layer : layers)
      update.push_back(kernel("add_squares", {*layer.entry.slot(Slot::Gradient), squares, two}));
    if (isHere(0))
      update.push_back(kernel("add_squares", {*tie.slot(Slot::Gradient), squares, one}));
    if (inPipeline())
      update.push_back(
          {AllReduceCommand{3, ReductionKind::Sum, DataType::F32, squares, squares}, "norm", 0, 0});
    update.push_back(sum(inPipeline() ? 1 : 0, e.loss, "loss"));
    update.push_back(kernel("root", {squares, *e.gradientNorm}));
    for (const StateEntry &entry : p.state) {
      const Region &value = *entry.slot(Slot::Value);
      if (entry.name == "shrink.weight")
        update.push_back(kernel("shrink", {value, *e.learningRate}, value.bytes / 4));
      else
        update.push_back(kernel("adamw",
                                {value, *entry.slot(Slot::Gradient), *entry.slot(Slot::Moment1),
                                 *entry.slot(Slot::Moment2), *e.learningRate, *e.correction1,
                                 *e.correction2, *e.gradientNorm},
                                value.bytes / 4));
    }
    if (!inPipeline())
      return;
    // One rank of each place in the pipeline; the first group of a place alone.
    while (p.groups.size() < 3)
      p.groups.push_back(Group{{dataAxis}, {}});
    p.groups.push_back(Group{{0}, {}});
    p.entry(EntryKind::Evaluate) = {sum(1, e.loss, "loss")};
  }

  void addPipeline() {
    Pipeline pipeline;
    pipeline.axes = {0};
    pipeline.index = index;
    pipeline.buffers = shape.buffers;
    for (size_t i = 0; i < layers.size(); ++i) {
      const int64_t number = index + static_cast<int64_t>(i) * shape.pipelineRanks;
      const Layer &layer = layers[i];
      Stage stage;
      stage.number = number;
      if (number > 0) {
        stage.boundary.inputs = {layer.in};
        stage.boundary.inputGradients = {layer.inGradient};
      }
      if (number + 1 < stages) {
        stage.boundary.outputs = {layer.out};
        stage.boundary.outputGradients = {layer.outGradient};
      }
      stage.entry(StageEntry::Forward) = stage.entry(StageEntry::Evaluate) =
          forwardOf(number, layer);
      stage.entry(StageEntry::Backward) = backwardOf(number, layer);
      if (shape.weightsApart)
        stage.entry(StageEntry::Weights) = weightsOf(layer);
      pipeline.stages.push_back(std::move(stage));
    }
    p.pipeline = std::move(pipeline);
    addActions();
  }

  void addActions() {
    const int64_t micros = shape.microBatches;
    if (shape.inTurn) {
      const int64_t ahead = std::min(micros, shape.pipelineRanks - index);
      int64_t backs = 0;
      for (int64_t m = 0; m < micros; ++m) {
        forward(0, m);
        if (m + 1 >= ahead)
          backward(0, backs++);
      }
      while (backs < micros)
        backward(0, backs++);
      return;
    }
    for (int64_t v = 0; v < shape.stagesEach; ++v)
      for (int64_t m = 0; m < micros; ++m)
        forward(v, m);
    for (int64_t v = shape.stagesEach; v-- > 0;)
      for (int64_t m = 0; m < micros; ++m)
        backward(v, m);
  }

  void act(PipelineAction::Kind kind, int64_t stage, int64_t micro, int64_t step = 0) {
    const int64_t number = index + stage * shape.pipelineRanks;
    const int64_t other = number + step;
    if (step != 0 && (other < 0 || other >= stages))
      return;
    const int64_t at = slotOf[stage * shape.microBatches + micro];
    p.pipeline->actions.push_back(
        {kind, static_cast<int32_t>(stage), static_cast<int32_t>(micro), static_cast<int32_t>(at),
         step == 0 ? -1 : static_cast<int32_t>(other % shape.pipelineRanks)});
  }

  void forward(int64_t stage, int64_t micro) {
    using Kind = PipelineAction::Kind;
    slotOf.resize(static_cast<size_t>(shape.stagesEach * shape.microBatches));
    int64_t free = 0;
    while (std::ranges::find(taken, free) != taken.end())
      ++free;
    taken.push_back(free);
    slots = std::max(slots, free + 1);
    slotOf[stage * shape.microBatches + micro] = free;
    act(Kind::ReceiveActivation, stage, micro, -1);
    act(Kind::Forward, stage, micro);
    act(Kind::SendActivation, stage, micro, 1);
  }

  void backward(int64_t stage, int64_t micro) {
    using Kind = PipelineAction::Kind;
    act(Kind::ReceiveGradient, stage, micro, 1);
    act(Kind::Backward, stage, micro);
    act(Kind::SendGradient, stage, micro, -1);
    if (shape.weightsApart)
      act(Kind::Weights, stage, micro);
    std::erase(taken, slotOf[stage * shape.microBatches + micro]);
  }

  const PipelineShape &shape;
  const int64_t index, stages;
  int32_t dataAxis = 0;
  Program p;
  Packer weights{0}, moments{1}, io{2}, arena{3}, slot{4};
  int64_t slots = 1;
  std::vector<int64_t> slotOf, taken;
  std::vector<Layer> layers;
  StateEntry tie;
  Region lastTieGradient, values, one, two, squares;
};

} // namespace

KernelTable pipelineKernels() {
  static const std::vector<KernelSymbol> all = [] {
    std::vector<KernelSymbol> symbols(std::begin(table), std::end(table));
    for (const KernelSymbol &symbol : kernels())
      if (std::string_view(symbol.name) != "add_up")
        symbols.push_back(symbol);
    return symbols;
  }();
  return all;
}

Image pipeline(const PipelineShape &shape) {
  Image image;
  for (int64_t index = 0; index < shape.pipelineRanks; ++index)
    image.programs.push_back(Builder(shape, index).build());
  return image;
}

Program wholeModel(const PipelineShape &shape) { return Builder(shape, -1).build(); }

} // namespace tiny
