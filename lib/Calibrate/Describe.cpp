//===- Describe.cpp - A core in the format of share/hardware -------------------===//

#include "cleave/Calibrate/OtherWork.h"
#include "runtime/Base/Json.h"
#include <cmath>
#include <fmt/format.h>

namespace cleave::calibrate {

/// Four digits: what is beyond them changes from one time to the next.
static double rounded(double value) {
  if (value == 0 || !std::isfinite(value))
    return value;
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) - 3);
  // By way of text, so that 1.234e-06 is written so.
  return std::stod(fmt::format("{:.4g}", std::round(value / unit) * unit));
}

namespace {

/// The file, a line for each part.
class Writer {
public:
  explicit Writer(std::string name) {
    part("version", [](rt::JsonWriter &w) { w.value(1); });
    part("name", [&](rt::JsonWriter &w) { w.value(name); });
  }

  template <typename Write> void part(std::string_view key, Write write) {
    rt::JsonWriter line(0);
    write(line);
    text += fmt::format("{}\n  \"{}\": {}", text.empty() ? "{" : ",", key, line.take());
  }
  std::string take() { return text + "\n}\n"; }

private:
  std::string text;
};

} // namespace

static void list(rt::JsonWriter &w, std::string_view key, const std::vector<double> &values) {
  w.key(key).beginArray();
  for (double value : values)
    w.value(rounded(value));
  w.endArray();
}

static void number(rt::JsonWriter &w, std::string_view key, double value) {
  w.key(key).value(rounded(value));
}

static void curve(rt::JsonWriter &w, std::string_view key, const cost::Curve &curve) {
  w.key(key).beginObject();
  list(w, "bytes", curve.sizes);
  list(w, "bandwidth", curve.values);
  w.endObject();
}

static void table(rt::JsonWriter &w, std::string_view key, const cost::ShapeTable &table) {
  w.key(key).beginObject();
  list(w, "m", table.sizes[0]);
  list(w, "n", table.sizes[1]);
  list(w, "k", table.sizes[2]);
  list(w, "rates", table.rates);
  w.endObject();
}

static const char *widthName(cost::Width width) { return width == 32 ? "fp32" : "bf16"; }

static void rates(rt::JsonWriter &w, const std::map<cost::Width, cost::OperationsPerSecond> &of) {
  for (const auto &[width, rate] : of)
    if (width >= 16)
      number(w, widthName(width), rate.value);
}

static void writeTables(rt::JsonWriter &w, std::string_view key,
                        const std::map<cost::Width, cost::ProductTables> &of) {
  w.key(key).beginObject();
  for (const auto &[width, tables] : of) {
    w.key(widthName(width)).beginObject();
    table(w, "plain", tables.plain);
    table(w, "weights", tables.weights);
    table(w, "picked", tables.picked);
    table(w, "picked_weights", tables.pickedWeights);
    w.endObject();
  }
  w.endObject();
}

static void writeProduct(rt::JsonWriter &w, const cost::ProductCurve &product,
                         const std::string &how, bool narrow) {
  w.beginObject().key("rate").beginObject();
  rates(w, product.rate);
  w.endObject();
  w.key("units").value(1);
  number(w, "wave_exponent", 1);
  number(w, "start", product.start.value);
  number(w, "whole", product.whole);
  writeTables(w, "tables", product.tables);
  if (!product.nearTables.empty()) {
    number(w, "tables_around", product.tablesAround.value);
    writeTables(w, "near_tables", product.nearTables);
    number(w, "near_around", product.nearAround.value);
  }
  w.key("source")
      .value(fmt::format("{}; products in the runtime's tiles, operands in turns among so many "
                         "bytes, rows with weights lying either way (mean), and weights' "
                         "gradients added to what is there; picked: four matrices{}",
                         how, narrow ? "" : "; bf16 not measured, its rate is that of share's cpu"))
      .endObject();
}

static void writeAttention(rt::JsonWriter &w, const cost::AttentionCurve &curve,
                           const std::string &how) {
  w.beginObject().key("flash2").beginObject();
  number(w, "forward", curve.forward.value);
  number(w, "backward", curve.backward.value);
  number(w, "ramp", curve.ramp);
  w.key("width").value(32);
  w.key("heads").beginArray();
  for (const cost::HeadRates &head : curve.heads) {
    w.beginObject();
    number(w, "width", head.width);
    list(w, "keys", head.forward.sizes);
    list(w, "forward", head.forward.values);
    list(w, "backward", head.backward.values);
    list(w, "forward_spread", head.forwardSpread.values);
    list(w, "backward_spread", head.backwardSpread.values);
    w.endObject();
  }
  w.endArray().endObject();
  w.key("source")
      .value(how + "; emitted kernels of fp32 with a causal mask, four heads, spread: half of the "
                   "queries in zig-zag order; operations are those "
                   "of half of all pairs, backward 2.5 times as many")
      .endObject();
}

