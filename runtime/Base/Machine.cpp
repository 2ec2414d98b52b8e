// Affinity, cgroup v2 limits, /proc.
#include "runtime/Base/Machine.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace cleave::rt {

static unsigned coresInMask() {
  // The fixed-size mask holds 1024 cores; larger machines answer EINVAL.
  cpu_set_t mask;
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0)
    return static_cast<unsigned>(std::max(1, CPU_COUNT(&mask)));
  return static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

/// First line of a cgroup v2 file of this process's group, or of the root of a
/// container's own hierarchy.
static std::string cgroupLine(const std::string &name) {
  std::string group, line;
  std::ifstream membership("/proc/self/cgroup");
  while (std::getline(membership, line))
    if (line.starts_with("0::"))
      group = line.substr(3);
  for (const std::string &folder : {"/sys/fs/cgroup" + group, std::string("/sys/fs/cgroup")}) {
    std::ifstream file(folder + "/" + name);
    if (std::getline(file, line))
      return line;
  }
  return {};
}

static unsigned coresOfQuota(unsigned cores) {
  std::istringstream quota(cgroupLine("cpu.max")); // "max 100000" or "150000 100000"
  double allowed = 0, period = 0;
  if (!(quota >> allowed >> period) || period <= 0)
    return cores;
  const auto whole = static_cast<unsigned>((allowed + period - 1) / period);
  return std::clamp(whole, 1u, cores);
}

static uint64_t usableMemory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), pageSize = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || pageSize <= 0)
    return 0;
  const uint64_t physical = static_cast<uint64_t>(pages) * static_cast<uint64_t>(pageSize);
  std::istringstream limit(cgroupLine("memory.max")); // "max" or bytes
  uint64_t bytes = 0;
  return limit >> bytes ? std::min(bytes, physical) : physical;
}

static std::string processorName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name"))
      if (const size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return {};
}

static unsigned x86Level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4"))
    return 4;
  if (__builtin_cpu_supports("x86-64-v3"))
    return 3;
  return __builtin_cpu_supports("x86-64-v2") ? 2 : 1;
#else
  return 0;
#endif
}

static bool hasAvx512Bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

MachineInfo probeMachine() {
  MachineInfo info;
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) == 0)
    info.hostName = name;
  info.processor = processorName();
  info.x86Level = x86Level();
  info.avx512Bf16 = info.x86Level >= 4 && hasAvx512Bf16();
  info.usableCores = coresOfQuota(coresInMask());
  info.memoryBytes = usableMemory();
  return info;
}

uint64_t residentBytes() {
  std::ifstream statistics("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  if (!(statistics >> total >> resident))
    return 0;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

uint64_t peakResidentBytes() {
  // What getrusage tells includes the process that started this one, up to its exec.
  std::ifstream status("/proc/self/status");
  const std::string label = "VmHWM:";
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(label))
      return std::strtoull(line.c_str() + label.size(), nullptr, 10) * 1024;
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

} // namespace cleave::rt
