// Numbers, lists and regions of the image.
#include "runtime/Schema/ImageReading.h"

namespace cleave::rt::reading {

int64_t needInteger(ObjectReader &in, const std::string &key, IntegerRange range) {
  in.require(key);
  return in.integer(key, range).value_or(0);
}

std::string needString(ObjectReader &in, const std::string &key) {
  in.require(key);
  return in.string(key).value_or("");
}

Error malformed(ObjectReader &in, const std::string &key, const char *rule) {
  return userError("image.wrong_type",
                   fmt::format("\"{}\" of the program image is malformed", in.pathOf(key)))
      .at(in.whereOf(key))
      .withRule(rule);
}

std::optional<std::vector<int64_t>> integers(const JsonValue &value, IntegerRange range) {
  if (!value.isArray())
    return std::nullopt;
  std::vector<int64_t> result;
  for (const JsonValue &element : value.elements()) {
    if (!element.isInteger() || element.integer() < range.min || element.integer() > range.max)
      return std::nullopt;
    result.push_back(element.integer());
  }
  return result;
}

AxisList axes(ObjectReader &in, const std::string &key, const JsonValue *value) {
  if (!value)
    return {};
  auto result = integers(*value, {.min = 0, .max = maxInt32});
  if (!result) {
    in.absorb(malformed(in, key, "axes are a list of indices into the mesh"));
    return {};
  }
  return AxisList(result->begin(), result->end());
}

std::optional<Region> regionOf(const JsonValue &value) {
  auto numbers = integers(value, {});
  if (!numbers || numbers->size() < 3 || numbers->size() > 5)
    return std::nullopt;
  numbers->resize(5, 0);
  const std::vector<int64_t> &all = *numbers;
  if (all[0] < 0 || all[0] > maxInt32 || all[1] < 0 || all[2] < 0 || all[4] < 0)
    return std::nullopt;
  return Region{static_cast<int32_t>(all[0]), all[1], all[2], all[3], all[4]};
}

std::optional<Region> region(ObjectReader &in, const std::string &key) {
  const JsonValue *value = in.raw(key);
  if (!value)
    return std::nullopt;
  auto result = regionOf(*value);
  if (!result)
    in.absorb(malformed(in, key, regionRule));
  return result;
}

Region needRegion(ObjectReader &in, const std::string &key) {
  in.require(key);
  return region(in, key).value_or(Region{});
}

std::vector<Region> needRegions(ObjectReader &in, const std::string &key) {
  std::vector<Region> result;
  in.require(key);
  if (const JsonValue::Array *list = in.list(key))
    for (const JsonValue &value : *list) {
      auto region = regionOf(value);
      if (!region)
        in.absorb(malformed(in, key, regionRule));
      result.push_back(region.value_or(Region{}));
    }
  return result;
}

} // namespace cleave::rt::reading
