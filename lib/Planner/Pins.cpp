//===- Pins.cpp - What --pin says ------------------------------------------===//

#include "cleave/Planner/Planner.h"
#include "cleave/Schedule/Schedule.h"
#include "runtime/Base/Suggest.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;
namespace cleave {

static const char *const kPins[] = {
    "dp",         "tp",        "cp", "ep", "sp",       "vocab",   "micro_batch", "zero",
    "zero_group", "recompute", "pp", "vp", "schedule", "overlap", "bucket",      "order"};
/// Axes and choices of formats.md that this version cannot carry out; a pin to
/// the neutral value is a no-op.
static const std::pair<const char *, const char *> kLater[] = {{"etp", "1"}};

/// What other software calls what a pin says, in lower case.
static const std::pair<const char *, const char *> kElsewhere[] = {
    {"fsdp", "zero=3"},
    {"hsdp", "zero=3,zero_group=8"},
    {"ddp", "dp"},
    {"data_parallel", "dp"},
    {"tensor_parallel", "tp"},
    {"mp", "tp"},
    {"sequence_parallel", "sp"},
    {"context_parallel", "cp"},
    {"pipeline_parallel", "pp"},
    {"expert_parallel", "ep"},
    {"mbs", "micro_batch"},
    {"micro_batch_size", "micro_batch"},
    {"activation_checkpointing", "recompute=full"},
    {"gradient_checkpointing", "recompute=full"}};

/// The pins that mean `key=value` of other software; shared state is that of data ranks, whose
/// number is then given.
static std::optional<std::string> meantBy(StringRef key, StringRef value) {
  for (auto [name, pin] : kElsewhere) {
    if (!key.equals_insensitive(name))
      continue;
    int64_t ranks;
    const bool isCount = !value.getAsInteger(10, ranks) && ranks > 1;
    if (StringRef(pin).starts_with("zero") && isCount)
      return pin == StringRef("zero=3") ? "dp=" + value.str() + ",zero=3"
                                        : "zero=3,zero_group=" + value.str();
    return StringRef(pin).contains('=') || !isCount ? pin : pin + ("=" + value).str();
  }
  return std::nullopt;
}

static rt::StatusOr<int64_t> number(StringRef key, StringRef value, int64_t least) {
  int64_t n;
  if (value.getAsInteger(10, n) || n < least)
    return rt::userError("plan.bad_pin", "--pin " + key.str() + " is not a number that can be used")
        .withGiven(key.str() + "=" + value.str())
        .withRule(key.str() + " is a whole number of at least " + std::to_string(least))
        .suggest(key.str() + "=" + std::to_string(std::max<int64_t>(least, 1)));
  return n;
}

static rt::Status later(StringRef key, StringRef value, StringRef neutral) {
  if (value == neutral)
    return rt::Status::success();
  return rt::userError("plan.unsupported_pin",
                       "this version of Cleave cannot run " + key.str() + "=" + value.str())
      .withGiven(key.str() + "=" + value.str())
      .withRule(
          "data, context, tensor, expert and pipeline parallelism, with sequence and vocabulary "
          "sharding, and ZeRO can be pinned")
      .suggest(key.str() + "=" + neutral.str());
}

static rt::Status setSchedule(Pins &pins, StringRef value) {
  std::vector<std::string> known;
  for (const Schedule &schedule : allSchedules())
    known.push_back(schedule.name.str());
  pins.schedule = value.str();
  if (is_contained(known, value))
    return rt::Status::success();
  return rt::userError("plan.bad_pin", "there is no schedule of this name")
      .withGiven("schedule=" + value.str())
      .withRule("schedule is one of " + join(known, ", "))
      .suggest("schedule=" + rt::nearestName(value.str(), known).value_or("1f1b"));
}

/// What of `value` names axes, once each, and the axes that it leaves out behind them.
static std::string completeOrder(StringRef value) {
  SmallVector<StringRef> given, names;
  std::string usual = cost::AxisOrder().text();
  StringRef(usual).split(names, '-');
  value.split(given, '-');
  SmallVector<StringRef> order;
  for (StringRef name : llvm::concat<StringRef>(given, names))
    if (is_contained(names, name) && !is_contained(order, name))
      order.push_back(name);
  return join(order, "-");
}

static rt::Status setOrder(Pins &pins, StringRef value) {
  pins.order = cost::AxisOrder::of(value);
  if (pins.order)
    return rt::Status::success();
  return rt::userError("plan.bad_pin", "--pin order does not name each axis once")
      .withGiven("order=" + value.str())
      .withRule("order is tp, cp, dp and pp joined by dashes, the innermost first; experts (ep) "
                "have parts of other axes")
      .suggest("order=" + completeOrder(value));
}

/// `precision.mlp=fp32`: of the paths below "mlp".
static rt::Status setPrecision(Pins &pins, StringRef key, StringRef value) {
  pins.narrow.push_back({key.split('.').second.str(), value == "bf16"});
  if (value == "bf16" || value == "fp32")
    return rt::Status::success();
  const bool isLater = value == "fp8";
  return rt::userError(isLater ? "plan.unsupported_pin" : "plan.bad_pin",
                       "--pin " + key.str() + " is no precision that can be used")
      .withGiven(key.str() + "=" + value.str())
      .withRule("precision.PATH is fp32 or bf16")
      .suggest(key.str() + "=bf16");
}

static rt::Status setRecompute(Pins &pins, StringRef value) {
  const auto *known = llvm::find(kRecomputeNames, value);
  if (known == kRecomputeNames.end())
    return rt::userError("plan.bad_pin", "--pin recompute is none, selective or full")
        .withGiven("recompute=" + value.str())
        .withRule("recompute is none (keep what the backward reads), selective (keep results of "
                  "products and attention) or full (keep the inputs of layers); a plan may name "
                  "the paths to keep")
        .suggest("recompute=selective");
  pins.recompute = static_cast<Recompute>(known - kRecomputeNames.begin());
  return rt::Status::success();
}

static rt::Status setPin(Pins &pins, StringRef key, StringRef value) {
  if (key.starts_with("precision."))
    return setPrecision(pins, key, value);
  for (auto [name, neutral] : kLater)
    if (key == name)
      return later(key, value, neutral);
  bool flag = key == "sp" || key == "vocab" || key == "overlap";
  if (!is_contained(kPins, key)) {
    std::vector<std::string> known(std::begin(kPins), std::end(kPins));
    for (auto [name, neutral] : kLater)
      known.push_back(name);
    rt::Error error = rt::userError("plan.unknown_pin", "--pin has no key '" + key.str() + "'")
                          .withGiven("\"" + key.str() + "\"")
                          .withRule("known keys: " + join(known, ", ") + ", precision.PATH");
    auto near = meantBy(key, value);
    if (!near)
      near = rt::nearestName(key.str(), known);
    error.suggestions.push_back(near.value_or("dp=1,tp=1"));
    return error;
  }
  if (key == "recompute")
    return setRecompute(pins, value);
  if (key == "schedule")
    return setSchedule(pins, value);
  if (key == "order")
    return setOrder(pins, value);
  auto n = number(key, value, flag || key == "zero" ? 0 : 1);
  if (!n.ok())
    return n.status();
  if (flag && *n > 1)
    return rt::userError("plan.bad_pin", "--pin " + key.str() + " is 0 or 1")
        .withGiven(key.str() + "=" + value.str())
        .withRule(key.str() + " is 0 (off) or 1 (on)")
        .suggest(key.str() + "=1");
  if (key == "zero" && *n > 3)
    return rt::userError("plan.bad_pin", "--pin zero is a stage from 0 to 3")
        .withGiven("zero=" + value.str())
        .withRule("zero is 0 (off), 1 (optimizer's state), 2 (and gradients) or 3 (and weights)")
        .suggest("zero=1");
  if (key == "zero")
    pins.zero = *n;
  else if (key == "zero_group")
    pins.zeroGroup = *n;
  else if (key == "dp")
    pins.dp = *n;
  else if (key == "tp")
    pins.tp = *n;
  else if (key == "cp")
    pins.cp = *n;
  else if (key == "pp")
    pins.pp = *n;
  else if (key == "vp")
    pins.vp = *n;
  else if (key == "ep")
    pins.experts = *n;
  else if (key == "micro_batch")
    pins.microBatch = *n;
  else if (key == "bucket")
    pins.bucketMegabytes = *n;
  else if (key == "overlap")
    pins.overlap = *n == 1;
  else
    (key == "sp" ? pins.sequence : pins.vocabulary) = *n == 1;
  return rt::Status::success();
}

rt::StatusOr<Pins> parsePins(StringRef text) {
  Pins pins;
  SmallVector<StringRef> parts;
  if (!text.empty())
    text.split(parts, ',');
  llvm::StringSet<> seen;
  for (StringRef part : parts) {
    auto [key, value] = part.trim().split('=');
    key = key.trim();
    if (!seen.insert(key).second)
      return rt::userError("plan.bad_pin", "--pin gives '" + key.str() + "' twice")
          .withGiven(text.str())
          .withRule("each key once")
          .suggest(part.str());
    if (rt::Status s = setPin(pins, key, value.trim()); !s.ok())
      return s;
  }
  return pins;
}

} // namespace cleave
