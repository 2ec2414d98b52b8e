// JSON text → Image. Shapes of the JSON are checked here (kinds `image.*` of
// ObjectReader); what the numbers mean together is checked by `validate`.
#include "runtime/Schema/Base64.h"
#include "runtime/Schema/Image.h"
#include "runtime/Schema/ImageReading.h"

#include <fmt/format.h>

namespace cleave::rt {
namespace {

using namespace reading;

std::vector<int64_t> shape(ObjectReader &in, const std::string &key) {
  in.require(key);
  const JsonValue *value = in.raw(key);
  if (!value)
    return {};
  auto result = integers(*value, {.min = 1});
  if (!result)
    in.absorb(malformed(in, key, "a shape is a list of positive integers"));
  return result.value_or(std::vector<int64_t>{});
}

DataType dataType(ObjectReader &in) {
  in.require("type");
  const std::string name = in.oneOf("type", {"f32", "bf16", "i32", "i64"}).value_or("f32");
  for (DataType type : {DataType::BF16, DataType::I32, DataType::I64})
    if (name == nameOf(type))
      return type;
  return DataType::F32;
}

ReductionKind reduction(ObjectReader &in) {
  in.require("reduction");
  return in.oneOf("reduction", {"sum", "max"}).value_or("sum") == "max" ? ReductionKind::Max
                                                                        : ReductionKind::Sum;
}

void readBatch(ObjectReader &in, BatchLayout &batch) {
  in.require("batch");
  auto from = in.object("batch");
  if (!from)
    return;
  batch.globalBatch = needInteger(*from, "global_batch", {.min = 1});
  batch.microBatch = needInteger(*from, "micro_batch", {.min = 1});
  batch.microBatches = needInteger(*from, "micro_batches", {.min = 1});
  batch.sequence = needInteger(*from, "sequence", {.min = 1});
  batch.vocabulary = needInteger(*from, "vocabulary", {.min = 1});
  batch.dataAxes = axes(*from, "data_axes", from->raw("data_axes"));
  batch.sequenceAxes = axes(*from, "sequence_axes", from->raw("sequence_axes"));
  batch.zigzag = from->integer("zigzag", {.min = 1}).value_or(1);
  in.absorb(from->finish());
}

std::optional<Sharding> sharding(ObjectReader &in, const std::string &key) {
  const JsonValue::Array *list = in.list(key);
  if (!list)
    return std::nullopt;
  Sharding cut;
  for (const JsonValue &dimension : *list)
    cut.axes.push_back(axes(in, key, &dimension));
  return cut;
}

StateEntry readState(ObjectReader &in) {
  StateEntry entry;
  entry.name = needString(in, "name");
  if (const JsonValue::Array *aliases = in.list("aliases"))
    for (const JsonValue &alias : *aliases) {
      if (alias.isString())
        entry.aliases.push_back(alias.string());
      else
        in.absorb(malformed(in, "aliases", "aliases are a list of tensor names"));
    }
  entry.fileShape = shape(in, "file_shape");
  entry.shape = shape(in, "shape");
  in.require("axes");
  entry.sharding = sharding(in, "axes").value_or(Sharding());
  in.require("decay");
  entry.decay = in.boolean("decay").value_or(false);
  entry.counted = in.boolean("counted").value_or(true);
  if (auto init = in.object("init")) {
    entry.initial.mean = init->number("mean").value_or(0);
    entry.initial.std = init->number("std", {.min = 0}).value_or(0);
    in.absorb(init->finish());
  }
  for (size_t i = 0; i < slotCount; ++i) {
    const std::string name = nameOf(static_cast<Slot>(i));
    entry.slots[i] = region(in, name);
    entry.ownShardings[i] = sharding(in, name + "_axes");
  }
  return entry;
}

void readExchange(ObjectReader &in, Exchange &exchange) {
  in.require("exchange");
  auto from = in.object("exchange");
  if (!from)
    return;
  exchange.tokens = needRegion(*from, "tokens");
  exchange.targets = needRegion(*from, "targets");
  exchange.positions = region(*from, "positions");
  exchange.learningRate = region(*from, "learning_rate");
  exchange.correction1 = region(*from, "correction1");
  exchange.correction2 = region(*from, "correction2");
  exchange.loss = needRegion(*from, "loss");
  exchange.objective = region(*from, "objective");
  exchange.gradientNorm = region(*from, "gradient_norm");
  exchange.validCount = region(*from, "valid_count");
  in.absorb(from->finish());
}

Constant readConstant(ObjectReader &in) {
  Constant constant;
  constant.name = needString(in, "name");
  constant.type = dataType(in);
  constant.region = needRegion(in, "region");
  int forms = 0;
  if (const JsonValue::Array *list = in.list("values")) {
    ++forms;
    Constant::Numbers numbers;
    for (const JsonValue &value : *list) {
      if (value.isNumber())
        numbers.values.push_back(value.number());
      else
        in.absorb(malformed(in, "values", "values are a list of finite numbers"));
    }
    constant.contents = std::move(numbers);
  }
  if (auto text = in.string("base64")) {
    ++forms;
    auto bytes = fromBase64(*text);
    if (!bytes)
      in.absorb(malformed(in, "base64", "bytes are base64 with padding (RFC 4648)"));
    constant.contents = Constant::Bytes{bytes.value_or("")};
  }
  if (auto iota = in.object("iota")) {
    ++forms;
    constant.contents =
        Constant::Iota{iota->number("start").value_or(0), iota->number("step").value_or(1)};
    in.absorb(iota->finish());
  }
  if (auto start = in.object("block_start")) {
    ++forms;
    constant.contents = Constant::BlockStart{axes(*start, "axes", start->raw("axes")),
                                             start->integer("scale", {}).value_or(1)};
    in.absorb(start->finish());
  }
  if (forms != 1)
    in.absorb(malformed(in, "name", "a constant has one of values, base64, iota, block_start"));
  return constant;
}

MatrixOperand readOperand(ObjectReader &in, const std::string &key) {
  MatrixOperand matrix;
  in.require(key);
  auto from = in.object(key);
  if (!from)
    return matrix;
  matrix.region = needRegion(*from, "region");
  matrix.rowStride = needInteger(*from, "row");
  matrix.columnStride = needInteger(*from, "column");
  in.absorb(from->finish());
  return matrix;
}

std::optional<DataType> typeCalled(const JsonValue &name) {
  for (DataType type : {DataType::F32, DataType::BF16, DataType::I32, DataType::I64})
    if (name.isString() && name.string() == nameOf(type))
      return type;
  return std::nullopt;
}

KernelCommand readKernel(ObjectReader &in) {
  KernelCommand kernel;
  kernel.symbol = needString(in, "symbol");
  in.require("args");
  if (const JsonValue::Array *args = in.list("args"))
    for (const JsonValue &arg : *args) {
      auto region = regionOf(arg);
      if (!region)
        in.absorb(malformed(in, "args", regionRule));
      kernel.args.push_back(region.value_or(Region{}));
    }
  kernel.extent = needInteger(in, "extent");
  kernel.grain = needInteger(in, "grain", {.min = 1});
  if (const JsonValue::Array *types = in.list("writes"))
    for (const JsonValue &type : *types) {
      const std::optional<DataType> known = typeCalled(type);
      if (!known)
        in.absorb(malformed(in, "writes", "a list of f32, bf16, i32 and i64"));
      kernel.writes.push_back(known.value_or(DataType::F32));
    }
  kernel.threads = in.integer("threads", {.min = 1, .max = 1024}).value_or(0);
  kernel.sharedBytes = in.integer("shared", {.min = 1, .max = 1 << 20}).value_or(0);
  return kernel;
}

DataType productType(ObjectReader &in, const char *key) {
  return in.oneOf(key, {"f32", "bf16"}).value_or("f32") == "bf16" ? DataType::BF16 : DataType::F32;
}

MatmulCommand readMatmul(ObjectReader &in) {
  MatmulCommand matmul;
  matmul.a = readOperand(in, "a");
  matmul.b = readOperand(in, "b");
  matmul.c = readOperand(in, "c");
  matmul.m = needInteger(in, "m");
  matmul.n = needInteger(in, "n");
  matmul.k = needInteger(in, "k");
  if (const JsonValue::Array *list = in.list("batch"))
    for (const JsonValue &dimension : *list) {
      auto numbers = integers(dimension, {.min = 0});
      if (!numbers || numbers->size() != 4) {
        in.absorb(malformed(in, "batch", "a batch dimension is [count, stride a, b, c]"));
        continue;
      }
      matmul.batch.push_back({(*numbers)[0], (*numbers)[1], (*numbers)[2], (*numbers)[3]});
    }
  matmul.accumulate = in.boolean("accumulate").value_or(false);
  matmul.operandType = productType(in, "of");
  matmul.resultType = productType(in, "as");
  return matmul;
}

template <typename T> void readPickedOperands(ObjectReader &in, T &picked) {
  picked.a = needRegion(in, "a");
  picked.b = needRegion(in, "b");
  picked.index = needRegion(in, "index");
  picked.offset = region(in, "offset");
  picked.c = needRegion(in, "c");
  picked.rows = needInteger(in, "rows", {.min = 1});
  picked.n = needInteger(in, "n", {.min = 1});
  picked.matrices = needInteger(in, "matrices", {.min = 1});
  picked.operandType = productType(in, "of");
}

PickedMatmulCommand readPickedMatmul(ObjectReader &in) {
  PickedMatmulCommand picked;
  readPickedOperands(in, picked);
  picked.k = needInteger(in, "k", {.min = 1});
  picked.share = needInteger(in, "share", {.min = 1});
  picked.transposed = in.boolean("transposed").value_or(false);
  return picked;
}

PickedOuterCommand readPickedOuter(ObjectReader &in) {
  PickedOuterCommand picked;
  readPickedOperands(in, picked);
  picked.m = needInteger(in, "m", {.min = 1});
  picked.shareA = needInteger(in, "share_a", {.min = 1});
  picked.shareB = needInteger(in, "share_b", {.min = 1});
  picked.accumulate = in.boolean("accumulate").value_or(false);
  return picked;
}

template <typename T> void readEnds(ObjectReader &in, T &command) {
  command.source = needRegion(in, "source");
  command.target = needRegion(in, "target");
}

template <typename T> void readGroupAndType(ObjectReader &in, T &command) {
  command.group = static_cast<int32_t>(needInteger(in, "group", {.min = 0, .max = maxInt32}));
  command.type = dataType(in);
}

template <typename T> T readCutCollective(ObjectReader &in) {
  T command;
  readGroupAndType(in, command);
  command.cut.outer = needInteger(in, "outer");
  command.cut.full = needInteger(in, "full");
  command.cut.inner = needInteger(in, "inner");
  readEnds(in, command);
  if constexpr (requires { command.kind; })
    command.kind = reduction(in);
  return command;
}

AllReduceCommand readAllReduce(ObjectReader &in) {
  AllReduceCommand command;
  readGroupAndType(in, command);
  command.kind = reduction(in);
  readEnds(in, command);
  return command;
}

AllToAllCommand readAllToAll(ObjectReader &in) {
  AllToAllCommand command;
  readGroupAndType(in, command);
  command.outer = needInteger(in, "outer");
  command.first = needInteger(in, "first");
  command.middle = needInteger(in, "middle");
  command.second = needInteger(in, "second");
  command.inner = needInteger(in, "inner");
  in.require("split_first");
  command.splitFirst = in.boolean("split_first").value_or(true);
  readEnds(in, command);
  return command;
}

RepeatCommand readRepeat(ObjectReader &in) {
  RepeatCommand repeat;
  repeat.count = needInteger(in, "count", {});
  repeat.firstLayer = in.integer("first_layer").value_or(repeat.firstLayer);
  repeat.layerStep = in.integer("layer_step").value_or(repeat.layerStep);
  readCommands(in, "body", repeat.body);
  return repeat;
}

StatusOr<Command> readCommand(ObjectReader &in) {
  Command command;
  const std::string op = needString(in, "op");
  command.label = in.string("label").value_or("");
  command.bytes = in.number("bytes", {.min = 0}).value_or(0);
  command.flops = in.number("flops", {.min = 0}).value_or(0);
  command.ahead = in.integer("ahead", {}).value_or(0);
  if (op == "kernel") {
    command.what = readKernel(in);
  } else if (op == "matmul") {
    command.what = readMatmul(in);
  } else if (op == "picked_matmul") {
    command.what = readPickedMatmul(in);
  } else if (op == "picked_outer") {
    command.what = readPickedOuter(in);
  } else if (op == "zero") {
    command.what = ZeroCommand{needRegion(in, "region")};
  } else if (op == "copy") {
    CopyCommand copy;
    readEnds(in, copy);
    command.what = copy;
  } else if (op == "all_reduce") {
    command.what = readAllReduce(in);
  } else if (op == "all_gather") {
    command.what = readCutCollective<AllGatherCommand>(in);
  } else if (op == "reduce_scatter") {
    command.what = readCutCollective<ReduceScatterCommand>(in);
  } else if (op == "slice") {
    command.what = readCutCollective<SliceCommand>(in);
  } else if (op == "all_to_all") {
    command.what = readAllToAll(in);
  } else if (op == "beside") {
    BesideCommand bucket{needInteger(in, "number", {.min = 0, .max = maxInt32}), {}};
    readCommands(in, "exchanges", bucket.exchanges);
    command.what = std::move(bucket);
  } else if (op == "await") {
    command.what = AwaitCommand{needInteger(in, "number", {.min = 0, .max = maxInt32})};
  } else if (op == "repeat") {
    command.what = readRepeat(in);
  } else {
    return userError("image.unknown_value", fmt::format("\"{}\" is no command", op))
        .at(in.whereOf("op"))
        .withRule("\"op\" is kernel, matmul, picked_matmul, picked_outer, zero, copy, all_reduce, "
                  "all_gather, reduce_scatter, slice, all_to_all, beside, await or repeat");
  }
  return command;
}

} // namespace

void reading::readCommands(ObjectReader &in, const std::string &key,
                           std::vector<Command> &commands) {
  eachObject(in, key, [&](ObjectReader &from) -> Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(Command command, readCommand(from));
    commands.push_back(std::move(command));
    return {};
  });
}

