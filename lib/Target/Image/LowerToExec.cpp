//===- LowerToExec.cpp - Entries as lists of commands ----------------------===//
//
// For each entry: put bodies in place of calls, decide fusion, cut into units,
// place every value (Placement.h), write the commands. A repeat stays one: its
// block's commands are written once.
//
//===----------------------------------------------------------------------===//

#include "cleave/Target/Image/Image.h"
#include "cleave/Transforms/Fusion/Fusion.h"
#include "dialects/Pipe/Pipe.h"
#include "lib/Target/Image/Buckets.h"
#include "lib/Target/Image/Exchanges.h"
#include "lib/Target/Image/Flatten.h"
#include "lib/Target/Image/Matmul.h"
#include "lib/Target/Image/PickedMatmul.h"
#include "lib/Target/Image/Placement.h"
#include "lib/Target/Image/Precondition.h"
#include "lib/Target/Image/Programs.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
namespace cleave::image {

static int64_t bytesOf(Value v) { return exec::tensorBytes(v.getType()); }

/// "layers.*/mlp.gate", or the operator's name where it has no path. A path that has the
/// number of the layer itself stays as it is.
static std::string labelOf(ArrayRef<Operation *> ops) {
  Operation *op = ops.front();
  auto repeat = op->getParentOfType<RepeatOpInterface>();
  std::string label = !repeat ? "" : repeat->hasAttr("layers") ? "layers.*/" : "pieces.*/";
  if (auto layer = op->getAttrOfType<IntegerAttr>(dist::kLayerAttr))
    label = "layers." + std::to_string(layer.getInt()) + "/";
  auto path = op->getAttrOfType<StringAttr>("nn.path");
  if (path && path.getValue().contains('*'))
    return path.str();
  return label + (path ? path.str() : op->getName().getStringRef().str());
}

/// The user's error that a micro-batch is too large for what `most` bounds.
static LogicalResult refuseBatch(Operation *at, const Twine &what, const Twine &given,
                                 const Twine &most) {
  InFlightDiagnostic error = at->emitError("plan.batch_too_large: a micro-batch ") << what;
  error.attachNote() << "given: " << given;
  error.attachNote() << "rule: " << most;
  error.attachNote() << "suggestion: --micro-batch 1";
  return error;
}

static LogicalResult checkHeld(Operation *at, int64_t bytes) {
  if (bytes <= exec::AtAttr::kMaxBytes)
    return success();
  return refuseBatch(at, "needs more memory than there is on any machine",
                     Twine(bytes) + " bytes of a rank at once",
                     "what a rank holds of a micro-batch is at most 2^46 bytes");
}

namespace {
class Lowering {
public:
  Lowering(ModuleOp module, exec::ProgramOp program, const cpu::Profile &profile, int64_t slots,
           KernelTable &kernels)
      : profile(profile), builder(module.getContext()), layout(module, program, slots),
        arena(program, "arena"), kernels(kernels) {}

  LogicalResult run(ModuleOp module, exec::ProgramOp program) {
    llvm::MapVector<int64_t, SmallVector<func::FuncOp>> ofStages;
    for (auto entry : program.getOps<exec::EntryOp>())
      if (entry.getStage())
        ofStages[*entry.getStage()].push_back(functionOf(module, entry));
    for (auto &[stage, entries] : ofStages)
      if (failed(checkHeld(entries.front(), StateLayout::bytesOfSlot(entries))))
        return failure();
      else
        layout.addStage(stage, entries);
    for (auto entry : program.getOps<exec::EntryOp>()) {
      builder.setInsertionPointToStart(&entry.getBody().front());
      if (entry.getKind() == exec::EntryKind::Begin)
        clearAccumulators();
      else if (failed(lowerEntry(functionOf(module, entry),
                                 entry.getStage() ? int64_t(*entry.getStage()) : -1)))
        return failure();
    }
    return success();
  }

private:
  void clearAccumulators() {
    for (const exec::Address &a : layout.accumulators())
      exec::ZeroOp::create(builder, builder.getUnknownLoc(), exec::AtAttr::get(a), "begin");
  }

  static func::FuncOp functionOf(ModuleOp module, exec::EntryOp entry) {
    return image::functionOf(module, entry.getKind(),
                             entry.getStage() ? int64_t(*entry.getStage()) : -1);
  }

