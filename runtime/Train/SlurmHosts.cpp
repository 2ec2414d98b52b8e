// One walk over the first name.
#include "runtime/Train/SlurmHosts.h"

#include <algorithm>
#include <cctype>

namespace cleave::rt {

std::optional<std::string> firstSlurmHost(std::string_view list) {
  const auto isNumber = [](std::string_view text) {
    return !text.empty() &&
           std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  };
  std::string host;
  while (!list.empty() && list.front() != ',') {
    if (list.front() != '[') {
      const auto c = static_cast<unsigned char>(list.front());
      if (!std::isalnum(c) && c != '-' && c != '.' && c != '_')
        return std::nullopt;
      host += list.front();
      list.remove_prefix(1);
      continue;
    }
    const size_t end = list.find(']');
    if (end == std::string_view::npos)
      return std::nullopt;
    const std::string_view inside = list.substr(1, end - 1);
    const std::string_view first = inside.substr(0, inside.find_first_of("-,"));
    if (!isNumber(first))
      return std::nullopt;
    host += first;
    list.remove_prefix(end + 1);
  }
  if (host.empty())
    return std::nullopt;
  return host;
}

} // namespace cleave::rt
