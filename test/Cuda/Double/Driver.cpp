// NVIDIA's driver as a stand-in, in front of the emulated device. It is as strict as the real one
// where a program could forget something: what is started is done when its stream is waited for,
// not before, memory begins with garbage, and a thread without a context gets nothing.
//
//   CLEAVE_DOUBLE_DEVICES=N     so many devices (default 2)
//   CLEAVE_DOUBLE_CAPABILITY=CC as 90
//   CLEAVE_DOUBLE_FAULT=NAME:CODE[:CALLS]  the function fails, from the call with this number on
#include "runtime/Device/Emulated/EmulatedDevice.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <regex>

#define DOUBLE extern "C" __attribute__((visibility("default")))

using namespace cleave::rt;

namespace {

using Code = int;
using Address = unsigned long long;
constexpr Code kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kNoContext = 201,
               kInvalidImage = 200, kNotFound = 500, kLaunchFailed = 719;

/// A device's context; a thread has one at most.
struct Context {
  int users = 0;
};
thread_local Context *current = nullptr;

struct Stream {
  std::deque<RankDevice::Work> started;
};

struct Module;

struct Function {
  Module *module = nullptr;
  std::string name;
  size_t parameters = 0;
};

struct Module {
  std::unique_ptr<EmulatedDevice> device;
  std::unique_ptr<RankDevice> rank;
  std::map<std::string, Function> functions;
};

long numberOf(const char *variable, long otherwise) {
  const char *text = std::getenv(variable);
  return text && *text ? std::atol(text) : otherwise;
}

int devices() { return static_cast<int>(numberOf("CLEAVE_DOUBLE_DEVICES", 2)); }

/// Ends the program where `text` asks for a fault of a function that is not here: a test whose
/// fault has another name could not fail.
void checkFault(const char *text) {
  Dl_info self = {};
  ::dladdr(reinterpret_cast<void *>(&checkFault), &self);
  void *const library = ::dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  const std::string name(text, std::strcspn(text, ":"));
  if (!library || !::dlsym(library, name.c_str())) {
    std::fprintf(stderr, "CLEAVE_DOUBLE_FAULT=%s: the stand-in has no %s\n", text, name.c_str());
    std::abort();
  }
  ::dlclose(library);
}

/// The code of the fault that is asked for in the function, if it is its turn.
Code fault(const char *function) {
  static std::atomic<long> calls = 0;
  const char *text = std::getenv("CLEAVE_DOUBLE_FAULT");
  if (!text)
    return kSuccess;
  checkFault(text);
  const size_t length = std::strlen(function);
  if (std::strncmp(text, function, length) != 0 || text[length] != ':')
    return kSuccess;
  char *end = nullptr;
  const long code = std::strtol(text + length + 1, &end, 10);
  const long first = *end == ':' ? std::atol(end + 1) : 1;
  return ++calls >= first ? static_cast<Code>(code) : kSuccess;
}

#define RETURN_IF_FAULT(needsContext)                                                              \
  if (const Code code = fault(__func__))                                                           \
    return code;                                                                                   \
  if (needsContext && !current)                                                                    \
  return kNoContext

Context *contextOf(int device) {
  static Context all[64];
  return &all[device];
}

/// Kernels of a text by name, with their numbers of parameters.
std::map<std::string, size_t> kernelsOf(const std::string &text) {
  static const std::regex kernel(
      R"(__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\s*\(([^)]*)\))");
  std::map<std::string, size_t> found;
  for (std::sregex_iterator it(text.begin(), text.end(), kernel), end; it != end; ++it) {
    const std::string parameters = (*it)[2];
    found[(*it)[1]] =
        static_cast<size_t>(std::count(parameters.begin(), parameters.end(), ',')) + 1;
  }
  return found;
}

std::mutex lock;

} // namespace

DOUBLE Code cuInit(unsigned flags) {
  RETURN_IF_FAULT(false);
  return flags != 0 ? kInvalidValue : devices() == 0 ? kNoDevice : kSuccess;
}

DOUBLE Code cuDeviceGetCount(int *count) {
  RETURN_IF_FAULT(false);
  *count = devices();
  return kSuccess;
}

DOUBLE Code cuDeviceGet(int *device, int ordinal) {
  RETURN_IF_FAULT(false);
  *device = ordinal;
  return ordinal < devices() ? kSuccess : kInvalidValue;
}

DOUBLE Code cuDeviceGetName(char *name, int length, int) {
  RETURN_IF_FAULT(false);
  std::strncpy(name, "Stand-in", static_cast<size_t>(length));
  return kSuccess;
}

DOUBLE Code cuDeviceGetAttribute(int *value, int attribute, int) {
  RETURN_IF_FAULT(false);
  const long capability = numberOf("CLEAVE_DOUBLE_CAPABILITY", 90);
  const std::map<int, long> known = {
      {16, 4}, {75, capability / 10}, {76, capability % 10}, {89, 1}};
  const auto it = known.find(attribute);
  if (it == known.end())
    return kInvalidValue;
  *value = static_cast<int>(it->second);
  return kSuccess;
}

