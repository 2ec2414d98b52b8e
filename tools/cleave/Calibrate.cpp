//===- Calibrate.cpp - cleave calibrate ---------------------------------------===//
//
// Measures what this machine's processor does and writes it as a device for `--hardware`.
//
//===----------------------------------------------------------------------===//

#include "CompileRequest.h"
#include "Driver.h"
#include "Output.h"
#include "PlanTask.h"

#include "cleave/Calibrate/OtherWork.h"
#include "runtime/Base/Files.h"
#include "runtime/Base/Json.h"
#include "runtime/Base/Machine.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

namespace cleave::tool {

/// What was found of other work, null where that is not known.
static void writeQuiet(rt::JsonWriter &out, const calibrate::Quiet &quiet) {
  const auto write = [&](const char *key, const std::optional<double> &value) {
    out.key(key);
    value ? out.value(*value) : out.null();
  };
  out.key("quiet").beginObject();
  write("others_before", quiet.before);
  write("others_during", quiet.during);
  write("spread", quiet.spread);
  out.key("is_busy").value(!calibrate::noteOfBusy(quiet).empty()).endObject();
}

static void report(const cost::Device &device, const calibrate::Timings &timings,
                   const calibrate::Options &options, double seconds, const std::string &output,
                   bool json) {
  if (const std::string busy = calibrate::noteOfBusy(timings.quiet); !busy.empty())
    tell("warning[calibrate.busy]: {}; again when nothing else runs: cleave calibrate -o {}\n",
         busy, output);
  if (!json) {
    tell("{}: {} core{}, {:.0f} GFLOP/s in products of fp32", output, options.ranks,
         options.ranks == 1 ? "" : "s", device.product.rate.at(32).value * 1e-9);
    if (options.narrow)
      tell(", {:.0f} of bf16", device.product.rate.at(16).value * 1e-9);
    tell(", {:.1f} GB/s from memory, a core; {:.0f} s\n", device.bandwidth.value * 1e-9, seconds);
    return;
  }
  rt::JsonWriter out;
  out.beginObject().key("file").value(output).key("cores").value(options.ranks);
  out.key("rounds").value(options.rounds).key("profile").value(options.profile.name);
  out.key("products").beginObject().key("fp32").value(device.product.rate.at(32).value);
  if (options.narrow)
    out.key("bf16").value(device.product.rate.at(16).value);
  out.endObject().key("bandwidth").value(device.bandwidth.value);
  writeQuiet(out, timings.quiet);
  out.key("seconds").value(seconds).endObject();
  std::fputs((out.take() + "\n").c_str(), stdout);
}

rt::Status runCalibrate(const Words &words) {
  CommandLine line("calibrate", "measure this machine's processor, for --hardware", {});
  line.add()("o,output", "the description to write", cxxopts::value<std::string>(),
             "FILE.json")("rounds", "rounds of each measurement, of which the fastest counts (6)",
                          cxxopts::value<std::string>(),
                          "N")("quick", "few sizes, small ones: some seconds, for a first look");
  CLEAVE_RT_RETURN_IF_ERROR(line.parse(words));
  if (line.helped())
    return rt::Status::success();
  if (!line.has("output"))
    return rt::userError("usage.missing", "--output is missing")
        .withRule("cleave calibrate -o FILE.json")
        .suggest("-o host.json");
  const std::string output = line.text("output");
  if (!output.ends_with(".json"))
    return rt::userError("usage.bad_value", "a description is a .json file")
        .withGiven("-o " + output)
        .withRule("the name ends in .json")
        .suggest("-o " + output + ".json");
  calibrate::Options options;
  CLEAVE_RT_ASSIGN_OR_RETURN(const int64_t rounds, readCount(line, "rounds", options.rounds));
  options.rounds = static_cast<int>(std::min<int64_t>(rounds, 1000));
  options.quick = line.has("quick");
  CLEAVE_RT_RETURN_IF_ERROR(checkOutput(output, {}));
  const rt::MachineInfo machine = rt::probeMachine();
  options.ranks = static_cast<int>(machine.usableCores);
  options.narrow = machine.avx512Bf16;
  CLEAVE_RT_ASSIGN_OR_RETURN(options.profile, readProfile("host"));
  CLEAVE_RT_ASSIGN_OR_RETURN(cost::Device device, cost::readDevice(shareFolder(), "cpu"));
  device.memory = cost::Bytes(static_cast<double>(machine.memoryBytes) / options.ranks);
  const auto start = std::chrono::steady_clock::now();
  auto spent = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  options.progress = [&](std::string_view family) {
    tell("calibrate: {:5.1f} s  {}\n", spent(), family);
  };
  CLEAVE_RT_ASSIGN_OR_RETURN(const calibrate::Timings timings, calibrate::measure(options));
  device = calibrate::fit(timings, device);
  CLEAVE_RT_RETURN_IF_ERROR(rt::writeFileAtomically(
      output, calibrate::describe(device, timings, options, machine.processor)));
  report(device, timings, options, spent(), output, line.json());
  return rt::Status::success();
}

} // namespace cleave::tool
