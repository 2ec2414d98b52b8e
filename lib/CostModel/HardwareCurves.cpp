//===- HardwareCurves.cpp - Reading what was measured at some sizes ------------===//

#include "lib/CostModel/HardwareCurves.h"
#include <algorithm>

namespace cleave::cost {

static constexpr rt::NumberRange kPositive{.min = 0, .minExcluded = true};

static void refuse(rt::ObjectReader &in, const char *key, const std::string &rule) {
  in.absorb(rt::Error(rt::userError("device.bad_curve", "a list is not what was measured")
                          .at(in.whereOf(key))
                          .withGiven(in.pathOf(key))
                          .withRule(rule)
                          .suggest("cleave calibrate -o FILE writes such a description")));
}

/// Numbers above 0, `count` of them where that is not 0.
static std::vector<double> readList(rt::ObjectReader &in, const char *key, size_t count = 0) {
  std::vector<double> out;
  in.require(key);
  const auto *list = in.list(key);
  if (!list)
    return out;
  for (const rt::JsonValue &value : *list)
    out.push_back(value.isNumber() ? value.number() : 0);
  if (out.empty() || std::any_of(out.begin(), out.end(), [](double v) { return v <= 0; })) {
    refuse(in, key, "numbers above 0, one at least");
    out.clear();
  } else if (count && out.size() != count) {
    refuse(in, key, "one number for each size: " + std::to_string(count));
    out.clear();
  }
  return out;
}

static std::vector<double> readSizes(rt::ObjectReader &in, const char *key) {
  std::vector<double> sizes = readList(in, key);
  if (std::adjacent_find(sizes.begin(), sizes.end(), std::greater_equal<>()) != sizes.end()) {
    refuse(in, key, "sizes ascend");
    sizes.clear();
  }
  return sizes;
}

/// The values at `sizes`; an empty curve if one of both is wrong.
static Curve curveOf(rt::ObjectReader &in, const char *key, const std::vector<double> &sizes) {
  Curve curve{sizes, readList(in, key, sizes.size())};
  if (curve.values.size() != sizes.size())
    return {};
  return curve;
}

Curve readBandwidths(rt::ObjectReader &in, const char *key) {
  Curve curve;
  if (auto part = in.object(key)) {
    const std::vector<double> sizes = readSizes(*part, "bytes");
    curve = curveOf(*part, "bandwidth", sizes);
    in.absorb(part->finish());
  }
  return curve;
}

static ShapeTable readTable(rt::ObjectReader &in, const char *key) {
  ShapeTable table;
  in.require(key);
  if (auto part = in.object(key)) {
    size_t count = 1;
    for (auto [axis, name] : {std::pair(0, "m"), {1, "n"}, {2, "k"}}) {
      table.sizes[axis] = readSizes(*part, name);
      count *= table.sizes[axis].size();
    }
    table.rates = readList(*part, "rates", count);
    in.absorb(part->finish());
  }
  return table;
}

static std::map<Width, ProductTables> readWidths(rt::ObjectReader &in, const char *key) {
  std::map<Width, ProductTables> read;
  auto tables = in.object(key);
  if (!tables)
    return read;
  for (auto [name, width] : {std::pair("fp32", 32), {"bf16", 16}})
    if (auto part = tables->object(name)) {
      read[width] = {readTable(*part, "plain"), readTable(*part, "weights"),
                     readTable(*part, "picked"), readTable(*part, "picked_weights")};
      tables->absorb(part->finish());
    }
  in.absorb(tables->finish());
  return read;
}

void readTables(rt::ObjectReader &in, ProductCurve &curve) {
  curve.whole = in.number("whole", {.min = 0}).value_or(0);
  curve.tables = readWidths(in, "tables");
  curve.nearTables = readWidths(in, "near_tables");
  if (curve.nearTables.empty())
    return;
  for (const char *key : {"near_around", "tables_around"})
    in.require(key);
  curve.nearAround = Bytes(in.number("near_around", kPositive).value_or(1));
  curve.tablesAround = Bytes(in.number("tables_around", kPositive).value_or(2));
  if (curve.nearAround >= curve.tablesAround)
    refuse(in, "near_around", "less than tables_around");
  for (const auto &[width, near] : curve.nearTables) {
    const auto far = curve.tables.find(width);
    if (far == curve.tables.end() || !near.hasSizesOf(far->second))
      refuse(in, "near_tables", "widths and sizes are those of tables");
  }
}

void readHeads(rt::ObjectReader &in, AttentionCurve &curve) {
  const auto *list = in.list("heads");
  for (size_t i = 0; list && i < list->size(); ++i) {
    if (!(*list)[i].isObject()) {
      refuse(in, "heads", "a list of objects with width, keys, forward and backward");
      return;
    }
    rt::ObjectReader part((*list)[i], in.fileName(), "device",
                          in.pathOf("heads") + "[" + std::to_string(i) + "]");
    HeadRates head;
    part.require("width");
    head.width = part.number("width", kPositive).value_or(1);
    const std::vector<double> keys = readSizes(part, "keys");
    head.forward = curveOf(part, "forward", keys);
    head.backward = curveOf(part, "backward", keys);
    head.forwardSpread = curveOf(part, "forward_spread", keys);
    head.backwardSpread = curveOf(part, "backward_spread", keys);
    if (!curve.heads.empty() && head.width <= curve.heads.back().width)
      refuse(in, "heads", "widths ascend");
    in.absorb(part.finish());
    curve.heads.push_back(std::move(head));
  }
}

void readMeasuredLink(rt::ObjectReader &in, LinkCurve &link) {
  link.sends = readBandwidths(in, "sends");
  auto part = in.object("measured");
  if (!part)
    return;
  part->require("ranks");
  link.measuredRanks = part->integer("ranks", {.min = 2, .max = 1000000}).value_or(2);
  const std::vector<double> sizes = readSizes(*part, "bytes");
  const char *names[] = {"all_gather", "reduce_scatter", "all_reduce", "all_to_all"};
  for (size_t kind = 0; kind < link.measured.size(); ++kind)
    link.measured[kind] = curveOf(*part, names[kind], sizes);
  in.absorb(part->finish());
}

Arithmetic readArithmetic(rt::ObjectReader &in) {
  Arithmetic out;
  auto need = [&](const char *key) {
    in.require(key);
    return OperationsPerSecond(in.number(key, kPositive).value_or(1));
  };
  out.vectors = need("vectors");
  out.scalars = need("scalars");
  out.lanes = in.integer("lanes", {.min = 1, .max = 1024}).value_or(8);
  if (const rt::JsonValue *functions = in.raw("functions"))
    for (const rt::JsonMember &member :
         functions->isObject() ? functions->members() : rt::JsonValue::Object()) {
      if (!member.value.isNumber() || member.value.number() <= 0) {
        refuse(in, "functions", "numbers of plain operations, by function");
        break;
      }
      out.functions[member.key] = member.value.number();
    }
  return out;
}

} // namespace cleave::cost
