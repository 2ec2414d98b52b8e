// Streaming a safetensors file.
#include "runtime/Checkpoint/SafeTensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace cleave::rt {

static uint64_t widthOf(FloatType type) { return type == FloatType::F32 ? 4 : 2; }
static const char *nameOf(FloatType type) { return type == FloatType::F32 ? "F32" : "BF16"; }

/// The header with its length in front, padded so that data starts at a
/// multiple of 8.
static std::string headerText(const std::vector<TensorPlan> &plans,
                              const std::vector<std::pair<std::string, std::string>> &metadata) {
  JsonWriter json;
  json.beginObject();
  if (!metadata.empty()) {
    json.key("__metadata__").beginObject();
    for (const auto &[key, value] : metadata)
      json.key(key).value(value);
    json.endObject();
  }
  uint64_t at = 0;
  for (const TensorPlan &plan : plans) {
    const uint64_t end = at + *volumeOf(plan.shape) * widthOf(plan.type);
    json.key(plan.name).beginObject().key("dtype").value(nameOf(plan.type));
    json.key("shape").beginArray();
    for (int64_t size : plan.shape)
      json.value(size);
    json.endArray().key("data_offsets").beginArray().value(at).value(end).endArray().endObject();
    at = end;
  }
  std::string text = json.endObject().take();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string prefix(8, '\0');
  std::memcpy(prefix.data(), &length, 8);
  return prefix + text;
}

StatusOr<SafeTensorsWriter>
SafeTensorsWriter::create(const std::string &path, std::vector<TensorPlan> tensors,
                          const std::vector<std::pair<std::string, std::string>> &metadata,
                          const std::string &errorKind) {
  std::ranges::sort(tensors, [](const TensorPlan &a, const TensorPlan &b) {
    if (a.type != b.type)
      return widthOf(a.type) > widthOf(b.type);
    return a.name < b.name;
  });
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!volumeOf(tensors[i].shape))
      return internalError(fmt::format("tensor '{}' has no possible size", tensors[i].name));
    if (i > 0 && tensors[i].name == tensors[i - 1].name)
      return userError("safetensors.duplicate_name",
                       fmt::format("two tensors are called '{}'", tensors[i].name));
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(AtomicFileWriter file, AtomicFileWriter::create(path, errorKind));
  CLEAVE_RT_RETURN_IF_ERROR(file.append(headerText(tensors, metadata)));
  SafeTensorsWriter writer(std::move(file), std::move(tensors));
  writer.finishFullTensors();
  return writer;
}

/// Moves past tensors that have all their elements (empty ones at once).
void SafeTensorsWriter::finishFullTensors() {
  while (sums.size() < plans.size() && filled == *volumeOf(plans[sums.size()].shape)) {
    sums.push_back(runningSum);
    filled = 0;
    runningSum = 0;
  }
}

Status SafeTensorsWriter::append(std::span<const float> values) {
  std::vector<uint16_t> narrow;
  while (!values.empty()) {
    if (sums.size() == plans.size())
      return internalError("more elements than the tensors of the file hold");
    const TensorPlan &plan = plans[sums.size()];
    const uint64_t room = *volumeOf(plan.shape) - filled;
    const std::span<const float> part = values.first(std::min<uint64_t>(room, values.size()));
    std::span<const std::byte> bytes = std::as_bytes(part);
    if (plan.type == FloatType::BF16) {
      narrow.resize(part.size());
      std::ranges::transform(part, narrow.begin(), toBFloat16);
      bytes = std::as_bytes(std::span<const uint16_t>(narrow));
    }
    CLEAVE_RT_RETURN_IF_ERROR(file.append(bytes));
    runningSum = crc32c(bytes, runningSum);
    filled += part.size();
    values = values.subspan(part.size());
    finishFullTensors();
  }
  return Status::success();
}

Status SafeTensorsWriter::commit() {
  if (sums.size() != plans.size())
    return internalError(
        fmt::format("tensor '{}' has {} of its elements", plans[sums.size()].name, filled));
  return file.commit();
}

} // namespace cleave::rt
