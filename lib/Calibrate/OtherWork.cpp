//===- OtherWork.cpp - What else the machine does while it is measured ----------===//

#include "cleave/Calibrate/OtherWork.h"
#include "runtime/Base/Files.h"
#include <algorithm>
#include <fmt/format.h>
#include <sched.h>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace cleave::calibrate {

std::optional<double> busyTicks(const std::string &procStat, const std::vector<int> &cores) {
  std::istringstream lines(procStat);
  double sum = 0;
  size_t found = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    // In the order of proc(5).
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, hard = 0, soft = 0, steal = 0;
    if (!(words >> name >> user >> nice >> system >> idle >> waiting >> hard >> soft >> steal))
      continue;
    if (std::none_of(cores.begin(), cores.end(),
                     [&](int core) { return name == fmt::format("cpu{}", core); }))
      continue;
    sum += user + nice + system + hard + soft + steal;
    ++found;
  }
  return found == cores.size() ? std::optional(sum) : std::nullopt;
}

static std::vector<int> coresOfProcess() {
  std::vector<int> cores;
  cpu_set_t mask;
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &mask))
        cores.push_back(core);
  return cores;
}

/// Seconds that this process has computed.
static double ownSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval &time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

OtherWork::OtherWork() : cores(coresOfProcess()), start(now()) {}

std::optional<OtherWork::Moment> OtherWork::now() const {
  const auto text = rt::readWholeFile("/proc/stat");
  const auto ticks = text.ok() ? busyTicks(*text, cores) : std::nullopt;
  if (cores.empty() || !ticks)
    return std::nullopt;
  return Moment{std::chrono::steady_clock::now(),
                *ticks / static_cast<double>(::sysconf(_SC_CLK_TCK)), ownSeconds()};
}

std::optional<double> OtherWork::share() const {
  const std::optional<Moment> end = now();
  if (!start || !end)
    return std::nullopt;
  const std::chrono::duration<double> passed = end->time - start->time;
  const double all = passed.count() * static_cast<double>(cores.size());
  const double others = (end->busy - start->busy) - (end->own - start->own);
  return all > 0 ? std::clamp(others / all, 0., 1.) : 0;
}

std::optional<double> spreadOf(const std::vector<Timings> &rounds) {
  if (rounds.size() < 2)
    return std::nullopt;
  std::vector<double> spreads;
  auto add = [&](auto list) {
    for (size_t i = 0; i < (rounds.front().*list).size(); ++i) {
      std::vector<double> times;
      for (const Timings &round : rounds)
        times.push_back((round.*list)[i].time.value);
      std::sort(times.begin(), times.end());
      spreads.push_back(times[times.size() / 2] / times.front() - 1);
    }
  };
  add(&Timings::products);
  add(&Timings::nearProducts);
  add(&Timings::attention);
  add(&Timings::streams);
  add(&Timings::updates);
  if (spreads.empty())
    return std::nullopt;
  const auto middle = spreads.begin() + static_cast<std::ptrdiff_t>(spreads.size() / 2);
  std::nth_element(spreads.begin(), middle, spreads.end());
  return *middle;
}

std::string noteOfBusy(const Quiet &quiet) {
  const bool isShared = std::max(quiet.before.value_or(0), quiet.during.value_or(0)) > kMostOthers;
  const bool isUneven = quiet.spread.value_or(0) > kMostSpread;
  if (!isShared && !isUneven)
    return "";
  auto percent = [](const std::optional<double> &share) {
    return share ? fmt::format("{:.0f} %", 100 * *share) : std::string("an unknown part");
  };
  std::string text =
      fmt::format("the machine was not quiet: other work took {} of its cores before "
                  "and {} while it was measured",
                  percent(quiet.before), percent(quiet.during));
  if (quiet.spread)
    text += fmt::format(", and rounds differ by {:.0f} % from the fastest", 100 * *quiet.spread);
  return text + "; what it says of this machine may be off";
}

} // namespace cleave::calibrate
