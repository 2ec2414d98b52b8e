//===- BuildProgram.cpp - Entries as lists of commands ---------------------===//
//
// For each entry: put bodies in place of calls, decide fusion, cut into units,
// place every value (Placement.h), write the commands. A repeat stays one: its
// block's commands are written once.
//
//===----------------------------------------------------------------------===//

#include "cleave/Support/Diagnostics.h"
#include "cleave/Target/Image/Image.h"
#include "cleave/Transforms/Fusion/Fusion.h"
#include "lib/Target/Image/Exchanges.h"
#include "lib/Target/Image/Flatten.h"
#include "lib/Target/Image/Matmul.h"
#include "lib/Target/Image/Placement.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
namespace cleave::image {

static int64_t bytesOf(Value v) { return cast<RankedTensorType>(v.getType()).getNumElements() * 4; }

/// "layers.*/mlp.gate", or the operator's name where it has no path.
static std::string labelOf(ArrayRef<Operation *> ops) {
  Operation *op = ops.front();
  auto repeat = op->getParentOfType<RepeatOpInterface>();
  std::string label = !repeat ? "" : repeat->hasAttr("layers") ? "layers.*/" : "pieces.*/";
  auto path = op->getAttrOfType<StringAttr>("nn.path");
  return label + (path ? path.str() : op->getName().getStringRef().str());
}

namespace {
class ProgramBuilder {
public:
  ProgramBuilder(ModuleOp module, const ImageSettings &settings)
      : module(module), settings(settings), layout(module, image.program) {
    image.kernels = ModuleOp::create(module.getLoc());
  }

  LogicalResult build() {
    describe();
    SegmentWriter arena(image.program, "arena");
    const std::pair<const char *, rt::EntryKind> entries[] = {
        {"count", rt::EntryKind::Count},
        {"prepare", rt::EntryKind::Prepare},
        {"microbatch", rt::EntryKind::MicroBatch},
        {"update", rt::EntryKind::Update},
        {"evaluate", rt::EntryKind::Evaluate}};
    commands = &image.program.entry(rt::EntryKind::Begin);
    for (rt::Region r : layout.accumulators())
      add(rt::ZeroCommand{r}, "begin");
    for (auto [name, kind] : entries) {
      commands = &image.program.entry(kind);
      if (failed(buildEntry(module.lookupSymbol<func::FuncOp>(name), kind, arena.index())))
        return failure();
    }
    int64_t total = 0;
    for (const rt::Segment &segment : image.program.segments)
      total += segment.bytes;
    image.program.prediction.bytesPerRank = total;
    return success();
  }

  CompiledImage take() { return std::move(image); }

private:
  void describe() {
    rt::Program &p = image.program;
    p.modelName = settings.modelName;
    p.profile = settings.profile.name == "avx512" ? "x86-64-v4" : "x86-64-v3";
    p.configText = settings.configText;
    p.recipe = settings.recipe;
    p.plan = settings.plan;
    for (const std::string &name : settings.dataAxes)
      for (auto [i, axis] : llvm::enumerate(p.mesh.axes))
        if (axis.name == name)
          p.batch.dataAxes.push_back(static_cast<int32_t>(i));
    p.batch.globalBatch = settings.globalBatch;
    p.batch.microBatch = settings.microBatch;
    p.batch.microBatches =
        settings.globalBatch / (settings.microBatch * p.mesh.sizeOf(p.batch.dataAxes));
    p.batch.sequence = settings.sequence;
    p.batch.vocabulary = settings.vocabulary;
  }

  template <typename What> rt::Command &add(What what, std::string label) {
    rt::Command command;
    command.what = std::move(what);
    command.label = std::move(label);
    commands->push_back(std::move(command));
    return commands->back();
  }

  LogicalResult buildEntry(func::FuncOp entry, rt::EntryKind kind, int32_t arena) {
    if (failed(flattenCalls(entry)))
      return failure();
    expandAccumulates(entry);
    PassManager cleanup(entry.getContext(), func::FuncOp::getOperationName());
    cleanup.addPass(createCSEPass());
    cleanup.addPass(createCanonicalizerPass());
    if (failed(cleanup.run(entry)))
      return failure();
    Block &body = entry.getBody().front();
    decideFusion(body);
    auto units = makeUnits(body, *image.kernels, settings.profile);
    if (failed(units))
      return failure();
    Placement placement(entry, *units, layout, arena);
    rt::Segment &segment = image.program.segments[arena];
    segment.bytes = std::max(segment.bytes, placement.arenaBytes());
    for (Unit &unit : *units)
      if (failed(emit(unit, placement)))
        return failure();
    emitResults(entry, kind, placement);
    return success();
  }

