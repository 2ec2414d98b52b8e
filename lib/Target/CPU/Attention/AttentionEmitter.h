//===- AttentionEmitter.h - what the attention kernels share ----*- C++ -*-===//
//
// The function around a kernel, where heads lie in the operands, and the steps that
// more than one kernel takes. A *tile* is `edge` queries or keys of one head; query
// and key tiles are cut at the same places, so a pair of tiles is wholly visible,
// on the diagonal, or wholly hidden (and then never computed). A window may also hide a
// part of any pair that is computed.
//
// With positions every pair of tiles is asked for the range of its positions: wholly
// hidden ones are not computed, in all others each score is.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "TileEmitter.h"
#include "cleave/Target/CPU/AttentionKernel.h"
#include <functional>

namespace cleave::cpu {

/// A tile: its first row in the sequence, and how many rows it has.
struct TileRange {
  Value first, count;
};

/// The lowest and the highest position in a tile.
struct PositionRange {
  Value low, high;
};

class AttentionEmitter {
public:
  /// `positions`: of queries and of keys, or none; `sinks` may be null.
  AttentionEmitter(TileEmitter &emitter, const AttentionSizes &sizes,
                   llvm::ArrayRef<Value> operands, llvm::ArrayRef<Value> positions, Value sinks)
      : t(emitter), sizes(sizes), operands(operands), positions(positions), sinks(sinks) {}

  TileEmitter &t;
  const AttentionSizes &sizes;

  /// Chooses the head that the members below speak of.
  void selectKeyHead(Value batchIndex, Value kvHeadIndex);
  void selectQueryHead(Value groupIndex) { group = groupIndex; }
  /// Splits `unit` = ((batch * kvHeads + kvHead) * group + g) * tiles + tile, selects
  /// the head and returns the index of the tile.
  Value selectQueryUnit(Value unit);
  /// The same for (batch * kvHeads + kvHead) * tiles + tile.
  Value selectKeyUnit(Value unit);

  /// Rows of operands like the query, out, the key, the value and lse.
  HeadRows queryRows(unsigned operand) { return headRows(operand, Rows::Queries, sizes.headDim); }
  HeadRows outRows(unsigned operand) {
    return headRows(operand, Rows::Queries, sizes.valueWidth());
  }
  HeadRows keyRows(unsigned operand) { return headRows(operand, Rows::Keys, sizes.headDim); }
  HeadRows valueRows(unsigned operand) { return headRows(operand, Rows::Keys, sizes.valueWidth()); }
  HeadRows lseRows(unsigned operand) { return headRows(operand, Rows::Queries, 1); }
  /// The sink of the head in every lane.
  Value sink(VectorType type);

  /// The key tiles before query tile `tile` that it sees a part of are those from here on.
  Value firstKeyTile(Value tile);
  /// The query tiles behind key tile `tile` that see a part of it end here.
  Value endOfQueryTiles(Value tile);

  int64_t queryTiles() const { return (sizes.sequence + t.edge - 1) / t.edge; }
  int64_t keyTiles() const { return (sizes.keyRows() + t.edge - 1) / t.edge; }
  TileRange queryRange(Value tile);
  TileRange keyRange(Value tile);

  /// With positions: a unit's own tile, whose positions run along the lanes.
  void selectQueryPositions(TileRange range);
  void selectKeyPositions(TileRange range);
  /// With positions: `body` for each tile of the others of which the own one sees or is
  /// seen by a part.
  void forVisibleKeyTiles(llvm::function_ref<void(TileRange)> body);
  void forVisibleQueryTiles(llvm::function_ref<void(TileRange)> body);
  /// `body` for each tile of keys of which query tile `tile` (its rows are `own`) sees a
  /// part; without positions the tile on the diagonal comes first.
  void forSeenKeyTiles(Value tile, TileRange own,
                       llvm::function_ref<void(TileRange keys, bool diagonal)> body);

