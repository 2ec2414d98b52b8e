//===- Toolkit.cpp - build emitted text with the CUDA toolkit -------------===//

#include "Toolkit.h"
#include "ShimHarness.h"
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#ifdef CLEAVE_TEST_NVRTC
#include <nvrtc.h>
#endif

namespace cleave::test {

void expectNvccCompiles(const std::string &source) {
#ifdef CLEAVE_TEST_NVCC
  ScratchFolder folder;
  std::ofstream(folder.file("kernels.cu")) << source;
  for (const char *arch : {"sm_80", "sm_90a"}) {
    std::string output;
    int status =
        runCommand(std::string(CLEAVE_TEST_NVCC " -cubin -Xptxas -v -arch=") + arch + " -o " +
                       folder.file("kernels.cubin") + " " + folder.file("kernels.cu"),
                   output);
    ASSERT_EQ(status, 0) << arch << ": " << output.substr(0, 4000);
    std::istringstream lines(output);
    size_t reports = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.find("spill stores") == std::string::npos)
        continue;
      ++reports;
      EXPECT_NE(line.find(" 0 bytes spill stores, 0 bytes spill loads"), std::string::npos)
          << arch << ": " << line;
    }
    EXPECT_GT(reports, 0u) << output;
  }
#else
  GTEST_SKIP() << "no nvcc was found when the tests were configured";
#endif
}

void expectNvrtcCompiles(const std::string &source) {
#ifdef CLEAVE_TEST_NVRTC
  for (const char *arch : {"--gpu-architecture=sm_80", "--gpu-architecture=sm_90a"}) {
    nvrtcProgram program = nullptr;
    ASSERT_EQ(nvrtcCreateProgram(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr),
              NVRTC_SUCCESS);
    nvrtcResult result = nvrtcCompileProgram(program, 1, &arch);
    size_t size = 0;
    nvrtcGetProgramLogSize(program, &size);
    std::string log(size, ' ');
    nvrtcGetProgramLog(program, log.data());
    EXPECT_EQ(result, NVRTC_SUCCESS) << arch << ": " << log.substr(0, 4000);
    nvrtcDestroyProgram(&program);
  }
#else
  GTEST_SKIP() << "no NVRTC was found when the tests were configured";
#endif
}

} // namespace cleave::test
