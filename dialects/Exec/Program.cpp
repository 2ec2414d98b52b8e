//===- Program.cpp - Parts of a program: what each must be by itself -------===//

#include "dialects/Exec/Exec.h"
#include "dialects/Interfaces/LayerNames.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

/// Fixed addresses, of what is no command, do not move.
static LogicalResult verifyFixed(Operation *op, AtAttr at, int64_t bytes) {
  if (at.getStep() != 0 || at.getPeriod() != 0)
    return op->emitOpError() << "moves by " << at.getStep() << " bytes; only addresses of commands "
                             << "in a repeat and of layers do";
  if (at.getBytes() != bytes)
    return op->emitOpError() << "takes " << bytes << " bytes, not " << at.getBytes();
  return success();
}

LogicalResult TableOp::verify() {
  auto elements = dyn_cast<DenseElementsAttr>(getElementsAttr());
  if (!elements || !(elements.getElementType().isF32() || elements.getElementType().isInteger(32)))
    return emitOpError("needs dense elements of f32 or i32");
  return verifyFixed(*this, getAt(), 4 * elements.getNumElements());
}

LogicalResult RankIndexOp::verify() { return verifyFixed(*this, getAt(), 4); }

LogicalResult ExchangeOp::verify() {
  bool isScalar =
      getField() != Field::Tokens && getField() != Field::Targets && getField() != Field::Positions;
  return verifyFixed(*this, getAt(), isScalar ? 4 : getAt().getBytes());
}

//===----------------------------------------------------------------------===//
// StateOp
//===----------------------------------------------------------------------===//

/// The number of elements, or nullopt where it is no number of a tensor.
static std::optional<int64_t> countOf(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    if (size < 0 || llvm::MulOverflow(count, size, count))
      return std::nullopt;
  return count;
}

LogicalResult StateOp::verify() {
  bool marked = getName().contains("{}");
  if (getSlices() != marked || (marked && getShape().empty()))
    return emitOpError("has \"{}\" in its name if, and only if, the slices of its first dimension "
                       "are tensors in files");
  auto elements = countOf(getShape());
  SmallVector<int64_t> inFiles(getFileShape());
  if (marked)
    inFiles.insert(inFiles.begin(), getShape()[0]);
  if (!elements || elements != countOf(inFiles))
    return emitOpError("has another number of elements than its shape in files");
  for (dist::ShardingAttr sharding : getSlotShardings()) {
    if (sharding.getDims().size() != getShape().size())
      return emitOpError() << "has " << getShape().size() << " dimensions and a sharding of "
                           << sharding.getDims().size();
    if (sharding.isPartial())
      return emitOpError("is partial; what is kept is complete");
  }
  bool named = namesLayers(getName());
  auto layers = getLayers();
  auto isNumber = [](int64_t n, int64_t least) { return n >= least && n <= RepeatOp::kMaxCount; };
  if (layers && (layers->size() != 3 || !isNumber((*layers)[0], 0) || !isNumber((*layers)[1], 1) ||
                 !isNumber((*layers)[2], 1)))
    return emitOpError() << "needs layers [first, count, step], each at most "
                         << RepeatOp::kMaxCount << ", of which only first may be 0";
  if (layers ? !named : named)
    return emitOpError("has the number of a layer between braces in its name if, and only if, it "
                       "stands for several layers");
  if (layers && getAliases())
    return emitOpError("has other names although it stands for several layers");
  for (AtAttr slot : getSlots()) {
    if (!slot)
      continue;
    if (!layers && slot.getStep() != 0)
      return emitOpError() << "moves by " << slot.getStep() << " bytes without layers";
    if (getCount() > 1 && std::abs(slot.getStep()) < slot.getBytes())
      return emitOpError() << "has layers of " << slot.getBytes() << " bytes that lie "
                           << slot.getStep() << " apart";
  }
  return success();
}

