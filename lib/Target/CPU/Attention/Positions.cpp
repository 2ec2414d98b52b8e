//===- Positions.cpp - attention between rows at given positions ----------===//
//
// Positions are i32, one for each row of a sequence. A tile on the stack holds those of
// the unit's own tile, so that vectors of them may end past its last row; those of
// the other tile are read one at a time where they lie.
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace cleave::cpu {

HeadRows AttentionEmitter::positionRows(unsigned which) {
  int64_t rows = which == kQueryPositions ? sizes.sequence : sizes.keyRows();
  return {t.at(positions[which], t.mul(batch, rows)), 1, t.index(rows - 1)};
}

PositionRange AttentionEmitter::positionsOf(const HeadRows &rows, TileRange range) {
  Type i32 = t.b.getI32Type();
  Value first = t.load(i32, t.rowOf(rows, range.first));
  auto fold = [&](Value i, ArrayRef<Value> so) {
    Value next = t.load(i32, t.rowOf(rows, t.add(range.first, i)));
    return SmallVector<Value>{t.min(so[0], next), t.max(so[1], next)};
  };
  auto both = t.loop(t.index(1), range.count, 1, {first, first}, fold);
  return {both[0], both[1]};
}

void AttentionEmitter::selectPositions(unsigned which, TileRange range) {
  HeadRows rows = positionRows(which);
  lanePositions = t.tile(t.edge);
  t.gather(rows, range.first, range.count, lanePositions); // of 32 bits too
  ownRange = positionsOf(rows, range);
}

void AttentionEmitter::selectQueryPositions(TileRange range) {
  selectPositions(kQueryPositions, range);
}
void AttentionEmitter::selectKeyPositions(TileRange range) {
  selectPositions(kKeyPositions, range);
}

Value AttentionEmitter::lanePositionsAt(Value column, VectorType type) {
  return t.load(t.vectorOf(type.getNumElements(), t.b.getI32Type()), t.at(lanePositions, column));
}

Value AttentionEmitter::positionOf(unsigned which, Value row, VectorType type) {
  Type i32 = t.b.getI32Type();
  Value position = t.load(i32, t.rowOf(positionRows(which), row));
  return vector::BroadcastOp::create(t.b, t.vectorOf(type.getNumElements(), i32), position);
}

/// As a query's position, less than which a window of `size` shows nothing.
static Value lastHidden(OpBuilder &b, Location loc, Value query, int64_t size) {
  auto i32 = b.getI32Type();
  TypedAttr by = b.getIntegerAttr(i32, size);
  if (auto type = dyn_cast<VectorType>(query.getType()))
    by = DenseElementsAttr::get(type, static_cast<int32_t>(size));
  return arith::SubIOp::create(b, loc, query, arith::ConstantOp::create(b, loc, by));
}

Value AttentionEmitter::visibleAt(Value queries, Value keys) {
  Value visible = arith::CmpIOp::create(t.b, arith::CmpIPredicate::sle, keys, queries);
  if (!sizes.isWindowed())
    return visible;
  Value hidden = lastHidden(t.b, t.b.getLoc(), queries, sizes.window);
  Value inWindow = arith::CmpIOp::create(t.b, arith::CmpIPredicate::sgt, keys, hidden);
  return arith::AndIOp::create(t.b, visible, inWindow);
}

Value AttentionEmitter::someVisible(PositionRange queries, PositionRange keys) {
  Value some = arith::CmpIOp::create(t.b, arith::CmpIPredicate::sle, keys.low, queries.high);
  if (!sizes.isWindowed())
    return some;
  Value hidden = lastHidden(t.b, t.b.getLoc(), queries.low, sizes.window);
  Value inWindow = arith::CmpIOp::create(t.b, arith::CmpIPredicate::sgt, keys.high, hidden);
  return arith::AndIOp::create(t.b, some, inWindow);
}

void AttentionEmitter::forSeenKeyTiles(Value tile, TileRange own,
                                       function_ref<void(TileRange, bool)> body) {
  if (sizes.hasPositions()) {
    selectQueryPositions(own);
    forVisibleKeyTiles([&](TileRange keys) { body(keys, /*diagonal=*/false); });
    return;
  }
  body(own, /*diagonal=*/true);
  t.loop(firstKeyTile(tile), tile, 1,
         [&](Value other) { body({t.mul(other, t.edge), t.index(t.edge)}, /*diagonal=*/false); });
}

void AttentionEmitter::forVisibleKeyTiles(function_ref<void(TileRange)> body) {
  HeadRows rows = positionRows(kKeyPositions);
  t.loop(t.index(0), t.index(keyTiles()), 1, [&](Value tile) {
    TileRange range = keyRange(tile);
    t.when(someVisible(ownRange, positionsOf(rows, range)), [&] { body(range); });
  });
}

void AttentionEmitter::forVisibleQueryTiles(function_ref<void(TileRange)> body) {
  HeadRows rows = positionRows(kQueryPositions);
  t.loop(t.index(0), t.index(queryTiles()), 1, [&](Value tile) {
    TileRange range = queryRange(tile);
    t.when(someVisible(positionsOf(rows, range), ownRange), [&] { body(range); });
  });
}

} // namespace cleave::cpu
