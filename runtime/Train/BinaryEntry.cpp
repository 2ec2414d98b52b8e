// The one symbol through which a compiled `main` reaches the runtime. Its plain C
// signature is what the compiler emits a call to (lib/Target/Image); the table
// has the layout of KernelSymbol.
#include "runtime/Base/Uncaught.h"
#include "runtime/Train/Main.h"

extern "C" int cleaveTrainMain(int argc, const char *const *argv, const char *image,
                               int64_t imageBytes, const cleave::rt::KernelSymbol *kernels,
                               int64_t kernelCount, const char *mpiPlugin, int64_t mpiPluginBytes,
                               const char *gpuText, int64_t gpuTextBytes, const char *gpuCode,
                               int64_t gpuCodeBytes) {
  cleave::rt::reportUncaught(argc, argv);
  cleave::rt::TrainParts parts;
  parts.image = {image, static_cast<size_t>(imageBytes)};
  parts.kernels = {{kernels, static_cast<size_t>(kernelCount)},
                   {gpuText, static_cast<size_t>(gpuTextBytes)},
                   {gpuCode, static_cast<size_t>(gpuCodeBytes)}};
  parts.mpiPlugin = {mpiPlugin, static_cast<size_t>(mpiPluginBytes)};
  return cleave::rt::trainMain(argc, argv, parts);
}
