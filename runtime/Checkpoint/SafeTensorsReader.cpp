// Reading one safetensors file.
#include "runtime/Checkpoint/SafeTensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>

namespace cleave::rt {

namespace {

constexpr uint64_t largestHeader = 100'000'000;

Error badFile(const std::string &path, const char *kind, std::string message) {
  return userError(kind, std::move(message))
      .at({path})
      .withRule("a safetensors file is the length of its header, the header in JSON, and exactly "
                "the bytes that the header names")
      .suggest("take a whole copy of the file, or write it again");
}

template <typename T> T load(const std::byte *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

float fromFloat16(uint16_t bits) {
  const unsigned exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
  const float sign = bits >> 15 ? -1.0f : 1.0f;
  if (exponent == 0x1F)
    return fraction ? std::bit_cast<float>(0x7FC00000u | (uint32_t{bits} & 0x8000u) << 16)
                    : sign * HUGE_VALF;
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction | 0x400), static_cast<int>(exponent) - 25);
}

/// Converts `count` elements of `dtype`; false if they are no floats.
bool convert(std::string_view dtype, const std::byte *from, uint64_t count, float *out) {
  if (dtype == "F32") {
    std::memcpy(out, from, count * sizeof(float));
  } else if (dtype == "BF16") {
    for (uint64_t i = 0; i < count; ++i)
      out[i] = fromBFloat16(load<uint16_t>(from + 2 * i));
  } else if (dtype == "F16") {
    for (uint64_t i = 0; i < count; ++i)
      out[i] = fromFloat16(load<uint16_t>(from + 2 * i));
  } else if (dtype == "F64") {
    for (uint64_t i = 0; i < count; ++i)
      out[i] = static_cast<float>(load<double>(from + 8 * i));
  } else {
    return false;
  }
  return true;
}

bool isFloat(std::string_view dtype) {
  return dtype == "F32" || dtype == "BF16" || dtype == "F16" || dtype == "F64";
}

Error notFloat(const std::string &path, const TensorEntry &entry) {
  return userError("safetensors.not_float",
                   fmt::format("tensor '{}' is stored as {}", entry.name, entry.dtype))
      .at({path})
      .withRule("weights are F32, BF16, F16 or F64")
      .suggest("dequantise the checkpoint first");
}

} // namespace

StatusOr<SafeTensorsFile> SafeTensorsFile::open(const std::string &path) {
  CLEAVE_RT_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path));
  SafeTensorsFile result(std::move(mapped));
  const Status parsed = result.parseHeader();
  CLEAVE_RT_RETURN_IF_ERROR(result.checkRead());
  CLEAVE_RT_RETURN_IF_ERROR(parsed);
  return result;
}

Status SafeTensorsFile::parseHeader() {
  const uint64_t size = file.size();
  if (size < 8)
    return badFile(path(), "safetensors.truncated",
                   fmt::format("'{}' has {} bytes; even an empty file has 10", path(), size));
  const auto length = load<uint64_t>(file.bytes().data());
  if (length > largestHeader)
    return badFile(path(), "safetensors.bad_header",
                   fmt::format("'{}' announces a header of {} bytes", path(), length))
        .withRule(fmt::format("a header has at most {} bytes", largestHeader));
  if (length > size - 8)
    return badFile(
        path(), "safetensors.truncated",
        fmt::format("'{}' has {} bytes; its header alone needs {}", path(), size, length + 8));
  dataStart = 8 + length;
  const std::string_view text(reinterpret_cast<const char *>(file.bytes().data()) + 8, length);
  if (!text.starts_with('{'))
    return badFile(path(), "safetensors.bad_header",
                   fmt::format("'{}' has a header that does not start with '{{'", path()));
  StatusOr<JsonValue> header = parseJson(text);
  if (!header.ok()) {
    const bool duplicate = header.error().kind == "json.duplicate_key";
    return badFile(
               path(), duplicate ? "safetensors.duplicate_name" : "safetensors.bad_header",
               fmt::format("the header of '{}' is not usable: {}", path(), header.error().message))
        .note(fmt::format("{} at line {}, column {} of the header", header.error().kind,
                          header.error().where.line, header.error().where.column));
  }
  for (const JsonMember &member : header->members())
    CLEAVE_RT_RETURN_IF_ERROR(parseEntry(member, size - dataStart));
  return checkCoverage(size - dataStart);
}

