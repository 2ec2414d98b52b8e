//===- Forward.cpp - attention, forward -----------------------------------===//
//
// A unit is a tile of queries of one head. Scores are kept as S^T[key, query], so
// that maximum and sum over the keys run down the rows, one query a lane, and no
// key is ever moved: its elements are broadcast from where they lie. The diagonal
// tile comes first: every query sees a key there (itself), which makes the maximum
// finite from then on. With positions there is no such tile, and the maximum starts at
// a number below all scores. Sinks come last, when maximum and sum are known: they add to
// the sum alone.
//
//===----------------------------------------------------------------------===//

#include "AttentionEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;

namespace cleave::cpu {
namespace {

enum Operand : unsigned { kQuery, kKey, kValue, kOut, kLse, kOperands };

class ForwardUnit {
public:
  explicit ForwardUnit(AttentionEmitter &emitter)
      : e(emitter), t(emitter.t), vector(t.vectorOf(2 * t.lanes)),
        packed(t.tile(e.sizes.headDim * t.edge)), scores(t.tile(t.edge * t.edge)),
        sums(t.tile(t.edge * e.sizes.valueWidth())), maxima(t.tile(t.edge)), totals(t.tile(t.edge)),
        factors(t.tile(t.edge)), keyStaging(e.stagingFor(kKey, e.sizes.kvHeads, e.sizes.headDim)),
        valueStaging(e.sizes.valueWidth() == e.sizes.headDim
                         ? keyStaging
                         : e.stagingFor(kValue, e.sizes.kvHeads, e.sizes.valueWidth())) {}

  void emit(Value unit) {
    Value tile = e.selectQueryUnit(unit);
    range = e.queryRange(tile);
    t.packTransposed(e.queryRows(kQuery), range.first, range.count, packed, e.sizes.scale);
    if (e.sizes.hasPositions())
      emitStart();
    e.forSeenKeyTiles(tile, range, [&](TileRange keys, bool diagonal) {
      emitTile(keys.first, keys.count, diagonal);
    });
    emitResults();
  }

private:
  static constexpr double kBelowAllScores = -1e30;

  /// Nothing has been seen yet.
  void emitStart() {
    t.loop(t.index(0), range.count, 2 * t.lanes, [&](Value column) {
      t.store(t.splat(vector, kBelowAllScores), t.at(maxima, column));
      t.store(t.splat(vector, 0.0), t.at(totals, column));
    });
    e.zeroRows(sums, e.sizes.valueWidth());
  }

  void emitTile(Value firstKey, Value keys, bool diagonal) {
    HeadRows key = e.stage(e.keyRows(kKey), firstKey, keys, keyStaging);
    e.productWithQueries(key, packed, scores, range.count, diagonal);
    t.loop(t.index(0), range.count, 2 * t.lanes, [&](Value column) {
      if (diagonal)
        emitFirstSoftmax(column);
      else
        emitNextSoftmax(firstKey, keys, column);
    });
    HeadRows value = e.stage(e.valueRows(kValue), firstKey, keys, valueStaging);
    e.sumOverKeys(scores, value, keys, sums, range.count, diagonal, diagonal ? Value() : factors);
  }

  Value scoreAt(Value key, Value column) { return t.at(scores, t.add(t.mul(key, t.edge), column)); }

  /// Which queries see the key, or null for all.
  Value visible(Value firstKey, Value key, Value column, bool diagonal) {
    return e.visibleQueries(key, firstKey, range.first, column, vector, diagonal);
  }

  /// The score behind the cap, which is kept, or -infinity where it is hidden.
  Value visibleScore(Value firstKey, Value key, Value column, bool diagonal) {
    Value score = t.load(vector, scoreAt(key, column));
    if (e.sizes.cap != 0) {
      score = e.capped(score);
      t.store(score, scoreAt(key, column));
    }
    return e.visibleOr(visible(firstKey, key, column, diagonal), score,
                       -std::numeric_limits<double>::infinity());
  }

