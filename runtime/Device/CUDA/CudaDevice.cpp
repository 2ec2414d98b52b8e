// Commands of a rank on a stream.
#include "runtime/Device/CUDA/CudaDevice.h"

#include "runtime/Base/CodeArchive.h"
#include "runtime/Device/CUDA/Nvrtc.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace cleave::rt {
namespace {

using Address = CudaDriver::Address;

Address addressOf(const void *at) { return reinterpret_cast<Address>(at); }

/// The device's context, which all ranks on it share, as long as somebody holds it.
class HeldContext {
public:
  static StatusOr<std::shared_ptr<HeldContext>> of(const CudaDriver &driver,
                                                   CudaDriver::Device device) {
    CudaDriver::Context context = nullptr;
    CLEAVE_RT_RETURN_IF_ERROR(
        driver.check(driver.retain(&context, device), "the device's context"));
    auto held = std::shared_ptr<HeldContext>(new HeldContext(driver, device));
    CLEAVE_RT_RETURN_IF_ERROR(driver.check(driver.setCurrent(context), "the device's context"));
    return held;
  }
  HeldContext(const HeldContext &) = delete;
  HeldContext &operator=(const HeldContext &) = delete;
  ~HeldContext() { driver.release(device); }

private:
  HeldContext(const CudaDriver &driver, CudaDriver::Device device)
      : driver(driver), device(device) {}

  const CudaDriver &driver;
  CudaDriver::Device device;
};

/// With the address of each argument, as the driver takes them.
struct PreparedLaunch {
  explicit PreparedLaunch(GridLaunch given) : launch(std::move(given)) {
    for (void *&argument : launch.args)
      parameters.push_back(&argument);
  }
  GridLaunch launch;
  std::vector<void *> parameters;
};

class CudaRank : public RankDevice {
public:
  CudaRank(const CudaDriver &driver, std::shared_ptr<HeldContext> context)
      : driver(driver), context(std::move(context)) {}
  CudaRank(const CudaRank &) = delete;
  CudaRank &operator=(const CudaRank &) = delete;
  ~CudaRank() override {
    if (module)
      driver.unloadModule(module);
    if (stream)
      driver.destroyStream(stream);
  }

  Status open(const std::string &cubin) {
    CLEAVE_RT_RETURN_IF_ERROR(
        driver.check(driver.createStream(&stream, CudaDriver::kNonBlocking), "a stream"));
    return driver.check(driver.loadModule(&module, cubin.data()), "the kernels' code");
  }

  StatusOr<DeviceBytes> allocate(int64_t bytes, const std::string &what) override {
    if (bytes == 0)
      return DeviceBytes::ofSystem(bytes, what);
    Address address = 0;
    const auto size = static_cast<size_t>(bytes);
    const auto code = driver.allocManaged(&address, size, CudaDriver::kAttachGlobal);
    if (code == CudaDriver::kOutOfMemory)
      return runError("runtime.out_of_memory",
                      fmt::format("cannot allocate {} bytes for {} on the device", bytes, what));
    CLEAVE_RT_RETURN_IF_ERROR(driver.check(code, "memory"));
    auto *const start = reinterpret_cast<std::byte *>(address);
    DeviceBytes held{
        std::shared_ptr<std::byte[]>(start, [&driver = driver, context = context,
                                             address](std::byte *) { driver.free(address); }),
        bytes};
    CLEAVE_RT_RETURN_IF_ERROR(zero(start, bytes)());
    return held;
  }

  StatusOr<Work> prepare(GridLaunch launch) override {
    CudaDriver::Function function = nullptr;
    if (driver.function(&function, module, launch.kernel.c_str()) != 0)
      return Error(internalError("no kernel is called '" + launch.kernel + "'"));
    // Shared, so that addresses of arguments stay where the work is copied.
    auto launched = std::make_shared<PreparedLaunch>(std::move(launch));
    return Work([this, function, launched]() -> Status {
      const GridLaunch &launch = launched->launch;
      return started(driver.launch(function, static_cast<unsigned>(launch.blocks), 1, 1,
                                   static_cast<unsigned>(launch.threads), 1, 1,
                                   static_cast<unsigned>(launch.sharedBytes), stream,
                                   launched->parameters.data(), nullptr),
                     launch.kernel.c_str());
    });
  }