  LogicalResult lowerEntry(func::FuncOp entry, int64_t stage) {
    if (failed(flattenCalls(entry)))
      return failure();
    expandAccumulates(entry);
    PassManager cleanup(entry.getContext(), func::FuncOp::getOperationName());
    cleanup.addPass(createCSEPass());
    cleanup.addPass(createCanonicalizerPass());
    hideNames(entry);
    if (failed(cleanup.run(entry)))
      return failure();
    showNames(entry);
    roundInProducts(entry);
    if (failed(markCompanions(entry)))
      return failure();
    Block &body = entry.getBody().front();
    decideFusion(body);
    auto units = makeUnits(body, kernels, profile);
    if (failed(units))
      return failure();
    Placement placement(entry, *units, layout, arena.name(), stage);
    if (failed(checkHeld(entry, placement.arenaBytes())))
      return failure();
    arena.reserve(placement.arenaBytes());
    nextBucket = 0;
    started.clear();
    for (Unit &unit : *units) {
      if (failed(emit(unit, placement)))
        return failure();
      emitResults(entry, stage, placement,
                  [&](Value v) { return llvm::is_contained(unit.ops, v.getDefiningOp()); });
    }
    emitResults(entry, stage, placement, [](Value v) { return !v.getDefiningOp(); });
    return success();
  }

  /// Whether an operator is an exchange, which says where its value lies before it.
  static bool isExchange(Operation *op) { return op->hasAttr("dist.from"); }

  /// Two functions may call one value by two names: that must not keep their exchanges of
  /// it apart. Until `showNames` names are in locations.
  static void hideNames(func::FuncOp entry) {
    entry.walk([](Operation *op) {
      if (auto path = op->getAttrOfType<StringAttr>("nn.path"); path && isExchange(op)) {
        op->setLoc(NameLoc::get(path, op->getLoc()));
        op->removeAttr("nn.path");
      }
    });
  }
  static void showNames(func::FuncOp entry) {
    entry.walk([](Operation *op) {
      if (auto name = dyn_cast<NameLoc>(op->getLoc()); name && isExchange(op)) {
        op->setAttr("nn.path", name.getName());
        op->setLoc(name.getChildLoc());
      }
    });
  }

  LogicalResult emit(Unit &unit, Placement &placement) {
    Operation *op = unit.ops.front();
    std::string label = labelOf(unit.ops);
    for (int64_t bucket : unit.awaited)
      exec::AwaitOp::create(builder, op->getLoc(), started[bucket].number, started[bucket].label, 0,
                            0, 0);
    if (unit.bucket)
      return emitBucket(unit, placement, label);
    if (auto state = dyn_cast<StateOpInterface>(op))
      return emitState(state, placement, label);
    if (op->hasTrait<OpTrait::ConstantLike>())
      return success(); // lies with the tables
    if (auto offset = dyn_cast<dist::OffsetOp>(op)) {
      addCopy(layout.rankIndex(offset.getAxes(), offset.getBlock()),
              placement.region(op->getResult(0)), label, op->getLoc());
      return success();
    }
    if (auto repeat = dyn_cast<RepeatOpInterface>(op))
      return emitRepeat(repeat, unit, placement);
    if (isa<ContractionOpInterface>(op))
      return emitMatmul(op, placement, label);
    if (auto picked = dyn_cast<PickedContractionOpInterface>(op))
      return emitPicked(picked, placement, label);
    if (!unit.kernels.empty()) {
      for (KernelCall &call : unit.kernels)
        emitKernel(call, placement, label, op->getLoc());
      return success();
    }
    if (op->getNumOperands() == 1 && op->getNumResults() == 1 &&
        addExchange(builder, op, placement.region(op->getOperand(0)),
                    placement.region(op->getResult(0)), layout, label))
      return success();
    return op->emitOpError("cannot be run on the CPU: it is neither a kernel nor a product nor "
                           "an exchange");
  }

  /// A bucket of a repeat comes a turn before what needs it: wait for the one that is due, do
  /// what goes with this or that, start the next one.
  LogicalResult emitBucket(Unit &unit, Placement &placement, std::string label) {
    const bool isAhead = unit.bucket->turn == dist::Bucket::Before;
    const int64_t number = nextBucket++;
    Location loc = unit.ops.front()->getLoc();
    if (unit.ops.size() > 1)
      label += " and " + std::to_string(unit.ops.size() - 1) + " more";
    if (unit.bucket->turn == dist::Bucket::Same) {
      started[unit.bucket->number] = {number, label};
      return emitStart(unit, placement, label, number, 0);
    }
    const int64_t starts = isAhead ? 1 : 0;
    auto await = exec::AwaitOp::create(builder, loc, number, label, 0, 0, starts - 1);
    for (Unit &inner : unit.body)
      if (failed(emit(inner, placement)))
        return failure();
    auto turn = builder.getIntegerAttr(await.getAheadAttr().getType(), isAhead ? 1 : -1);
    for (Operation *op = await->getNextNode(); op; op = op->getNextNode())
      op->setAttr("ahead", turn);
    return emitStart(unit, placement, label, number, starts);
  }

