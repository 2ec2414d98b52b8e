//===- TileEmitter.cpp - loops over small matrices on the stack -----------===//

#include "TileEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace cleave::cpu {

// Of 16 registers, 6 x 2 accumulate, two hold B and one A; of 32, 12 x 2 do.
TileEmitter::TileEmitter(ImplicitLocOpBuilder &builder, Block *entry, const Profile &profile)
    : b(builder), lanes(profile.lanes), rows(lanes == 16 ? 12 : 6), edge(6 * lanes), entry(entry),
      f32(builder.getF32Type()), i64(builder.getI64Type()),
      ptr(LLVM::LLVMPointerType::get(builder.getContext())) {}

VectorType TileEmitter::vectorOf(int64_t width, Type element) const {
  return VectorType::get({width}, element ? element : f32);
}

//===----------------------------------------------------------------------===//
// Index arithmetic
//===----------------------------------------------------------------------===//

Value TileEmitter::index(int64_t value) { return arith::ConstantIntOp::create(b, value, 64); }
Value TileEmitter::add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
Value TileEmitter::add(Value x, int64_t y) { return y == 0 ? x : add(x, index(y)); }
Value TileEmitter::sub(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
Value TileEmitter::mul(Value x, int64_t y) {
  return y == 1 ? x : arith::MulIOp::create(b, x, index(y)).getResult();
}
Value TileEmitter::div(Value x, int64_t y) { return arith::DivSIOp::create(b, x, index(y)); }
Value TileEmitter::rem(Value x, int64_t y) { return arith::RemSIOp::create(b, x, index(y)); }
Value TileEmitter::min(Value x, Value y) { return arith::MinSIOp::create(b, x, y); }
Value TileEmitter::max(Value x, Value y) { return arith::MaxSIOp::create(b, x, y); }
Value TileEmitter::roundDown(Value x, int64_t step) { return sub(x, rem(x, step)); }

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value TileEmitter::at(Value base, Value offset) {
  return LLVM::GEPOp::create(b, ptr, f32, base, ArrayRef<LLVM::GEPArg>{offset});
}

Value TileEmitter::at(Value base, int64_t offset) {
  return offset == 0 ? base : at(base, index(offset));
}

Value TileEmitter::load(Type type, Value pointer) {
  return LLVM::LoadOp::create(b, type, pointer, /*alignment=*/4);
}

void TileEmitter::store(Value value, Value pointer) {
  LLVM::StoreOp::create(b, value, pointer, /*alignment=*/4);
}

Value TileEmitter::splat(VectorType type, Value pointer) {
  return vector::BroadcastOp::create(b, type, load(f32, pointer));
}

Value TileEmitter::splat(VectorType type, double value) {
  return arith::ConstantOp::create(b, DenseElementsAttr::get(type, static_cast<float>(value)));
}

Value TileEmitter::tile(int64_t elements) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(entry);
  return LLVM::AllocaOp::create(b, ptr, f32, index(elements), /*alignment=*/64);
}

Value TileEmitter::elementOf(const HeadRows &head, Value row, Value offset) {
  Type element = head.narrow ? Type(b.getBF16Type()) : f32;
  return LLVM::GEPOp::create(b, ptr, element, row, ArrayRef<LLVM::GEPArg>{offset});
}

Value TileEmitter::rowOf(const HeadRows &head, Value row) {
  return elementOf(head, head.base, mul(min(row, head.last), head.stride));
}

/// `type` with elements of bf16.
static Type narrowed(OpBuilder &b, Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? Type(vector.clone(b.getBF16Type())) : b.getBF16Type();
}

Value TileEmitter::loadOf(const HeadRows &head, Type type, Value row, Value offset) {
  Value from = elementOf(head, row, offset);
  if (!head.narrow)
    return load(type, from);
  Value narrow = LLVM::LoadOp::create(b, narrowed(b, type), from, /*alignment=*/2);
  return arith::ExtFOp::create(b, type, narrow);
}