  /// A stack buffer for a tile of rows of one of `heads` heads of an operand, or null if they
  /// can be used where they are.
  Value stagingFor(unsigned operand, int64_t heads, int64_t width);
  /// Rows [first, first + count) of `head` as rows of their own, copied to `buffer` if
  /// there is one.
  HeadRows stage(const HeadRows &head, Value first, Value count, Value buffer);
  /// The rows of a head as rows of a product's A.
  std::function<Value(Value)> rowsOf(const HeadRows &head);
  /// The columns of a tile on the stack, as rows of a product's A.
  std::function<Value(Value)> columnsOf(Value tile);

  /// tile[key, query] = the keys' rows times the packed queries; on the diagonal only
  /// micro-tiles with a visible element.
  void productWithQueries(const HeadRows &keys, Value packed, Value tile, Value queries,
                          bool diagonal);
  /// to[query, :] (+)= sum over `count` keys of weights[key, query] * key's row.
  void sumOverKeys(Value weights, const HeadRows &keys, Value count, Value to, Value queries,
                   bool diagonal, Value rowScale);
  /// Writes rows [0, count) of a stack buffer to the head's rows from `first` on, each
  /// times `factor(row, type)`.
  void writeRows(Value from, const HeadRows &to, TileRange range,
                 llvm::function_ref<Value(Value row, VectorType type)> factor);
  void zeroRows(Value buffer, int64_t width);

  /// Whether lane i of a vector that begins at column `column` is at or past `row`
  /// (`fromRow`), or at or before it.
  Value lanesAgainst(Value row, Value column, VectorType type, bool fromRow);
  Value chooseOr(Value condition, Value value, double otherwise);
  /// What the lanes of a score see of each other, or null if all of it: query
  /// `queryFirst + query` and key `keyFirst + key`, where the one that is a Value at
  /// `column` runs along the lanes. `diagonal`: both tiles begin at the same position;
  /// of no matter where positions are given.
  Value visibleQueries(Value key, Value keyFirst, Value queryFirst, Value column, VectorType type,
                       bool diagonal);
  Value visibleKeys(Value query, Value queryFirst, Value keyFirst, Value column, VectorType type,
                    bool diagonal);
  /// `value` where `visible`, which may be null, else `otherwise`.
  Value visibleOr(Value visible, Value value, double otherwise) {
    return visible ? chooseOr(visible, value, otherwise) : value;
  }
  /// The score behind the cap, if there is one.
  Value capped(Value score);
  /// `gradient` of a score behind the cap, whose value is `score`, as one before it.
  Value beforeCap(Value gradient, Value score);
  Value exp(Value x);

private:
  bool isNarrow(unsigned operand) const { return (sizes.narrow >> operand & 1) != 0; }
  enum class Rows { Queries, Keys };
  HeadRows headRows(unsigned operand, Rows kind, int64_t width);
  enum : unsigned { kQueryPositions, kKeyPositions };
  HeadRows positionRows(unsigned which);
  PositionRange positionsOf(const HeadRows &rows, TileRange range);
  void selectPositions(unsigned which, TileRange range);
  Value lanePositionsAt(Value column, VectorType type);
  /// The position of a row in every lane.
  Value positionOf(unsigned which, Value row, VectorType type);
  /// Which lanes of positions `queries` see `keys`.
  Value visibleAt(Value queries, Value keys);
  /// Whether one of `queries` sees one of `keys`.
  Value someVisible(PositionRange queries, PositionRange keys);

  llvm::ArrayRef<Value> operands, positions;
  Value sinks;
  Value batch, kvHead, group;
  Value lanePositions;    ///< of the unit's own tile, on the stack
  PositionRange ownRange; ///< of the same
};

using UnitEmitter = llvm::function_ref<void(AttentionEmitter &emitter, Value unit)>;

/// Adds the function `name` whose loop over units is filled by `emit`. Of its
/// `operands`, the first `inputs` are read; positions and sinks stand behind these and are
/// not counted.
mlir::LogicalResult buildAttentionFunction(mlir::ModuleOp module, llvm::StringRef name,
                                           const AttentionSizes &sizes, const Profile &profile,
                                           unsigned inputs, unsigned operands, UnitEmitter emit);

/// Number of tiles of `rows` queries or keys.
int64_t attentionTiles(int64_t rows, const Profile &profile);

} // namespace cleave::cpu