  void emitFirstSoftmax(Value column) {
    Value end = t.min(range.count, t.add(column, 2 * t.lanes));
    Value low = t.splat(vector, -std::numeric_limits<double>::infinity());
    auto foldMax = [&](Value key, ArrayRef<Value> most) {
      return SmallVector<Value>{t.larger(most[0], visibleScore(range.first, key, column, true))};
    };
    Value most = t.loop(t.index(0), end, 1, {low}, foldMax)[0];
    auto foldSum = [&](Value key, ArrayRef<Value> sum) {
      Value score = t.load(vector, scoreAt(key, column));
      Value p = e.exp(arith::SubFOp::create(t.b, score, most));
      p = e.visibleOr(visible(range.first, key, column, true), p, 0.0);
      t.store(p, scoreAt(key, column));
      return SmallVector<Value>{arith::AddFOp::create(t.b, sum[0], p)};
    };
    Value zero = t.splat(vector, 0.0);
    Value sum = t.loop(t.index(0), end, 1, {zero}, foldSum)[0];
    // A row of micro-tiles reads a few keys past its own columns.
    t.loop(end, range.count, 1, [&](Value key) { t.store(zero, scoreAt(key, column)); });
    t.store(most, t.at(maxima, column));
    t.store(sum, t.at(totals, column));
  }

  void emitNextSoftmax(Value firstKey, Value keys, Value column) {
    Value old = t.load(vector, t.at(maxima, column));
    auto foldMax = [&](Value key, ArrayRef<Value> most) {
      return SmallVector<Value>{t.larger(most[0], visibleScore(firstKey, key, column, false))};
    };
    Value most = t.loop(t.index(0), keys, 1, {old}, foldMax)[0];
    Value factor = e.exp(arith::SubFOp::create(t.b, old, most));
    Value total = arith::MulFOp::create(t.b, t.load(vector, t.at(totals, column)), factor);
    auto foldSum = [&](Value key, ArrayRef<Value> sum) {
      Value score = t.load(vector, scoreAt(key, column));
      Value p = e.exp(arith::SubFOp::create(t.b, score, most));
      p = e.visibleOr(visible(firstKey, key, column, false), p, 0.0);
      t.store(p, scoreAt(key, column));
      return SmallVector<Value>{arith::AddFOp::create(t.b, sum[0], p)};
    };
    total = t.loop(t.index(0), keys, 1, {total}, foldSum)[0];
    t.store(most, t.at(maxima, column));
    t.store(total, t.at(totals, column));
    t.store(factor, t.at(factors, column));
  }

  void emitResults() {
    t.loop(t.index(0), range.count, 2 * t.lanes, [&](Value column) {
      Value total = t.load(vector, t.at(totals, column));
      Value most = t.load(vector, t.at(maxima, column)), one = t.splat(vector, 1.0), share = one;
      if (e.sizes.sinks) {
        Value sink = e.sink(vector), seen = most;
        most = t.larger(sink, seen);
        share = e.exp(arith::SubFOp::create(t.b, seen, most));
        Value drawn = e.exp(arith::SubFOp::create(t.b, sink, most));
        total = t.fma(total, share, drawn);
      }
      Value log = math::LogOp::create(t.b, total);
      t.store(arith::AddFOp::create(t.b, most, log), t.at(maxima, column));
      Value factor = arith::DivFOp::create(t.b, share, total);
      if (e.sizes.hasPositions()) // the total of a query that sees nothing is 0
        factor = arith::MinimumFOp::create(t.b, factor, one);
      t.store(factor, t.at(factors, column));
    });
    HeadRows lse = e.lseRows(kLse);
    t.loop(t.index(0), range.count, 1, [&](Value row) {
      t.store(t.load(t.b.getF32Type(), t.at(maxima, row)), t.rowOf(lse, t.add(range.first, row)));
    });
    e.writeRows(sums, e.outRows(kOut), range,
                [&](Value row, VectorType type) { return t.splat(type, t.at(factors, row)); });
  }

  AttentionEmitter &e;
  TileEmitter &t;
  VectorType vector;
  Value packed;                   ///< scaled queries, [head_dim, query]
  Value scores;                   ///< then their exponentials, [key, query]
  Value sums;                     ///< [query, value_dim]
  Value maxima, totals, factors;  ///< of each query; what to multiply older sums by
  Value keyStaging, valueStaging; ///< or null; may be the same
  TileRange range;
};

} // namespace

FailureOr<AttentionKernel> buildAttentionForward(ModuleOp module, StringRef name,
                                                 const AttentionSizes &sizes,
                                                 const Profile &profile) {
  auto emit = [](AttentionEmitter &emitter, Value unit) { ForwardUnit(emitter).emit(unit); };
  if (failed(buildAttentionFunction(module, name, sizes, profile, kOut, kOperands, emit)))
    return failure();
  int64_t heads = sizes.batch * sizes.kvHeads * sizes.group;
  return AttentionKernel{name.str(), heads * attentionTiles(sizes.sequence, profile), 1,
                         sizes.productFlops(sizes.headDim + sizes.valueWidth())};
}

} // namespace cleave::cpu