  LogicalResult emit(Unit &unit, Placement &placement) {
    Operation *op = unit.ops.front();
    std::string label = labelOf(unit.ops);
    if (auto state = dyn_cast<StateOpInterface>(op))
      return emitState(state, placement, label);
    if (auto offset = dyn_cast<dist::OffsetOp>(op)) {
      add(rt::CopyCommand{layout.rankIndex(offset.getAxes(), offset.getBlock()),
                          placement.region(op->getResult(0))},
          label);
      return success();
    }
    if (auto repeat = dyn_cast<RepeatOpInterface>(op))
      return emitRepeat(repeat, unit, placement);
    if (isa<ContractionOpInterface>(op))
      return emitMatmul(op, placement, label);
    if (!unit.kernels.empty()) {
      for (KernelCall &call : unit.kernels)
        emitKernel(call, placement, label);
      return success();
    }
    if (op->getNumOperands() == 1 && op->getNumResults() == 1)
      if (auto command = exchangeOf(op, placement.region(op->getOperand(0)),
                                    placement.region(op->getResult(0)), layout)) {
        command->label = label;
        commands->push_back(std::move(*command));
        return success();
      }
    return op->emitOpError("cannot be run on the CPU: it is neither a kernel nor a product nor "
                           "an exchange");
  }

  /// Whether slices are runs of memory that follow each other: a slice has one index
  /// of each dimension before the last of which it has a part.
  static bool hasContiguousSlices(RepeatOpInterface op, Value whole) {
    SmallVector<int64_t> extent(cast<RankedTensorType>(whole.getType()).getShape());
    int64_t before = -1, last = -1;
    for (const Slicing &s : op.getSlicing(whole.getType())) {
      if (s.blocks != 1 || s.dim < before)
        return false;
      extent[s.dim] /= s.pieces;
      before = s.dim;
      if (s.pieces > 1)
        last = s.dim;
    }
    return llvm::all_of(ArrayRef(extent).take_front(std::max<int64_t>(last, 0)),
                        [](int64_t n) { return n == 1; });
  }

  static LogicalResult checkContiguous(RepeatOpInterface op) {
    SmallVector<Value> wholes(op->getOperands().drop_front(op.getNumCarried()));
    llvm::append_range(wholes, op->getResults().drop_front(op.getNumCarried()));
    for (Value v : wholes)
      if (!hasContiguousSlices(op, v))
        return op->emitOpError() << "has slices of " << v.getType() << " that are not contiguous";
    return success();
  }

  LogicalResult emitRepeat(RepeatOpInterface op, Unit &unit, Placement &placement) {
    Block &block = op.getRepeatedBlock();
    if (failed(checkContiguous(op)))
      return failure();
    for (auto [v, argument] :
         llvm::zip(op->getOperands().take_front(op.getNumCarried()), block.getArguments()))
      copy(placement.region(v), placement.region(argument), "carry");
    rt::RepeatCommand repeat;
    repeat.count = op.getIterations();
    if (auto layers = op->getAttrOfType<DenseI64ArrayAttr>("layers")) {
      repeat.firstLayer = layers[0];
      repeat.layerStep = layers[1];
    }
    std::vector<rt::Command> *outside = std::exchange(commands, &repeat.body);
    for (Unit &inner : unit.body)
      if (failed(emit(inner, placement)))
        return failure();
    if (failed(emitYield(op, placement)))
      return failure();
    commands = outside;
    add(std::move(repeat), op->hasAttr("layers") ? "layers" : "pieces");
    return success();
  }

