//===- BuildProgram.cpp - Entries as lists of commands ---------------------===//
//
// For each entry: flatten, cut into units, decide where every value lives, pack
// what lives in the arena, write the commands. A value lives
//   - in an exchange region or a slot, if it is an argument or a load;
//   - in the slot that it is stored to, if nothing reads the old contents later
//     (an update writes parameters in place);
//   - over an input that dies with its producer, where the producer allows it;
//   - else in the arena, from its producer to its last reader.
//
//===----------------------------------------------------------------------===//

#include "cleave/Support/Diagnostics.h"
#include "cleave/Target/Image/Image.h"
#include "lib/Target/Image/Arena.h"
#include "lib/Target/Image/Exchanges.h"
#include "lib/Target/Image/Flatten.h"
#include "lib/Target/Image/Matmul.h"
#include "lib/Target/Image/Units.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
namespace cleave::image {

static int64_t bytesOf(Value v) { return cast<RankedTensorType>(v.getType()).getNumElements() * 4; }

/// "layers.3/mlp.gate", or the operator's name where it has no path.
static std::string labelOf(ArrayRef<Operation *> ops) {
  Operation *op = ops.front();
  std::string label;
  if (auto layer = op->getAttrOfType<IntegerAttr>("exec.layer"))
    label = "layers." + std::to_string(layer.getInt()) + "/";
  auto path = op->getAttrOfType<StringAttr>("nn.path");
  return label + (path ? path.str() : op->getName().getStringRef().str());
}

namespace {
/// One entry's values, placed.
class EntryPlacer {
public:
  EntryPlacer(func::FuncOp entry, std::vector<Unit> &units, StateLayout &layout)
      : entry(entry), units(units), layout(layout) {
    for (auto [i, unit] : llvm::enumerate(units))
      for (Operation *op : unit.ops)
        position[op] = static_cast<int64_t>(i);
  }

  void place() {
    for (auto [i, argument] : llvm::enumerate(entry.getArguments()))
      fixed[argument] =
          *layout.exchange(entry.getArgAttrOfType<StringAttr>(i, "nn.name").getValue());
    for (Unit &unit : units)
      if (auto state = dyn_cast<StateOpInterface>(unit.ops.front()))
        if (state.getStateAccess() == StateAccess::Read)
          fixed[state->getResult(0)] = layout.slot(state.getStateSymbol(), state.getStateSlot());
    for (Unit &unit : units)
      for (const InPlace &p : unit.inPlace)
        if (auto it = fixed.find(p.input); p.must && it != fixed.end())
          fixed[p.output] = it->second;
    for (Unit &unit : units)
      if (auto state = dyn_cast<StateOpInterface>(unit.ops.front()))
        if (state.getStateAccess() != StateAccess::Read)
          forwardStore(state);
    for (Unit &unit : units)
      reuseInputs(unit);
    packRest();
  }

  rt::Region region(Value v) const {
    if (auto it = fixed.find(v); it != fixed.end())
      return it->second;
    auto it = arena.find(root(v));
    return it->second;
  }
  bool isPlacedIn(Value v, rt::Region r) const {
    rt::Region own = region(v);
    return own.segment == r.segment && own.offset == r.offset;
  }
  int64_t arenaBytes() const { return packing.bytes; }
  void setSegment(int32_t segment) {
    for (auto &[v, r] : arena)
      r.segment = segment;
  }

private:
  int64_t lastUse(Value v) const {
    int64_t last = v.getDefiningOp() ? position.lookup(v.getDefiningOp()) : -1;
    for (Operation *user : v.getUsers())
      last = std::max(last, user->hasTrait<OpTrait::IsTerminator>() ? int64_t(units.size())
                                                                    : position.lookup(user));
    return last;
  }

  Value root(Value v) const {
    for (auto it = over.find(v); it != over.end(); it = over.find(v))
      v = it->second;
    return v;
  }

