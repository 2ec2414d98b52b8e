//===- Ranks.h - Published layouts among all that there were ----------------===//
//
// Known answers for the search: for each published step, what else its software could
// have done on its machine with its batch, where the published layout stands among all
// of these by the cost model, and what the search would have chosen.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Base/Status.h"
#include <string>
#include <utility>
#include <vector>

namespace cleave::validate {

/// A layout with its predicted step, by part, and memory.
struct RankedLayout {
  std::string text;
  double seconds = 0, bytes = 0;
  std::vector<std::pair<std::string, double>> parts;
};

struct Ranked {
  std::string id, source, group, what;
  RankedLayout published;
  /// The measured step, seconds, and the bytes that a rank may use.
  double measured = 0, usable = 0;
  /// Empty where nothing fits.
  RankedLayout best;
  /// Layouts that were looked at and fit, those of them that are predicted to be faster than the
  /// published one, and all layouts.
  int64_t feasible = 0, faster = 0, space = 0;
};

/// Ranks the rows of a table of steps that can be predicted and whose `id` contains one of `ids`
/// (empty: all). Errors: those of `validateRows`.
rt::StatusOr<std::vector<Ranked>> rankRows(const std::string &path, const std::string &share,
                                           const std::vector<std::string> &ids);

} // namespace cleave::validate
