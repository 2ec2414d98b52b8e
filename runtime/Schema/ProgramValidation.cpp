// What must hold between the numbers of an image before a run may rely on it.
// Commands have a file of their own.
#include "runtime/Schema/CheckedSize.h"
#include "runtime/Schema/ValidateCommands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace cleave::rt {
namespace {

Error broken(const char *kind, std::string message) {
  return brokenImage(kind, std::move(message));
}

Status checkMesh(const Mesh &mesh) {
  std::set<std::string> names;
  int64_t world = 1;
  for (const MeshAxis &axis : mesh.axes) {
    if (axis.name.empty() || !names.insert(axis.name).second)
      return broken("image.mesh",
                    fmt::format("axis name \"{}\" is empty or used twice", axis.name));
    if (axis.size < 1 || __builtin_mul_overflow(world, axis.size, &world) || world > (1 << 24))
      return broken("image.mesh", fmt::format("axis \"{}\" has size {}; sizes are at least 1 and "
                                              "their product at most 2^24",
                                              axis.name, axis.size));
  }
  return {};
}

Status checkBatch(const Program &program) {
  const BatchLayout &batch = program.batch;
  std::set<int32_t> used;
  CLEAVE_RT_RETURN_IF_ERROR(checkAxes(program, batch.dataAxes, used, "image.batch", "data_axes"));
  CLEAVE_RT_RETURN_IF_ERROR(
      checkAxes(program, batch.sequenceAxes, used, "image.batch", "sequence_axes"));
  const auto total =
      checkedProduct({program.mesh.sizeOf(batch.dataAxes), batch.microBatches, batch.microBatch});
  if (batch.microBatch < 1 || batch.microBatches < 1 || !total || *total != batch.globalBatch)
    return broken("image.batch",
                  fmt::format("{} data ranks × {} micro-batches × {} sequences are not the global "
                              "batch of {}",
                              program.mesh.sizeOf(batch.dataAxes), batch.microBatches,
                              batch.microBatch, batch.globalBatch));
  if (batch.sequence < 1 || batch.vocabulary < 1 ||
      batch.vocabulary > std::numeric_limits<int32_t>::max() ||
      !checkedProduct({batch.globalBatch, batch.sequence, 16}))
    return broken("image.batch", fmt::format("sequence {} or vocabulary {} is out of range",
                                             batch.sequence, batch.vocabulary));
  if (batch.zigzag < 1)
    return broken("image.batch", fmt::format("zigzag over {} blocks", batch.zigzag));
  if (batch.zigzag > 1 && !program.exchange.positions)
    return broken("image.batch", "tokens in another order need their positions");
  return {};
}

/// A region that is there once, whatever the slot.
Status checkLasting(const Program &program, const Region &region, int64_t alignment,
                    const std::string &owner) {
  CLEAVE_RT_RETURN_IF_ERROR(checkRegion(program, region, alignment, owner));
  const Segment &segment = program.segments[region.segment];
  if (segment.copies != 1)
    return broken("image.region",
                  fmt::format("{} lies in segment \"{}\", of which there are {} copies", owner,
                              segment.name, segment.copies));
  return {};
}

Status checkState(const Program &program) {
  std::set<std::string> names;
  for (const StateEntry &entry : program.state) {
    const std::string owner = fmt::format("state \"{}\"", entry.name);
    if (entry.name.empty())
      return broken("image.state", "a state entry has no name");
    if (entry.fileTensors() < 1 || entry.fileTensors() > StateEntry::maxFileTensors)
      return broken("image.state",
                    fmt::format("{} stands for {} tensors", owner, entry.fileTensors()));
    for (int64_t i = 0; i < entry.fileTensors(); ++i)
      if (!names.insert(entry.fileName(i)).second)
        return broken("image.state", owner + " is there twice");
    for (const std::string &alias : entry.aliases)
      if (!names.insert(alias).second)
        return broken("image.state", fmt::format("{}: alias \"{}\" is used twice", owner, alias));
    const auto elements = checkedProduct(entry.shape);
    std::vector<int64_t> inFiles = entry.fileShape;
    inFiles.push_back(entry.fileTensors());
    if (!elements || elements != checkedProduct(inFiles) || !checkedProduct({*elements, 16}))
      return broken("image.state", owner + ": shape and file_shape differ in elements");
    if (!entry.slot(Slot::Value))
      return broken("image.state", owner + " has no value");
    for (size_t i = 0; i < slotCount; ++i) {
      const std::string what = fmt::format("{}, {}", owner, nameOf(static_cast<Slot>(i)));
      const Sharding &sharding = entry.shardingOf(static_cast<Slot>(i));
      if (sharding.axes.size() != entry.shape.size())
        return broken("image.state", fmt::format("{} has {} dimensions and axes for {}", what,
                                                 entry.shape.size(), sharding.axes.size()));
      std::set<int32_t> used;
      for (const AxisList &axes : sharding.axes)
        CLEAVE_RT_RETURN_IF_ERROR(checkAxes(program, axes, used, "image.state", what));
      if (!entry.slots[i])
        continue;
      const int64_t bytes = 4 * elementCount(sharding.localShape(program.mesh, entry.shape));
      CLEAVE_RT_RETURN_IF_ERROR(checkLasting(program, *entry.slots[i], 4, what));
      if (entry.slots[i]->bytes != bytes)
        return broken("image.state", fmt::format("{} has {} bytes, its local shape needs {}", what,
                                                 entry.slots[i]->bytes, bytes));
    }
  }
  return {};
}

Status checkSized(const Program &program, const Region &region, int64_t bytes, const char *name) {
  CLEAVE_RT_RETURN_IF_ERROR(checkLasting(program, region, 4, name));
  if (region.bytes != bytes)
    return broken("image.exchange",
                  fmt::format("\"{}\" has {} bytes instead of {}", name, region.bytes, bytes));
  return {};
}

Status checkExchange(const Program &program) {
  const Exchange &exchange = program.exchange;
  const int64_t ids = 4 * program.batch.microBatch * program.localSequence();
  struct Item {
    const char *name;
    const std::optional<Region> region;
    int64_t bytes;
  };
  const Item items[] = {{"tokens", exchange.tokens, ids},
                        {"targets", exchange.targets, ids},
                        {"positions", exchange.positions, ids},
                        {"learning_rate", exchange.learningRate, 4},
                        {"correction1", exchange.correction1, 4},
                        {"correction2", exchange.correction2, 4},
                        {"loss", exchange.loss, 4},
                        {"objective", exchange.objective, 4},
                        {"gradient_norm", exchange.gradientNorm, 4},
                        {"valid_count", exchange.validCount, 4}};
  for (const Item &item : items)
    if (item.region)
      CLEAVE_RT_RETURN_IF_ERROR(checkSized(program, *item.region, item.bytes, item.name));
  return {};
}

/// True if `value` can be stored in an element of `type`.
bool fits(double value, DataType type) {
  if (!std::isfinite(value))
    return false;
  if (type == DataType::I32)
    return value >= -2147483648.0 && value <= 2147483647.0;
  if (type == DataType::I64)
    return value >= -0x1p63 && value < 0x1p63;
  return std::abs(value) <= std::numeric_limits<float>::max();
}

Status checkConstants(const Program &program) {
  for (const Constant &constant : program.constants) {
    const std::string owner = fmt::format("constant \"{}\"", constant.name);
    const int64_t element = elementBytes(constant.type);
    CLEAVE_RT_RETURN_IF_ERROR(checkLasting(program, constant.region, element, owner));
    const int64_t count = constant.region.bytes / element;
    int64_t given = count;
    if (const auto *numbers = std::get_if<Constant::Numbers>(&constant.contents)) {
      given = static_cast<int64_t>(numbers->values.size());
      for (double value : numbers->values)
        if (!fits(value, constant.type))
          return broken("image.constant",
                        fmt::format("{} holds {}, which is no finite {}; give it as bytes", owner,
                                    value, nameOf(constant.type)));
    } else if (const auto *iota = std::get_if<Constant::Iota>(&constant.contents)) {
      const double last =
          iota->start + iota->step * static_cast<double>(std::max<int64_t>(count, 1) - 1);
      if (!fits(iota->start, constant.type) || !fits(last, constant.type))
        return broken("image.constant",
                      fmt::format("{} goes beyond {}", owner, nameOf(constant.type)));
    } else if (const auto *bytes = std::get_if<Constant::Bytes>(&constant.contents)) {
      if (static_cast<int64_t>(bytes->bytes.size()) != constant.region.bytes)
        given = -1;
    } else if (const auto *start = std::get_if<Constant::BlockStart>(&constant.contents)) {
      given = 1;
      std::set<int32_t> used;
      CLEAVE_RT_RETURN_IF_ERROR(checkAxes(program, start->axes, used, "image.constant", owner));
      if (!fits(static_cast<double>(start->scale) *
                    static_cast<double>(program.mesh.sizeOf(start->axes) - 1),
                constant.type))
        return broken("image.constant",
                      fmt::format("{} goes beyond {}", owner, nameOf(constant.type)));
    }
    if (given != count || constant.region.bytes % element != 0)
      return broken("image.constant", fmt::format("{}: the contents do not fill its {} bytes",
                                                  owner, constant.region.bytes));
  }
  return {};
}

Status checkSegments(const Program &program) {
  const int64_t slots = program.slots();
  for (const Segment &segment : program.segments) {
    if (segment.bytes < 0 || segment.bytes > (int64_t(1) << 46))
      return broken("image.segment",
                    fmt::format("segment \"{}\" has {} bytes", segment.name, segment.bytes));
    if (segment.copies != 1 && (segment.copies != slots || !program.pipeline))
      return broken("image.segment",
                    fmt::format("segment \"{}\" has {} copies; segments have one, or as many "
                                "as a pipeline has slots ({})",
                                segment.name, segment.copies, slots));
    if (segment.copies > (int64_t(1) << 20) ||
        !checkedProduct({segment.bytes + 64, segment.copies, 2}))
      return broken("image.segment", fmt::format("segment \"{}\" has {} copies of {} bytes",
                                                 segment.name, segment.copies, segment.bytes));
  }
  return {};
}

} // namespace