std::string StateOp::getTensorName(int64_t index) {
  auto layers = getLayers();
  return layers ? nameInLayer(getName(), (*layers)[0] + index * (*layers)[2]) : getName().str();
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

static LogicalResult verifyCommands(Block &block) {
  for (Operation &op : block)
    if (!isa<CommandOpInterface, RepeatOp>(op))
      return op.emitOpError("is no command");
  return success();
}

LogicalResult EntryOp::verifyRegions() { return verifyCommands(getBody().front()); }

LogicalResult RepeatOp::verify() {
  if (isa<RepeatOp>((*this)->getParentOp()))
    return emitOpError("stands in a repeat; repeats don't nest");
  if (!isa<EntryOp>((*this)->getParentOp()))
    return emitOpError("stands outside of an entry");
  if (getIterations() > kMaxCount)
    return emitOpError() << "runs " << getCount() << " times; at most " << kMaxCount;
  if (getLayers().size() != 2)
    return emitOpError("needs layers [first, step]");
  // Bounded, so that the last can be computed.
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  int64_t first = getLayers()[0], step = getLayers()[1];
  if (first < 0 || first > most || step < -most || step > most)
    return emitOpError() << "counts layers from " << first << " by " << step
                         << "; the first is 0 to 2^31 - 1, the step at most that either way";
  int64_t last = first + (getIterations() - 1) * step;
  if (last < 0 || last > most)
    return emitOpError() << "ends at layer " << last << "; layers are 0 to 2^31 - 1";
  return success();
}

LogicalResult RepeatOp::verifyRegions() {
  for (auto command : getBody().getOps<CommandOpInterface>())
    if (std::abs(command.getAhead()) > kMaxAhead)
      return command->emitOpError() << "is " << command.getAhead() << " turns ahead; at most "
                                    << kMaxAhead << " either way";
  return verifyCommands(getBody().front());
}

LogicalResult BesideOp::verifyRegions() {
  Block &exchanges = getBody().front();
  if (exchanges.empty())
    return emitOpError("is a bucket without exchanges");
  Operation &first = exchanges.front();
  for (Operation &op : exchanges) {
    if (!isa<AllReduceOp, AllGatherOp, ReduceScatterOp>(op))
      return op.emitOpError("is no exchange of a bucket");
    auto command = cast<CommandOpInterface>(op);
    if (op.getName() != first.getName() || op.getAttr("kind") != first.getAttr("kind") ||
        command.getGroupAttr() != getGroupAttr())
      return op.emitOpError("is of another kind or group than the bucket's first exchange");
    if (command.getAhead() != 0)
      return op.emitOpError("is ahead by itself; its bucket is");
  }
  return success();
}

/// Entries of a stage are of one that the program has; the others have none.
static LogicalResult verifyStageOf(EntryOp entry) {
  auto program = cast<ProgramOp>(entry->getParentOp());
  const EntryKind kind = entry.getKind();
  const bool needs =
      kind == EntryKind::Forward || kind == EntryKind::Backward || kind == EntryKind::Weights;
  const bool isOfEither =
      kind == EntryKind::Evaluate || kind == EntryKind::Survey || kind == EntryKind::Last;
  if (needs != entry.getStage().has_value() && !isOfEither)
    return entry.emitOpError() << "is '" << stringifyEntryKind(kind) << "', which runs "
                               << (needs ? "for one stage: it needs `stage`" : "for no stage");
  if (kind == EntryKind::Survey && program.getPart() && !entry.getStage())
    return entry.emitOpError("surveys a micro-batch at once; in a pipeline its stages do");
  if ((kind == EntryKind::Microbatch || (kind == EntryKind::Last && !entry.getStage())) &&
      program.getPart())
    return entry.emitOpError("runs a micro-batch at once; in a pipeline its stages do");
  if (entry.getStage() && llvm::none_of(program.getOps<StageOp>(), [&](StageOp stage) {
        return stage.getNumber() == *entry.getStage();
      }))
    return entry.emitOpError() << "is of stage " << *entry.getStage()
                               << ", which the program has not";
  return success();
}

int64_t cleave::exec::surveyedStages(ModuleOp module) {
  int64_t count = 0;
  for (auto program : module.getOps<ProgramOp>())
    for (auto entry : program.getOps<EntryOp>())
      if (entry.getKind() == EntryKind::Survey && entry.getStage())
        count = std::max(count, static_cast<int64_t>(*entry.getStage()) + 1);
  return count;
}

SmallVector<AtAttr> StageOp::getAddresses() {
  SmallVector<AtAttr> all;
  for (ArrayAttr list : {getInputs(), getOutputs(), getOutputGradients(), getInputGradients()})
    llvm::append_range(all, list.getAsRange<AtAttr>());
  return all;
}

LogicalResult ProgramOp::verifyRegions() {
  llvm::StringSet<> names;
  auto isFresh = [&](Twine name) { return names.insert(name.str()).second; };
  for (Operation &op : getBody().front()) {
    if (auto segment = dyn_cast<SegmentOp>(op)) {
      if (!isFresh(Twine("segment ") + segment.getName()))
        return op.emitOpError() << "defines the segment '" << segment.getName() << "' twice";
      if (segment.getBytes() > AtAttr::kMaxBytes)
        return op.emitOpError() << "has " << segment.getBytes() << " bytes; at most 2^46";
    } else if (auto group = dyn_cast<GroupOp>(op)) {
      if (!isFresh(Twine("group ") + group.getName()))
        return op.emitOpError() << "defines the group '" << group.getName() << "' twice";
    } else if (auto exchange = dyn_cast<ExchangeOp>(op)) {
      if (!isFresh(Twine("exchange ") + stringifyField(exchange.getField())))
        return op.emitOpError() << "places '" << stringifyField(exchange.getField()) << "' twice";
    } else if (auto entry = dyn_cast<EntryOp>(op)) {
      if (failed(verifyStageOf(entry)))
        return failure();
      std::string stage = entry.getStage() ? " of stage " + std::to_string(*entry.getStage()) : "";
      if (!isFresh(Twine("entry ") + stringifyEntryKind(entry.getKind()) + stage))
        return op.emitOpError() << "has '" << stringifyEntryKind(entry.getKind()) << "'" << stage
                                << " twice";
    } else if (auto stage = dyn_cast<StageOp>(op)) {
      if (!getPart())
        return op.emitOpError("is a stage of what is no part of a pipeline");
      if (!isFresh(Twine("stage ") + Twine(stage.getNumber())))
        return op.emitOpError() << "defines stage " << stage.getNumber() << " twice";
    } else if (auto state = dyn_cast<StateOp>(op)) {
      for (int64_t i = 0; i < state.getCount(); ++i)
        if (!isFresh(Twine("state ") + state.getTensorName(i)))
          return op.emitOpError() << "has the tensor '" << state.getTensorName(i) << "' twice";
      if (ArrayAttr aliases = state.getAliasesAttr())
        for (auto alias : aliases.getAsRange<StringAttr>())
          if (!isFresh(Twine("state ") + alias.getValue()))
            return op.emitOpError() << "uses the name " << alias << " twice";
    } else if (!isa<TableOp, RankIndexOp>(op)) {
      return op.emitOpError("is no part of a program");
    }
  }
  for (Field needed : {Field::Tokens, Field::Targets, Field::Loss})
    if (isFresh("exchange " + Twine(stringifyField(needed))))
      return emitOpError() << "needs an exec.exchange of " << stringifyField(needed);
  return success();
}
