//===- AttentionEmitter.cpp - what the attention kernels share ------------===//

#include "AttentionEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <algorithm>
#include <cmath>

using namespace mlir;

namespace cleave::cpu {

/// Tiles of the head dimension lie on the stack; more would not fit a thread's.
static constexpr int64_t kMaxHeadDim = 512;

//===----------------------------------------------------------------------===//
// Units and heads
//===----------------------------------------------------------------------===//

void AttentionEmitter::selectKeyHead(Value batchIndex, Value kvHeadIndex) {
  batch = batchIndex;
  kvHead = kvHeadIndex;
}

Value AttentionEmitter::selectQueryUnit(Value unit) {
  Value head = t.div(unit, queryTiles()), keyHead = t.div(head, sizes.group);
  selectKeyHead(t.div(keyHead, sizes.kvHeads), t.rem(keyHead, sizes.kvHeads));
  selectQueryHead(t.rem(head, sizes.group));
  return t.rem(unit, queryTiles());
}

Value AttentionEmitter::selectKeyUnit(Value unit) {
  Value head = t.div(unit, keyTiles());
  selectKeyHead(t.div(head, sizes.kvHeads), t.rem(head, sizes.kvHeads));
  return t.rem(unit, keyTiles());
}

HeadRows AttentionEmitter::headRows(unsigned operand, Rows kind, int64_t width) {
  const bool queries = kind == Rows::Queries;
  const int64_t heads = sizes.kvHeads * (queries ? sizes.group : 1), stride = heads * width,
                rows = queries ? sizes.sequence : sizes.keyRows();
  Value head = queries ? t.add(t.mul(kvHead, sizes.group), group) : kvHead;
  Value offset = t.add(t.mul(batch, rows * stride), t.mul(head, width));
  HeadRows made{operands[operand], stride, t.index(rows - 1), width, isNarrow(operand)};
  made.base = t.elementOf(made, made.base, offset);
  return made;
}

Value AttentionEmitter::sink(VectorType type) {
  return t.splat(type, t.at(sinks, t.add(t.mul(kvHead, sizes.group), group)));
}

TileRange AttentionEmitter::queryRange(Value tile) {
  Value first = t.mul(tile, t.edge);
  return {first, t.min(t.index(t.edge), t.sub(t.index(sizes.sequence), first))};
}

TileRange AttentionEmitter::keyRange(Value tile) {
  Value first = t.mul(tile, t.edge);
  return {first, t.min(t.index(t.edge), t.sub(t.index(sizes.keyRows()), first))};
}

Value AttentionEmitter::firstKeyTile(Value tile) {
  if (!sizes.isWindowed())
    return t.index(0);
  // The tile's first query sees keys from first - window + 1 on.
  Value first = t.sub(t.mul(tile, t.edge), t.index(sizes.window - 1));
  return t.div(t.max(first, t.index(0)), t.edge);
}

Value AttentionEmitter::endOfQueryTiles(Value tile) {
  Value all = t.index(queryTiles());
  if (!sizes.isWindowed())
    return all;
  // The tile's last key is seen by queries up to last + window - 1.
  Value last = t.add(t.mul(tile, t.edge), t.edge - 1 + sizes.window - 1);
  return t.min(all, t.add(t.div(last, t.edge), 1));
}

std::function<Value(Value)> AttentionEmitter::rowsOf(const HeadRows &head) {
  return [this, head](Value row) { return t.rowOf(head, row); };
}

std::function<Value(Value)> AttentionEmitter::columnsOf(Value tile) {
  return [this, tile](Value row) { return t.at(tile, row); };
}

//===----------------------------------------------------------------------===//
// Shared steps
//===----------------------------------------------------------------------===//

// A product walks the rows of a tile many times. Rows a power of two apart (or near
// it) share few of the 64 sets of a first-level cache and push each other out, while
// a copy costs a twentieth of one product. What is narrow is widened on the way.
Value AttentionEmitter::stagingFor(unsigned operand, int64_t heads, int64_t width) {
  if (isNarrow(operand))
    return t.tile(t.edge * width);
  constexpr int64_t kLine = 16, kSets = 64;
  int64_t used[kSets] = {}, fullest = 0, stride = heads * width;
  for (int64_t row = 0; row < t.edge; ++row)
    for (int64_t line = row * stride / kLine; line * kLine < row * stride + width; ++line)
      fullest = std::max(fullest, ++used[line % kSets]);
  int64_t even = (t.edge * width + kLine * kSets - 1) / (kLine * kSets);
  return fullest > 2 * even ? t.tile(t.edge * width) : Value();
}

HeadRows AttentionEmitter::stage(const HeadRows &head, Value first, Value count, Value buffer) {
  if (!buffer) {
    Value last = t.sub(head.last, first);
    return {t.at(head.base, t.mul(first, head.stride)), head.stride, last, head.width};
  }
  t.loop(t.index(0), count, 1, [&](Value row) {
    Value source = t.rowOf(head, t.add(first, row));
    Value target = t.at(buffer, t.mul(row, head.width));
    t.panels(head.width, [&](Value column, Panel panel) {
      for (int64_t v = 0; v < panel.count; ++v) {
        Value offset = t.add(column, v * panel.type.getNumElements());
        t.store(t.loadOf(head, panel.type, source, offset), t.at(target, offset));
      }
    });
  });
  return {buffer, head.width, t.sub(count, t.index(1)), head.width};
}

void AttentionEmitter::productWithQueries(const HeadRows &keys, Value packed, Value tile,
                                          Value queries, bool diagonal) {
  Product product;
  product.aRow = rowsOf(keys);
  product.b = packed;
  product.bStride = t.edge;
  product.c = tile;
  product.cStride = t.edge;
  t.loop(t.index(0), queries, 2 * t.lanes, [&](Value column) {
    Value end = t.index(t.edge);
    if (diagonal)
      end = t.min(queries, t.add(column, 2 * t.lanes));
    t.loop(t.index(0), end, t.rows, [&](Value row) {
      t.microTile(product, row, column, t.widePanel(), t.index(0), t.index(keys.width));
    });
  });
}

void AttentionEmitter::sumOverKeys(Value weights, const HeadRows &keys, Value count, Value to,
                                   Value queries, bool diagonal, Value rowScale) {
  Product product;
  product.aRow = columnsOf(weights);
  product.aStep = t.edge;
  product.b = keys.base;
  product.bStride = keys.stride;
  product.c = to;
  product.cStride = keys.width;
  product.accumulate = !diagonal;
  product.rowScale = rowScale;
  t.panels(keys.width, [&](Value column, Panel panel) {
    t.loop(t.index(0), queries, t.rows, [&](Value row) {
      Value end = diagonal ? t.min(queries, t.add(row, t.rows)) : count;
      t.microTile(product, row, column, panel, t.index(0), end);
    });
  });
}

void AttentionEmitter::writeRows(Value from, const HeadRows &to, TileRange range,
                                 function_ref<Value(Value, VectorType)> factor) {
  t.loop(t.index(0), range.count, 1, [&](Value row) {
    Value source = t.at(from, t.mul(row, to.width));
    Value target = t.rowOf(to, t.add(range.first, row));
    t.panels(to.width, [&](Value column, Panel panel) {
      Value by = factor(row, panel.type);
      for (int64_t v = 0; v < panel.count; ++v) {
        Value at = t.add(column, v * panel.type.getNumElements());
        Value value = t.load(panel.type, t.at(source, at));
        t.storeTo(to, arith::MulFOp::create(t.b, value, by), target, at);
      }
    });
  });
}

void AttentionEmitter::zeroRows(Value buffer, int64_t width) {
  // A tile is a whole number of vectors.
  Value zero = t.splat(t.vectorOf(t.lanes), 0.0);
  t.loop(t.index(0), t.index(t.edge * width), t.lanes,
         [&](Value i) { t.store(zero, t.at(buffer, i)); });
}

Value AttentionEmitter::lanesAgainst(Value row, Value column, VectorType type, bool fromRow) {
  Type i32 = t.b.getI32Type();
  VectorType indices = t.vectorOf(type.getNumElements(), i32);
  SmallVector<int32_t> numbers;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    numbers.push_back(static_cast<int32_t>(i));
  Value lane = arith::ConstantOp::create(t.b, DenseElementsAttr::get(indices, ArrayRef(numbers)));
  Value bound = arith::TruncIOp::create(t.b, i32, t.sub(row, column));
  bound = vector::BroadcastOp::create(t.b, indices, bound);
  auto predicate = fromRow ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sle;
  return arith::CmpIOp::create(t.b, predicate, lane, bound);
}

Value AttentionEmitter::chooseOr(Value condition, Value value, double otherwise) {
  Value other = t.splat(cast<VectorType>(value.getType()), otherwise);
  return arith::SelectOp::create(t.b, condition, value, other);
}

static Value both(OpBuilder &b, Location loc, Value x, Value y) {
  return x && y ? arith::AndIOp::create(b, loc, x, y).getResult() : (x ? x : y);
}

Value AttentionEmitter::visibleQueries(Value key, Value keyFirst, Value queryFirst, Value column,
                                       VectorType type, bool diagonal) {
  if (sizes.hasPositions())
    return visibleAt(lanePositionsAt(column, type),
                     positionOf(kKeyPositions, t.add(keyFirst, key), type));
  Value causal, inWindow;
  if (diagonal)
    causal = lanesAgainst(key, column, type, /*fromRow=*/true);
  if (sizes.isWindowed()) {
    Value latest = t.add(t.add(key, t.sub(keyFirst, queryFirst)), sizes.window - 1);
    inWindow = lanesAgainst(latest, column, type, /*fromRow=*/false);
  }
  return both(t.b, t.b.getLoc(), causal, inWindow);
}

Value AttentionEmitter::visibleKeys(Value query, Value queryFirst, Value keyFirst, Value column,
                                    VectorType type, bool diagonal) {
  if (sizes.hasPositions())
    return visibleAt(positionOf(kQueryPositions, t.add(queryFirst, query), type),
                     lanePositionsAt(column, type));
  Value causal, inWindow;
  if (diagonal)
    causal = lanesAgainst(query, column, type, /*fromRow=*/false);
  if (sizes.isWindowed()) {
    Value earliest = t.sub(t.add(query, t.sub(queryFirst, keyFirst)), t.index(sizes.window - 1));
    inWindow = lanesAgainst(earliest, column, type, /*fromRow=*/true);
  }
  return both(t.b, t.b.getLoc(), causal, inWindow);
}

Value AttentionEmitter::capped(Value score) {
  if (sizes.cap == 0)
    return score;
  auto type = cast<VectorType>(score.getType());
  Value share = arith::MulFOp::create(t.b, score, t.splat(type, 1 / sizes.cap));
  return arith::MulFOp::create(t.b, math::TanhOp::create(t.b, share), t.splat(type, sizes.cap));
}

Value AttentionEmitter::beforeCap(Value gradient, Value score) {
  if (sizes.cap == 0)
    return gradient;
  auto type = cast<VectorType>(score.getType());
  Value share = arith::MulFOp::create(t.b, score, t.splat(type, 1 / sizes.cap));
  Value square = arith::MulFOp::create(t.b, share, share);
  Value slope = arith::SubFOp::create(t.b, t.splat(type, 1.0), square);
  return arith::MulFOp::create(t.b, gradient, slope);
}

Value AttentionEmitter::exp(Value x) { return math::ExpOp::create(t.b, x); }

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

static LogicalResult checkSizes(ModuleOp module, StringRef name, const AttentionSizes &sizes,
                                const Profile &profile) {
  auto fail = [&] { return module.emitError("attention kernel '") << name << "' "; };
  if (sizes.batch < 1 || sizes.sequence < 1 || sizes.kvHeads < 1 || sizes.group < 1 ||
      sizes.headDim < 1 || sizes.valueWidth() < 1 || sizes.keyRows() < 1)
    return fail() << "has a size below 1";
  if (int64_t most = std::max(sizes.headDim, sizes.valueWidth()); most > kMaxHeadDim)
    return fail() << "has heads of " << most << " elements; at most " << kMaxHeadDim
                  << " are supported";
  if (!std::isfinite(sizes.scale))
    return fail() << "has a scale that is not finite";
  if (sizes.window < 0 || !(sizes.cap >= 0 && std::isfinite(sizes.cap)))
    return fail() << "has a window or a cap below 0";
  if (profile.lanes != 8 && profile.lanes != 16)
    return fail() << "has no register blocking for vectors of " << profile.lanes << " elements";
  if (module.lookupSymbol(name))
    return fail() << "is there already";
  return success();
}

int64_t attentionTiles(int64_t rows, const Profile &profile) {
  int64_t edge = 6 * profile.lanes;
  return (rows + edge - 1) / edge;
}

LogicalResult buildAttentionFunction(ModuleOp module, StringRef name, const AttentionSizes &sizes,
                                     const Profile &profile, unsigned inputs, unsigned operands,
                                     UnitEmitter emit) {
  if (failed(checkSizes(module, name, sizes, profile)))
    return failure();
  MLIRContext *context = module.getContext();
  context->loadDialect<arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect, math::MathDialect,
                       scf::SCFDialect, vector::VectorDialect>();
  ImplicitLocOpBuilder b(NameLoc::get(StringAttr::get(context, name), module.getLoc()), context);
  b.setInsertionPointToEnd(module.getBody());
  Type ptr = LLVM::LLVMPointerType::get(context), i64 = b.getI64Type();
  auto function = func::FuncOp::create(b, name, b.getFunctionType({ptr, i64, i64}, {}));
  Block *entry = function.addEntryBlock();
  b.setInsertionPointToStart(entry);
  SmallVector<Value> pointers, positions;
  Value sinks;
  const unsigned placed = inputs + (sizes.hasPositions() ? 2 : 0), read = placed + sizes.sinks;
  for (unsigned i = 0; i < operands + read - inputs; ++i) {
    Value slot = LLVM::GEPOp::create(b, ptr, ptr, entry->getArgument(0),
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    Value pointer = LLVM::LoadOp::create(b, ptr, slot);
    if (i < inputs || i >= read)
      pointers.push_back(pointer);
    else if (i < placed)
      positions.push_back(pointer);
    else
      sinks = pointer;
  }
  TileEmitter tiles(b, entry, profile);
  AttentionEmitter emitter(tiles, sizes, pointers, positions, sinks);
  tiles.loop(entry->getArgument(1), entry->getArgument(2), 1,
             [&](Value unit) { emit(emitter, unit); });
  func::ReturnOp::create(b);
  return success();
}

} // namespace cleave::cpu
