//===- LayerNames.h - One name for the tensors of many layers --------------===//
#pragma once

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace cleave {

/// Whether `name` has the numbers of layers between braces, as
/// "model.layers.{0..125}.norm.weight" has.
inline bool namesLayers(llvm::StringRef name) {
  size_t open = name.find('{');
  return open != llvm::StringRef::npos && !name.substr(open).starts_with("{}") &&
         name.substr(open).contains('}');
}

/// What stands in a name for `count` layers from `first` on: "{0..125}", "{1..5:2}".
inline std::string layerNumbers(int64_t first, int64_t count, int64_t step) {
  return "{" + std::to_string(first) + ".." + std::to_string(first + (count - 1) * step) +
         (step == 1 ? "" : ":" + std::to_string(step)) + "}";
}

/// `name` with `number` for the braces.
inline std::string nameInLayer(llvm::StringRef name, int64_t number) {
  auto [before, behind] = name.split('{');
  return before.str() + std::to_string(number) + behind.split('}').second.str();
}

/// `name` without the mark "{}" of tensors that are slices of one.
inline std::string withoutSliceMark(llvm::StringRef name) {
  auto [before, behind] = name.split("{}");
  return before.str() + behind.str();
}

/// `name` with `slice` for its "{}".
inline std::string nameOfSlice(llvm::StringRef name, int64_t slice) {
  auto [before, behind] = name.split("{}");
  return before.str() + std::to_string(slice) + behind.str();
}

} // namespace cleave
