//===- Sharings.cpp - Ways to share state in a group of layouts --------------===//

#include "lib/Planner/Sharings.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave {

/// `of` with the way of `way`.
static Choice withWay(Choice of, const Choice &way) {
  of.zero = way.zero;
  of.zeroGroup = way.zeroGroup;
  of.overlap = way.overlap;
  return of;
}

const Sharings::Ways &Sharings::waysOf(const Choice &group) {
  auto [it, fresh] = ways.try_emplace(
      Key{{group.dp, group.cp, group.tp, group.ep, group.vocabulary, dealsExpertsOverTensor(group)},
          group.order});
  Ways &found = it->second;
  if (!fresh)
    return found;
  space.waysToShare(group, [&](const Choice &choice) {
    found.all.push_back({choice, pricing.exchangesOf(choice)});
    const Way &way = found.all.back();
    std::optional<Way> &least = found.least[classOf(choice)];
    if (!least) {
      least = way;
      least->choice.zeroGroup = 0;
      return;
    }
    // Groups have no less memory than all, and stage 0 no less than stage 1.
    least->choice.zero = std::max(least->choice.zero, choice.zero);
    least->choice.overlap |= choice.overlap;
    for (auto [one, other] : llvm::zip(least->exchanges, way.exchanges))
      one.takeLeast(other);
  });
  return found;
}

Sharings::Classes Sharings::possible(const Choice &group) {
  const Ways &found = waysOf(group);
  Classes classes;
  for (size_t c = 0; c < kClasses; ++c)
    if (const std::optional<Way> &least = found.least[c])
      classes[c] =
          classes.any() || problem.memory <= 0 ||
          pricing.leastMemoryOfWay(withWay(group, least->choice)) <= problem.formulaLimit();
  return classes;
}

Pricing::Shares Sharings::leastShares(const Choice &group, Classes classes) {
  const Ways &found = waysOf(group);
  Pricing::Shares least;
  for (size_t c = 0; c < kClasses; ++c) {
    if (!classes[c])
      continue;
    const Way &way = *found.least[c];
    Pricing::Shares shares = pricing.sharesOf(withWay(group, way.choice), way.exchanges);
    if (least.empty())
      least = std::move(shares);
    else
      for (auto [one, other] : llvm::zip(least, shares))
        one.takeLeast(other);
  }
  return least;
}

double Sharings::boundOf(const Choice &choice) {
  const Way &way = *llvm::find_if(
      waysOf(choice).all, [&](const Way &w) { return withWay(choice, w.choice) == choice; });
  return pricing.pipelineBound(choice, pricing.sharesOf(choice, way.exchanges));
}

} // namespace cleave
