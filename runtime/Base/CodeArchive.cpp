#include "runtime/Base/CodeArchive.h"

#include <fmt/format.h>

#include <charconv>

namespace cleave::rt {

void addCode(std::string &archive, std::string_view architecture, std::string_view code) {
  archive += fmt::format("{} {}\n", architecture, code.size());
  archive += code;
}

/// How well a device runs code of `architecture`; 0: not at all.
static int fitness(std::string_view architecture, int major, int minor) {
  if (!architecture.starts_with("sm_"))
    return 0;
  int number = 0;
  const char *const end = architecture.data() + architecture.size();
  const auto read = std::from_chars(architecture.data() + 3, end, number);
  const std::string_view rest(read.ptr, static_cast<size_t>(end - read.ptr));
  if (number / 10 != major || number % 10 > minor || (!rest.empty() && number % 10 != minor))
    return 0;
  return 1 + 2 * (number % 10) + (rest.empty() ? 0 : 1);
}

std::string_view codeFor(std::string_view archive, int major, int minor) {
  std::string_view best;
  int most = 0;
  while (!archive.empty()) {
    const size_t space = archive.find(' '), line = archive.find('\n');
    size_t size = 0;
    std::from_chars(archive.data() + space + 1, archive.data() + line, size);
    if (const int fits = fitness(archive.substr(0, space), major, minor); fits > most) {
      most = fits;
      best = archive.substr(line + 1, size);
    }
    archive.remove_prefix(line + 1 + size);
  }
  return best;
}

} // namespace cleave::rt
