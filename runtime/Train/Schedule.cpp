// Learning-rate schedules.
#include "runtime/Train/Schedule.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

namespace cleave::rt {

StatusOr<Schedule> Schedule::create(LearningRateRecipe recipe, uint64_t steps) {
  const bool filledIn = !recipe.total;
  if (filledIn)
    recipe.total = steps;
  const uint64_t needed = recipe.warmup + recipe.decay.value_or(0);
  // A run may stop during warm-up; only what follows it needs room.
  const bool hasEnd = recipe.kind != ScheduleKind::Constant;
  if (hasEnd && needed > *recipe.total) {
    Error error = userError("recipe.conflict", fmt::format("warm-up and decay take {} of {} steps",
                                                           needed, *recipe.total))
                      .withGiven(fmt::format("warmup = {}, decay = {}, total = {}{}", recipe.warmup,
                                             recipe.decay.value_or(0), *recipe.total,
                                             filledIn ? " (from --steps)" : ""))
                      .withRule("warmup + decay is at most total");
    // What this run can do without being compiled again comes first.
    if (filledIn)
      error.suggestions.push_back(fmt::format("--steps {}", needed));
    return std::move(error).suggest(fmt::format("learning_rate.total = {}", needed));
  }
  return Schedule(recipe);
}

double Schedule::rateAt(uint64_t step) const {
  if (step < rate.warmup)
    return rate.peak * static_cast<double>(step) / static_cast<double>(rate.warmup);
  const uint64_t total = *rate.total;
  // Where the descent starts, and how far along it `step` is.
  const uint64_t start =
      rate.kind == ScheduleKind::WarmupStableDecay ? total - rate.decay.value_or(0) : rate.warmup;
  if (rate.kind == ScheduleKind::Constant || step <= start)
    return rate.peak;
  if (step >= total)
    return rate.final;
  const double done = static_cast<double>(step - start) / static_cast<double>(total - start);
  if (rate.kind == ScheduleKind::Cosine)
    return rate.final + (rate.peak - rate.final) / 2 * (1 + std::cos(std::numbers::pi * done));
  return rate.peak + (rate.final - rate.peak) * done;
}

bool Schedule::sameRates(const Schedule &other) const {
  LearningRateRecipe a = rate, b = other.rate;
  if (a.kind == ScheduleKind::Constant)
    a.final = b.final = 0, a.total = b.total = std::nullopt;
  return a == b;
}

std::string Schedule::toString() const {
  std::string text = fmt::format("{}, peak {}", nameOf(rate.kind), rate.peak);
  if (rate.kind != ScheduleKind::Constant)
    text += fmt::format(", final {}", rate.final);
  text += fmt::format(", warm-up {}", rate.warmup);
  if (rate.decay)
    text += fmt::format(", decay {}", *rate.decay);
  if (rate.kind != ScheduleKind::Constant)
    text += fmt::format(", total {}", *rate.total);
  return text;
}

} // namespace cleave::rt
