//===- OtherWork.h - What else the machine does while it is measured ----------===//
//
// Times that are taken beside other work are too long, however many rounds there are.
// What other processes computed is what the kernel counts for our cores less what it
// counts for us; stolen time of a virtual machine is other work too. Rounds that differ
// say the same where the kernel doesn't. A busy machine is no error: it is said.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Calibrate/Calibrate.h"
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace cleave::calibrate {

/// Clock ticks for which `cores` were busy, by the text of /proc/stat; nothing where it lacks one.
std::optional<double> busyTicks(const std::string &procStat, const std::vector<int> &cores);

/// Counts other processes' work on the cores of this one, from when it is made.
class OtherWork {
public:
  OtherWork();
  /// The share of the cores' time that it took so far; nothing where the kernel does not say.
  std::optional<double> share() const;

private:
  struct Moment {
    std::chrono::steady_clock::time_point time;
    /// Seconds of all processes on these cores, and of this one.
    double busy = 0, own = 0;
  };
  std::optional<Moment> now() const;

  std::vector<int> cores;
  std::optional<Moment> start;
};

/// By how much the middle round of a measurement takes longer than the fastest, in the middle of
/// all measurements; nothing of a single round.
std::optional<double> spreadOf(const std::vector<Timings> &rounds);

/// Beyond these shares a machine is called busy. Of two cores with nothing else to do (KVM,
/// AVX-512) other work took 1 % and rounds differed by 2 %; beside compilers that filled both, 52 %
/// and 6 %.
inline constexpr double kMostOthers = 0.05, kMostSpread = 0.1;

/// Says that the machine was busy, and how; nothing where it was not.
std::string noteOfBusy(const Quiet &quiet);

} // namespace cleave::calibrate
