// What this machine offers a process: cores it may use and memory. For sizing
// thread pools and the `local:N` cluster description; nothing here is cached.
#pragma once

#include <cstdint>
#include <string>

namespace cleave::rt {

struct MachineInfo {
  std::string hostName;
  /// Model name as the system gives it; empty if unknown.
  std::string processor;
  /// Level of x86-64 whose instructions all exist here: 3 has AVX2 and FMA, 4 the
  /// AVX-512 of servers; 0 on another architecture.
  unsigned x86Level = 0;
  /// Whether it rounds to bf16 and sums products of bf16 by itself (AVX512_BF16).
  bool avx512Bf16 = false;
  /// Cores in this process's affinity mask, cut by the cgroup's quota (rounded
  /// up); at least 1.
  unsigned usableCores = 1;
  /// Physical memory, cut by the cgroup's limit, in bytes; 0 if unknown.
  uint64_t memoryBytes = 0;
};

MachineInfo probeMachine();

/// Resident size of this process now, in bytes; 0 if unknown.
uint64_t residentBytes();

/// Largest resident size this process has had, in bytes.
uint64_t peakResidentBytes();

} // namespace cleave::rt