  Work zero(std::byte *at, int64_t bytes) override {
    return [this, at = addressOf(at), size = static_cast<size_t>(bytes)] {
      return size == 0 ? Status() : started(driver.memset(at, 0, size, stream), "zeroing memory");
    };
  }
  Work copy(std::byte *to, const std::byte *from, int64_t bytes) override {
    return [this, to = addressOf(to), from = addressOf(from), size = static_cast<size_t>(bytes)] {
      return size == 0 ? Status() : started(driver.memcpy(to, from, size, stream), "a copy");
    };
  }

  Status finish() override {
    if (!std::exchange(isBusy, false))
      return {};
    return driver.check(driver.synchronize(stream), "one of the commands up to here");
  }

private:
  Status started(CudaDriver::Code code, const char *what) {
    isBusy = true;
    return driver.check(code, what);
  }

  const CudaDriver &driver;
  std::shared_ptr<HeldContext> context;
  CudaDriver::Stream stream = nullptr;
  CudaDriver::Module module = nullptr;
  bool isBusy = false;
};

} // namespace

StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::create(std::string_view text,
                                                         std::string_view codes) {
  auto opened = std::make_unique<CudaDevice>();
  CLEAVE_RT_ASSIGN_OR_RETURN(opened->driver, CudaDriver::open());
  const CudaDriver &driver = *opened->driver;
  int count = 0;
  CLEAVE_RT_RETURN_IF_ERROR(driver.check(driver.deviceCount(&count), "the number of devices"));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Unit unit;
    CLEAVE_RT_RETURN_IF_ERROR(driver.check(driver.device(&unit.handle, ordinal), "a device"));
    std::array<char, 256> name = {};
    int major = 0, minor = 0, shares = 0;
    for (const auto code :
         {driver.deviceName(name.data(), static_cast<int>(name.size()) - 1, unit.handle),
          driver.attribute(&major, CudaDriver::kMajor, unit.handle),
          driver.attribute(&minor, CudaDriver::kMinor, unit.handle),
          driver.attribute(&shares, CudaDriver::kConcurrentManagedAccess, unit.handle)})
      CLEAVE_RT_RETURN_IF_ERROR(driver.check(code, "a device's description"));
    unit.name = name.data();
    unit.architecture = fmt::format("sm_{}{}", major, minor);
    if (!shares)
      return missingError("device.unavailable",
                          fmt::format("the memory of {} can't be read while it works", unit.name))
          .withGiven(unit.name)
          .withRule(
              "devices share managed memory with the processor, as Linux's of Pascal or later "
              "do")
          .suggest("--device emulated");
    // Now, so that a text that can't be compiled ends the run before its ranks begin.
    unit.code = codeFor(codes, major, minor);
    if (unit.code.empty()) {
      CLEAVE_RT_ASSIGN_OR_RETURN(unit.code, cubinOf(std::string(text), unit.architecture));
    }
    opened->units.push_back(std::move(unit));
  }
  if (opened->units.empty())
    return missingError("device.unavailable", "the NVIDIA driver here has no device")
        .withRule("CUDA_VISIBLE_DEVICES, where it is set, leaves one")
        .suggest("--device emulated");
  return opened;
}

StatusOr<std::unique_ptr<RankDevice>> CudaDevice::onRank(int64_t /*rank*/, int64_t place) {
  const Unit &unit = units[static_cast<size_t>(place) % units.size()];
  CLEAVE_RT_ASSIGN_OR_RETURN(std::shared_ptr<HeldContext> context,
                             HeldContext::of(*driver, unit.handle));
  auto rank = std::make_unique<CudaRank>(*driver, std::move(context));
  CLEAVE_RT_RETURN_IF_ERROR(rank->open(unit.code));
  return std::unique_ptr<RankDevice>(std::move(rank));
}

std::string CudaDevice::describe() const {
  return fmt::format("{} × {} ({})", units.size(), units.front().name, units.front().architecture);
}

} // namespace cleave::rt