Error brokenImage(const char *kind, std::string message) {
  return userError(kind, std::move(message))
      .suggest("compile the model again: the image does not fit this runtime");
}

Status checkAxes(const Program &program, const AxisList &axes, std::set<int32_t> &used,
                 const char *kind, const std::string &owner) {
  for (int32_t axis : axes) {
    if (axis < 0 || static_cast<size_t>(axis) >= program.mesh.axes.size())
      return broken(kind, fmt::format("{} names axis {} of a mesh with {}", owner, axis,
                                      program.mesh.axes.size()));
    if (!used.insert(axis).second)
      return broken(kind,
                    fmt::format("{} uses axis \"{}\" twice", owner, program.mesh.axes[axis].name));
  }
  return {};
}

Status checkRegion(const Program &program, const Region &region, int64_t alignment,
                   const std::string &owner) {
  if (region.segment < 0 || static_cast<size_t>(region.segment) >= program.segments.size())
    return broken("image.region", fmt::format("{} lies in segment {} of {}", owner, region.segment,
                                              program.segments.size()));
  const Segment &segment = program.segments[region.segment];
  if (region.offset < 0 || region.bytes < 0 || region.offset > segment.bytes ||
      region.bytes > segment.bytes - region.offset)
    return broken("image.region",
                  fmt::format("{} takes {} bytes at {} of segment \"{}\", which has {}", owner,
                              region.bytes, region.offset, segment.name, segment.bytes));
  if (region.offset % alignment != 0)
    return broken("image.region", fmt::format("{} starts at byte {}, not a multiple of {}", owner,
                                              region.offset, alignment));
  if (region.stride != 0 || region.period != 0)
    return broken("image.region",
                  fmt::format("{} moves by {} bytes outside of a repeat", owner, region.stride));
  return {};
}

Status validate(const Program &program) {
  CLEAVE_RT_RETURN_IF_ERROR(checkMesh(program.mesh));
  CLEAVE_RT_RETURN_IF_ERROR(checkBatch(program));
  CLEAVE_RT_RETURN_IF_ERROR(checkSegments(program));
  if (program.pipeline)
    CLEAVE_RT_RETURN_IF_ERROR(validateStages(program));
  CLEAVE_RT_RETURN_IF_ERROR(validateGroups(program));
  CLEAVE_RT_RETURN_IF_ERROR(validateTraffic(program));
  CLEAVE_RT_RETURN_IF_ERROR(checkState(program));
  CLEAVE_RT_RETURN_IF_ERROR(checkExchange(program));
  CLEAVE_RT_RETURN_IF_ERROR(checkConstants(program));
  if (!program.recipe.isObject())
    return broken("image.wrong_type", "the recipe of the image is not an object");
  CLEAVE_RT_RETURN_IF_ERROR(validateCommands(program));
  return validateBeside(program);
}

} // namespace cleave::rt