DOUBLE Code cuDevicePrimaryCtxRetain(Context **context, int device) {
  RETURN_IF_FAULT(false);
  const std::lock_guard<std::mutex> guard(lock);
  *context = contextOf(device);
  ++(*context)->users;
  return kSuccess;
}

DOUBLE Code cuDevicePrimaryCtxRelease_v2(int device) {
  RETURN_IF_FAULT(false);
  const std::lock_guard<std::mutex> guard(lock);
  return contextOf(device)->users-- > 0 ? kSuccess : kInvalidValue;
}

DOUBLE Code cuCtxSetCurrent(Context *context) {
  RETURN_IF_FAULT(false);
  current = context;
  return kSuccess;
}

DOUBLE Code cuMemAllocManaged(Address *address, size_t bytes, unsigned flags) {
  RETURN_IF_FAULT(true);
  if (bytes == 0 || flags != 1)
    return kInvalidValue;
  void *const made = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!made)
    return kOutOfMemory;
  std::memset(made, 0xff, bytes);
  *address = reinterpret_cast<Address>(made);
  return kSuccess;
}

DOUBLE Code cuMemFree_v2(Address address) {
  RETURN_IF_FAULT(true);
  std::free(reinterpret_cast<void *>(address));
  return kSuccess;
}

DOUBLE Code cuStreamCreate(Stream **stream, unsigned flags) {
  RETURN_IF_FAULT(true);
  *stream = new Stream;
  return flags <= 1 ? kSuccess : kInvalidValue;
}

DOUBLE Code cuStreamDestroy_v2(Stream *stream) {
  RETURN_IF_FAULT(true);
  delete stream;
  return kSuccess;
}

DOUBLE Code cuStreamSynchronize(Stream *stream) {
  RETURN_IF_FAULT(true);
  for (; !stream->started.empty(); stream->started.pop_front())
    if (!stream->started.front()().ok()) {
      stream->started.clear();
      return kLaunchFailed;
    }
  return kSuccess;
}

DOUBLE Code cuMemsetD8Async(Address at, unsigned char value, size_t count, Stream *stream) {
  RETURN_IF_FAULT(true);
  stream->started.emplace_back([=] {
    std::memset(reinterpret_cast<void *>(at), value, count);
    return Status();
  });
  return kSuccess;
}

DOUBLE Code cuMemcpyAsync(Address to, Address from, size_t bytes, Stream *stream) {
  RETURN_IF_FAULT(true);
  stream->started.emplace_back([=] {
    std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
    return Status();
  });
  return kSuccess;
}

DOUBLE Code cuModuleLoadData(Module **module, const void *image) {
  RETURN_IF_FAULT(true);
  const std::string text = static_cast<const char *>(image);
  const std::map<std::string, size_t> kernels = kernelsOf(text);
  std::vector<std::string> names;
  for (const auto &[name, parameters] : kernels)
    names.push_back(name);
  const std::lock_guard<std::mutex> guard(lock);
  static int64_t loaded = 0;
  auto made = std::make_unique<Module>();
  StatusOr<std::unique_ptr<EmulatedDevice>> device = EmulatedDevice::create(text, names);
  if (!device.ok())
    return kInvalidImage;
  made->device = std::move(*device);
  StatusOr<std::unique_ptr<RankDevice>> rank = made->device->onRank(++loaded, 0);
  if (!rank.ok())
    return kInvalidImage;
  made->rank = std::move(*rank);
  for (const auto &[name, parameters] : kernels)
    made->functions[name] = {made.get(), name, parameters};
  *module = made.release();
  return kSuccess;
}

DOUBLE Code cuModuleUnload(Module *module) {
  RETURN_IF_FAULT(true);
  delete module;
  return kSuccess;
}

DOUBLE Code cuModuleGetFunction(Function **function, Module *module, const char *name) {
  RETURN_IF_FAULT(true);
  const auto it = module->functions.find(name);
  if (it == module->functions.end())
    return kNotFound;
  *function = &it->second;
  return kSuccess;
}

DOUBLE Code cuLaunchKernel(Function *function, unsigned gridX, unsigned gridY, unsigned gridZ,
                           unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                           Stream *stream, void **parameters, void **) {
  RETURN_IF_FAULT(true);
  if (gridX == 0 || gridY != 1 || gridZ != 1 || blockX == 0 || blockX > 1024 || blockY != 1 ||
      blockZ != 1)
    return kInvalidValue;
  // Parameters are read now, what they point to when the kernel runs.
  GridLaunch launch{function->name, gridX, blockX, {}, {}, sharedBytes};
  for (size_t i = 0; i < function->parameters; ++i)
    launch.args.push_back(*static_cast<void **>(parameters[i]));
  StatusOr<RankDevice::Work> work = function->module->rank->prepare(std::move(launch));
  if (!work.ok())
    return kNotFound;
  stream->started.push_back(std::move(*work));
  return kSuccess;
}

DOUBLE Code cuGetErrorName(Code code, const char **name) {
  *name = code == kLaunchFailed ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_OF_THE_STAND_IN";
  return kSuccess;
}

DOUBLE Code cuGetErrorString(Code, const char **text) {
  *text = "the stand-in refuses";
  return kSuccess;
}