Status SafeTensorsFile::parseEntry(const JsonMember &member, uint64_t dataBytes) {
  const JsonValue &value = member.value;
  auto bad = [&](const char *kind, std::string message) {
    return badFile(path(), kind, fmt::format("tensor '{}': {}", member.key, message));
  };
  if (member.key == "__metadata__") {
    if (!value.isObject())
      return bad("safetensors.bad_header", "the metadata is not an object");
    for (const JsonMember &pair : value.members()) {
      if (!pair.value.isString())
        return bad("safetensors.bad_header", "the metadata holds something other than strings");
      pairs.emplace_back(pair.key, pair.value.string());
    }
    return Status::success();
  }
  const JsonValue *dtype = value.find("dtype"), *shape = value.find("shape"),
                  *offsets = value.find("data_offsets");
  const bool complete = dtype && dtype->isString() && shape && shape->isArray() && offsets &&
                        offsets->isArray() && offsets->elements().size() == 2;
  if (!complete || value.members().size() != 3)
    return bad("safetensors.bad_header", "an entry has dtype, shape and two data_offsets");
  TensorEntry entry;
  entry.name = member.key;
  entry.dtype = dtype->string();
  for (const JsonValue &dimension : shape->elements()) {
    if (!dimension.isInteger() || dimension.integer() < 0)
      return bad("safetensors.bad_header", "a dimension is not a whole number");
    entry.shape.push_back(dimension.integer());
  }
  const JsonValue &begin = offsets->elements()[0], &end = offsets->elements()[1];
  if (!begin.isInteger() || !end.isInteger() || begin.integer() < 0 || end.integer() < 0)
    return bad("safetensors.bad_offsets", "an offset is not a whole number");
  entry.begin = static_cast<uint64_t>(begin.integer());
  entry.end = static_cast<uint64_t>(end.integer());
  const std::optional<unsigned> bits = dtypeBits(entry.dtype);
  if (!bits)
    return bad("safetensors.unknown_dtype", fmt::format("unknown dtype '{}'", entry.dtype));
  const std::optional<uint64_t> elements = volumeOf(entry.shape);
  uint64_t totalBits = 0;
  if (!elements || __builtin_mul_overflow(*elements, uint64_t{*bits}, &totalBits))
    return bad("safetensors.bad_header", "the shape is too large");
  if (entry.begin > entry.end || entry.end > dataBytes)
    return bad("safetensors.bad_offsets", fmt::format("bytes {} to {} of {} bytes of data",
                                                      entry.begin, entry.end, dataBytes));
  if (totalBits % 8 != 0 || totalBits / 8 != entry.end - entry.begin)
    return bad("safetensors.bad_offsets",
               fmt::format("{} bytes for {} elements of {}", entry.end - entry.begin, *elements,
                           entry.dtype));
  entries.push_back(std::move(entry));
  return Status::success();
}

Status SafeTensorsFile::checkCoverage(uint64_t dataBytes) {
  // Empty tensors sort before the one that starts where they stand.
  std::ranges::sort(entries, [](const TensorEntry &a, const TensorEntry &b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t reached = 0;
  for (const TensorEntry &entry : entries) {
    if (entry.begin != reached)
      return badFile(path(), "safetensors.bad_offsets",
                     fmt::format("tensor '{}' starts at byte {} of the data; the one before ends "
                                 "at {}",
                                 entry.name, entry.begin, reached))
          .withRule("data has no holes and no overlaps");
    reached = entry.end;
  }
  if (reached != dataBytes)
    return badFile(path(), "safetensors.bad_offsets",
                   fmt::format("the tensors of '{}' end at byte {} of {} bytes of data", path(),
                               reached, dataBytes))
        .withRule("the tensors cover the whole file");
  byName.resize(entries.size());
  std::iota(byName.begin(), byName.end(), 0u);
  std::ranges::sort(byName, {}, [&](uint32_t i) -> const std::string & { return entries[i].name; });
  return Status::success();
}

const TensorEntry *SafeTensorsFile::find(std::string_view name) const {
  auto nameAt = [&](uint32_t i) -> std::string_view { return entries[i].name; };
  const auto found = std::ranges::lower_bound(byName, name, {}, nameAt);
  return found != byName.end() && nameAt(*found) == name ? &entries[*found] : nullptr;
}

std::span<const std::byte> SafeTensorsFile::bytes(const TensorEntry &entry) const {
  return file.bytes().subspan(dataStart + entry.begin, entry.end - entry.begin);
}

Status SafeTensorsFile::readFloats(const TensorEntry &entry, uint64_t first,
                                   std::span<float> out) const {
  if (!isFloat(entry.dtype))
    return notFloat(path(), entry);
  const uint64_t elements = entry.elements();
  if (out.size() > elements || first > elements - out.size())
    return internalError(fmt::format("elements {} to {} of tensor '{}', which has {}", first,
                                     first + out.size(), entry.name, elements));
  const uint64_t width = *dtypeBits(entry.dtype) / 8;
  const std::span<const std::byte> source = bytes(entry).subspan(first * width, out.size() * width);
  convert(entry.dtype, source.data(), out.size(), out.data());
  file.releasePages(source);
  return checkRead();
}

Status SafeTensorsFile::readBox(const TensorEntry &entry, const Box &box,
                                std::span<float> out) const {
  if (!isFloat(entry.dtype))
    return notFloat(path(), entry);
  if (!box.isInside(entry.shape) || out.size() != box.volume())
    return internalError(fmt::format("box {} of tensor '{}' into {} elements", box.toString(),
                                     entry.name, out.size()));
  const uint64_t width = *dtypeBits(entry.dtype) / 8;
  const std::byte *data = bytes(entry).data();
  forEachRun(box, Box::whole(entry.shape), rowMajorStrides(entry.shape), box,
             rowMajorStrides(box.extent), [&](int64_t from, int64_t to, int64_t count) {
               convert(entry.dtype, data + static_cast<uint64_t>(from) * width,
                       static_cast<uint64_t>(count), out.data() + to);
             });
  releasePages(entry);
  return checkRead();
}

} // namespace cleave::rt
