//===- TileEmitter.h - loops over small matrices on the stack ---*- C++ -*-===//
//
// What attention kernels are written in: addresses, loops, vectors, and one matrix
// product with its accumulators in registers. Matrices are f32 in memory behind
// LLVM pointers, operands may be of bf16; indices are i64.
//
// The product is C[r, c] (+)= sum over k of A[r, k] * B[k, c]. A micro-tile holds
// `rows` x two vectors of C in registers; each step of k loads two vectors of B's
// row and broadcasts one element of each row of A:
//
//             k                 2 x lanes
//        A  . . a . .      B  [ b0 ][ b1 ]   k
//    rows   . . a . .      C  [    ][    ]      c += a * b
//           . . a . .         [    ][    ]
//
// So A may be transposed at no cost, while rows of B and C must be contiguous.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Target/CPU/KernelCompiler.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <functional>

namespace cleave::cpu {

using mlir::Value;
using mlir::ValueRange;
using mlir::VectorType;

/// The columns that one micro-tile takes: `count` vectors of `type`.
struct Panel {
  VectorType type;
  int64_t count = 1;
};

/// Rows of one head of an operand, in elements. A row past the last one of the
/// sequence is taken to be the last one: it may be read, and what comes of it is
/// never stored.
struct HeadRows {
  Value base;          ///< of row 0
  int64_t stride = 0;  ///< from row to row
  Value last;          ///< index of the last row
  int64_t width = 1;   ///< elements of a row
  bool narrow = false; ///< of bf16 in memory
};

/// The factors and the result of a product. Null members: see each.
struct Product {
  std::function<Value(Value)> aRow; ///< pointer to element 0 of a row of A
  int64_t aStep = 1;                ///< from element to element of A's row
  Value b;
  int64_t bStride = 0;
  Value c;
  int64_t cStride = 0;
  bool accumulate = false; ///< adds to the old contents of C,
  Value rowScale;          ///< which (if not null) are first multiplied by rowScale[row]
};

class TileEmitter {
public:
  /// Emits into `entry`; the stack tiles are at its begin.
  TileEmitter(mlir::ImplicitLocOpBuilder &builder, mlir::Block *entry, const Profile &profile);

  mlir::ImplicitLocOpBuilder &b;
  const int64_t lanes;
  const int64_t rows; ///< of a micro-tile
  const int64_t edge; ///< queries and keys in a tile: a multiple of rows and of two vectors

  VectorType vectorOf(int64_t width, mlir::Type element = {}) const;

  // Index arithmetic.
  Value index(int64_t value);
  Value add(Value x, Value y);
  Value add(Value x, int64_t y);
  Value sub(Value x, Value y);
  Value mul(Value x, int64_t y);
  Value div(Value x, int64_t y);
  Value rem(Value x, int64_t y);
  Value min(Value x, Value y);
  Value max(Value x, Value y);
  /// The largest multiple of `step` not above `x` (not negative).
  Value roundDown(Value x, int64_t step);

  // Memory.
  Value at(Value base, Value offset);
  Value at(Value base, int64_t offset);
  Value load(mlir::Type type, Value pointer);
  void store(Value value, Value pointer);
  /// The element at `pointer` in every lane.
  Value splat(VectorType type, Value pointer);
  Value splat(VectorType type, double value);
  /// A stack buffer of `elements` floats.
  Value tile(int64_t elements);
  /// Pointer to row `row` of a head.
  Value rowOf(const HeadRows &head, Value row);
  /// Pointer to element `offset` of a head's row at `row`.
  Value elementOf(const HeadRows &head, Value row, Value offset);
  /// Elements there as f32: `type` is f32 or a vector of it.
  Value loadOf(const HeadRows &head, mlir::Type type, Value row, Value offset);
  void storeTo(const HeadRows &head, Value value, Value row, Value offset);

  // Arithmetic.
  Value fma(Value x, Value y, Value z);
  /// The larger of the two; `y` if one is NaN.
  Value larger(Value x, Value y);
  /// Sum of the lanes of a vector, in a fixed tree.
  Value sumLanes(Value vector);

  // Loops over [lower, upper).
  using Body = llvm::function_ref<void(Value)>;
  using CarryingBody = llvm::function_ref<llvm::SmallVector<Value>(Value, llvm::ArrayRef<Value>)>;
  void loop(Value lower, Value upper, int64_t step, Body body);
  llvm::SmallVector<Value> loop(Value lower, Value upper, int64_t step,
                                llvm::ArrayRef<Value> carried, CarryingBody body);
  /// Loop over `width` columns in panels of two vectors, then one, then the rest.
  void panels(int64_t width, llvm::function_ref<void(Value column, Panel panel)> body);
  /// `body` where `condition` (i1) holds.
  void when(Value condition, llvm::function_ref<void()> body);
  Panel widePanel() const { return {vectorOf(lanes), 2}; }

  /// Computes `rows` rows from `row` on of the columns of `panel` from `column` on,
  /// with k in [depthBegin, depthEnd).
  void microTile(const Product &product, Value row, Value column, Panel panel, Value depthBegin,
                 Value depthEnd);

  /// to[d * edge + i] = scale * row (first + i)[d] for i < count rounded up to
  /// vectors.
  void packTransposed(const HeadRows &from, Value first, Value count, Value to, double scale);
  /// to[i] = sum over d of x's row (first + i)[d] * y's, for i < count.
  void rowDots(const HeadRows &x, const HeadRows &y, Value first, Value count, Value to);
  /// to[i] = element 0 of row (first + i), for i < count.
  void gather(const HeadRows &from, Value first, Value count, Value to);

private:
  llvm::SmallVector<Value> transposed(llvm::SmallVector<Value> vectors);

  mlir::Block *entry;
  mlir::Type f32, i64, ptr;
};

} // namespace cleave::cpu
