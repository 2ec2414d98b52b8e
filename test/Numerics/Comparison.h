//===- Comparison.h - Is one step the same as another? ---------------------===//
#pragma once

#include "Program.h"
#include <gtest/gtest.h>
#include <iosfwd>

namespace cleave::test {

/// |a − b| ≤ 1e-9 · max(1, |b|), and neither is NaN.
bool agrees(double a, double b);

/// Loss, norm, every gradient and, where it is not ill-conditioned, every updated
/// value of `step` are those of `one`; else the current test fails.
void expectEqual(const StepResult &step, const StepResult &one);
/// The same without the update.
void expectEqualGradients(const StepResult &step, const StepResult &one);

/// The step of `model` on one rank, run once.
const StepResult &oneRank(const std::string &model);

/// As gtest names a layout.
void PrintTo(const Layout &layout, std::ostream *os);

} // namespace cleave::test
