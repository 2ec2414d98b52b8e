//===- Placement.cpp - Where every value of an entry lives -----------------===//

#include "lib/Target/Image/Placement.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
namespace cleave::image {

static int64_t bytesOf(Value v) { return exec::tensorBytes(v.getType()); }

Placement::Placement(func::FuncOp entry, std::vector<Unit> &units, StateLayout &layout,
                     StringAttr arena, int64_t stage)
    : entry(entry), body(&entry.getBody().front()), stage(stage), layout(layout), segment(arena) {
  number(units);
  for (auto [i, argument] : llvm::enumerate(entry.getArguments()))
    fixed[argument] =
        *layout.exchange(entry.getArgAttrOfType<StringAttr>(i, "nn.name").getValue(), stage);
  placeLoads(units);
  placeRequired(units);
  placeResults();
  placeStores(units);
  placeRepeats(units);
  placeReused(units);
  collect(units);
  pack();
}

void Placement::number(ArrayRef<Unit> units) {
  for (const Unit &unit : units) {
    int64_t begin = next++;
    for (int64_t bucket : unit.awaited)
      awaitedAt[bucket] = begin;
    if (!unit.body.empty()) {
      number(unit.body);
      ++next;
    }
    if (unit.bucket && unit.bucket->turn != dist::Bucket::Same)
      buckets.push_back(&unit);
    for (Operation *op : unit.ops) {
      spans[op] = {begin, unit.body.empty() ? begin : next - 1};
      unitOf[op] = &unit;
      if (unit.bucket && unit.bucket->turn == dist::Bucket::Behind)
        sent.push_back({op->getOperand(0), begin});
    }
  }
}

void Placement::placeLoads(ArrayRef<Unit> units) {
  for (const Unit &unit : units) {
    placeLoads(unit.body);
    if (auto state = dyn_cast<StateOpInterface>(unit.ops.front()))
      if (state.getStateAccess() == StateAccess::Read)
        fixed[state->getResult(0)] = slotOf(state);
    DenseElementsAttr elements;
    if (matchPattern(unit.ops.front(), m_Constant(&elements)))
      fixed[unit.ops.front()->getResult(0)] = layout.extra(BodyInput::ofTable(elements));
  }
}

/// Outputs that a kernel relies on to lie over an input.
void Placement::placeRequired(ArrayRef<Unit> units) {
  for (const Unit &unit : units) {
    placeRequired(unit.body);
    for (const InPlace &p : unit.inPlace) {
      if (!p.must)
        continue;
      if (auto it = fixed.find(p.input); it != fixed.end())
        fixed[p.output] = it->second;
      else
        over[p.output] = p.input;
    }
  }
}

/// Lets what a stage returns be made where it is kept. (What entries return to the
/// runtime are scalars, which are copied.)
void Placement::placeResults() {
  if (stage < 0)
    return;
  for (auto [i, v] : llvm::enumerate(body->getTerminator()->getOperands())) {
    Operation *producer = v.getDefiningOp();
    if (!producer || isPlaced(v) || isa<StateOpInterface>(producer))
      continue;
    // A carried value lies where it is carried.
    auto repeat = dyn_cast<RepeatOpInterface>(producer);
    if (repeat && cast<OpResult>(v).getResultNumber() < repeat.getNumCarried())
      continue;
    fixed[v] =
        *layout.exchange(entry.getResultAttrOfType<StringAttr>(i, "nn.name").getValue(), stage);
  }
}

void Placement::placeStores(ArrayRef<Unit> units) {
  for (const Unit &unit : units) {
    placeStores(unit.body);
    if (auto state = dyn_cast<StateOpInterface>(unit.ops.front()))
      if (state.getStateAccess() != StateAccess::Read)
        forwardStore(state);
  }
}

/// Lets the producer of a stored value write into the slot, if no reader of the
/// old contents comes later.
void Placement::forwardStore(StateOpInterface store) {
  Value value = store->getOperand(0);
  Operation *producer = value.getDefiningOp();
  if (!producer || producer->getBlock() != store->getBlock() || isPlaced(value) ||
      isa<StateOpInterface, RepeatOpInterface>(producer))
    return;
  // What is written over the value later must not reach the slot.
  if (llvm::any_of(over, [&](auto &entry) { return entry.second == value; }))
    return;
  exec::Address slot = slotOf(store);
  int64_t at = begin(value);
  if (store.getStateAccess() == StateAccess::Accumulate) {
    fixed[value] = slot; // a matrix product that adds to the slot itself
    return;
  }
  exec::Address whole =
      store.getStateRows() ? layout.slot(store.getStateSymbol(), store.getStateSlot()) : slot;
  for (auto &[v, r] : fixed) {
    bool other = r.segment != slot.segment || r.offset + r.bytes <= whole.offset ||
                 r.offset >= whole.offset + whole.bytes;
    if (other || v == value || begin(v) > at)
      continue;
    if (lastUse(v) > at || (lastUse(v) == at && !mayOverwrite(value, v)))
      return;
  }
  fixed[value] = slot;
}

void Placement::placeRepeats(ArrayRef<Unit> units) {
  for (const Unit &unit : units) {
    auto repeat = dyn_cast<RepeatOpInterface>(unit.ops.front());
    if (!repeat)
      continue;
    placeRepeats(unit.body);
    Block &block = repeat.getRepeatedBlock();
    Operation *end = block.getTerminator();
    unsigned carried = repeat.getNumCarried();
    for (unsigned i = 0; i < carried; ++i) {
      over[repeat->getResult(i)] = block.getArgument(i);
      carryIn(repeat, i);
      carryOn(repeat, i);
    }
    for (unsigned i = carried; i < repeat->getNumOperands(); ++i)
      sliceOf[block.getArgument(i)] = {repeat, repeat->getOperand(i)};
    for (unsigned i = carried; i < repeat->getNumResults(); ++i) {
      Value v = end->getOperand(i);
      if (v.getDefiningOp() && v.getParentBlock() == &block && !isPlaced(v) &&
          !isa<RepeatOpInterface>(v.getDefiningOp()))
        sliceOf[v] = {repeat, repeat->getResult(i)};
    }
  }
}

/// Lets the value that a repeat starts with become the carried one, if nobody else
/// needs it any more.
void Placement::carryIn(RepeatOpInterface repeat, unsigned i) {
  Value v = repeat->getOperand(i), r = root(v);
  if (fixed.count(r) || sliceOf.count(r) || isa<BlockArgument>(r) || over.count(r) ||
      r.getParentBlock() != repeat->getBlock() || groupLastUse(v) != spans.lookup(repeat).begin ||
      llvm::count(repeat->getOperands(), v) != 1)
    return;
  over[r] = repeat.getRepeatedBlock().getArgument(i);
}

/// Lets what an iteration makes for the next be written where the carried value
/// lies, if that is not read any more by then.
void Placement::carryOn(RepeatOpInterface repeat, unsigned i) {
  Block &block = repeat.getRepeatedBlock();
  Value argument = block.getArgument(i), v = block.getTerminator()->getOperand(i), r = root(v);
  if (fixed.count(r) || sliceOf.count(r) || isa<BlockArgument>(r) || r.getParentBlock() != &block ||
      isa<RepeatOpInterface>(r.getDefiningOp()) || isSentFrom(r, next))
    return;
  int64_t last = lastUse(argument), at = begin(r);
  if (last < at || (last == at && mayOverwrite(r, argument)))
    over[r] = argument;
}

void Placement::placeReused(ArrayRef<Unit> units) {
  for (const Unit &unit : units) {
    placeReused(unit.body);
    for (const InPlace &p : unit.inPlace)
      reuse(p, endOf(unit.ops.front()));
  }
}

/// Puts an output over an input that nobody reads again.
void Placement::reuse(const InPlace &p, int64_t at) {
  if (isPlaced(p.output) || bytesOf(p.output) != bytesOf(p.input) || sliceOf.count(p.input))
    return;
  if (auto it = fixed.find(p.input); it != fixed.end()) {
    // A slot's contents may be overwritten only by who is its last reader.
    auto load = dyn_cast_or_null<StateOpInterface>(p.input.getDefiningOp());
    if (load && load.getStateSlot() == "gradient" && lastUse(p.input) == at)
      fixed[p.output] = it->second;
    return;
  }
  Value r = root(p.input);
  // Carried values are needed where the iteration ends.
  if (isa<BlockArgument>(r) || fixed.count(r) || sliceOf.count(r) ||
      r.getParentBlock() != Value(p.output).getParentBlock() || groupLastUse(p.input) != at)
    return;
  if (isSentFrom(r, at - 1))
    return;
  over[p.output] = p.input;
}

/// Whether a bucket that starts at `at` or before still reads the buffer of `r` then.
bool Placement::isSentFrom(Value r, int64_t at) const {
  return llvm::any_of(sent, [&](auto &each) { return each.second <= at && root(each.first) == r; });
}

exec::Address Placement::slotOf(StateOpInterface state) const {
  exec::Address slot = layout.slot(state.getStateSymbol(), state.getStateSlot());
  if (auto rows = state.getStateRows()) {
    Value v = state->getNumResults() ? Value(state->getResult(0)) : state->getOperand(0);
    int64_t row = slot.bytes / rows->all;
    return {slot.segment, slot.offset + rows->begin * row, bytesOf(v), rows->step * row};
  }
  auto repeat = state->getParentOfType<RepeatOpInterface>();
  if (repeat && repeat.isReversed()) {
    slot.offset += (repeat.getIterations() - 1) * slot.step;
    slot.step = -slot.step;
  }
  return slot;
}

exec::Address Placement::slices(RepeatOpInterface repeat, Value whole) const {
  exec::Address slice = region(whole);
  slice.bytes /= repeat.getIterations();
  slice.step = slice.bytes;
  if (repeat.isReversed()) {
    slice.offset += (repeat.getIterations() - 1) * slice.bytes;
    slice.step = -slice.bytes;
  }
  return slice;
}

exec::Address Placement::region(Value v) const {
  Value r = root(v);
  if (auto it = fixed.find(v); it != fixed.end())
    return it->second;
  if (auto it = fixed.find(r); it != fixed.end())
    return it->second;
  if (auto it = sliceOf.find(r); it != sliceOf.end())
    return slices(it->second.first, it->second.second);
  return arena.find(r)->second;
}

bool Placement::isPlacedIn(Value v, exec::Address r) const {
  exec::Address own = region(v);
  return own.segment == r.segment && own.offset == r.offset && own.step == r.step &&
         own.period == r.period;
}

bool Placement::isPlaced(Value v) const {
  return fixed.count(v) || over.count(v) || sliceOf.count(v);
}

int64_t Placement::begin(Value v) const {
  if (Operation *op = v.getDefiningOp())
    return spans.lookup(op).begin;
  Operation *parent = cast<BlockArgument>(v).getOwner()->getParentOp();
  return parent == body->getParentOp() ? -1 : spans.lookup(parent).begin;
}

/// When an operator that is no repeat is done: what is exchanged beside others, when that is
/// waited for.
int64_t Placement::endOf(Operation *op) const {
  auto bucket = dist::bucketOf(op);
  return bucket && bucket->turn == dist::Bucket::Same ? awaitedAt.lookup(bucket->number)
                                                      : spans.lookup(op).begin;
}

int64_t Placement::lastUse(Value v) const {
  int64_t last = begin(v);
  for (OpOperand &use : v.getUses()) {
    Operation *user = use.getOwner();
    Operation *own = v.getParentBlock()->findAncestorOpInBlock(*user);
    int64_t at;
    if (own != user)
      at = spans.lookup(own).end; // in every iteration
    else if (auto repeat = dyn_cast<RepeatOpInterface>(user))
      at = use.getOperandNumber() < repeat.getNumCarried() ? spans.lookup(user).begin
                                                           : spans.lookup(user).end;
    else if (!user->hasTrait<OpTrait::IsTerminator>())
      at = endOf(user);
    else
      at =
          user->getParentOp() == body->getParentOp() ? next : spans.lookup(user->getParentOp()).end;
    last = std::max(last, at);
  }
  return last;
}

/// Last use of the buffer that `v` lies in, through all that lie over it.
int64_t Placement::groupLastUse(Value v) const {
  Value r = root(v);
  int64_t last = lastUse(r);
  for (auto &[output, input] : over)
    if (root(output) == r)
      last = std::max(last, lastUse(output));
  return last;
}

Value Placement::root(Value v) const {
  for (auto it = over.find(v); it != over.end(); it = over.find(v))
    v = it->second;
  return v;
}

bool Placement::mayOverwrite(Value output, Value input) const {
  const Unit *unit = unitOf.lookup(output.getDefiningOp());
  return unit && llvm::any_of(unit->inPlace, [&](const InPlace &p) {
           return p.output == output && p.input == input;
         });
}

/// The buffer of `v` is written from `begin` on and read last where `v` is.
void Placement::addLifetime(Value v, int64_t begin) {
  if (fixed.count(v))
    return;
  Value r = root(v);
  if (fixed.count(r) || sliceOf.count(r))
    return;
  Lifetime &life = lifetimes.insert({r, {bytesOf(r), begin, begin}}).first->second;
  life.begin = std::min(life.begin, begin);
  life.end = std::max(life.end, lastUse(v));
}

/// The buffer of `v` is that of a bucket for as long as the repeat runs.
void Placement::keep(Value v, Operation *repeat, bool inTwoPlaces) {
  auto it = lifetimes.find(root(v));
  if (it == lifetimes.end() || isa<BlockArgument>(it->first) ||
      it->first.getParentBlock() != v.getParentBlock())
    return;
  Lifetime &life = it->second;
  const auto [begin, end] = spans.lookup(repeat);
  life.begin = std::min(life.begin, begin);
  life.end = std::max(life.end, end);
  if (inTwoPlaces && twice.try_emplace(it->first, alignedInArena(life.bytes)).second)
    life.bytes = 2 * alignedInArena(life.bytes);
}

/// Two places for what the next turn's work would meet: results that come while those of the
/// turn are used, operands that the next turn makes while those of this one are sent.
void Placement::addUnderWay(const Unit &unit) {
  Operation *repeat = unit.ops.front()->getParentOp();
  for (Operation *op : unit.ops) {
    const bool isAhead = unit.bucket->turn == dist::Bucket::Before;
    keep(op->getOperand(0), repeat, !isAhead);
    keep(op->getResult(0), repeat, isAhead);
  }
}

void Placement::collect(ArrayRef<Unit> units) {
  for (const Unit &unit : units) {
    int64_t at = spans.lookup(unit.ops.front()).begin;
    for (Value v : unit.outputs)
      addLifetime(v, at);
    if (unit.bucket)
      collect(unit.body);
    auto repeat = dyn_cast<RepeatOpInterface>(unit.ops.front());
    if (!repeat)
      continue;
    // Carried values live through all iterations.
    for (Value argument :
         repeat.getRepeatedBlock().getArguments().take_front(repeat.getNumCarried())) {
      addLifetime(argument, at);
      if (auto it = lifetimes.find(root(argument)); it != lifetimes.end())
        it->second.end = std::max(it->second.end, spans.lookup(repeat).end);
    }
    collect(unit.body);
  }
}

void Placement::pack() {
  for (const Unit *bucket : buckets)
    addUnderWay(*bucket);
  SmallVector<Lifetime> list;
  for (auto &[v, life] : lifetimes)
    list.push_back(life);
  packing = packArena(list);
  for (auto [entry, offset] : llvm::zip(lifetimes, packing.offsets)) {
    auto it = twice.find(entry.first);
    arena[entry.first] = it == twice.end()
                             ? exec::Address{segment, offset, entry.second.bytes}
                             : exec::Address{segment, offset, bytesOf(entry.first), it->second, 2};
  }
}

} // namespace cleave::image
