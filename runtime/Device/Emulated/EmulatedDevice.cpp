// Text to a library, and the library to launches.
#include "runtime/Device/Emulated/EmulatedDevice.h"

#include "runtime/Base/MemoryFile.h"
#include "runtime/Device/Emulated/SimtText.h"
#include "runtime/Device/TextCache.h"

#include <fmt/format.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

extern char **environ;

namespace cleave::rt {
namespace {

namespace fs = std::filesystem;

constexpr const char *kCompilers[] = {"c++", "g++", "clang++", "clang++-22"};
/// Of a shim's launch: the error, empty if there is none.
using LaunchFunction = const char *(*)(void *const *args, const long long *bytes, long long blocks,
                                       int threads, long long sharedBytes, unsigned seed);

std::string sourceOf(std::string_view text, const std::vector<std::string> &kernels) {
  std::string source(simtText);
  source += text;
  for (const std::string &kernel : kernels)
    source += fmt::format("SIMT_KERNEL({})\n", kernel);
  return source;
}

/// The exit code of `words`, whose standard error goes to `log`; 127 if there is no such program.
int runProgram(std::vector<std::string> words, const std::string &log) {
  std::vector<char *> arguments;
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed)
    return 127;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/// A folder that goes with its files.
class ScratchFolder {
public:
  static StatusOr<ScratchFolder> make() {
    std::error_code ignored;
    std::string path = (fs::temp_directory_path(ignored) / "cleave-XXXXXX").string();
    if (!::mkdtemp(path.data()))
      return systemError("file.write_failed", "cannot make the folder '" + path + "'", errno);
    ScratchFolder folder;
    folder.path = path;
    return folder;
  }
  ScratchFolder() = default;
  ScratchFolder(ScratchFolder &&other) noexcept : path(std::exchange(other.path, "")) {}
  ScratchFolder &operator=(ScratchFolder &&other) noexcept {
    std::swap(path, other.path);
    return *this;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path.empty())
      fs::remove_all(path, ignored);
  }
  std::string file(const char *name) const { return path + "/" + name; }

private:
  std::string path;
};

StatusOr<std::string> compiled(const std::string &source) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const ScratchFolder folder, ScratchFolder::make());
  const std::string text = folder.file("kernels.cpp"), library = folder.file("kernels.so");
  const std::string log = folder.file("log");
  CLEAVE_RT_RETURN_IF_ERROR(writeFileAtomically(text, source));
  for (const char *compiler : kCompilers) {
    const int code =
        runProgram({compiler, "-x", "c++", "-std=c++17", "-O1", "-ffp-contract=on",
                    "-fno-strict-aliasing", "-fwrapv", "-fPIC", "-shared", "-fvisibility=hidden",
                    "-Wno-unknown-pragmas", "-o", library, text},
                   log);
    if (code == 127)
      continue;
    if (code == 0)
      return readWholeFile(library);
    const StatusOr<std::string> said = readWholeFile(log);
    return internalError(fmt::format("{} refuses the text of the kernels: {}", compiler,
                                     said.ok() ? said->substr(0, 2000) : ""));
  }
  return missingError("device.compiler_missing", "no C++ compiler was found")
      .withRule("the emulated device compiles the kernels' text with c++, g++ or clang++ on PATH")
      .suggest("apt-get install g++");
}

/// All is done as soon as it is started.
class EmulatedRank : public RankDevice {
public:
  EmulatedRank(MemoryFile file, void *library, uint32_t seed)
      : file(std::move(file)), library(library), seed(seed) {}
  EmulatedRank(const EmulatedRank &) = delete;
  EmulatedRank &operator=(const EmulatedRank &) = delete;
  ~EmulatedRank() override { ::dlclose(library); }

  StatusOr<DeviceBytes> allocate(int64_t bytes, const std::string &what) override {
    return DeviceBytes::ofSystem(bytes, what);
  }

  StatusOr<Work> prepare(GridLaunch launch) override {
    const auto function = reinterpret_cast<LaunchFunction>(
        ::dlsym(library, ("simt_launch_" + launch.kernel).c_str()));
    if (!function)
      return Error(internalError("no kernel is called '" + launch.kernel + "'"));
    return Work([this, function, launch = std::move(launch)]() -> Status {
      const std::string error =
          function(launch.args.data(), launch.bytes.empty() ? nullptr : launch.bytes.data(),
                   launch.blocks, static_cast<int>(launch.threads), launch.sharedBytes, ++seed);
      if (error.empty())
        return {};
      return runError(
                 "device.kernel_failed",
                 fmt::format("kernel {} failed on the emulated device: {}", launch.kernel, error))
          .withGiven(fmt::format("{} blocks of {} threads", launch.blocks, launch.threads))
          .withRule("every block of a kernel comes to its end");
    });
  }

  Work zero(std::byte *at, int64_t bytes) override {
    return [=] {
      std::memset(at, 0, static_cast<size_t>(bytes));
      return Status();
    };
  }
  Work copy(std::byte *to, const std::byte *from, int64_t bytes) override {
    return [=] {
      std::memcpy(to, from, static_cast<size_t>(bytes));
      return Status();
    };
  }
  Status finish() override { return {}; }

private:
  /// Open as long as the library is there: a path names one library.
  MemoryFile file;
  void *library;
  uint32_t seed;
};

} // namespace

StatusOr<std::unique_ptr<EmulatedDevice>>
EmulatedDevice::create(std::string_view text, const std::vector<std::string> &kernels) {
  auto device = std::make_unique<EmulatedDevice>();
  const std::string source = sourceOf(text, kernels);
  CLEAVE_RT_ASSIGN_OR_RETURN(device->library,
                             compiledOnce("emulated", source, [&] { return compiled(source); }));
  return device;
}

StatusOr<std::unique_ptr<RankDevice>> EmulatedDevice::onRank(int64_t rank, int64_t /*place*/) {
  // A file of its own, since one that is loaded already would be the same library.
  CLEAVE_RT_ASSIGN_OR_RETURN(MemoryFile file, MemoryFile::of("cleave-kernels", library));
  void *const loaded = ::dlopen(file.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!loaded)
    return Error(internalError(fmt::format("compiled kernels cannot be loaded: {}", ::dlerror())));
  return std::unique_ptr<RankDevice>(
      new EmulatedRank(std::move(file), loaded, static_cast<uint32_t>(rank) << 16));
}

} // namespace cleave::rt
