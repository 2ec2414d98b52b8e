// Restricted Damerau-Levenshtein distance over three rolling rows.
#include "runtime/Base/Suggest.h"

#include <algorithm>
#include <vector>

namespace cleave::rt {

static char folded(char c) {
  if (c >= 'A' && c <= 'Z')
    return static_cast<char>(c - 'A' + 'a');
  return c == '-' ? '_' : c;
}

unsigned editDistance(std::string_view a, std::string_view b) {
  std::vector<unsigned> twoAgo(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    previous[j] = static_cast<unsigned>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<unsigned>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = folded(a[i - 1]) == folded(b[j - 1]);
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (same ? 0u : 1u)});
      const bool swapped = i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
                           folded(a[i - 2]) == folded(b[j - 1]);
      if (swapped)
        row[j] = std::min(row[j], twoAgo[j - 2] + 1);
    }
    std::swap(twoAgo, previous);
    std::swap(previous, row);
  }
  return previous[b.size()];
}

std::optional<std::string> nearestName(std::string_view given, std::span<const std::string> known) {
  // A name of this length or more cannot be a slip of the pen, and the distance
  // is quadratic in it.
  constexpr size_t longestName = 256;
  if (given.size() > longestName)
    return std::nullopt;
  if (given.size() > 1)
    for (const std::string &name : known)
      if (name.size() > given.size() &&
          std::equal(given.begin(), given.end(), name.begin(),
                     [](char a, char b) { return folded(a) == folded(b); }))
        return name;
  const unsigned limit = std::max<unsigned>(1, static_cast<unsigned>(given.size()) / 2);
  const std::string *best = nullptr;
  unsigned bestDistance = limit + 1;
  for (const std::string &name : known) {
    const unsigned distance = editDistance(given, name);
    if (distance < bestDistance) {
      best = &name;
      bestDistance = distance;
    }
  }
  if (!best)
    return std::nullopt;
  return *best;
}

} // namespace cleave::rt
