//===- Hardware.cpp - Reading share/hardware -------------------------------===//

#include "cleave/CostModel/Hardware.h"
#include "lib/CostModel/Files.h"
#include "lib/CostModel/HardwareCurves.h"
#include "runtime/Base/ObjectReader.h"

namespace cleave::cost {

namespace {

constexpr rt::NumberRange kPositive{.min = 0, .minExcluded = true};
constexpr rt::NumberRange kNotNegative{.min = 0};
constexpr std::pair<const char *, Width> kWidths[] = {
    {"fp32", 32}, {"bf16", 16}, {"fp8", 8}, {"fp4", 4}};

/// Reads one object of the file; the questions are `ask`'s.
template <typename Ask> void readPart(rt::ObjectReader &in, const char *key, Ask ask) {
  in.require(key);
  auto part = in.object(key);
  if (!part)
    return;
  part->require("source");
  part->string("source");
  ask(*part);
  in.absorb(part->finish());
}

double need(rt::ObjectReader &in, const char *key, rt::NumberRange range = kPositive) {
  in.require(key);
  return in.number(key, range).value_or(1);
}

std::map<Width, OperationsPerSecond> readRates(rt::ObjectReader &in) {
  std::map<Width, OperationsPerSecond> rates;
  for (auto [key, width] : kWidths)
    if (auto rate = in.number(key, kPositive))
      rates[width] = OperationsPerSecond(*rate);
  in.require("bf16");
  return rates;
}

void readTiles(rt::ObjectReader &in, ProductCurve &curve) {
  const auto *list = in.list("tiles");
  for (size_t i = 0; list && i < list->size(); ++i) {
    const rt::JsonValue &tile = (*list)[i];
    const bool right = tile.isArray() && tile.elements().size() == 3 &&
                       tile.elements()[0].isInteger() && tile.elements()[1].isInteger() &&
                       tile.elements()[2].isNumber() && tile.elements()[0].integer() > 0 &&
                       tile.elements()[1].integer() > 0 && tile.elements()[2].number() > 0;
    if (!right) {
      in.absorb(rt::Error(rt::userError("device.wrong_type", "a tile is three numbers")
                              .at(tile.where(in.fileName()))
                              .withGiven(rt::shortText(tile))
                              .withRule("[rows, columns, share of the best rate], above 0")
                              .suggest("[128, 256, 1.0]")));
      return;
    }
    curve.tiles.push_back(
        {tile.elements()[0].integer(), tile.elements()[1].integer(), tile.elements()[2].number()});
  }
  if (curve.tiles.empty())
    curve.tiles.push_back({128, 128, 1});
}

void readProduct(rt::ObjectReader &in, ProductCurve &curve) {
  if (auto rates = in.object("rate")) {
    curve.rate = readRates(*rates);
    in.absorb(rates->finish());
  }
  in.require("rate");
  if (auto depths = in.object("depth")) {
    for (auto [key, width] : kWidths)
      if (auto depth = depths->number(key, kNotNegative))
        curve.depth[width] = *depth;
    in.absorb(depths->finish());
  }
  if (auto cast = in.object("cast")) {
    curve.castStart = Seconds(need(*cast, "start", kNotNegative));
    curve.blockCastStart = Seconds(cast->number("block_start", kNotNegative).value_or(0));
    curve.castPasses = need(*cast, "passes", kNotNegative);
    curve.blockCastPasses = need(*cast, "block_passes", kNotNegative);
    in.absorb(cast->finish());
  }
  curve.units = in.integer("units", {.min = 1, .max = 100000}).value_or(1);
  in.require("units");
  curve.waveExponent = in.number("wave_exponent", {.min = 0, .max = 1}).value_or(0.35);
  curve.start = Seconds(need(in, "start", kNotNegative));
  readTiles(in, curve);
  readTables(in, curve);
}

void readAttention(rt::ObjectReader &in, std::map<std::string, AttentionCurve> &curves) {
  for (const char *kernel : {"flash1", "flash2", "flash3", "window"})
    if (auto part = in.object(kernel)) {
      curves[kernel].forward = OperationsPerSecond(need(*part, "forward"));
      curves[kernel].backward = OperationsPerSecond(need(*part, "backward"));
      curves[kernel].narrow = part->number("narrow", kPositive).value_or(0.85);
      curves[kernel].ramp = part->number("ramp", kNotNegative).value_or(250);
      curves[kernel].width =
          static_cast<Width>(part->integer("width", {.min = 16, .max = 32}).value_or(16));
      part->string("note");
      readHeads(*part, curves[kernel]);
      in.absorb(part->finish());
    }
  in.require("flash2");
}

void readLink(rt::ObjectReader &in, LinkCurve &link) {
  link.domain = in.integer("domain", {.min = 1, .max = 1000000}).value_or(1);
  link.start = Seconds(need(in, "start", kNotNegative));
  link.hop = Seconds(need(in, "hop", kNotNegative));
  link.ramp = Seconds(need(in, "ramp", kNotNegative));
  link.bandwidth = BytesPerSecond(need(in, "bandwidth"));
  if (auto peak = in.number("peak", kPositive))
    link.peak = BytesPerSecond(*peak);
  link.inSwitch = in.number("in_switch", kPositive).value_or(1);
  constexpr std::pair<const char *, Exchange> kinds[] = {
      {"all_gather", Exchange::AllGather},
      {"reduce_scatter", Exchange::ReduceScatter},
      {"all_reduce", Exchange::AllReduce},
      {"all_to_all", Exchange::AllToAll}};
  for (auto [key, kind] : kinds)
    if (auto part = in.object(key)) {
      LinkShare &share = link.kinds[static_cast<size_t>(kind)];
      share.share = part->number("share", kPositive).value_or(1);
      share.pair = part->number("pair", kPositive).value_or(1);
      in.absorb(part->finish());
    }
  readMeasuredLink(in, link);
}

} // namespace

OperationsPerSecond Device::rateOf(Width width) const {
  auto it = product.rate.lower_bound(width);
  if (it != product.rate.end())
    return it->second;
  const auto &[widest, rate] = *product.rate.rbegin();
  auto wide = peak.find(width), narrow = peak.find(widest);
  return wide == peak.end() || narrow == peak.end() ? rate : rate * (wide->second / narrow->second);
}

double Device::depthOf(Width width) const {
  auto it = product.depth.find(width);
  return it == product.depth.end() ? 0 : it->second;
}

Device Device::atBest() const {
  Device best = *this;
  for (Curve *curve : {&best.streams, &best.updates, &best.link.sends})
    if (!curve->empty())
      curve->fill(curve->most());
  for (Curve &curve : best.link.measured)
    if (!curve.empty())
      curve.fill(curve.most());
  ProductCurve &product = best.product;
  for (auto &[width, tables] : product.tables)
    for (ShapeTable ProductTables::*role :
         {&ProductTables::plain, &ProductTables::weights, &ProductTables::picked,
          &ProductTables::pickedWeights}) {
      // Near operands: where there are some, sizes are the same.
      if (auto near = product.nearTables.find(width); near != product.nearTables.end())
        (tables.*role).takeFaster(near->second.*role);
      (tables.*role).makeMonotone();
    }
  product.nearTables.clear();
  return best;
}

std::vector<std::string> deviceNames(const std::string &share) {
  return stemsOf(share + "/hardware");
}

/// Parts that every description has.
static void readParts(rt::ObjectReader &in, Device &device) {
  readPart(in, "memory", [&](rt::ObjectReader &part) {
    device.memory = Bytes(need(part, "bytes"));
    device.bandwidth = BytesPerSecond(need(part, "bandwidth"));
    device.streaming = part.number("streaming", {.min = 0, .max = 1}).value_or(0.85);
    device.streams = readBandwidths(part, "streams");
    device.updates = readBandwidths(part, "updates");
  });
  readPart(in, "peak", [&](rt::ObjectReader &part) { device.peak = readRates(part); });
  readPart(in, "product", [&](rt::ObjectReader &part) { readProduct(part, device.product); });
  readPart(in, "attention", [&](rt::ObjectReader &part) { readAttention(part, device.attention); });
  readPart(in, "clock", [&](rt::ObjectReader &part) {
    device.sustainedClock = need(part, "sustained", {.min = 0, .max = 1, .minExcluded = true});
  });
  readPart(in, "link", [&](rt::ObjectReader &part) { readLink(part, device.link); });
  readPart(in, "network", [&](rt::ObjectReader &part) {
    device.network.bandwidth = BytesPerSecond(need(part, "bandwidth"));
    device.network.share = part.number("share", {.min = 0, .max = 1}).value_or(0.75);
    device.network.start = Seconds(need(part, "start", kNotNegative));
    device.network.hop = Seconds(need(part, "hop", kNotNegative));
  });
}

static rt::StatusOr<Device> deviceFrom(const rt::JsonValue &json, const std::string &path,
                                       const std::string &name) {
  // Some other file of ours, rather than a description with all keys wrong.
  if (!json.isObject() || !json.find("memory") || !json.find("product"))
    return rt::userError("device.not_a_description", "the file does not describe a device")
        .at(json.where(path))
        .withGiven(path)
        .withRule("a JSON object with memory, peak, product, attention, clock, link and network")
        .suggest("cleave calibrate -o FILE writes one");
  rt::ObjectReader in(json, path, "device");
  in.checkVersion(1);
  Device device;
  device.name = in.string("name").value_or(name);
  in.string("note");
  readParts(in, device);
  if (in.has("arithmetic"))
    readPart(in, "arithmetic",
             [&](rt::ObjectReader &part) { device.arithmetic = readArithmetic(part); });
  if (in.has("command"))
    readPart(in, "command",
             [&](rt::ObjectReader &part) { device.command = Seconds(need(part, "time")); });
  if (auto power = in.object("power")) {
    device.power = need(*power, "watts");
    power->require("source");
    power->string("source");
    in.absorb(power->finish());
  }
  if (rt::Status s = in.finish(); !s.ok())
    return s;
  return device;
}

rt::StatusOr<Device> readDevice(const std::string &share, const std::string &name) {
  const std::string folder = share + "/hardware";
  CLEAVE_RT_ASSIGN_OR_RETURN(const rt::JsonValue json, readNamed(folder, name, "device.unknown"));
  return deviceFrom(json, folder + "/" + name + ".json", name);
}

rt::StatusOr<Device> readDeviceFile(const std::string &path) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const rt::JsonValue json, rt::readJsonFile(path));
  return deviceFrom(json, path, path);
}

} // namespace cleave::cost