  /// Slices go to what is stacked, then what is carried to the next iteration.
  LogicalResult emitYield(RepeatOpInterface op, Placement &placement) {
    Block &block = op.getRepeatedBlock();
    ValueRange yielded = block.getTerminator()->getOperands();
    unsigned carried = op.getNumCarried();
    for (unsigned i = carried; i < yielded.size(); ++i)
      copy(placement.region(yielded[i]), placement.slices(op, op->getResult(i)), "stack");
    // A carried value that goes to another's place leaves before its own is taken.
    llvm::SmallMapVector<unsigned, rt::Region, 4> waiting;
    for (unsigned i = 0; i < carried; ++i)
      if (!placement.isPlacedIn(yielded[i], placement.region(block.getArgument(i))))
        waiting[i] = placement.region(yielded[i]);
    while (!waiting.empty()) {
      auto free = llvm::find_if(waiting, [&](auto &move) {
        return llvm::none_of(waiting, [&](auto &other) {
          return other.first != move.first &&
                 placement.isPlacedIn(block.getArgument(move.first), other.second);
        });
      });
      if (free == waiting.end())
        return op->emitOpError("exchanges carried values in a circle");
      copy(free->second, placement.region(block.getArgument(free->first)), "carry");
      waiting.erase(free);
    }
    return success();
  }

  /// Nothing where the two are one.
  void copy(rt::Region source, rt::Region target, std::string label) {
    if (source.segment != target.segment || source.offset != target.offset ||
        source.stride != target.stride)
      add(rt::CopyCommand{source, target}, std::move(label));
  }

  LogicalResult emitState(StateOpInterface state, Placement &placement, const std::string &label) {
    if (state.getStateAccess() == StateAccess::Read)
      return success();
    rt::Region slot = placement.slotOf(state);
    Value value = state->getOperand(0);
    if (!placement.isPlacedIn(value, slot))
      add(rt::CopyCommand{placement.region(value), slot}, label);
    return success();
  }

  LogicalResult emitMatmul(Operation *op, Placement &placement, const std::string &label) {
    auto command = matmulOf(op);
    if (failed(command))
      return failure();
    command->a.region = placement.region(op->getOperand(0));
    command->b.region = placement.region(op->getOperand(1));
    command->c.region = placement.region(op->getResult(0));
    Value result = op->getResult(0);
    if (result.hasOneUse())
      if (auto state = dyn_cast<StateOpInterface>(*result.getUsers().begin()))
        command->accumulate = state.getStateAccess() == StateAccess::Accumulate;
    double flops = 2.0 * command->m * command->n * command->k;
    for (const rt::MatrixBatch &batch : command->batch)
      flops *= batch.count;
    rt::Command &made = add(std::move(*command), label);
    made.flops = flops;
    made.bytes = bytesOf(op->getOperand(0)) + bytesOf(op->getOperand(1)) + bytesOf(result);
    return success();
  }

  void emitKernel(KernelCall &call, Placement &placement, const std::string &label) {
    rt::KernelCommand command;
    command.symbol = call.symbol;
    command.extent = call.extent;
    command.grain = call.grain;
    for (const auto &arg : call.args)
      command.args.push_back(std::holds_alternative<Value>(arg)
                                 ? placement.region(std::get<Value>(arg))
                                 : layout.extra(std::get<BodyInput>(arg)));
    rt::Command &made = add(std::move(command), label);
    made.bytes = call.bytes;
    made.flops = call.flops;
  }

  /// What an entry returns is copied to where the runtime reads it.
  void emitResults(func::FuncOp entry, rt::EntryKind kind, Placement &placement) {
    static constexpr std::pair<rt::EntryKind, std::array<const char *, 2>> names[] = {
        {rt::EntryKind::Prepare, {"valid", ""}},
        {rt::EntryKind::Update, {"loss", "norm"}},
        {rt::EntryKind::Evaluate, {"loss", ""}}};
    Operation *end = entry.getBody().front().getTerminator();
    for (const auto &[which, list] : names)
      if (which == kind)
        for (auto [value, name] : llvm::zip(end->getOperands(), list))
          add(rt::CopyCommand{placement.region(value), *layout.exchange(name)}, name);
  }

  ModuleOp module;
  const ImageSettings &settings;
  CompiledImage image;
  StateLayout layout;
  /// Where the next command goes: an entry, or the block of a repeat.
  std::vector<rt::Command> *commands = nullptr;
};
} // namespace

} // namespace cleave::image

namespace cleave {

rt::StatusOr<CompiledImage> buildImage(ModuleOp module, const ImageSettings &settings) {
  image::ProgramBuilder builder(module, settings);
  rt::Status built = withDiagnostics(*module.getContext(), [&] { return builder.build(); });
  if (!built.ok())
    return built;
  CompiledImage image = builder.take();
  if (rt::Status valid = rt::validate(image.program); !valid.ok())
    return valid;
  return image;
}

} // namespace cleave
