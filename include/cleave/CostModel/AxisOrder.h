//===- AxisOrder.h - Which axis of a mesh lies in which ---------------------===//
//
// Ranks are numbered through the axes of a mesh: those that differ along the innermost
// one alone are neighbours. So the order says which exchanges stay on a node. It is
// written as Megatron-Core's `initialize_model_parallel` takes it: names joined by
// dashes, the innermost first. Experts have parts of other axes, and none of their own.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::cost {

/// In the usual order from the inside out: those that exchange most stand closest.
enum class MeshAxis : uint8_t { Tensor, Context, Data, Pipeline };
inline constexpr size_t kMeshAxes = 4;

/// By `MeshAxis`.
using AxisSizes = std::array<int64_t, kMeshAxes>;

/// The axes from the inside out. The usual order is the least.
struct AxisOrder {
  std::array<MeshAxis, kMeshAxes> axes = {MeshAxis::Tensor, MeshAxis::Context, MeshAxis::Data,
                                          MeshAxis::Pipeline};

  auto operator<=>(const AxisOrder &) const = default;
  bool operator==(const AxisOrder &) const = default;

  /// "tp-cp-dp-pp".
  std::string text() const;
  /// How far apart ranks are that differ by one along `axis`.
  int64_t strideOf(MeshAxis axis, const AxisSizes &sizes) const;
  /// The least order that stands the same ranks in the same places: where axes have one rank does
  /// not matter.
  AxisOrder leastFor(const AxisSizes &sizes) const;

  /// Nothing, where `text` is not each name once.
  static std::optional<AxisOrder> of(std::string_view text);
  /// In ascending order.
  static const std::vector<AxisOrder> &all();
};

} // namespace cleave::cost
