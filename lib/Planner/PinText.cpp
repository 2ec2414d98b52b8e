//===- PinText.cpp - A layout as pins that find it again ---------------------===//

#include "cleave/Planner/Search.h"
#include "lib/Planner/SearchSpace.h"
#include "llvm/ADT/StringExtras.h"

namespace cleave {

/// Whether a field of `c` has another value in some layout of these degrees, or a default that is
/// another: then it is said, neutral or not.
static bool isOpen(const SearchProblem &problem, const Choice &c, std::string_view field) {
  // What is left of the ranks is 1.
  if (field == "dp" || field == "tp" || field == "cp" || field == "pp")
    return false;
  // Schedules of one stage a rank take no other number.
  if (field == "vp")
    return false;
  if (field == "schedule")
    return c.pp > 1;
  if (field == "ep")
    return problem.limits.experts > 0 && c.dp * c.cp * c.tp > 1;
  if (field == "zero" || field == "overlap")
    return c.dp * c.cp > 1;
  if (field == "zero_group")
    return c.zero > 0 && c.ep == 1 && groupOfNode(problem, c) > 0;
  if (field == "sp" || field == "vocab")
    return c.tp > 1;
  if (field == "order") {
    SearchProblem open = problem;
    open.request.pins.order.reset();
    return SearchSpace(open).orders(c).size() > 1;
  }
  return true;
}

std::string pinTextOf(const SearchProblem &problem, const Choice &choice) {
  std::vector<std::string> parts;
  for (const ChoiceField &field : choiceFields()) {
    std::string text = field.text(choice);
    if (text == field.neutral && !isOpen(problem, choice, field.name))
      continue;
    // As a pin, all of the ranks that may share state are their number.
    if (field.name == "zero_group" && text == field.neutral)
      text = std::to_string(choice.dp * choice.cp);
    parts.push_back(std::string(field.name) + "=" + text);
  }
  const Pins &asked = problem.request.pins;
  if (asked.bucketMegabytes)
    parts.push_back("bucket=" + std::to_string(*asked.bucketMegabytes));
  for (const auto &[path, isNarrow] : asked.narrow)
    parts.push_back("precision." + path + (isNarrow ? "=bf16" : "=fp32"));
  return llvm::join(parts, ",");
}

} // namespace cleave
