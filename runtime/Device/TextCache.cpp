// A file for each source and target.
#include "runtime/Device/TextCache.h"

#include "runtime/Base/Files.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <span>

namespace cleave::rt {

/// Empty where there is none.
static std::string cacheFolder() {
  auto variable = [](const char *name) -> std::string {
    const char *value = std::getenv(name);
    return value ? value : "";
  };
  if (const std::string own = variable("CLEAVE_CACHE"); !own.empty())
    return own;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/cleave";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/cleave";
}

StatusOr<std::string> compiledOnce(const std::string &target, const std::string &source,
                                   FunctionRef<StatusOr<std::string>()> make) {
  const std::string folder = cacheFolder();
  if (folder.empty() || !createFolders(folder).ok())
    return make();
  const std::string name = fmt::format("{}/{}-{:08x}-{}", folder, target,
                                       crc32c(std::as_bytes(std::span(source))), source.size());
  // Both in one file, so that neither is of another one.
  const auto kept =
      std::filesystem::exists(name) ? readWholeFile(name) : StatusOr<std::string>(std::string());
  if (kept.ok() && kept->starts_with(source))
    return kept->substr(source.size());
  CLEAVE_RT_ASSIGN_OR_RETURN(std::string made, make());
  (void)writeFileAtomically(name, source + made).ok();
  return made;
}

} // namespace cleave::rt
