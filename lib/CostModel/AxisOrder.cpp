//===- AxisOrder.cpp - Which axis of a mesh lies in which -------------------===//

#include "cleave/CostModel/AxisOrder.h"
#include <algorithm>

namespace cleave::cost {

/// By `MeshAxis`, as pins have them.
static constexpr std::array<std::string_view, kMeshAxes> kNames = {"tp", "cp", "dp", "pp"};

static size_t at(MeshAxis axis) { return static_cast<size_t>(axis); }

std::string AxisOrder::text() const {
  std::string text;
  for (MeshAxis axis : axes)
    text += (text.empty() ? "" : "-") + std::string(kNames[at(axis)]);
  return text;
}

int64_t AxisOrder::strideOf(MeshAxis axis, const AxisSizes &sizes) const {
  int64_t stride = 1;
  for (size_t i = 0; axes[i] != axis; ++i)
    stride *= sizes[at(axes[i])];
  return stride;
}

AxisOrder AxisOrder::leastFor(const AxisSizes &sizes) const {
  std::vector<MeshAxis> fixed, free;
  for (MeshAxis axis : axes)
    (sizes[at(axis)] > 1 ? fixed : free).push_back(axis);
  std::sort(free.begin(), free.end());
  // The next one that has a place, or one of a single rank, whichever is less.
  AxisOrder least;
  size_t nextFixed = 0, nextFree = 0;
  for (MeshAxis &axis : least.axes) {
    const bool isFree =
        nextFixed == fixed.size() || (nextFree < free.size() && free[nextFree] < fixed[nextFixed]);
    axis = isFree ? free[nextFree++] : fixed[nextFixed++];
  }
  return least;
}

std::optional<AxisOrder> AxisOrder::of(std::string_view text) {
  const auto found = std::find_if(all().begin(), all().end(),
                                  [&](const AxisOrder &order) { return order.text() == text; });
  return found == all().end() ? std::nullopt : std::optional(*found);
}

const std::vector<AxisOrder> &AxisOrder::all() {
  // A table of constants, made once.
  static const std::vector<AxisOrder> orders = [] {
    std::vector<AxisOrder> all;
    AxisOrder order;
    do
      all.push_back(order);
    while (std::next_permutation(order.axes.begin(), order.axes.end()));
    return all;
  }();
  return orders;
}

} // namespace cleave::cost
