//===- LayerNames.h - One name for the tensors of many layers --------------===//
#pragma once

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace cleave {

/// Whether `name` has the numbers of layers between braces, as
/// "model.layers.{0..125}.norm.weight" has.
inline bool namesLayers(llvm::StringRef name) {
  return name.contains('{') && name.split('{').second.contains('}');
}

/// `name` with `number` for the braces.
inline std::string nameInLayer(llvm::StringRef name, int64_t number) {
  auto [before, behind] = name.split('{');
  return before.str() + std::to_string(number) + behind.split('}').second.str();
}

} // namespace cleave
