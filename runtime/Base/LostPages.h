// Pages of a mapped file that the file has no more: somebody cut it, or its device failed.
// Touching one is a bus error, which would end the process without a word.
#pragma once

#include <cstddef>
#include <utility>

namespace cleave::rt {

/// While it lives, a bus error inside of the mapping puts zeros there instead of ending the
/// process, and is remembered; who reads looks at `found` behind what was read. Bus errors of
/// other memory do what they did before.
class LostPages {
public:
  LostPages() = default;
  LostPages(const void *mapping, size_t length);
  LostPages(LostPages &&other) noexcept : entry(std::exchange(other.entry, nullptr)) {}
  LostPages &operator=(LostPages &&other) noexcept {
    std::swap(entry, other.entry);
    return *this;
  }
  ~LostPages();

  /// Something was read that is not in the file.
  bool found() const;

private:
  struct Entry;
  Entry *entry = nullptr;
  friend struct BusErrors;
};

} // namespace cleave::rt
