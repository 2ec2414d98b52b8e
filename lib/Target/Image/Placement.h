//===- Placement.h - Where every value of an entry lives -------------------===//
//
// A value lives
//   - in an exchange region or a slot, if it is an argument or a load;
//   - in an exchange region, if it is returned and made for that;
//   - in the slot that it is stored to, if nothing reads the old contents later
//     (an update writes parameters in place);
//   - over an input that dies with its producer, where the producer allows it;
//   - in its slice, if a repeat scans or stacks it;
//   - in the buffer of the carried value that it becomes, if that is not read any
//     more when it is made;
//   - else in the arena, from its producer to its last reader.
// A repeat runs its block again, so what the block reads from outside lives until
// the repeat ends. So does what a bucket reads or writes, which is under way from one
// turn to the next. What it reads of this turn, and what it writes for another one that
// works with it meanwhile, has two places, used in turn. In a block that runs once what a
// bucket reads lives until it is waited for.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "lib/Target/Image/Arena.h"
#include "lib/Target/Image/StateLayout.h"
#include "lib/Target/Image/Units.h"

namespace cleave::image {

class Placement {
public:
  /// Places the values of `entry`, which consists of `units`; `arena` is the
  /// segment for what is packed. `stage`: of a pipeline, or -1.
  Placement(mlir::func::FuncOp entry, std::vector<Unit> &units, StateLayout &layout,
            mlir::StringAttr arena, int64_t stage);

  /// Of a value in a repeat: in its first iteration, with the step to the next.
  exec::Address region(mlir::Value v) const;
  bool isPlacedIn(mlir::Value v, exec::Address r) const;
  /// Where (symbol, slot) lies for an operator.
  exec::Address slotOf(StateOpInterface state) const;
  /// Where slice by slice of `whole`, scanned or stacked by `repeat`, lies.
  exec::Address slices(RepeatOpInterface repeat, mlir::Value whole) const;
  /// Size of what is packed.
  int64_t arenaBytes() const { return packing.bytes; }

private:
  void number(llvm::ArrayRef<Unit> units);
  void placeLoads(llvm::ArrayRef<Unit> units);
  void placeRequired(llvm::ArrayRef<Unit> units);
  void placeResults();
  void placeStores(llvm::ArrayRef<Unit> units);
  void placeRepeats(llvm::ArrayRef<Unit> units);
  void placeReused(llvm::ArrayRef<Unit> units);
  void collect(llvm::ArrayRef<Unit> units);
  void pack();

  void forwardStore(StateOpInterface store);
  void carryIn(RepeatOpInterface repeat, unsigned i);
  void carryOn(RepeatOpInterface repeat, unsigned i);
  void reuse(const InPlace &pair, int64_t at);
  void addLifetime(mlir::Value v, int64_t begin);
  void addUnderWay(const Unit &unit);
  void keep(mlir::Value v, mlir::Operation *repeat, bool inTwoPlaces);
  bool isSentFrom(mlir::Value r, int64_t at) const;

  int64_t begin(mlir::Value v) const;
  int64_t endOf(mlir::Operation *op) const;
  int64_t lastUse(mlir::Value v) const;
  int64_t groupLastUse(mlir::Value v) const;
  mlir::Value root(mlir::Value v) const;
  bool isPlaced(mlir::Value v) const;
  bool mayOverwrite(mlir::Value output, mlir::Value input) const;

  /// When an operator runs: the numbers of the first and the last command of its
  /// unit, which are one but for repeats.
  struct Span {
    int64_t begin, end;
  };

  mlir::func::FuncOp entry;
  mlir::Block *body;
  int64_t stage;
  StateLayout &layout;
  mlir::StringAttr segment;
  llvm::DenseMap<mlir::Operation *, Span> spans;
  llvm::DenseMap<mlir::Operation *, const Unit *> unitOf;
  int64_t next = 0;
  llvm::MapVector<mlir::Value, exec::Address> fixed, arena;
  /// Values that lie where another does.
  llvm::MapVector<mlir::Value, mlir::Value> over;
  /// Slices of the scanned or stacked value of a repeat.
  llvm::DenseMap<mlir::Value, std::pair<RepeatOpInterface, mlir::Value>> sliceOf;
  llvm::MapVector<mlir::Value, Lifetime> lifetimes;
  /// Buckets of repeats.
  llvm::SmallVector<const Unit *> buckets;
  /// When each bucket of a block that runs once is waited for.
  llvm::DenseMap<int64_t, int64_t> awaitedAt;
  /// What buckets that stay behind read, and when they start.
  llvm::SmallVector<std::pair<mlir::Value, int64_t>> sent;
  /// Buffers with two places, and the bytes of one.
  llvm::DenseMap<mlir::Value, int64_t> twice;
  Packing packing;
};

} // namespace cleave::image
