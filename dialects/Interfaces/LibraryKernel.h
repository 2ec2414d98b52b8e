//===- LibraryKernel.h - Kernels that a target generates by name -----------===//
//
// Some operators are more than loops over elements (attention): a target has a
// generator for them. Such an operator lists what it needs computed: generators
// by name, with sizes, and which of its operands and results each one takes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <utility>

namespace cleave {

struct LibraryKernel {
  /// Name of the generator ("attention.forward").
  llvm::StringRef generator;
  /// The kernel's arguments: operands of the operator, then results, by number.
  llvm::SmallVector<unsigned> operands, results;
  /// Sizes and scalars that the generator builds for, by name.
  llvm::SmallVector<std::pair<llvm::StringRef, double>> sizes;

  double size(llvm::StringRef name, double absent) const {
    for (const auto &[key, value] : sizes)
      if (key == name)
        return value;
    return absent;
  }
};

} // namespace cleave
