//===- Units.h - Seconds are no bytes --------------------------------------===//
//
// Strong types for what the cost model adds and divides. A quantity is a double
// with a unit; only what makes sense compiles: bytes by a rate are seconds,
// operations by a rate too, two of one unit give a plain number.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <algorithm>
#include <cmath>
#include <compare>

namespace cleave::cost {

/// A number with a unit. `Unit` is a tag and is never defined.
template <typename Unit> struct Quantity {
  double value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(double v) : value(v) {}
  constexpr auto operator<=>(const Quantity &) const = default;

  constexpr Quantity operator+(Quantity o) const { return Quantity(value + o.value); }
  constexpr Quantity operator-(Quantity o) const { return Quantity(value - o.value); }
  constexpr Quantity operator*(double f) const { return Quantity(value * f); }
  constexpr Quantity operator/(double f) const { return Quantity(value / f); }
  constexpr double operator/(Quantity o) const { return value / o.value; }
  constexpr Quantity &operator+=(Quantity o) { return *this = *this + o; }
};
template <typename Unit> constexpr Quantity<Unit> operator*(double f, Quantity<Unit> q) {
  return q * f;
}

/// Time.
using Seconds = Quantity<struct SecondsUnit>;
/// Memory and traffic.
using Bytes = Quantity<struct BytesUnit>;
/// Floating-point operations; a multiply-add is two.
using Operations = Quantity<struct OperationsUnit>;
using BytesPerSecond = Quantity<struct BytesPerSecondUnit>;
using OperationsPerSecond = Quantity<struct OperationsPerSecondUnit>;

constexpr Seconds operator/(Bytes b, BytesPerSecond r) { return Seconds(b.value / r.value); }
constexpr Seconds operator/(Operations o, OperationsPerSecond r) {
  return Seconds(o.value / r.value);
}
constexpr Bytes operator*(Seconds t, BytesPerSecond r) { return Bytes(t.value * r.value); }

/// The part of `amount` above `other`, or nothing.
template <typename Unit>
constexpr Quantity<Unit> above(Quantity<Unit> amount, Quantity<Unit> other) {
  return std::max(amount - other, Quantity<Unit>());
}

} // namespace cleave::cost