  /// Lets the producer of a stored value write into the slot, if no reader of
  /// the old contents comes later.
  void forwardStore(StateOpInterface store) {
    Value value = store->getOperand(0);
    Operation *producer = value.getDefiningOp();
    if (!producer || fixed.count(value) || isa<StateOpInterface>(producer))
      return;
    rt::Region slot = layout.slot(store.getStateSymbol(), store.getStateSlot());
    int64_t at = position.lookup(producer);
    if (store.getStateAccess() == StateAccess::Accumulate) {
      fixed[value] = slot; // a matrix product that adds to the slot itself
      return;
    }
    for (auto &[v, r] : fixed) {
      if (r.segment != slot.segment || r.offset != slot.offset || v == value)
        continue;
      if (lastUse(v) > at)
        return;
      if (lastUse(v) == at && !mayOverwrite(units[at], value, v))
        return;
    }
    fixed[value] = slot;
  }

  static bool mayOverwrite(const Unit &unit, Value output, Value input) {
    return llvm::any_of(unit.inPlace,
                        [&](const InPlace &p) { return p.output == output && p.input == input; });
  }

  /// Puts outputs over inputs that nobody reads again.
  void reuseInputs(Unit &unit) {
    int64_t at = position.lookup(unit.ops.front());
    for (const InPlace &p : unit.inPlace) {
      if (fixed.count(p.output) || over.count(p.output) || bytesOf(p.output) != bytesOf(p.input))
        continue;
      auto it = fixed.find(p.input);
      if (p.must) {
        if (it != fixed.end())
          fixed[p.output] = it->second;
        else
          over[p.output] = p.input;
        continue;
      }
      if (it != fixed.end()) {
        // A slot's contents may be overwritten only by who is its last reader.
        auto load = dyn_cast_or_null<StateOpInterface>(p.input.getDefiningOp());
        if (load && load.getStateSlot() == "gradient" && lastUse(p.input) == at)
          fixed[p.output] = it->second;
        continue;
      }
      if (isa<BlockArgument>(p.input) || groupLastUse(p.input) != at)
        continue;
      over[p.output] = p.input;
    }
  }

  /// Last use of the buffer that `v` lies in, through all that lie over it.
  int64_t groupLastUse(Value v) const {
    Value r = root(v);
    int64_t last = lastUse(r);
    for (auto &[output, input] : over)
      if (root(output) == r)
        last = std::max(last, lastUse(output));
    return last;
  }

  void packRest() {
    SmallVector<Value> values;
    SmallVector<Lifetime> lifetimes;
    llvm::DenseMap<Value, size_t> index;
    for (auto [i, unit] : llvm::enumerate(units))
      for (Value v : unit.outputs) {
        if (fixed.count(v))
          continue;
        Value r = root(v);
        auto [it, fresh] = index.try_emplace(r, values.size());
        if (fresh) {
          values.push_back(r);
          lifetimes.push_back({bytesOf(r), static_cast<int64_t>(i), static_cast<int64_t>(i)});
        }
        Lifetime &life = lifetimes[it->second];
        life.end = std::max(life.end, lastUse(v));
      }
    packing = packArena(lifetimes);
    for (auto [v, offset, life] : llvm::zip(values, packing.offsets, lifetimes))
      arena[v] = {0, offset, life.bytes};
  }

  func::FuncOp entry;
  std::vector<Unit> &units;
  StateLayout &layout;
  llvm::DenseMap<Operation *, int64_t> position;
  llvm::MapVector<Value, rt::Region> fixed, arena;
  llvm::MapVector<Value, Value> over;
  Packing packing;
};

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
    for (rt::Region r : layout.accumulators())
      add(rt::EntryKind::Begin, rt::ZeroCommand{r}, "begin");
    for (auto [name, kind] : entries)
      if (failed(buildEntry(module.lookupSymbol<func::FuncOp>(name), kind, arena.index())))
        return failure();
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

  template <typename What> rt::Command &add(rt::EntryKind kind, What what, std::string label) {
    rt::Command command;
    command.what = std::move(what);
    command.label = std::move(label);
    auto &list = image.program.entry(kind);
    list.push_back(std::move(command));
    return list.back();
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
    auto units = makeUnits(entry, *image.kernels, settings.profile);
    if (failed(units))
      return failure();
    EntryPlacer placer(entry, *units, layout);
    placer.place();
    placer.setSegment(arena);
    rt::Segment &segment = image.program.segments[arena];
    segment.bytes = std::max(segment.bytes, placer.arenaBytes());
    for (Unit &unit : *units)
      if (failed(emit(unit, kind, placer)))
        return failure();
    return emitResults(entry, kind, placer);
  }

