//===- Cluster.cpp - The machines a plan is for ----------------------------===//

#include "cleave/Planner/Cluster.h"
#include "runtime/Base/Files.h"
#include "runtime/Base/Json.h"
#include "runtime/Base/Machine.h"
#include "runtime/Base/ObjectReader.h"
#include "runtime/Base/Suggest.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace llvm;
namespace cleave {

static rt::StatusOr<rt::JsonValue> readJson(const std::string &path) {
  auto text = rt::readWholeFile(path);
  if (!text.ok())
    return text.status();
  rt::JsonReadOptions options;
  options.file = path;
  return rt::parseJson(*text, options);
}

static std::vector<std::string> presets(const std::string &share) {
  std::vector<std::string> names{"local"};
  std::error_code error;
  for (sys::fs::directory_iterator it(share + "/clusters", error), end; it != end && !error;
       it.increment(error))
    if (sys::path::extension(it->path()) == ".json")
      names.push_back(sys::path::stem(it->path()).str());
  std::sort(names.begin() + 1, names.end());
  return names;
}

static rt::Status readLevels(rt::ObjectReader &in, Cluster &cluster) {
  const auto *list = in.list("levels");
  for (size_t i = 0; list && i < list->size(); ++i) {
    const rt::JsonValue &value = (*list)[i];
    if (!value.isObject())
      return rt::userError("cluster.wrong_type", "a level is an object")
          .withGiven("levels[" + std::to_string(i) + "]")
          .withRule("a level has name, span, bandwidth (bytes/s) and latency (s)")
          .suggest("{\"name\": \"nvlink\", \"span\": 8}");
    rt::ObjectReader level(value, in.fileName(), "cluster", "levels[" + std::to_string(i) + "]");
    NetworkLevel out;
    out.name = level.string("name").value_or("");
    out.span = level.integer("span", {.min = 1}).value_or(cluster.ranks());
    out.bandwidth = level.number("bandwidth", {.min = 0, .minExcluded = true});
    out.latency = level.number("latency", {.min = 0});
    out.inNetworkReduction = level.boolean("in_network_reduction").value_or(false);
    out.oversubscription = level.number("oversubscription", {.min = 1}).value_or(1);
    if (rt::Status s = level.finish(); !s.ok())
      return s;
    cluster.levels.push_back(out);
  }
  return rt::Status::success();
}

/// The memory of the device, from share/hardware.
static rt::Status readDevice(Cluster &cluster, const std::string &share) {
  std::string path = share + "/hardware/" + cluster.device + ".json";
  if (!sys::fs::exists(path))
    return rt::Status::success(); // unknown device: its memory is unknown
  auto json = readJson(path);
  if (!json.ok())
    return json.status();
  if (const rt::JsonValue *memory = json->find("memory"))
    if (const rt::JsonValue *bytes = memory->find("bytes"); bytes && bytes->isNumber())
      cluster.deviceMemory = bytes->number();
  return rt::Status::success();
}

static rt::StatusOr<Cluster> readFile(const std::string &path, const std::string &share,
                                      std::optional<int64_t> count) {
  auto json = readJson(path);
  if (!json.ok())
    return json.status();
  if (!json->isObject())
    return rt::userError("cluster.wrong_type", "a cluster file holds one object")
        .at({path, 1, 1})
        .withRule("a cluster file is a JSON object with nodes and devices_per_node")
        .suggest("{\"nodes\": 1, \"devices_per_node\": 8}");
  rt::ObjectReader in(*json, path, "cluster");
  in.checkVersion(1);
  Cluster cluster;
  cluster.name = in.string("name").value_or(sys::path::stem(path).str());
  cluster.device = in.string("device").value_or("");
  // As many as presets may have, so that their product is a number.
  constexpr int64_t most = 1000000;
  int64_t nodes = in.integer("nodes", {.min = 1, .max = most}).value_or(1);
  cluster.nodes = count.value_or(nodes);
  cluster.devicesPerNode = in.integer("devices_per_node", {.min = 1, .max = most}).value_or(1);
  cluster.source = in.string("source").value_or("");
  constexpr rt::NumberRange positive{.min = 0, .minExcluded = true};
  cluster.mtbfHoursPerDevice = in.number("mtbf_hours_per_device", positive);
  cluster.powerOverhead = in.number("power_overhead", {.min = 1});
  cluster.pricePerDeviceHour = in.number("price_per_device_hour", {.min = 0});
  cluster.storageBandwidth = in.number("storage_bandwidth", positive);
  cluster.restartSeconds = in.number("restart_seconds", {.min = 0});
  if (rt::Status s = readLevels(in, cluster); !s.ok())
    return s;
  const auto memory = in.number("device_memory", positive);
  if (rt::Status s = in.finish(); !s.ok())
    return s;
  if (rt::Status s = readDevice(cluster, share); !s.ok())
    return s;
  if (memory)
    cluster.deviceMemory = memory;
  return cluster;
}

rt::StatusOr<Cluster> readCluster(const std::string &text, const std::string &share) {
  if (StringRef(text).ends_with(".json"))
    return readFile(text, share, std::nullopt);
  auto [name, number] = StringRef(text).split(':');
  int64_t count = 1;
  if (text != name && (number.getAsInteger(10, count) || count < 1 || count > 1000000))
    return rt::userError("cluster.bad_count", "the count behind the preset is no count")
        .withGiven(text)
        .withRule("PRESET:N with N from 1 to 1000000")
        .suggest(name.str() + ":1");
  if (name == "local") {
    Cluster cluster;
    cluster.name = text;
    cluster.device = "cpu";
    cluster.devicesPerNode = count;
    cluster.local = true;
    const rt::MachineInfo machine = rt::probeMachine();
    cluster.deviceMemory = static_cast<double>(machine.memoryBytes) / static_cast<double>(count);
    cluster.coresOfRank = std::max<int64_t>(1, machine.usableCores / count);
    return cluster;
  }
  std::string path = share + "/clusters/" + name.str() + ".json";
  if (!sys::fs::exists(path)) {
    auto known = presets(share);
    rt::Error error = rt::userError("cluster.unknown", "there is no such preset or file")
                          .withGiven(text)
                          .withRule("PRESET:N or a .json file; presets: " + join(known, ", "));
    // A number alone is how many ranks are meant.
    int64_t ranks = 0;
    if (!name.getAsInteger(10, ranks) && ranks > 0)
      count = ranks;
    // "h100" is a part of a name, farther from it than a slip of the pen.
    const auto part = llvm::find_if(known, [&](const std::string &preset) {
      return StringRef(preset).contains_insensitive(name);
    });
    const std::string near = part != known.end() && !name.empty() && ranks == 0
                                 ? *part
                                 : rt::nearestName(name.str(), known).value_or("local");
    error.suggestions.push_back(near + ":" + std::to_string(count));
    return error;
  }
  auto cluster = readFile(path, share, count);
  if (cluster.ok())
    (*cluster).name = text;
  return cluster;
}

} // namespace cleave
