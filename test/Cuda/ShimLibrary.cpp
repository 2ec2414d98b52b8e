//===- ShimLibrary.cpp - CUDA text as a library of the CPU ----------------===//

#include "ShimLibrary.h"
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <utility>

namespace cleave::test {

int runCommand(const std::string &command, std::string &output) {
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe)
    return -1;
  char part[4096];
  while (size_t count = fread(part, 1, sizeof part, pipe))
    output.append(part, count);
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

ScratchFolder::ScratchFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "cleave-cuda-XXXXXX").string();
  path = mkdtemp(pattern.data()) ? pattern : "";
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path.empty())
    std::filesystem::remove_all(path, ignored);
}

// Every access is a call of the shim's, variables lie apart (which GCC alone does), and
// undefined behaviour ends the test.
static constexpr const char *kFlags =
    " -x c++ -std=c++17 -O1 -fno-strict-aliasing -fwrapv -fPIC -shared -fvisibility=hidden "
    "-Wno-unknown-pragmas -DSIMT_CHECKED -fsanitize=kernel-address " CLEAVE_TEST_CXX_FLAGS;

ShimLibrary::ShimLibrary(const std::string &text, const std::vector<std::string> &kernels) {
  ScratchFolder folder;
  std::string source = "#include \"" CLEAVE_TEST_SIMT "\"\n" + text;
  for (const std::string &kernel : kernels)
    source += "SIMT_KERNEL(" + kernel + ")\n";
  std::ofstream(folder.file("kernels.cpp")) << source;
  std::string output, file = folder.file("kernels.so");
  int status = runCommand(std::string(CLEAVE_TEST_CXX) + kFlags + " -o " + file + " " +
                              folder.file("kernels.cpp"),
                          output);
  if (status == 0)
    library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    ADD_FAILURE() << "the text does not compile: " << output.substr(0, 4000);
}

ShimLibrary::ShimLibrary(ShimLibrary &&other) noexcept
    : library(std::exchange(other.library, nullptr)) {}

ShimLibrary &ShimLibrary::operator=(ShimLibrary &&other) noexcept {
  std::swap(library, other.library);
  return *this;
}

ShimLibrary::~ShimLibrary() {
  if (library)
    dlclose(library);
}

std::string ShimLibrary::launch(const std::string &kernel, const std::vector<Given> &args,
                                const Grid &grid) const {
  auto function = reinterpret_cast<const char *(*)(void *const *, const long long *, long long, int,
                                                   long long, unsigned)>(
      dlsym(library, ("simt_launch_" + kernel).c_str()));
  if (!function)
    return "is not in the text";
  std::vector<void *> pointers;
  std::vector<long long> bytes;
  for (const Given &arg : args) {
    pointers.push_back(arg.data);
    bytes.push_back(arg.bytes);
  }
  return function(pointers.data(), bytes.data(), grid.blocks, grid.threads, grid.sharedBytes,
                  grid.seed);
}

} // namespace cleave::test
