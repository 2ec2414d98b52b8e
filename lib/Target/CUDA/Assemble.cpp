//===- Assemble.cpp - nvcc, ahead of time ----------------------------------===//

#include "cleave/Target/CUDA/Assemble.h"
#include "runtime/Base/Files.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Program.h"
#include <cstdlib>
#include <fmt/format.h>
#include <regex>

namespace cleave::cuda {

bool isArchitecture(const std::string &name) {
  static const std::regex pattern("sm_[1-9][0-9]{1,2}[af]?");
  return std::regex_match(name, pattern);
}

static rt::StatusOr<std::string> findNvcc() {
  llvm::SmallVector<std::string> folders;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *home = std::getenv(variable); home && *home)
      folders.push_back(std::string(home) + "/bin");
  folders.push_back("/usr/local/cuda/bin");
  const llvm::SmallVector<llvm::StringRef> there(folders.begin(), folders.end());
  if (auto path = llvm::sys::findProgramByName("nvcc"))
    return *path;
  if (auto path = llvm::sys::findProgramByName("nvcc", there))
    return *path;
  return rt::missingError("emit.cuda_compiler_missing", "nvcc was not found")
      .withRule("--arch compiles kernels ahead of time by nvcc on PATH, under CUDA_HOME or "
                "/usr/local/cuda")
      .suggest("leave --arch out: the binary then compiles them by NVRTC at its first start")
      .suggest("install a CUDA toolkit");
}

namespace {
/// A temporary file that goes with its scope.
struct Scratch {
  llvm::SmallString<128> path;
  std::unique_ptr<llvm::FileRemover> remover;

  rt::Status make(llvm::StringRef ending) {
    if (std::error_code error = llvm::sys::fs::createTemporaryFile("cleave", ending, path))
      return rt::systemError("file.write_failed", "cannot make a temporary file", error.value());
    remover = std::make_unique<llvm::FileRemover>(path);
    return rt::Status::success();
  }
};
} // namespace

rt::StatusOr<std::string> assemble(const std::string &text, const std::string &architecture) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string nvcc, findNvcc());
  Scratch source, code, log;
  CLEAVE_RT_RETURN_IF_ERROR(source.make("kernels.cu"));
  CLEAVE_RT_RETURN_IF_ERROR(code.make("kernels.cubin"));
  CLEAVE_RT_RETURN_IF_ERROR(log.make("nvcc.log"));
  CLEAVE_RT_RETURN_IF_ERROR(rt::writeFileAtomically(source.path.str().str(), text));
  const std::string arch = "-arch=" + architecture;
  const llvm::StringRef words[] = {nvcc, "-cubin",  "-std=c++17", arch,
                                   "-o", code.path, source.path};
  std::optional<llvm::StringRef> redirects[] = {std::nullopt, log.path.str(), log.path.str()};
  std::string message;
  const int result =
      llvm::sys::ExecuteAndWait(nvcc, words, std::nullopt, redirects, 0, 0, &message);
  if (result == 0)
    return rt::readWholeFile(code.path.str().str());
  const auto said = rt::readWholeFile(log.path.str().str());
  const std::string why = said.ok() ? said->substr(0, 2000) : message;
  if (why.find("gpu-architecture") != std::string::npos)
    return rt::missingError("emit.architecture_unsupported",
                            fmt::format("{} has no code for {}", nvcc, architecture))
        .withGiven("--arch " + architecture)
        .withRule("nvcc --list-gpu-code names the architecture")
        .suggest("--arch sm_90");
  return rt::Error(rt::internalError(fmt::format("nvcc refuses the text of the kernels: {}", why)));
}

} // namespace cleave::cuda
