// Pieces of which readers of the program image are made. What is wrong becomes an
// error of the object's reader. Private to runtime/Schema.
#pragma once

#include "runtime/Base/ObjectReader.h"
#include "runtime/Schema/Program.h"

#include <fmt/format.h>

namespace cleave::rt::reading {

inline constexpr const char *prefix = "image";
inline constexpr int64_t maxInt32 = std::numeric_limits<int32_t>::max();
inline constexpr const char *regionRule =
    "a region is [segment, offset, bytes], [segment, offset, bytes, stride] or [segment, offset, "
    "bytes, stride, period], of which only the stride may be negative";

int64_t needInteger(ObjectReader &in, const std::string &key, IntegerRange range = {.min = 0});
std::string needString(ObjectReader &in, const std::string &key);

Error malformed(ObjectReader &in, const std::string &key, const char *rule);

/// The integers of a list, all within `range`; nothing otherwise.
std::optional<std::vector<int64_t>> integers(const JsonValue &value, IntegerRange range);

/// `value`, of the key `key`; no axes where it is null.
AxisList axes(ObjectReader &in, const std::string &key, const JsonValue *value);

std::optional<Region> regionOf(const JsonValue &value);
std::optional<Region> region(ObjectReader &in, const std::string &key);
Region needRegion(ObjectReader &in, const std::string &key);
/// A list of regions.
std::vector<Region> needRegions(ObjectReader &in, const std::string &key);

/// Calls `Status read(reader)` for each object of the list `key`.
template <typename Read> void eachObject(ObjectReader &in, const std::string &key, Read read) {
  in.require(key);
  const JsonValue::Array *list = in.list(key);
  if (!list)
    return;
  for (size_t i = 0; i < list->size(); ++i) {
    ObjectReader element((*list)[i], in.fileName(), prefix,
                         fmt::format("{}[{}]", in.pathOf(key), i));
    // What `read` itself refuses explains the rest better than unknown keys do.
    const Status refused = read(element);
    in.absorb(refused.ok() ? element.finish() : refused);
  }
}

void readCommands(ObjectReader &in, const std::string &key, std::vector<Command> &commands);
void readPipeline(ObjectReader &in, Pipeline &pipeline);
/// Nothing where there is none.
void readTraffic(ObjectReader &in, Program &program);

} // namespace cleave::rt::reading
