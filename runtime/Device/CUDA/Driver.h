// The functions of NVIDIA's driver that we call, found in libcuda.so.1 when a program
// starts, so that nothing depends on it where it is not used. Types are those of the
// driver's C interface, which is stable: handles are pointers, a device an int, an address
// of a device 64 bits. A test compares them with cuda.h where a toolkit is.
#pragma once

#include "runtime/Base/Status.h"

#include <cstddef>
#include <cstdint>

namespace cleave::rt {

struct CudaDriver {
  using Code = int; // CUresult; 0: success
  using Device = int;
  using Address = unsigned long long;
  using Context = void *;
  using Stream = void *;
  using Module = void *;
  using Function = void *;

  // Of CUdevice_attribute and of flags.
  static constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;
  static constexpr int kConcurrentManagedAccess = 89;
  static constexpr unsigned kAttachGlobal = 1, kNonBlocking = 1;
  static constexpr Code kOutOfMemory = 2, kNoDevice = 100;

  Code (*init)(unsigned flags);
  Code (*deviceCount)(int *count);
  Code (*device)(Device *device, int ordinal);
  Code (*deviceName)(char *name, int length, Device device);
  Code (*attribute)(int *value, int attribute, Device device);
  Code (*retain)(Context *context, Device device);
  Code (*release)(Device device);
  Code (*setCurrent)(Context context);
  Code (*allocManaged)(Address *address, size_t bytes, unsigned flags);
  Code (*free)(Address address);
  Code (*createStream)(Stream *stream, unsigned flags);
  Code (*destroyStream)(Stream stream);
  Code (*synchronize)(Stream stream);
  Code (*memset)(Address at, unsigned char value, size_t count, Stream stream);
  Code (*memcpy)(Address to, Address from, size_t bytes, Stream stream);
  Code (*loadModule)(Module *module, const void *image);
  Code (*unloadModule)(Module module);
  Code (*function)(Function *function, Module module, const char *name);
  Code (*launch)(Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                 unsigned blockY, unsigned blockZ, unsigned sharedBytes, Stream stream,
                 void **parameters, void **extra);
  Code (*errorName)(Code code, const char **name);
  Code (*errorText)(Code code, const char **text);

  /// Opened and initialized, once for the process. `device.unavailable` (exit 3) names the
  /// library that is missing, or what the driver says.
  static StatusOr<const CudaDriver *> open();

  /// `device.failed`, with what the driver calls `code`; nothing for success.
  Status check(Code code, const char *what) const;
};

} // namespace cleave::rt