  LogicalResult emitStart(Unit &unit, Placement &placement, StringRef label, int64_t number,
                          int64_t ahead) {
    auto bucket = exec::BesideOp::create(builder, unit.ops.front()->getLoc(), label, number, ahead);
    OpBuilder::InsertionGuard outside(builder);
    builder.createBlock(&bucket.getBody());
    for (Operation *op : unit.ops)
      if (!addExchange(builder, op, placement.region(op->getOperand(0)),
                       placement.region(op->getResult(0)), layout, labelOf(op)))
        return op->emitOpError("is no exchange that goes in a bucket");
    return success();
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
      copy(placement.region(v), placement.region(argument), "carry", op->getLoc());
    auto layers = op->getAttrOfType<DenseI64ArrayAttr>("layers");
    if (!layers && op.getIterations() > exec::RepeatOp::kMaxCount)
      return refuseBatch(op, "goes through the classifier in too many pieces",
                         Twine(op.getIterations()) + " pieces",
                         "pieces are at most " + Twine(exec::RepeatOp::kMaxCount));
    auto repeat = exec::RepeatOp::create(builder, op->getLoc(), layers ? "layers" : "pieces",
                                         op.getIterations(),
                                         layers ? layers.asArrayRef() : ArrayRef<int64_t>({0, 1}));
    OpBuilder::InsertionGuard outside(builder);
    builder.createBlock(&repeat.getBody());
    for (Unit &inner : unit.body)
      if (failed(emit(inner, placement)))
        return failure();
    return emitYield(op, placement);
  }

  /// Slices go to what is stacked, then what is carried to the next iteration.
  LogicalResult emitYield(RepeatOpInterface op, Placement &placement) {
    Block &block = op.getRepeatedBlock();
    ValueRange yielded = block.getTerminator()->getOperands();
    unsigned carried = op.getNumCarried();
    for (unsigned i = carried; i < yielded.size(); ++i)
      copy(placement.region(yielded[i]), placement.slices(op, op->getResult(i)), "stack",
           op->getLoc());
    // A carried value that goes to another's place leaves before its own is taken.
    llvm::SmallMapVector<unsigned, exec::Address, 4> waiting;
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
      copy(free->second, placement.region(block.getArgument(free->first)), "carry", op->getLoc());
      waiting.erase(free);
    }
    return success();
  }

  void addCopy(exec::Address source, exec::Address target, StringRef label, Location loc) {
    exec::CopyOp::create(builder, loc, exec::AtAttr::get(source), exec::AtAttr::get(target), label);
  }

  /// Nothing where the two are one.
  void copy(exec::Address source, exec::Address target, StringRef label, Location loc) {
    if (source.segment != target.segment || source.offset != target.offset ||
        source.step != target.step || source.period != target.period)
      addCopy(source, target, label, loc);
  }

  LogicalResult emitState(StateOpInterface state, Placement &placement, StringRef label) {
    if (state.getStateAccess() == StateAccess::Read)
      return success();
    exec::Address slot = placement.slotOf(state);
    Value value = state->getOperand(0);
    if (!placement.isPlacedIn(value, slot))
      addCopy(placement.region(value), slot, label, state->getLoc());
    return success();
  }

  /// Whether `v` is only added to a kept tensor, which then is what is computed into.
  static bool isAccumulated(Value v) {
    if (!v.hasOneUse())
      return false;
    auto state = dyn_cast<StateOpInterface>(*v.getUsers().begin());
    return state && state.getStateAccess() == StateAccess::Accumulate;
  }

  LogicalResult emitPicked(PickedContractionOpInterface op, Placement &placement, StringRef label) {
    auto product = pickedProductOf(op);
    if (failed(product))
      return failure();
    auto at = [&](Value v) { return exec::AtAttr::get(placement.region(v)); };
    Value a = op->getOperand(0), b = op->getOperand(1), c = op->getResult(0);
    Value index = op.getPickingIndex(), offset = op.getPickingOffset();
    exec::AtAttr from = offset ? at(offset) : exec::AtAttr();
    const auto bytes = static_cast<uint64_t>(bytesOf(a) + bytesOf(b) + bytesOf(c));
    if (product->isOuter)
      exec::PickedOuterOp::create(builder, op->getLoc(), at(a), at(b), at(index), from, at(c),
                                  product->sizes, {product->shareA, product->shareB},
                                  isAccumulated(c), narrowTypeOf(a), label, bytes,
                                  product->flops());
    else
      exec::PickedMatmulOp::create(builder, op->getLoc(), at(a), at(b), product->strides, at(index),
                                   from, at(c), product->sizes, product->shareA, narrowTypeOf(a),
                                   label, bytes, product->flops());
    return success();
  }

  /// What is said of the elements of an operand of a product; nothing of f32.
  static TypeAttr narrowTypeOf(Value v) {
    Type type = getElementTypeOrSelf(v);
    return type.isF32() ? TypeAttr() : TypeAttr::get(type);
  }

