//===- KernelSchedule.h - order and vectorise a kernel's roots --*- C++ -*-===//
//
// The decisions of the plan: which costly values are stored, which roots share a
// nest, in which order nests run, and which dimension runs over vector lanes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "lib/Target/Kernel/Kernel.h"
#include "llvm/ADT/MapVector.h"

namespace cleave::target {

struct HeavyUse {
  Root *root = nullptr;
  IndexList index;
};
using HeavyUses = llvm::MapVector<mlir::Value, std::vector<HeavyUse>>;

/// The values that are cheaper to store for one row than to compute again.
std::vector<mlir::Value> valuesWorthStoring(const Kernel &kernel, const HeavyUses &uses);

/// Chooses where `root`, a value to store, lives: in the row of a result that is
/// written later from it, else in a stack buffer.
void placeStoredValue(Kernel &kernel, Root &root, llvm::ArrayRef<HeavyUse> uses);

/// Orders the roots into nests and picks the lanes; reports an error if a
/// destination would be overwritten before its last read.
mlir::LogicalResult scheduleNests(Kernel &kernel);

} // namespace cleave::target
