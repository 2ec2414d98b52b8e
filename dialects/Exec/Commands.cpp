//===- Commands.cpp - Addresses and sizes of commands ----------------------===//

#include "dialects/Exec/Exec.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

//===----------------------------------------------------------------------===//
// Overlap
//===----------------------------------------------------------------------===//

/// How often `command` runs.
static int64_t iterationsOf(Operation *command) {
  auto repeat = command->getParentOfType<RepeatOp>();
  return repeat ? std::clamp<int64_t>(repeat.getIterations(), 1, RepeatOp::kMaxCount) : 1;
}

/// The first iteration in which the two share a byte, or -1.
static int64_t overlap(Operation *command, AtAttr a, AtAttr b) {
  if (a.getSegment() != b.getSegment() || a.getBytes() == 0 || b.getBytes() == 0)
    return -1;
  const bool isEven = a.getStep() == b.getStep() && a.getPeriod() == b.getPeriod();
  int64_t iterations = isEven ? 1 : iterationsOf(command);
  for (int64_t i = 0; i < iterations; ++i)
    if (int64_t distance = b.offsetIn(i) - a.offsetIn(i);
        distance < a.getBytes() && distance > -b.getBytes())
      return i;
  return -1;
}

static LogicalResult verifyApart(Operation *command, AtAttr source, AtAttr target) {
  int64_t i = overlap(command, source, target);
  if (i < 0)
    return success();
  InFlightDiagnostic error = command->emitOpError() << "has source and target that overlap";
  if (command->getParentOfType<RepeatOp>())
    error << " in iteration " << i;
  return error;
}

//===----------------------------------------------------------------------===//
// Kernels, fills, copies
//===----------------------------------------------------------------------===//

SmallVector<AtAttr> LaunchOp::getAddresses() {
  return llvm::to_vector(getArgs().getAsRange<AtAttr>());
}

LogicalResult LaunchOp::verify() {
  // Bounded, so that the end of a piece can be computed.
  constexpr uint64_t most = uint64_t(1) << 48;
  if (getExtent() > most || getGrain() > most)
    return emitOpError("has an extent or a grain above 2^48");
  if (getShared() && !getThreads())
    return emitOpError("has shared memory, which blocks of a GPU's `threads` share");
  size_t written = getWritten() ? getWritten()->size() : 0;
  if (written > getArgs().size())
    return emitOpError() << "writes " << written << " of " << getArgs().size() << " arguments";
  SmallVector<AtAttr> addresses = getAddresses();
  for (size_t i = 0; i < written; ++i) {
    Type type = cast<TypeAttr>((*getWritten())[i]).getValue();
    AtAttr at = addresses[addresses.size() - written + i];
    if (!isElementType(type) || at.getBytes() % elementBytes(type) != 0)
      return emitOpError() << "writes " << at.getBytes() << " bytes of elements of " << type;
  }
  return success();
}

SmallVector<AtAttr> ZeroOp::getAddresses() { return {getTarget()}; }

SmallVector<AtAttr> CopyOp::getAddresses() { return {getSource(), getTarget()}; }

LogicalResult CopyOp::verify() {
  if (getSource().getBytes() != getTarget().getBytes())
    return emitOpError() << "copies " << getSource().getBytes() << " bytes to "
                         << getTarget().getBytes();
  return verifyApart(*this, getSource(), getTarget());
}

//===----------------------------------------------------------------------===//
// MatmulOp
//===----------------------------------------------------------------------===//

SmallVector<AtAttr> MatmulOp::getAddresses() { return {getA(), getB(), getC()}; }

Type MatmulOp::getOperandType() { return getOf().value_or(Float32Type::get(getContext())); }
Type MatmulOp::getResultType() { return getAs().value_or(Float32Type::get(getContext())); }

int64_t MatmulOp::getAlignment() {
  return std::min(elementBytes(getOperandType()), elementBytes(getResultType()));
}

