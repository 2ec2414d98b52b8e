//===- Curves.h - What was measured at some sizes ----------------------------===//
//
// A processor has no closed form: caches, the cut of products into tiles and starts show at
// different sizes. What `cleave calibrate` measures is therefore kept as it was measured, and read
// between the sizes along lines in logarithms; beyond them the value at the end holds.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <vector>

namespace cleave::cost {

/// Values at ascending sizes, all above 0.
struct Curve {
  std::vector<double> sizes, values;

  bool empty() const { return sizes.empty(); }
  double operator()(double size) const;
  /// `value` at all sizes, where it has any.
  void fill(double value);
  /// The largest value of all.
  double most() const;
};

/// Operations/s of products of m × k by k × n, at a grid of sizes; k is the innermost.
struct ShapeTable {
  /// Of m, n, k.
  std::array<std::vector<double>, 3> sizes;
  std::vector<double> rates;

  bool empty() const { return rates.empty(); }
  double operator()(double m, double n, double k) const;
  /// Makes no product slower than one that is smaller in every size.
  void makeMonotone();
  /// The faster of both at each size; these are the same.
  void takeFaster(const ShapeTable &other);
};

} // namespace cleave::cost
