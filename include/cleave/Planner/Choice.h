//===- Choice.h - One layout, as pins can say it -----------------------------===//
//
// What the search decides about a step, in full: each field has the name and the
// values of a pin. A request leaves some fields open; a choice leaves none. Names
// and texts of fields are in one table, from which pins, bans, reports and
// differences are made.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/AxisOrder.h"
#include "cleave/Planner/Planner.h"
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace cleave {

struct Choice {
  int64_t dp = 1, tp = 1, cp = 1, pp = 1, vp = 1, ep = 1;
  /// As `Schedule::name`; "1f1b" without a pipeline.
  std::string_view schedule = "1f1b";
  int64_t zero = 0;
  /// Ranks that share state; 0: all of data × context.
  int64_t zeroGroup = 0;
  bool sequence = false, vocabulary = true;
  Recompute recompute = Recompute::None;
  bool overlap = false;
  int64_t microBatch = 1;
  /// The least of those that stand the ranks alike.
  cost::AxisOrder order = {};

  /// In an order in which the simpler one comes first, as far as there is such an order.
  auto operator<=>(const Choice &) const = default;
  bool operator==(const Choice &) const = default;

  cost::AxisSizes axisSizes() const { return {tp, cp, dp, pp}; }
};

/// An axis of a choice's mesh: by its name in plans, and how far apart its ranks are.
struct PlacedAxis {
  std::string_view name;
  int64_t size = 1, stride = 1;
};
/// From the inside out.
std::vector<PlacedAxis> placedAxes(const Choice &choice);

/// A field of a choice.
struct ChoiceField {
  /// As a pin.
  std::string_view name;
  std::string (*text)(const Choice &);
  /// What it is where it is not used.
  std::string_view neutral;
};
const std::vector<ChoiceField> &choiceFields();

/// `dp=2,tp=4,…`, fields that are neutral left out; "one rank" where all are.
std::string textOf(const Choice &choice);
/// Pins that leave nothing open.
Pins pinsOf(const Choice &choice);
/// The choice of a plan, as far as pins can say it.
Choice choiceOf(plan::SolutionOp solution);

/// Choices that are left out: a field with this value, or with any but its neutral one.
struct Ban {
  std::string field;
  std::optional<std::string> value;
};
/// Reads `tp=8,zero=3,cp`. Errors as of `parsePins`: `plan.unknown_pin`, `plan.bad_pin`.
rt::StatusOr<std::vector<Ban>> parseBans(llvm::StringRef text);
bool isBanned(const Choice &choice, const std::vector<Ban> &bans);
/// Whether `choice` is one that `pins` leave.
bool satisfies(const Choice &choice, const Pins &pins);

} // namespace cleave
