// "Did you mean": the known name nearest to a misspelt one. Used wherever a
// name of the user's is refused; knows nothing of what the names mean.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cleave::rt {

/// Edits (insert, delete, replace, swap of neighbours) between two names.
/// Upper and lower case, and '-' and '_', count as equal.
unsigned editDistance(std::string_view a, std::string_view b);

/// The first name in `known` that begins with `given`, if that has two letters or more; else the
/// one with the fewest edits from it, the first one among
/// equals. Nothing when even that needs more than half of `given`'s length, so
/// that no far-fetched name is offered.
std::optional<std::string> nearestName(std::string_view given, std::span<const std::string> known);

} // namespace cleave::rt
