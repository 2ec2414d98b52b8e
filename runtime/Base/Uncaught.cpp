// The handler of std::terminate.
#include "runtime/Base/Uncaught.h"

#include <fmt/format.h>

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <new>
#include <string_view>
#include <system_error>

namespace cleave::rt {
namespace {

/// A handler of std::terminate is told nothing.
bool wantsJson = false;

[[noreturn]] void endUncaught() {
  // Telling may need what is missing.
  thread_local bool isTelling = false;
  if (isTelling)
    ::_exit(static_cast<int>(ExitCode::Run));
  isTelling = true;
  // The first one speaks for all, and ends them.
  static std::atomic<bool> isTold = false;
  while (isTold.exchange(true))
    ::pause();
  const Error error = errorOf(std::current_exception(), "a thread");
  std::string text = wantsJson ? renderJson(error) : renderText(error, false);
  if (!text.ends_with('\n'))
    text += '\n';
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  ::_exit(static_cast<int>(error.exitCode));
}

} // namespace

Error errorOf(const std::exception_ptr &thrown, std::string_view who) {
  if (!thrown)
    return internalError(fmt::format("{} ended the process", who));
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc &) {
    return runError("runtime.out_of_memory", "there is no memory left")
        .withGiven("the machine's memory, or the limit of this process (ulimit -v, a container's)")
        .withRule("a run has the memory that --info predicts, and some for libraries")
        .suggest("a smaller micro-batch, more ranks on more machines, or a higher limit");
  } catch (const std::system_error &failure) {
    if (failure.code() != std::errc::resource_unavailable_try_again)
      return internalError(fmt::format("{} threw: {}", who, failure.what()));
    return missingError("runtime.no_threads", "the system refuses another thread")
        .withGiven("the ranks of this process, and --threads for each of them")
        .withRule("the process may have the threads that were asked for, and their stacks (ulimit "
                  "-u, ulimit -v, the pids of a container)")
        .suggest("--threads 1")
        .suggest("fewer ranks in a process, or a higher limit");
  } catch (const std::exception &failure) {
    return internalError(fmt::format("{} threw: {}", who, failure.what()));
  } catch (...) {
    return internalError(fmt::format("{} threw an unknown exception", who));
  }
}

void reportUncaught(int argc, const char *const *argv) {
  for (int i = 1; i < argc; ++i)
    wantsJson |= std::string_view(argv[i]) == "--json";
  std::set_terminate(endUncaught);
}

} // namespace cleave::rt