/// The matrix called `name` of `rows` × `columns`: packed along one direction, and
/// its last element inside its address. `which` of the strides of the batch is its.
static LogicalResult verifyMatrix(MatmulOp op, StringRef name, AtAttr at, ArrayRef<int64_t> strides,
                                  int64_t rows, int64_t columns, unsigned which, Type type) {
  if (strides.size() != 2)
    return op.emitOpError() << "needs two strides for " << name << ", of rows and of columns";
  if (rows == 0 || columns == 0)
    return success();
  bool rowMajor = strides[1] == 1 && strides[0] >= columns;
  bool columnMajor = strides[0] == 1 && strides[1] >= rows;
  if (rows > 1 && columns > 1 && !rowMajor && !columnMajor)
    return op.emitOpError() << "has strides " << strides[0] << " and " << strides[1] << " for "
                            << name << "; one must be 1, the other at least the size of the "
                            << "direction of the first";
  if ((rows > 1 && strides[0] < 1) || (columns > 1 && strides[1] < 1))
    return op.emitOpError() << "has a stride below 1 for " << name;
  int64_t last = 0;
  auto reach = [&](int64_t count, int64_t stride) {
    int64_t distance;
    return stride >= 0 && !llvm::MulOverflow(count - 1, stride, distance) &&
           !llvm::AddOverflow(last, distance, last);
  };
  bool inside = reach(rows, strides[0]) && reach(columns, strides[1]);
  ArrayRef<int64_t> batch = op.getBatch();
  for (size_t i = 0; i < batch.size(); i += 4)
    inside = inside && reach(batch[i], batch[i + which]);
  if (!inside || last >= at.getBytes() / elementBytes(type))
    return op.emitOpError() << "reaches past the " << at.getBytes() << " bytes of " << name;
  return success();
}

LogicalResult MatmulOp::verify() {
  ArrayRef<int64_t> sizes = getSizes(), batch = getBatch();
  if (sizes.size() != 3 || llvm::any_of(sizes, [](int64_t n) { return n < 0; }))
    return emitOpError("needs sizes [m, n, k], none of them negative");
  if (batch.size() % 4 != 0)
    return emitOpError("needs four numbers for each dimension of the batch");
  for (size_t i = 0; i < batch.size(); i += 4) {
    if (batch[i] < 1)
      return emitOpError() << "has a dimension of the batch of " << batch[i];
    if (batch[i] > 1 && batch[i + 3] == 0)
      return emitOpError("writes several results of the batch to the same place");
  }
  int64_t m = sizes[0], n = sizes[1], k = sizes[2];
  Type of = getOperandType(), as = getResultType();
  if (failed(verifyMatrix(*this, "a", getA(), getAStrides(), m, k, 1, of)) ||
      failed(verifyMatrix(*this, "b", getB(), getBStrides(), k, n, 2, of)) ||
      failed(verifyMatrix(*this, "c", getC(), getCStrides(), m, n, 3, as)))
    return failure();
  if (as.isBF16() && (getAccumulate() || !of.isBF16()))
    return emitOpError("rounds its result, so it needs operands of bf16 and adds to nothing");
  for (AtAttr operand : {getA(), getB()})
    if (overlap(*this, operand, getC()) >= 0)
      return emitOpError("writes to what it reads: c overlaps a or b");
  return success();
}

//===----------------------------------------------------------------------===//
// Products with picked matrices
//===----------------------------------------------------------------------===//

/// Product of `sizes`, or -1 where it is none.
static int64_t product(std::initializer_list<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t n : sizes)
    if (n < 0 || llvm::MulOverflow(result, n, result))
      return -1;
  return result;
}

template <typename Op> static SmallVector<AtAttr> addressesOf(Op op) {
  SmallVector<AtAttr> all = {op.getA(), op.getB(), op.getIndex(), op.getC()};
  if (auto offset = op.getOffset())
    all.push_back(*offset);
  return all;
}

SmallVector<AtAttr> PickedMatmulOp::getAddresses() { return addressesOf(*this); }
int64_t PickedMatmulOp::getAlignment() { return elementBytes(getOperandType()); }
SmallVector<AtAttr> PickedOuterOp::getAddresses() { return addressesOf(*this); }
int64_t PickedOuterOp::getAlignment() { return elementBytes(getOperandType()); }

