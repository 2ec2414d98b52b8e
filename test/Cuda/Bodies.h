//===- Bodies.h - kernels of every kind, as MLIR text -----------*- C++ -*-===//
//
// ${R} rows and ${C} columns; ${N} tells the sizes apart in names.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <vector>

namespace cleave::test {

inline constexpr const char *kMaps = R"(
#rc = affine_map<(r, c) -> (r, c)>
#cr = affine_map<(r, c) -> (c, r)>
#r = affine_map<(r, c) -> (r)>
#c = affine_map<(r, c) -> (c)>
#one = affine_map<(r) -> (r)>
#trc = affine_map<(r, c, t) -> (r, c)>
#ttc = affine_map<(r, c, t) -> (t, c)>
#tt = affine_map<(r, c, t) -> (t)>
#hrc = affine_map<(r, h, c) -> (r, h, c)>
#hr = affine_map<(r, h, c) -> (r, h)>
)";

/// -x * w, elementwise with a vector along columns.
inline constexpr const char *kScale = R"(
func.func @scale_${N}(%x: tensor<${R}x${C}xf32>, %w: tensor<${C}xf32>, %y: tensor<${R}x${C}xf32>)
    -> tensor<${R}x${C}xf32> attributes {cleave.outputs = 1 : i64, cleave.space = ${R} : i64} {
  %e = tensor.empty() : tensor<${R}x${C}xf32>
  %0 = linalg.generic {indexing_maps = [#rc, #c, #rc], iterator_types = ["parallel", "parallel"]}
      ins(%x, %w : tensor<${R}x${C}xf32>, tensor<${C}xf32>) outs(%e : tensor<${R}x${C}xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %n = arith.negf %a : f32
    %m = arith.mulf %n, %b : f32
    linalg.yield %m : f32
  } -> tensor<${R}x${C}xf32>
  return %0 : tensor<${R}x${C}xf32>
})";

/// y += x, in place, in one dimension.
inline constexpr const char *kUpdate = R"(
func.func @update_${N}(%x: tensor<${C}xf32>, %y: tensor<${C}xf32>)
    -> tensor<${C}xf32> attributes {cleave.outputs = 1 : i64, cleave.space = ${C} : i64} {
  %e = tensor.empty() : tensor<${C}xf32>
  %0 = linalg.generic {indexing_maps = [#one, #one, #one], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<${C}xf32>, tensor<${C}xf32>) outs(%e : tensor<${C}xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.addf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<${C}xf32>
  return %0 : tensor<${C}xf32>
})";

/// The softmax of rows, and their maxima.
inline constexpr const char *kSoftmax = R"(
func.func @softmax_${N}(%x: tensor<${R}x${C}xf32>, %y: tensor<${R}x${C}xf32>, %z: tensor<${R}xf32>)
    -> (tensor<${R}x${C}xf32>, tensor<${R}xf32>)
    attributes {cleave.outputs = 2 : i64, cleave.space = ${R} : i64} {
  %er = tensor.empty() : tensor<${R}xf32>
  %e = tensor.empty() : tensor<${R}x${C}xf32>
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %lows = linalg.fill ins(%low : f32) outs(%er : tensor<${R}xf32>) -> tensor<${R}xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<${R}xf32>) -> tensor<${R}xf32>
  %max = linalg.generic {indexing_maps = [#rc, #r], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<${R}x${C}xf32>) outs(%lows : tensor<${R}xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.maximumf %o, %a : f32
    linalg.yield %m : f32
  } -> tensor<${R}xf32>
  %exp = linalg.generic {indexing_maps = [#rc, #r, #rc], iterator_types = ["parallel", "parallel"]}
      ins(%x, %max : tensor<${R}x${C}xf32>, tensor<${R}xf32>) outs(%e : tensor<${R}x${C}xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %m = math.exp %d : f32
    linalg.yield %m : f32
  } -> tensor<${R}x${C}xf32>
  %sum = linalg.generic {indexing_maps = [#rc, #r], iterator_types = ["parallel", "reduction"]}
      ins(%exp : tensor<${R}x${C}xf32>) outs(%zeros : tensor<${R}xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.addf %o, %a : f32
    linalg.yield %m : f32
  } -> tensor<${R}xf32>
  %0 = linalg.generic {indexing_maps = [#rc, #r, #rc], iterator_types = ["parallel", "parallel"]}
      ins(%exp, %sum : tensor<${R}x${C}xf32>, tensor<${R}xf32>) outs(%e : tensor<${R}x${C}xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.divf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<${R}x${C}xf32>
  return %0, %max : tensor<${R}x${C}xf32>, tensor<${R}xf32>
})";

/// y[c] += sum over rows of x[r, c]: its rows are the columns.
inline constexpr const char *kColumnSum = R"(
func.func @columns_${N}(%x: tensor<${R}x${C}xf32>, %y: tensor<${C}xf32>)
    -> tensor<${C}xf32> attributes {cleave.outputs = 1 : i64, cleave.space = ${C} : i64} {
  %0 = linalg.generic {indexing_maps = [#cr, #r], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<${R}x${C}xf32>) outs(%y : tensor<${C}xf32>) {
  ^bb0(%a: f32, %o: f32):
    %m = arith.addf %o, %a : f32
    linalg.yield %m : f32
  } -> tensor<${C}xf32>
  return %0 : tensor<${C}xf32>
})";

/// Rows of a table of 300, those that ids name; ids out of range give zeros.
inline constexpr const char *kGather = R"(
func.func @gather_${N}(%t: tensor<250x${C}xf32>, %i: tensor<${R}xi32>, %y: tensor<${R}x${C}xf32>)
    -> tensor<${R}x${C}xf32> attributes {cleave.outputs = 1 : i64, cleave.space = ${R} : i64} {
  %e = tensor.empty() : tensor<${R}x${C}xf32>
  %0 = linalg.generic {indexing_maps = [#r, #rc], iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<${R}xi32>) outs(%e : tensor<${R}x${C}xf32>) {
  ^bb0(%id: i32, %o: f32):
    %first = arith.constant 0 : i32
    %end = arith.constant 250 : i32
    %above = arith.cmpi sge, %id, %first : i32
    %below = arith.cmpi slt, %id, %end : i32
    %inside = arith.andi %above, %below : i1
    %safe = arith.select %inside, %id, %first : i32
    %row = arith.index_cast %safe : i32 to index
    %column = linalg.index 1 : index
    %x = tensor.extract %t[%row, %column] : tensor<250x${C}xf32>
    %zero = arith.constant 0.0 : f32
    %m = arith.select %inside, %x, %zero : f32
    linalg.yield %m : f32
  } -> tensor<${R}x${C}xf32>
  return %0 : tensor<${R}x${C}xf32>
})";

/// Adds each of 40 rows to the row that its id names.
inline constexpr const char *kScatter = R"(
func.func @scatter_${N}(%i: tensor<40xi32>, %x: tensor<40x${C}xf32>, %y: tensor<${R}x${C}xf32>)
    -> tensor<${R}x${C}xf32> attributes {cleave.outputs = 1 : i64, cleave.space = ${R} : i64} {
  %0 = linalg.generic {indexing_maps = [#tt, #ttc, #trc],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%i, %x : tensor<40xi32>, tensor<40x${C}xf32>) outs(%y : tensor<${R}x${C}xf32>) {
  ^bb0(%id: i32, %a: f32, %o: f32):
    %r = linalg.index 0 : index
    %row = arith.index_cast %r : index to i32
    %zero = arith.constant 0.0 : f32
    %here = arith.cmpi eq, %row, %id : i32
    %term = arith.select %here, %a, %zero : f32
    %m = arith.addf %o, %term : f32
    linalg.yield %m : f32
  } -> tensor<${R}x${C}xf32>
  return %0 : tensor<${R}x${C}xf32>
})";

/// Six heads of a row, each divided by the root of its own sum of squares.
inline constexpr const char *kHeads = R"(
func.func @heads_${N}(%x: tensor<${R}x6x${C}xf32>, %y: tensor<${R}x6x${C}xf32>)
    -> tensor<${R}x6x${C}xf32> attributes {cleave.outputs = 1 : i64, cleave.space = ${R} : i64} {
  %er = tensor.empty() : tensor<${R}x6xf32>
  %e = tensor.empty() : tensor<${R}x6x${C}xf32>
  %zero = arith.constant 0.0 : f32
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<${R}x6xf32>) -> tensor<${R}x6xf32>
  %sum = linalg.generic {indexing_maps = [#hrc, #hr],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<${R}x6x${C}xf32>) outs(%zeros : tensor<${R}x6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    %m = arith.addf %o, %s : f32
    linalg.yield %m : f32
  } -> tensor<${R}x6xf32>
  %0 = linalg.generic {indexing_maps = [#hrc, #hr, #hrc],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %sum : tensor<${R}x6x${C}xf32>, tensor<${R}x6xf32>)
      outs(%e : tensor<${R}x6x${C}xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = math.rsqrt %b : f32
    %m = arith.mulf %a, %s : f32
    linalg.yield %m : f32
  } -> tensor<${R}x6x${C}xf32>
  return %0 : tensor<${R}x6x${C}xf32>
})";

/// Each row less its mean, stored as bf16 and read from it.
inline constexpr const char *kNarrow = R"(
func.func @narrow_${N}(%x: tensor<${R}x${C}xbf16>, %y: tensor<${R}x${C}xbf16>)
    -> tensor<${R}x${C}xbf16> attributes {cleave.outputs = 1 : i64, cleave.space = ${R} : i64} {
  %er = tensor.empty() : tensor<${R}xf32>
  %e = tensor.empty() : tensor<${R}x${C}xbf16>
  %zero = arith.constant 0.0 : f32
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<${R}xf32>) -> tensor<${R}xf32>
  %sum = linalg.generic {indexing_maps = [#rc, #r], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<${R}x${C}xbf16>) outs(%zeros : tensor<${R}xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %w = arith.extf %a : bf16 to f32
    %m = arith.addf %o, %w : f32
    linalg.yield %m : f32
  } -> tensor<${R}xf32>
  %0 = linalg.generic {indexing_maps = [#rc, #r, #rc], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum : tensor<${R}x${C}xbf16>, tensor<${R}xf32>) outs(%e : tensor<${R}x${C}xbf16>) {
  ^bb0(%a: bf16, %b: f32, %o: bf16):
    %w = arith.extf %a : bf16 to f32
    %count = arith.constant ${C}.0 : f32
    %mean = arith.divf %b, %count : f32
    %d = arith.subf %w, %mean : f32
    %m = arith.truncf %d : f32 to bf16
    linalg.yield %m : bf16
  } -> tensor<${R}x${C}xbf16>
  return %0 : tensor<${R}x${C}xbf16>
})";

inline const std::vector<const char *> kAllBodies = {kScale,  kUpdate,  kSoftmax, kColumnSum,
                                                     kGather, kScatter, kHeads,   kNarrow};

} // namespace cleave::test
