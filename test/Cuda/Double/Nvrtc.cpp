// NVRTC as a stand-in: its code is the text, which the stand-in of the driver compiles. With
// CLEAVE_DOUBLE_NVRTC set it knows no architecture.
#include <cstdlib>
#include <cstring>
#include <string>

#define DOUBLE extern "C" __attribute__((visibility("default")))

namespace {
struct Program {
  std::string text, log;
};
constexpr int kSuccess = 0, kInvalidOption = 5, kCompilation = 6;
} // namespace

DOUBLE int nvrtcVersion(int *major, int *minor) {
  *major = 13;
  *minor = 0;
  return kSuccess;
}

DOUBLE int nvrtcCreateProgram(Program **program, const char *text, const char *, int,
                              const char *const *, const char *const *) {
  *program = new Program{text, ""};
  return kSuccess;
}

DOUBLE int nvrtcDestroyProgram(Program **program) {
  delete *program;
  *program = nullptr;
  return kSuccess;
}

DOUBLE int nvrtcCompileProgram(Program *program, int options, const char *const *texts) {
  for (int i = 0; i < options; ++i)
    if (std::strstr(texts[i], "sm_10") || std::getenv("CLEAVE_DOUBLE_NVRTC"))
      return kInvalidOption;
  if (program->text.find("__global__") != std::string::npos)
    return kSuccess;
  program->log = "kernels.cu(1): error: there is no kernel";
  return kCompilation;
}

// With the 0 at the end, since the driver is not told how long its image is.
DOUBLE int nvrtcGetCUBINSize(Program *program, size_t *size) {
  *size = program->text.size() + 1;
  return kSuccess;
}
DOUBLE int nvrtcGetCUBIN(Program *program, char *code) {
  std::memcpy(code, program->text.c_str(), program->text.size() + 1);
  return kSuccess;
}
DOUBLE int nvrtcGetProgramLogSize(Program *program, size_t *size) {
  *size = program->log.size() + 1;
  return kSuccess;
}
DOUBLE int nvrtcGetProgramLog(Program *program, char *log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return kSuccess;
}
