// Text to code.
#include "runtime/Device/CUDA/Nvrtc.h"

#include "runtime/Device/TextCache.h"

#include <fmt/format.h>

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

namespace cleave::rt {
namespace {

/// Of nvrtcResult.
constexpr Nvrtc::Code kInvalidOption = 5;

void *openLibrary() {
  std::vector<std::string> folders = {""};
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *home = std::getenv(variable); home && *home)
      folders.push_back(std::string(home) + "/lib64/");
  folders.emplace_back("/usr/local/cuda/lib64/");
  for (const std::string &folder : folders)
    for (const char *name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
      if (void *library = ::dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL))
        return library;
  return nullptr;
}

Error missing(const std::string &message) {
  return missingError("device.compiler_missing", message)
      .withRule("kernels are compiled for the device at the first start by libnvrtc.so, version 12 "
                "or 13, on LD_LIBRARY_PATH, under CUDA_HOME or /usr/local/cuda")
      .suggest("install a CUDA toolkit, or: pip install nvidia-cuda-nvrtc, with its lib folder on "
               "LD_LIBRARY_PATH");
}

StatusOr<Nvrtc> load() {
  void *const library = openLibrary();
  if (!library)
    return missing("NVIDIA's run-time compiler (NVRTC) is missing");
  Nvrtc nvrtc = {};
  const char *absent = nullptr;
  auto find = [&](auto &function, const char *name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (!function && !absent)
      absent = name;
  };
  find(nvrtc.version, "nvrtcVersion");
  find(nvrtc.create, "nvrtcCreateProgram");
  find(nvrtc.destroy, "nvrtcDestroyProgram");
  find(nvrtc.compile, "nvrtcCompileProgram");
  find(nvrtc.codeSize, "nvrtcGetCUBINSize");
  find(nvrtc.code, "nvrtcGetCUBIN");
  find(nvrtc.logSize, "nvrtcGetProgramLogSize");
  find(nvrtc.log, "nvrtcGetProgramLog");
  if (absent)
    return missing(fmt::format("the NVRTC here has no {}: it is too old", absent));
  return nvrtc;
}

/// A program that goes with its scope.
struct Compilation {
  const Nvrtc &nvrtc;
  Nvrtc::Program program = nullptr;

  explicit Compilation(const Nvrtc &nvrtc) : nvrtc(nvrtc) {}
  Compilation(const Compilation &) = delete;
  Compilation &operator=(const Compilation &) = delete;
  ~Compilation() {
    if (program)
      nvrtc.destroy(&program);
  }

  std::string log() const {
    size_t size = 0;
    if (nvrtc.logSize(program, &size) != 0)
      return "";
    std::string text(size, ' ');
    return nvrtc.log(program, text.data()) == 0 ? text : "";
  }
};

StatusOr<std::string> compiled(const Nvrtc &nvrtc, const std::string &text,
                               const std::string &architecture) {
  Compilation compilation(nvrtc);
  if (nvrtc.create(&compilation.program, text.c_str(), "kernels.cu", 0, nullptr, nullptr) != 0)
    return Error(internalError("NVRTC takes no text"));
  const std::string option = "--gpu-architecture=" + architecture;
  const char *const options[] = {option.c_str(), "--std=c++17"};
  const Nvrtc::Code code = nvrtc.compile(compilation.program, 2, options);
  int major = 0, minor = 0;
  (void)nvrtc.version(&major, &minor);
  if (code == kInvalidOption)
    return missingError("device.architecture_unsupported",
                        fmt::format("NVRTC {}.{} has no code for {}", major, minor, architecture))
        .withGiven(architecture)
        .withRule("the compiler knows the device's architecture")
        .suggest("a newer toolkit for newer devices, one of CUDA 12 for older ones than sm_75");
  if (code != 0)
    return Error(internalError(fmt::format("NVRTC refuses the text of the kernels: {}",
                                           compilation.log().substr(0, 2000))));
  size_t size = 0;
  std::string cubin;
  if (nvrtc.codeSize(compilation.program, &size) == 0) {
    cubin.resize(size);
    if (nvrtc.code(compilation.program, cubin.data()) == 0 && !cubin.empty())
      return cubin;
  }
  return Error(internalError("NVRTC gives no code for " + architecture));
}

} // namespace

StatusOr<const Nvrtc *> Nvrtc::open() {
  static const StatusOr<Nvrtc> nvrtc = load();
  if (!nvrtc.ok())
    return nvrtc.error();
  return &*nvrtc;
}

StatusOr<std::string> cubinOf(const std::string &text, const std::string &architecture) {
  return compiledOnce(architecture, text, [&]() -> StatusOr<std::string> {
    CLEAVE_RT_ASSIGN_OR_RETURN(const Nvrtc *nvrtc, Nvrtc::open());
    return compiled(*nvrtc, text, architecture);
  });
}

} // namespace cleave::rt
