//===- ShimLibrary.h - CUDA text as a library of the CPU --------*- C++ -*-===//
//
// Compiles CUDA text with the SIMT shim into a library, which looks at every access
// to memory, for undefined behaviour too, and launches its kernels.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cleave::test {

/// Runs a command of the shell; its exit code, and both outputs in `output`.
int runCommand(const std::string &command, std::string &output);

/// A folder that goes with its owner.
class ScratchFolder {
public:
  ScratchFolder();
  ~ScratchFolder();
  std::string file(const std::string &name) const { return path + "/" + name; }

private:
  std::string path;
};

/// Memory that a kernel is given.
struct Given {
  void *data = nullptr;
  long long bytes = 0;
  template <class T> Given(std::vector<T> &all) : data(all.data()), bytes(all.size() * sizeof(T)) {}
  Given(void *data, long long bytes) : data(data), bytes(bytes) {}
};

class ShimLibrary {
public:
  struct Grid {
    int64_t blocks = 1;
    int threads = 1;
    unsigned seed = 1;
    int64_t sharedBytes = 0;
  };

  ShimLibrary() = default;
  /// A test failure and !ok() if the text does not compile.
  ShimLibrary(const std::string &text, const std::vector<std::string> &kernels);
  ShimLibrary(ShimLibrary &&other) noexcept;
  ShimLibrary &operator=(ShimLibrary &&other) noexcept;
  ~ShimLibrary();

  bool ok() const { return library != nullptr; }
  /// The error of a launch, empty if there is none.
  std::string launch(const std::string &kernel, const std::vector<Given> &args,
                     const Grid &grid) const;

private:
  void *library = nullptr;
};

} // namespace cleave::test
