// NVIDIA's run-time compiler: CUDA text to the code of one architecture. Found when it is
// needed; a device is not.
#pragma once

#include "runtime/Base/Status.h"

#include <string>

namespace cleave::rt {

struct Nvrtc {
  using Code = int; // nvrtcResult; 0: success
  using Program = void *;

  Code (*version)(int *major, int *minor);
  Code (*create)(Program *program, const char *source, const char *name, int headers,
                 const char *const *texts, const char *const *names);
  Code (*destroy)(Program *program);
  Code (*compile)(Program program, int options, const char *const *texts);
  Code (*codeSize)(Program program, size_t *size);
  Code (*code)(Program program, char *code);
  Code (*logSize)(Program program, size_t *size);
  Code (*log)(Program program, char *log);

  /// Opened once for the process. `device.compiler_missing` (exit 3) where there is none.
  static StatusOr<const Nvrtc *> open();
};

/// The code of `text` for `architecture` ("sm_90"): compiled, or from the cache. Kinds: those of
/// Nvrtc::open; `device.architecture_unsupported` (exit 3) where this NVRTC has no code for it; an
/// internal error where it refuses the text.
StatusOr<std::string> cubinOf(const std::string &text, const std::string &architecture);

} // namespace cleave::rt
