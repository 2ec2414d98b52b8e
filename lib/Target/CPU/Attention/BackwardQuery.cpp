//===- BackwardQuery.cpp - gradient of attention in the query -------------===//
//
// A unit is a tile of queries of one head. With p = exp(s - lse) computed again and
// delta = sum over value_dim of outGradient * out,
//
//   ds[key, query] = p[key, query] * (value . outGradient - delta[query])
//   queryGradient  = scale * sum over keys of ds * key
//
// both products of the first line in the layout of Forward.cpp.
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
  kQueryGradient,
  kOperands
};

class BackwardQueryUnit {
public:
  explicit BackwardQueryUnit(AttentionEmitter &emitter)
      : e(emitter), t(emitter.t), vector(t.vectorOf(2 * t.lanes)),
        queries(t.tile(e.sizes.headDim * t.edge)), gradients(t.tile(e.sizes.valueWidth() * t.edge)),
        scores(t.tile(t.edge * t.edge)), products(t.tile(t.edge * t.edge)),
        sums(t.tile(t.edge * e.sizes.headDim)), lse(t.tile(t.edge)), deltas(t.tile(t.edge)),
        keyStaging(e.stagingFor(kKey, e.sizes.kvHeads, e.sizes.headDim)),
        valueStaging(e.stagingFor(kValue, e.sizes.kvHeads, e.sizes.valueWidth())) {}

  void emit(Value unit) {
    Value tile = e.selectQueryUnit(unit);
    range = e.queryRange(tile);
    HeadRows gradient = e.outRows(kOutGradient);
    t.packTransposed(e.queryRows(kQuery), range.first, range.count, queries, e.sizes.scale);
    t.packTransposed(gradient, range.first, range.count, gradients, 1.0);
    t.rowDots(gradient, e.outRows(kOut), range.first, range.count, deltas);
    t.gather(e.lseRows(kLse), range.first, range.count, lse);
    if (e.sizes.hasPositions())
      e.zeroRows(sums, e.sizes.headDim);
    e.forSeenKeyTiles(tile, range, [&](TileRange keys, bool diagonal) {
      emitTile(keys.first, keys.count, diagonal);
    });
    e.writeRows(sums, e.queryRows(kQueryGradient), range,
                [&](Value, VectorType type) { return t.splat(type, e.sizes.scale); });
  }

private:
  void emitTile(Value firstKey, Value keys, bool diagonal) {
    HeadRows key = e.stage(e.keyRows(kKey), firstKey, keys, keyStaging);
    HeadRows value = e.stage(e.valueRows(kValue), firstKey, keys, valueStaging);
    e.productWithQueries(key, queries, scores, range.count, diagonal);
    e.productWithQueries(value, gradients, products, range.count, diagonal);
    t.loop(t.index(0), range.count, 2 * t.lanes,
           [&](Value column) { emitScoreGradients(firstKey, keys, column, diagonal); });
    e.sumOverKeys(scores, key, keys, sums, range.count, diagonal, Value());
  }

  /// Replaces scores by their gradients.
  void emitScoreGradients(Value firstKey, Value keys, Value column, bool diagonal) {
    Value end = diagonal ? t.min(range.count, t.add(column, 2 * t.lanes)) : keys;
    Value logSum = t.load(vector, t.at(lse, column)), delta = t.load(vector, t.at(deltas, column));
    t.loop(t.index(0), end, 1, [&](Value key) {
      Value offset = t.add(t.mul(key, t.edge), column), place = t.at(scores, offset);
      Value score = e.capped(t.load(vector, place));
      Value p = e.exp(arith::SubFOp::create(t.b, score, logSum));
      Value product = t.load(vector, t.at(products, offset));
      Value ds = arith::MulFOp::create(t.b, p, arith::SubFOp::create(t.b, product, delta));
      ds = e.beforeCap(ds, score);
      t.store(e.visibleOr(e.visibleQueries(key, firstKey, range.first, column, vector, diagonal),
                          ds, 0.0),
              place);
    });
    if (diagonal)
      t.loop(end, range.count, 1, [&](Value key) {
        t.store(t.splat(vector, 0.0), t.at(scores, t.add(t.mul(key, t.edge), column)));
      });
  }

  AttentionEmitter &e;
  TileEmitter &t;
  VectorType vector;
  Value queries, gradients;       ///< scaled queries and gradients of out, [dim, query]
  Value scores, products;         ///< [key, query]
  Value sums;                     ///< [query, head_dim]
  Value lse, deltas;              ///< of each query
  Value keyStaging, valueStaging; ///< or null
  TileRange range;
};

} // namespace

FailureOr<AttentionKernel> buildAttentionBackwardQuery(ModuleOp module, StringRef name,
                                                       const AttentionSizes &sizes,
                                                       const Profile &profile) {
  auto emit = [](AttentionEmitter &emitter, Value unit) { BackwardQueryUnit(emitter).emit(unit); };
  if (failed(buildAttentionFunction(module, name, sizes, profile, kQueryGradient, kOperands, emit)))
    return failure();
  int64_t heads = sizes.batch * sizes.kvHeads * sizes.group;
  return AttentionKernel{name.str(), heads * attentionTiles(sizes.sequence, profile), 1,
                         sizes.productFlops(2 * sizes.headDim + sizes.valueWidth())};
}

} // namespace cleave::cpu