static void writeArithmetic(rt::JsonWriter &w, const cost::Arithmetic &arithmetic,
                            const std::string &how) {
  w.beginObject();
  number(w, "vectors", arithmetic.vectors.value);
  number(w, "scalars", arithmetic.scalars.value);
  w.key("lanes").value(arithmetic.lanes);
  w.key("functions").beginObject();
  for (const auto &[name, cost] : arithmetic.functions)
    number(w, name, cost);
  w.endObject();
  w.key("source")
      .value(
          how +
          "; a loop that turns pairs of numbers, over rows that fill vectors and over short ones; "
          "functions in plain operations; numbers in the nearest cache")
      .endObject();
}

static void writeLink(rt::JsonWriter &w, const cost::LinkCurve &link, const std::string &how) {
  const bool isMeasured = link.measuredRanks > 0;
  w.beginObject().key("domain").value(link.domain);
  number(w, "start", link.start.value);
  number(w, "hop", link.hop.value);
  number(w, "bandwidth", link.bandwidth.value);
  number(w, "ramp", link.ramp.value);
  if (isMeasured) {
    w.key("measured").beginObject().key("ranks").value(link.measuredRanks);
    list(w, "bytes", link.measured[0].sizes);
    const char *names[] = {"all_gather", "reduce_scatter", "all_reduce", "all_to_all"};
    for (size_t kind = 0; kind < link.measured.size(); ++kind)
      list(w, names[kind], link.measured[kind].values);
    w.endObject();
    curve(w, "sends", link.sends);
  }
  w.key("source")
      .value(isMeasured ? fmt::format("{}; exchanges of {} ranks that are threads, and messages "
                                      "between two, buffers in turns from beyond the near caches",
                                      how, link.measuredRanks)
                        : "not measured, since there is one core; share/hardware/cpu.json")
      .endObject();
}

std::string describe(const cost::Device &device, const Timings &timings, const Options &options,
                     const std::string &processor) {
  const std::string how =
      fmt::format("cleave calibrate: {} core{} at once, the slowest one's least of {} rounds of at "
                  "least {} ms, {}",
                  timings.ranks, timings.ranks == 1 ? "" : "s", options.rounds,
                  rounded(options.round.value * 1e3), options.profile.name);
  Writer out(device.name);
  out.part("note", [&](rt::JsonWriter &w) {
    const std::string busy = noteOfBusy(timings.quiet);
    w.value(fmt::format("one core of {}{}; a rank has as many as its share of the machine{}{}",
                        processor.empty() ? "an unnamed processor" : processor,
                        options.quick ? ", measured at few sizes" : "", busy.empty() ? "" : "; ",
                        busy));
  });
  out.part("memory", [&](rt::JsonWriter &w) {
    w.beginObject();
    number(w, "bytes", device.memory.value);
    number(w, "bandwidth", device.bandwidth.value);
    number(w, "streaming", device.streaming);
    curve(w, "streams", device.streams);
    curve(w, "updates", device.updates);
    w.key("source")
        .value(how + "; y = a c + b, and an update of AdamW, over so many bytes; bandwidth: the "
                     "largest; bytes: a core's share of the machine's")
        .endObject();
  });
  out.part("peak", [&](rt::JsonWriter &w) {
    w.beginObject();
    rates(w, device.peak);
    w.key("source")
        .value(how + "; fp32: multiply-adds in registers; bf16: the fastest product" +
               (options.narrow ? "" : ", not measured (no products of bf16 here)"))
        .endObject();
  });
  out.part("product",
           [&](rt::JsonWriter &w) { writeProduct(w, device.product, how, options.narrow); });
  out.part("attention",
           [&](rt::JsonWriter &w) { writeAttention(w, device.attention.at("flash2"), how); });
  if (device.arithmetic)
    out.part("arithmetic", [&](rt::JsonWriter &w) { writeArithmetic(w, *device.arithmetic, how); });
  out.part("command", [&](rt::JsonWriter &w) {
    w.beginObject();
    number(w, "time", device.command.value);
    w.key("source").value(how + "; the executor on commands that have nothing to do").endObject();
  });
  out.part("clock", [&](rt::JsonWriter &w) {
    w.beginObject();
    number(w, "sustained", 1);
    w.key("source").value("all cores are busy while anything is measured").endObject();
  });
  out.part("link", [&](rt::JsonWriter &w) { writeLink(w, device.link, how); });
  out.part("network", [&](rt::JsonWriter &w) {
    w.beginObject();
    number(w, "bandwidth", device.network.bandwidth.value);
    number(w, "share", device.network.share);
    number(w, "start", device.network.start.value);
    number(w, "hop", device.network.hop.value);
    w.key("source").value("not measured; share/hardware/cpu.json").endObject();
  });
  return out.take();
}

} // namespace cleave::calibrate
