// What we take for the driver's and NVRTC's interface, beside their headers.
#include "runtime/Device/CUDA/Driver.h"
#include "runtime/Device/CUDA/Nvrtc.h"

#include "gtest/gtest.h"

#include <cuda.h>
#include <nvrtc.h>

#include <type_traits>

namespace cleave::rt {
namespace {

/// What the two are in registers.
template <typename Ours, typename Theirs>
constexpr bool same =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
    (std::is_pointer_v<Ours> || std::is_integral_v<Ours>);

template <typename... Ours, typename... Theirs>
constexpr bool agree(int (*)(Ours...), CUresult (*)(Theirs...)) {
  return (same<Ours, Theirs> && ...);
}
template <typename... Ours, typename... Theirs>
constexpr bool agree(int (*)(Ours...), nvrtcResult (*)(Theirs...)) {
  return (same<Ours, Theirs> && ...);
}

#define EXPECT_AGREE(table, member, function)                                                      \
  static_assert(agree(decltype(table::member){}, decltype(&function){}), #function)

EXPECT_AGREE(CudaDriver, init, cuInit);
EXPECT_AGREE(CudaDriver, deviceCount, cuDeviceGetCount);
EXPECT_AGREE(CudaDriver, device, cuDeviceGet);
EXPECT_AGREE(CudaDriver, deviceName, cuDeviceGetName);
EXPECT_AGREE(CudaDriver, retain, cuDevicePrimaryCtxRetain);
EXPECT_AGREE(CudaDriver, release, cuDevicePrimaryCtxRelease);
EXPECT_AGREE(CudaDriver, setCurrent, cuCtxSetCurrent);
EXPECT_AGREE(CudaDriver, allocManaged, cuMemAllocManaged);
EXPECT_AGREE(CudaDriver, free, cuMemFree);
EXPECT_AGREE(CudaDriver, createStream, cuStreamCreate);
EXPECT_AGREE(CudaDriver, destroyStream, cuStreamDestroy);
EXPECT_AGREE(CudaDriver, synchronize, cuStreamSynchronize);
EXPECT_AGREE(CudaDriver, memset, cuMemsetD8Async);
EXPECT_AGREE(CudaDriver, memcpy, cuMemcpyAsync);
EXPECT_AGREE(CudaDriver, loadModule, cuModuleLoadData);
EXPECT_AGREE(CudaDriver, unloadModule, cuModuleUnload);
EXPECT_AGREE(CudaDriver, function, cuModuleGetFunction);
EXPECT_AGREE(CudaDriver, launch, cuLaunchKernel);
EXPECT_AGREE(Nvrtc, version, nvrtcVersion);
EXPECT_AGREE(Nvrtc, create, nvrtcCreateProgram);
EXPECT_AGREE(Nvrtc, destroy, nvrtcDestroyProgram);
EXPECT_AGREE(Nvrtc, compile, nvrtcCompileProgram);
EXPECT_AGREE(Nvrtc, codeSize, nvrtcGetCUBINSize);
EXPECT_AGREE(Nvrtc, code, nvrtcGetCUBIN);
EXPECT_AGREE(Nvrtc, logSize, nvrtcGetProgramLogSize);
EXPECT_AGREE(Nvrtc, log, nvrtcGetProgramLog);

// An enumeration there, a number here.
static_assert(sizeof(CUresult) == sizeof(CudaDriver::Code));
static_assert(sizeof(CUdevice_attribute) == sizeof(int));

TEST(CudaTypes, NumbersAreTheHeaders) {
  EXPECT_EQ(CudaDriver::kMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(CudaDriver::kMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(CudaDriver::kMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(CudaDriver::kConcurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
  EXPECT_EQ(CudaDriver::kAttachGlobal, unsigned(CU_MEM_ATTACH_GLOBAL));
  EXPECT_EQ(CudaDriver::kNonBlocking, unsigned(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(CudaDriver::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(CudaDriver::kNoDevice, CUDA_ERROR_NO_DEVICE);
}

} // namespace
} // namespace cleave::rt