namespace {

Group readGroup(ObjectReader &in, const JsonValue &value, size_t index) {
  if (value.isArray())
    return {axes(in, "groups", &value), {}};
  ObjectReader from(value, in.fileName(), prefix, fmt::format("groups[{}]", index));
  Group group;
  from.require("axes");
  group.axes = axes(from, "axes", from.raw("axes"));
  group.beside = from.boolean("beside").value_or(false);
  if (!group.beside)
    from.require("members");
  if (const JsonValue *members = from.raw("members")) {
    if (auto list = integers(*members, {.min = 0}))
      group.members = *list;
    else
      in.absorb(malformed(from, "members", "members are a list of indices over the axes"));
  }
  in.absorb(from.finish());
  return group;
}

void readGroups(ObjectReader &in, std::vector<Group> &groups) {
  in.require("groups");
  if (const JsonValue::Array *list = in.list("groups"))
    for (size_t i = 0; i < list->size(); ++i)
      groups.push_back(readGroup(in, (*list)[i], i));
}

void readPrediction(ObjectReader &in, Prediction &prediction) {
  if (auto from = in.object("prediction")) {
    prediction.bytesPerRank = from->integer("bytes_per_rank", {.min = 0});
    prediction.stepSeconds = from->number("step_seconds", {.min = 0});
    in.absorb(from->finish());
  }
}

/// What all programs have in common.
void readCommon(ObjectReader &in, Program &program) {
  program.modelName = needString(in, "model");
  in.require("profile");
  program.profile =
      in.oneOf("profile", {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4+avx512bf16"})
          .value_or("x86-64");
  program.device = in.oneOf("device", {"cpu", "cuda"}).value_or("cpu");
  eachObject(in, "mesh", [&](ObjectReader &from) {
    std::string name = needString(from, "name");
    program.mesh.axes.push_back({std::move(name), needInteger(from, "size", {.min = 1})});
    return Status::success();
  });
  readBatch(in, program.batch);
  in.require("recipe");
  if (const JsonValue *recipe = in.raw("recipe"))
    program.recipe = *recipe;
  if (const JsonValue *plan = in.raw("plan"))
    program.plan = *plan;
  program.configText = needString(in, "config");
}

/// What a program has of its own.
void readOwn(ObjectReader &in, Program &program, bool hasPipeline) {
  eachObject(in, "segments", [&](ObjectReader &from) {
    Segment segment;
    segment.name = needString(from, "name");
    segment.bytes = needInteger(from, "bytes");
    segment.copies = from.integer("copies", {.min = 1}).value_or(1);
    program.segments.push_back(std::move(segment));
    return Status::success();
  });
  eachObject(in, "state", [&](ObjectReader &from) {
    program.state.push_back(readState(from));
    return Status::success();
  });
  readExchange(in, program.exchange);
  eachObject(in, "constants", [&](ObjectReader &from) {
    program.constants.push_back(readConstant(from));
    return Status::success();
  });
  readGroups(in, program.groups);
  for (size_t i = 0; i < entryCount; ++i)
    if (static_cast<EntryKind>(i) == EntryKind::Last
            ? in.has(nameOf(EntryKind::Last))
            : !hasPipeline || static_cast<EntryKind>(i) != EntryKind::MicroBatch)
      readCommands(in, nameOf(static_cast<EntryKind>(i)), program.entries[i]);
  if (hasPipeline) {
    in.require("pipeline");
    program.pipeline.emplace();
    if (auto from = in.object("pipeline")) {
      readPipeline(*from, *program.pipeline);
      in.absorb(from->finish());
    }
  }
  readTraffic(in, program);
  readPrediction(in, program.prediction);
}

} // namespace

StatusOr<Image> imageFromText(std::string_view text, const std::string &file) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const JsonValue root, parseJson(text, {.file = file}));
  ObjectReader in(root, file, prefix);
  Program common;
  in.require("version");
  in.checkVersion(Program::currentVersion);
  readCommon(in, common);
  Image image;
  if (in.has("programs")) {
    eachObject(in, "programs", [&](ObjectReader &from) {
      image.programs.push_back(common);
      readOwn(from, image.programs.back(), true);
      return Status::success();
    });
  } else {
    readOwn(in, common, false);
    image.programs.push_back(std::move(common));
  }
  CLEAVE_RT_RETURN_IF_ERROR(in.finish());
  CLEAVE_RT_RETURN_IF_ERROR(validate(image));
  return image;
}

} // namespace cleave::rt
