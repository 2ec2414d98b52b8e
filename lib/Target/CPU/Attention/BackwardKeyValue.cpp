//===- BackwardKeyValue.cpp - gradients of attention in key and value -----===//
//
// A unit is a tile of keys of one key and value head; it alone writes their
// gradients, and walks the query tiles that see it, of every query head of the
// group. Scores are kept as S[query, key], one key a lane: keys and values are
// packed once for all queries, and queries are used where they lie.
//
//   valueGradient[key] = sum over queries of p * outGradient
//   keyGradient[key]   = scale * sum over queries of ds * query
//
// with p and ds as in BackwardQuery.cpp.
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace cleave::cpu {
namespace {

enum Operand : unsigned {
  kQuery,
  kKey,
  kValue,
  kOut,
  kLse,
  kOutGradient,
  kKeyGradient,
  kValueGradient,
  kOperands
};

class BackwardKeyValueUnit {
public:
  explicit BackwardKeyValueUnit(AttentionEmitter &emitter)
      : e(emitter), t(emitter.t), vector(t.vectorOf(2 * t.lanes)),
        keys(t.tile(e.sizes.headDim * t.edge)), values(t.tile(e.sizes.valueWidth() * t.edge)),
        scores(t.tile(t.edge * t.edge)), products(t.tile(t.edge * t.edge)),
        keySums(t.tile(t.edge * e.sizes.headDim)), valueSums(t.tile(t.edge * e.sizes.valueWidth())),
        lse(t.tile(t.edge)), deltas(t.tile(t.edge)),
        queryStaging(e.stagingFor(kQuery, queryHeads(), e.sizes.headDim)),
        gradientStaging(e.stagingFor(kOutGradient, queryHeads(), e.sizes.valueWidth())) {}

  void emit(Value unit) {
    Value tile = e.selectKeyUnit(unit);
    range = e.keyRange(tile);
    t.packTransposed(e.keyRows(kKey), range.first, range.count, keys, e.sizes.scale);
    t.packTransposed(e.valueRows(kValue), range.first, range.count, values, 1.0);
    e.zeroRows(keySums, e.sizes.headDim);
    e.zeroRows(valueSums, e.sizes.valueWidth());
    if (e.sizes.hasPositions())
      e.selectKeyPositions(range);
    t.loop(t.index(0), t.index(e.sizes.group), 1, [&](Value group) {
      e.selectQueryHead(group);
      if (e.sizes.hasPositions()) {
        e.forVisibleQueryTiles([&](TileRange queries) { emitTile(queries, /*diagonal=*/false); });
        return;
      }
      emitTile(range, /*diagonal=*/true);
      t.loop(t.add(tile, 1), e.endOfQueryTiles(tile), 1,
             [&](Value other) { emitTile(e.queryRange(other), /*diagonal=*/false); });
    });
    e.writeRows(keySums, e.keyRows(kKeyGradient), range,
                [&](Value, VectorType type) { return t.splat(type, e.sizes.scale); });
    e.writeRows(valueSums, e.valueRows(kValueGradient), range,
                [&](Value, VectorType type) { return t.splat(type, 1.0); });
  }

private:
  int64_t queryHeads() const { return e.sizes.kvHeads * e.sizes.group; }

  void emitTile(TileRange queries, bool diagonal) {
    t.rowDots(e.outRows(kOutGradient), e.outRows(kOut), queries.first, queries.count, deltas);
    t.gather(e.lseRows(kLse), queries.first, queries.count, lse);
    HeadRows query = e.stage(e.queryRows(kQuery), queries.first, queries.count, queryStaging);
    HeadRows gradient =
        e.stage(e.outRows(kOutGradient), queries.first, queries.count, gradientStaging);
    emitProduct(query, queries, keys, scores, diagonal);
    emitProduct(gradient, queries, values, products, diagonal);
    t.loop(t.index(0), range.count, 2 * t.lanes,
           [&](Value column) { emitScoreGradients(queries, column, diagonal); });
    emitSum(scores, gradient, queries, valueSums, diagonal);
    emitSum(products, query, queries, keySums, diagonal);
  }

  /// tile[query, key] = the queries' rows times a packed operand.
  void emitProduct(const HeadRows &rows, TileRange queries, Value packed, Value tile,
                   bool diagonal) {
    Product product;
    product.aRow = e.rowsOf(rows);
    product.b = packed;
    product.bStride = t.edge;
    product.c = tile;
    product.cStride = t.edge;
    t.loop(t.index(0), range.count, 2 * t.lanes, [&](Value column) {
      Value begin = diagonal ? t.roundDown(column, t.rows) : t.index(0);
      t.loop(begin, queries.count, t.rows, [&](Value row) {
        t.microTile(product, row, column, t.widePanel(), t.index(0), t.index(rows.width));
      });
    });
  }

  /// Replaces scores by p, and products by the scores' gradients.
  void emitScoreGradients(TileRange queries, Value column, bool diagonal) {
    Value begin = diagonal ? column : t.index(0);
    if (diagonal)
      // A row of micro-tiles reads a few queries before its own columns.
      t.loop(t.index(0), begin, 1, [&](Value query) {
        Value offset = t.add(t.mul(query, t.edge), column), zero = t.splat(vector, 0.0);
        t.store(zero, t.at(scores, offset));
        t.store(zero, t.at(products, offset));
      });
    t.loop(begin, queries.count, 1, [&](Value query) {
      Value offset = t.add(t.mul(query, t.edge), column);
      Value logSum = t.splat(vector, t.at(lse, query)),
            delta = t.splat(vector, t.at(deltas, query));
      Value score = e.capped(t.load(vector, t.at(scores, offset)));
      Value p = e.exp(arith::SubFOp::create(t.b, score, logSum));
      Value product = t.load(vector, t.at(products, offset));
      Value ds = arith::MulFOp::create(t.b, p, arith::SubFOp::create(t.b, product, delta));
      ds = e.beforeCap(ds, score);
      Value visible = e.visibleKeys(query, queries.first, range.first, column, vector, diagonal);
      t.store(e.visibleOr(visible, p, 0.0), t.at(scores, offset));
      t.store(e.visibleOr(visible, ds, 0.0), t.at(products, offset));
    });
  }

  /// to[key, :] += sum over queries of weights[query, key] * query's row.
  void emitSum(Value weights, const HeadRows &rows, TileRange queries, Value to, bool diagonal) {
    Product product;
    product.aRow = e.columnsOf(weights);
    product.aStep = t.edge;
    product.b = rows.base;
    product.bStride = rows.stride;
    product.c = to;
    product.cStride = rows.width;
    product.accumulate = true;
    t.panels(rows.width, [&](Value column, Panel panel) {
      t.loop(t.index(0), range.count, t.rows, [&](Value row) {
        t.microTile(product, row, column, panel, diagonal ? row : t.index(0), queries.count);
      });
    });
  }

  AttentionEmitter &e;
  TileEmitter &t;
  VectorType vector;
  Value keys, values;                  ///< scaled keys and values, [dim, key]
  Value scores, products;              ///< [query, key]
  Value keySums, valueSums;            ///< [key, dim]
  Value lse, deltas;                   ///< of each query
  Value queryStaging, gradientStaging; ///< or null
  TileRange range;                     ///< of the keys
};

} // namespace

FailureOr<AttentionKernel> buildAttentionBackwardKeyValue(ModuleOp module, StringRef name,
                                                          const AttentionSizes &sizes,
                                                          const Profile &profile) {
  auto emit = [](AttentionEmitter &emitter, Value unit) {
    BackwardKeyValueUnit(emitter).emit(unit);
  };
  if (failed(buildAttentionFunction(module, name, sizes, profile, kKeyGradient, kOperands, emit)))
    return failure();
  int64_t heads = sizes.batch * sizes.kvHeads;
  return AttentionKernel{name.str(), heads * attentionTiles(sizes.keyRows(), profile), 1,
                         2 * sizes.productFlops(sizes.headDim + sizes.valueWidth())};
}

} // namespace cleave::cpu
