// A list of mappings, which a signal handler may walk at any moment.
#include "runtime/Base/LostPages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

namespace cleave::rt {

/// Never freed, since the handler may stand on it, but used again.
struct LostPages::Entry {
  std::atomic<uintptr_t> start = 0;
  /// None while nobody uses the entry.
  std::atomic<size_t> length = 0;
  std::atomic<bool> isLost = false;
  Entry *next = nullptr;
};

/// All of the process's mappings.
struct BusErrors {
  static inline std::atomic<LostPages::Entry *> entries = nullptr;
  static inline std::mutex changes;
  static inline struct sigaction before = {};
  static inline uintptr_t pageSize = 0;

  static LostPages::Entry *add(uintptr_t start, size_t length) {
    const std::lock_guard<std::mutex> lock(changes);
    if (pageSize == 0) {
      pageSize = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
      struct sigaction action = {};
      action.sa_sigaction = handle;
      action.sa_flags = SA_SIGINFO;
      sigemptyset(&action.sa_mask);
      ::sigaction(SIGBUS, &action, &before);
    }
    LostPages::Entry *entry = entries.load();
    while (entry && entry->length.load() != 0)
      entry = entry->next;
    const bool isNew = !entry;
    if (isNew)
      entry = new LostPages::Entry;
    entry->isLost.store(false);
    entry->start.store(start);
    entry->length.store(length);
    if (isNew) {
      entry->next = entries.load();
      entries.store(entry);
    }
    return entry;
  }

  static void handle(int number, siginfo_t *info, void *) {
    const int keptErrno = errno;
    const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    for (LostPages::Entry *entry = entries.load(); entry; entry = entry->next) {
      const uintptr_t start = entry->start.load();
      const size_t length = entry->length.load();
      if (address < start || address - start >= length)
        continue;
      entry->isLost.store(true);
      // All that follows too: who reads on would come back here with each page.
      const uintptr_t page = address / pageSize * pageSize;
      void *place = ::mmap(reinterpret_cast<void *>(page), start + length - page, PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
      errno = keptErrno;
      if (place != MAP_FAILED)
        return;
      break;
    }
    // The instruction is executed again, and does what it did without us; as does a signal
    // that somebody sent.
    ::sigaction(SIGBUS, &before, nullptr);
    if (info->si_code <= 0)
      ::raise(number);
    errno = keptErrno;
  }
};

LostPages::LostPages(const void *mapping, size_t length)
    : entry(BusErrors::add(reinterpret_cast<uintptr_t>(mapping), length)) {}

LostPages::~LostPages() {
  if (entry)
    entry->length.store(0);
}

bool LostPages::found() const { return entry && entry->isLost.load(); }

} // namespace cleave::rt