void TileEmitter::storeTo(const HeadRows &head, Value value, Value row, Value offset) {
  Value to = elementOf(head, row, offset);
  if (!head.narrow)
    return store(value, to);
  Value narrow = arith::TruncFOp::create(b, narrowed(b, value.getType()), value);
  LLVM::StoreOp::create(b, narrow, to, /*alignment=*/2);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Value TileEmitter::fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }

Value TileEmitter::larger(Value x, Value y) {
  Value picks = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, x, y);
  return arith::SelectOp::create(b, picks, x, y);
}

Value TileEmitter::sumLanes(Value vector) {
  int64_t width = cast<VectorType>(vector.getType()).getNumElements();
  for (int64_t half = width / 2; half != 0; half /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(i + half);
    }
    Value first = vector::ShuffleOp::create(b, vector, vector, low);
    Value second = vector::ShuffleOp::create(b, vector, vector, high);
    vector = arith::AddFOp::create(b, first, second);
  }
  return vector::ExtractOp::create(b, vector, ArrayRef<int64_t>{0});
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

SmallVector<Value> TileEmitter::loop(Value lower, Value upper, int64_t step,
                                     ArrayRef<Value> carried, CarryingBody body) {
  auto loop = scf::ForOp::create(b, lower, upper, index(step), carried);
  OpBuilder::InsertionGuard guard(b);
  Block *block = loop.getBody();
  if (block->mightHaveTerminator())
    block->getTerminator()->erase();
  b.setInsertionPointToEnd(block);
  SmallVector<Value> args(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  scf::YieldOp::create(b, body(loop.getInductionVar(), args));
  return SmallVector<Value>(loop.getResults());
}

void TileEmitter::loop(Value lower, Value upper, int64_t step, Body body) {
  loop(lower, upper, step, {}, [&](Value iv, ArrayRef<Value>) {
    body(iv);
    return SmallVector<Value>();
  });
}

void TileEmitter::when(Value condition, function_ref<void()> body) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

void TileEmitter::panels(int64_t width, function_ref<void(Value, Panel)> body) {
  int64_t done = width / (2 * lanes) * (2 * lanes);
  if (done != 0)
    loop(index(0), index(done), 2 * lanes, [&](Value column) { body(column, widePanel()); });
  if (width - done >= lanes) {
    body(index(done), {vectorOf(lanes), 1});
    done += lanes;
  }
  if (done != width)
    body(index(done), {vectorOf(width - done), 1});
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void TileEmitter::microTile(const Product &product, Value row, Value column, Panel panel,
                            Value depthBegin, Value depthEnd) {
  int64_t width = panel.type.getNumElements();
  SmallVector<Value> aRows, cRows, accumulators;
  for (int64_t r = 0; r < rows; ++r) {
    Value each = add(row, r);
    aRows.push_back(product.aRow(each));
    cRows.push_back(at(product.c, add(mul(each, product.cStride), column)));
    Value factor = product.rowScale ? splat(panel.type, at(product.rowScale, each)) : Value();
    for (int64_t v = 0; v < panel.count; ++v) {
      Value init = splat(panel.type, 0.0);
      if (product.accumulate)
        init = load(panel.type, at(cRows[r], v * width));
      if (factor)
        init = arith::MulFOp::create(b, init, factor);
      accumulators.push_back(init);
    }
  }
  Value bColumn = at(product.b, column);
  auto step = [&](Value k, ArrayRef<Value> carried) {
    SmallVector<Value> next, bVectors;
    Value bRow = at(bColumn, mul(k, product.bStride)), aOffset = mul(k, product.aStep);
    for (int64_t v = 0; v < panel.count; ++v)
      bVectors.push_back(load(panel.type, at(bRow, v * width)));
    for (int64_t r = 0; r < rows; ++r) {
      Value a = splat(panel.type, at(aRows[r], aOffset));
      for (int64_t v = 0; v < panel.count; ++v)
        next.push_back(fma(a, bVectors[v], carried[r * panel.count + v]));
    }
    return next;
  };
  accumulators = loop(depthBegin, depthEnd, 1, accumulators, step);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < panel.count; ++v)
      store(accumulators[r * panel.count + v], at(cRows[r], v * width));
}

//===----------------------------------------------------------------------===//
// Moves and small sums
//===----------------------------------------------------------------------===//

/// Transposes `lanes` vectors of as many lanes: interleaving vector i with vector
/// i + lanes / 2 moves one bit of the row number into the lane number.
SmallVector<Value> TileEmitter::transposed(SmallVector<Value> vectors) {
  SmallVector<int64_t> low, high;
  for (int64_t i = 0; i < lanes / 2; ++i) {
    low.append({i, lanes + i});
    high.append({lanes / 2 + i, lanes + lanes / 2 + i});
  }
  for (int64_t stage = 1; stage < lanes; stage *= 2) {
    SmallVector<Value> next;
    for (int64_t i = 0; i < lanes / 2; ++i) {
      Value first = vectors[i], second = vectors[i + lanes / 2];
      next.push_back(vector::ShuffleOp::create(b, first, second, low));
      next.push_back(vector::ShuffleOp::create(b, first, second, high));
    }
    vectors = std::move(next);
  }
  return vectors;
}

void TileEmitter::packTransposed(const HeadRows &from, Value first, Value count, Value to,
                                 double scale) {
  int64_t width = from.width, whole = width / lanes * lanes;
  Value factor = splat(vectorOf(lanes), scale);
  loop(index(0), count, lanes, [&](Value i) {
    SmallVector<Value> pointers;
    for (int64_t r = 0; r < lanes; ++r)
      pointers.push_back(rowOf(from, add(add(first, i), r)));
    if (whole != 0)
      loop(index(0), index(whole), lanes, [&](Value d) {
        SmallVector<Value> vectors;
        for (Value pointer : pointers)
          vectors.push_back(loadOf(from, vectorOf(lanes), pointer, d));
        vectors = transposed(std::move(vectors));
        Value target = at(to, add(mul(d, edge), i));
        for (int64_t r = 0; r < lanes; ++r)
          store(arith::MulFOp::create(b, vectors[r], factor), at(target, r * edge));
      });
    if (whole != width)
      loop(index(whole), index(width), 1, [&](Value d) {
        SmallVector<Value> elements;
        for (Value pointer : pointers)
          elements.push_back(loadOf(from, f32, pointer, d));
        Value column = vector::FromElementsOp::create(b, vectorOf(lanes), elements);
        store(arith::MulFOp::create(b, column, factor), at(to, add(mul(d, edge), i)));
      });
  });
}

void TileEmitter::rowDots(const HeadRows &x, const HeadRows &y, Value first, Value count,
                          Value to) {
  int64_t width = x.width, whole = width / lanes * lanes;
  loop(index(0), count, 1, [&](Value i) {
    Value xRow = rowOf(x, add(first, i)), yRow = rowOf(y, add(first, i));
    auto fold = [&](Type type, int64_t from, int64_t until, Value zero) {
      return loop(index(from), index(until), type == f32 ? 1 : lanes, {zero},
                  [&](Value d, ArrayRef<Value> sum) {
                    Value left = loadOf(x, type, xRow, d), right = loadOf(y, type, yRow, d);
                    return SmallVector<Value>{fma(left, right, sum[0])};
                  })[0];
    };
    Value sum = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
    if (whole != 0)
      sum = sumLanes(fold(vectorOf(lanes), 0, whole, splat(vectorOf(lanes), 0.0)));
    if (whole != width)
      sum = fold(f32, whole, width, sum);
    store(sum, at(to, i));
  });
}

void TileEmitter::gather(const HeadRows &from, Value first, Value count, Value to) {
  loop(index(0), count, 1,
       [&](Value i) { store(load(f32, rowOf(from, add(first, i))), at(to, i)); });
}

} // namespace cleave::cpu
