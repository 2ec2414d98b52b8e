//===- Curves.cpp - What was measured at some sizes --------------------------===//

#include "cleave/CostModel/Curves.h"
#include <algorithm>
#include <cmath>

namespace cleave::cost {

namespace {

/// Where a size lies: behind the point `index`, by `part` of the way to the next one.
struct Place {
  size_t index = 0;
  double part = 0;
};

} // namespace

static Place placeOf(const std::vector<double> &sizes, double size) {
  if (sizes.size() < 2 || size <= sizes.front())
    return {};
  if (size >= sizes.back())
    return {sizes.size() - 2, 1};
  const auto next = std::upper_bound(sizes.begin(), sizes.end(), size) - sizes.begin();
  const double low = sizes[next - 1], high = sizes[next];
  return {static_cast<size_t>(next - 1), std::log(size / low) / std::log(high / low)};
}

double Curve::operator()(double size) const {
  const Place place = placeOf(sizes, size);
  const double low = values[place.index];
  if (place.part == 0)
    return low;
  return low * std::pow(values[place.index + 1] / low, place.part);
}

void Curve::fill(double value) { std::fill(values.begin(), values.end(), value); }

double Curve::most() const { return *std::max_element(values.begin(), values.end()); }

double ShapeTable::operator()(double m, double n, double k) const {
  const std::array<Place, 3> places = {placeOf(sizes[0], m), placeOf(sizes[1], n),
                                       placeOf(sizes[2], k)};
  double sum = 0;
  for (int corner = 0; corner < 8; ++corner) {
    double weight = 1;
    size_t at = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const bool next = (corner >> axis & 1) != 0;
      weight *= next ? places[axis].part : 1 - places[axis].part;
      at = at * sizes[axis].size() + places[axis].index + (next ? 1 : 0);
    }
    if (weight > 0)
      sum += weight * std::log(rates[at]);
  }
  return std::exp(sum);
}

void ShapeTable::takeFaster(const ShapeTable &other) {
  for (size_t i = 0; i < rates.size(); ++i)
    rates[i] = std::max(rates[i], other.rates[i]);
}

void ShapeTable::makeMonotone() {
  const size_t columns = sizes[1].size(), depths = sizes[2].size();
  for (size_t i = 0; i < rates.size(); ++i) {
    if (i % depths > 0)
      rates[i] = std::max(rates[i], rates[i - 1]);
    if (i / depths % columns > 0)
      rates[i] = std::max(rates[i], rates[i - depths]);
    if (i / (depths * columns) > 0)
      rates[i] = std::max(rates[i], rates[i - depths * columns]);
  }
}

} // namespace cleave::cost