Type PickedMatmulOp::getOperandType() { return getOf().value_or(Float32Type::get(getContext())); }
Type PickedOuterOp::getOperandType() { return getOf().value_or(Float32Type::get(getContext())); }

/// `at`, called `name`, has exactly `elements` of `each` bytes.
static LogicalResult verifyElements(Operation *op, StringRef name, AtAttr at, int64_t elements,
                                    int64_t each = 4) {
  if (int64_t bytes = product({elements, each}); bytes < 0 || at.getBytes() != bytes)
    return op->emitOpError() << "has " << at.getBytes() << " bytes for " << name
                             << ", its sizes need " << bytes;
  return success();
}

/// What both have: four sizes, an index for each row, a result apart from the rest.
template <typename Op> static LogicalResult verifyPicked(Op op) {
  ArrayRef<int64_t> sizes = op.getSizes();
  if (sizes.size() != 4 || llvm::any_of(sizes, [](int64_t n) { return n < 1; }))
    return op.emitOpError("needs four sizes of at least 1");
  if (failed(verifyElements(op, "the index", op.getIndex(), sizes[0])))
    return failure();
  for (AtAttr at : op.getAddresses())
    if (at != op.getC() && overlap(op, at, op.getC()) >= 0)
      return op.emitOpError("writes to what it reads");
  if (op.getOffset())
    return verifyElements(op, "the offset", *op.getOffset(), 1);
  return success();
}

static LogicalResult verifyShare(Operation *op, int64_t rows, int64_t share) {
  if (share < 1 || rows % share != 0)
    return op->emitOpError() << "shares a row between " << share << " of " << rows;
  return success();
}

LogicalResult PickedMatmulOp::verify() {
  if (failed(verifyPicked(*this)))
    return failure();
  int64_t rows = getSizes()[0], n = getSizes()[1], k = getSizes()[2], count = getSizes()[3];
  auto share = static_cast<int64_t>(getShare());
  const int64_t each = elementBytes(getOperandType());
  if (failed(verifyShare(*this, rows, share)) ||
      failed(verifyElements(*this, "a", getA(), product({rows / share, k}), each)) ||
      failed(verifyElements(*this, "b", getB(), product({count, n, k}), each)) ||
      failed(verifyElements(*this, "c", getC(), product({rows, n}))))
    return failure();
  ArrayRef<int64_t> strides = getBStrides();
  bool rowMajor = strides.size() == 3 && strides[1] == n && strides[2] == 1;
  bool columnMajor = strides.size() == 3 && strides[1] == 1 && strides[2] == k;
  if (!(rowMajor || columnMajor) || strides[0] != n * k)
    return emitOpError("needs the strides of dense matrices, of rows or of columns");
  return success();
}