  LogicalResult emitMatmul(Operation *op, Placement &placement, StringRef label) {
    auto product = matmulOf(op);
    if (failed(product))
      return failure();
    Value a = op->getOperand(0), b = op->getOperand(1), c = op->getResult(0);
    bool accumulate = isAccumulated(c);
    auto at = [&](Value v) { return exec::AtAttr::get(placement.region(v)); };
    exec::MatmulOp::create(builder, op->getLoc(), at(a), product->a, at(b), product->b, at(c),
                           product->c, {product->m, product->n, product->k}, product->batch,
                           accumulate, narrowTypeOf(a), narrowTypeOf(c), label,
                           bytesOf(a) + bytesOf(b) + bytesOf(c), product->flops());
    return success();
  }

  /// A number for reports; more than an attribute holds is as much as it holds.
  static int64_t counted(double number) { return number < 0x1p63 ? int64_t(number) : INT64_MAX; }

  void emitKernel(KernelCall &call, Placement &placement, StringRef label, Location loc) {
    SmallVector<Attribute> args;
    for (const auto &arg : call.args)
      args.push_back(exec::AtAttr::get(std::holds_alternative<Value>(arg)
                                           ? placement.region(std::get<Value>(arg))
                                           : layout.extra(std::get<BodyInput>(arg))));
    SmallVector<Type> written;
    for (const auto &arg : ArrayRef(call.args).take_back(call.results))
      written.push_back(getElementTypeOrSelf(std::get<Value>(arg)));
    exec::LaunchOp::create(builder, loc, call.symbol, builder.getArrayAttr(args), call.extent,
                           call.grain, /*threads=*/IntegerAttr(), /*shared=*/IntegerAttr(),
                           builder.getTypeArrayAttr(written), label, counted(call.bytes),
                           counted(call.flops));
  }

  /// What an entry returns of the values that `isMade` goes to where the runtime, or the
  /// way back of a stage, reads it; as soon as it is made, so that the runtime can look at
  /// the norm of gradients before weights are changed by it.
  void emitResults(func::FuncOp entry, int64_t stage, Placement &placement,
                   function_ref<bool(Value)> isMade) {
    Operation *end = entry.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(end->getOperands())) {
      if (!isMade(value))
        continue;
      auto name = entry.getResultAttrOfType<StringAttr>(i, "nn.name");
      copy(placement.region(value), *layout.exchange(name, stage), name, end->getLoc());
    }
  }

  const cpu::Profile &profile;
  /// Stands where the next command goes: in an entry, or in a repeat.
  OpBuilder builder;
  StateLayout layout;
  SegmentWriter arena;
  KernelTable &kernels;
  /// Number of the next bucket of the entry.
  int64_t nextBucket = 0;
  /// What buckets of the entry that runs once are called where they start.
  struct Started {
    int64_t number = 0;
    std::string label;
  };
  llvm::DenseMap<int64_t, Started> started;
};
} // namespace

/// Lowers what a rank runs, of a pipeline with `slots` micro-batches in flight; the
/// program goes to `into`, and kernels that others have not made yet to `kernels`.
static LogicalResult lowerProgram(ModuleOp module, ModuleOp into, const cpu::Profile &profile,
                                  int64_t slots, KernelTable &kernels) {
  exec::ProgramOp program = createProgram(module);
  Lowering lowering(module, program, profile, slots, kernels);
  if (failed(lowering.run(module, program)))
    return failure();
  for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
    if (!isa<dist::MeshOp, exec::ProgramOp>(op))
      op.erase();
  program->moveBefore(into.getBody(), into.getBody()->end());
  return success();
}

} // namespace cleave::image

LogicalResult cleave::lowerToExec(ModuleOp module, const cpu::Profile &profile) {
  SmallVector<ModuleOp> parts(module.getOps<ModuleOp>());
  if (parts.empty())
    parts.push_back(module);
  for (ModuleOp part : parts)
    if (failed(image::checkLowerable(part)))
      return failure();
  module.getContext()->loadDialect<exec::ExecDialect>();
  auto schedules = module.getOps<pipe::ScheduleOp>();
  std::optional<pipe::Table> table;
  if (!schedules.empty())
    table = (*schedules.begin()).getTable();
  OwningOpRef<ModuleOp> made = ModuleOp::create(module.getLoc());
  KernelTable kernels(*made);
  for (ModuleOp part : parts) {
    auto index = part->getAttrOfType<IntegerAttr>("pipe.index");
    if (index && (!table || index.getInt() >= int64_t(table->ranks.size())))
      return part.emitError("is a part of a pipeline whose schedule is not there");
    if (failed(image::lowerProgram(part, module, profile,
                                   index ? table->ranks[index.getInt()].slots : 0, kernels)))
      return failure();
    if (part != module)
      part.erase();
  }
  image::addKernels(*made, module);
  return success();
}