  LogicalResult emit(Unit &unit, rt::EntryKind kind, EntryPlacer &placer) {
    Operation *op = unit.ops.front();
    std::string label = labelOf(unit.ops);
    if (auto state = dyn_cast<StateOpInterface>(op))
      return emitState(state, kind, placer, label);
    if (auto offset = dyn_cast<dist::OffsetOp>(op)) {
      add(kind,
          rt::CopyCommand{layout.rankIndex(offset.getAxes(), offset.getBlock()),
                          placer.region(op->getResult(0))},
          label);
      return success();
    }
    if (isa<ContractionOpInterface>(op))
      return emitMatmul(op, kind, placer, label);
    if (!unit.kernels.empty()) {
      for (KernelCall &call : unit.kernels)
        emitKernel(call, kind, placer, label);
      return success();
    }
    if (op->getNumOperands() == 1 && op->getNumResults() == 1)
      if (auto command = exchangeOf(op, placer.region(op->getOperand(0)),
                                    placer.region(op->getResult(0)), layout)) {
        command->label = label;
        image.program.entry(kind).push_back(std::move(*command));
        return success();
      }
    return op->emitOpError("cannot be run on the CPU: it is neither a kernel nor a product nor "
                           "an exchange");
  }

  LogicalResult emitState(StateOpInterface state, rt::EntryKind kind, EntryPlacer &placer,
                          const std::string &label) {
    if (state.getStateAccess() == StateAccess::Read)
      return success();
    rt::Region slot = layout.slot(state.getStateSymbol(), state.getStateSlot());
    Value value = state->getOperand(0);
    if (!placer.isPlacedIn(value, slot))
      add(kind, rt::CopyCommand{placer.region(value), slot}, label);
    return success();
  }

  LogicalResult emitMatmul(Operation *op, rt::EntryKind kind, EntryPlacer &placer,
                           const std::string &label) {
    auto command = matmulOf(op);
    if (failed(command))
      return failure();
    command->a.region = placer.region(op->getOperand(0));
    command->b.region = placer.region(op->getOperand(1));
    command->c.region = placer.region(op->getResult(0));
    Value result = op->getResult(0);
    if (result.hasOneUse())
      if (auto state = dyn_cast<StateOpInterface>(*result.getUsers().begin()))
        command->accumulate = state.getStateAccess() == StateAccess::Accumulate;
    double flops = 2.0 * command->m * command->n * command->k;
    for (const rt::MatrixBatch &batch : command->batch)
      flops *= batch.count;
    rt::Command &made = add(kind, std::move(*command), label);
    made.flops = flops;
    made.bytes = bytesOf(op->getOperand(0)) + bytesOf(op->getOperand(1)) + bytesOf(result);
    return success();
  }

  void emitKernel(KernelCall &call, rt::EntryKind kind, EntryPlacer &placer,
                  const std::string &label) {
    rt::KernelCommand command;
    command.symbol = call.symbol;
    command.extent = call.extent;
    command.grain = call.grain;
    for (const auto &arg : call.args)
      command.args.push_back(std::holds_alternative<Value>(arg)
                                 ? placer.region(std::get<Value>(arg))
                                 : layout.extra(std::get<BodyInput>(arg)));
    rt::Command &made = add(kind, std::move(command), label);
    made.bytes = call.bytes;
    made.flops = call.flops;
  }

  /// What an entry returns is copied to where the runtime reads it.
  LogicalResult emitResults(func::FuncOp entry, rt::EntryKind kind, EntryPlacer &placer) {
    static constexpr std::pair<rt::EntryKind, std::array<const char *, 2>> names[] = {
        {rt::EntryKind::Prepare, {"valid", ""}},
        {rt::EntryKind::Update, {"loss", "norm"}},
        {rt::EntryKind::Evaluate, {"loss", ""}}};
    Operation *end = entry.getBody().front().getTerminator();
    for (const auto &[which, list] : names)
      if (which == kind)
        for (auto [value, name] : llvm::zip(end->getOperands(), list))
          add(kind, rt::CopyCommand{placer.region(value), *layout.exchange(name)}, name);
    return success();
  }

  ModuleOp module;
  const ImageSettings &settings;
  CompiledImage image;
  StateLayout layout;
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
