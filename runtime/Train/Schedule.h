// The learning rate as a pure function of the step, so that stopping and
// resuming can't move it. Steps count from 1.
//
//   up to warmup  peak · s / warmup
//   constant      peak
//   linear        from peak at warmup to final at total
//   cosine        final + (peak - final)/2 · (1 + cos(π (s - warmup)/(total - warmup)))
//   wsd           peak until total - decay, then linear to final at total
//
// After `total` the rate stays at `final` (constant: at peak).
#pragma once

#include "runtime/Base/Status.h"
#include "runtime/Train/Recipe.h"

namespace cleave::rt {

class Schedule {
public:
  /// `steps`, the length of the run, stands for an absent `total`.
  /// `recipe.conflict` if warm-up and decay don't fit into it.
  static StatusOr<Schedule> create(LearningRateRecipe recipe, uint64_t steps);

  double rateAt(uint64_t step) const;
  /// The recipe with `total` filled in: what a checkpoint must record, since
  /// the length of a resumed run may differ.
  const LearningRateRecipe &recipe() const { return rate; }
  /// Equal rates at every step: unused parameters are ignored.
  bool sameRates(const Schedule &other) const;
  /// "cosine, peak 0.0003, final 3e-05, warm-up 10, total 100"
  std::string toString() const;

private:
  explicit Schedule(LearningRateRecipe rate) : rate(rate) {}
  LearningRateRecipe rate;
};

} // namespace cleave::rt
