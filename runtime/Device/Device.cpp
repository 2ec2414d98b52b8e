// Memory of the processor as that of a device.
#include "runtime/Device/Device.h"

#include "runtime/Base/ZeroedMemory.h"

namespace cleave::rt {

StatusOr<DeviceBytes> DeviceBytes::ofSystem(int64_t bytes, const std::string &what) {
  CLEAVE_RT_ASSIGN_OR_RETURN(ZeroedMemory memory, ZeroedMemory::allocate(bytes, what));
  auto held = std::make_shared<ZeroedMemory>(std::move(memory));
  return DeviceBytes{std::shared_ptr<std::byte[]>(held, held->data()), bytes};
}

} // namespace cleave::rt