LogicalResult PickedOuterOp::verify() {
  if (failed(verifyPicked(*this)))
    return failure();
  int64_t rows = getSizes()[0], m = getSizes()[1], n = getSizes()[2], count = getSizes()[3];
  ArrayRef<int64_t> shares = getShares();
  if (shares.size() != 2)
    return emitOpError("needs the shares of a and of b");
  for (int64_t share : shares)
    if (failed(verifyShare(*this, rows, share)))
      return failure();
  const int64_t each = elementBytes(getOperandType());
  if (failed(verifyElements(*this, "a", getA(), product({rows / shares[0], m}), each)) ||
      failed(verifyElements(*this, "b", getB(), product({rows / shares[1], n}), each)) ||
      failed(verifyElements(*this, "c", getC(), product({count, m, n}))))
    return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

static LogicalResult verifyBytes(Operation *op, AtAttr source, int64_t wantedSource, AtAttr target,
                                 int64_t wantedTarget) {
  for (auto [name, at, wanted] :
       {std::tuple("source", source, wantedSource), std::tuple("target", target, wantedTarget)})
    if (at.getBytes() != wanted)
      return op->emitOpError() << "has a " << name << " of " << at.getBytes()
                               << " bytes, its sizes need " << wanted;
  return verifyApart(op, source, target);
}

/// `cut` is [outer, full, inner] of the whole.
static LogicalResult verifyCut(Operation *op, ArrayRef<int64_t> cut, int64_t members, Type type,
                               AtAttr source, AtAttr target, bool sourceIsWhole) {
  if (cut.size() != 3 || product({cut[0], cut[1], cut[2]}) < 0)
    return op->emitOpError("needs cut [outer, full, inner], none of them negative");
  int64_t element = elementBytes(type);
  int64_t whole = product({cut[0], cut[1], cut[2], element});
  int64_t block = product({cut[0], dist::blockSize(cut[1], members), cut[2], element});
  return verifyBytes(op, source, sourceIsWhole ? whole : block, target,
                     sourceIsWhole ? block : whole);
}

LogicalResult AllReduceOp::verifyGroup(int64_t) {
  AtAttr source = getSource(), target = getTarget();
  if (source.getBytes() != target.getBytes() || source.getBytes() % elementBytes(getType()) != 0)
    return emitOpError("needs source and target of the same whole number of elements");
  return source == target ? success() : verifyApart(*this, source, target);
}

LogicalResult AllGatherOp::verifyGroup(int64_t members) {
  return verifyCut(*this, getCut(), members, getType(), getSource(), getTarget(), false);
}

LogicalResult ReduceScatterOp::verifyGroup(int64_t members) {
  return verifyCut(*this, getCut(), members, getType(), getSource(), getTarget(), true);
}

LogicalResult SliceOp::verifyGroup(int64_t members) {
  return verifyCut(*this, getCut(), members, getType(), getSource(), getTarget(), true);
}

LogicalResult AllToAllOp::verifyGroup(int64_t members) {
  ArrayRef<int64_t> cut = getCut();
  if (cut.size() != 5 || llvm::any_of(cut, [](int64_t n) { return n < 0; }))
    return emitOpError("needs cut [outer, first, middle, second, inner], none of them negative");
  int64_t element = elementBytes(getType());
  int64_t firstBlock = dist::blockSize(cut[1], members);
  int64_t secondBlock = dist::blockSize(cut[3], members);
  int64_t cutFirst = product({cut[0], firstBlock, cut[2], cut[3], cut[4], element});
  int64_t cutSecond = product({cut[0], cut[1], cut[2], secondBlock, cut[4], element});
  return verifyBytes(*this, getSource(), getSplitFirst() ? cutSecond : cutFirst, getTarget(),
                     getSplitFirst() ? cutFirst : cutSecond);
}

//===----------------------------------------------------------------------===//
// Buckets
//===----------------------------------------------------------------------===//

SmallVector<AtAttr> BesideOp::getAddresses() {
  SmallVector<AtAttr> all;
  for (auto exchange : getBody().getOps<CommandOpInterface>())
    llvm::append_range(all, exchange.getAddresses());
  return all;
}

StringAttr BesideOp::getGroupAttr() {
  return cast<CommandOpInterface>(getBody().front().front()).getGroupAttr();
}

// Its exchanges state theirs.
uint64_t BesideOp::getBytes() { return 0; }
uint64_t BesideOp::getFlops() { return 0; }

SmallVector<AtAttr> AwaitOp::getAddresses() { return {}; }

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

int64_t BesideOp::getMessageBytes(int64_t members) {
  int64_t bytes = 0;
  for (auto exchange : getBody().getOps<CommandOpInterface>())
    bytes += exchange.getMessageBytes(members);
  return bytes;
}

int64_t AllReduceOp::getMessageBytes(int64_t members) {
  return members > 1 ? getTarget().getBytes() : 0;
}

int64_t AllGatherOp::getMessageBytes(int64_t members) {
  return members > 1 ? members * getSource().getBytes() : 0;
}

int64_t ReduceScatterOp::getMessageBytes(int64_t members) {
  return members > 1 ? members * getTarget().getBytes() : 0;
}

int64_t AllToAllOp::getMessageBytes(int64_t members) {
  ArrayRef<int64_t> cut = getCut();
  return members > 1 ? product({members, cut[0], dist::blockSize(cut[1], members), cut[2],
                                dist::blockSize(cut[3], members), cut[4], elementBytes(getType())})
                     : 0;
}
