// Program → JSON text. Long lists put one item on a line, so that `--emit=image`
// can be read and compared line by line.
#include "runtime/Schema/Base64.h"
#include "runtime/Schema/Image.h"

namespace cleave::rt {
namespace {

template <typename T> void list(JsonWriter &out, const char *key, const std::vector<T> &values) {
  out.key(key).beginArray();
  for (const T &value : values)
    out.value(value);
  out.endArray();
}

void axisList(JsonWriter &out, const AxisList &axes) {
  out.beginArray();
  for (int32_t axis : axes)
    out.value(axis);
  out.endArray();
}

void axisList(JsonWriter &out, const char *key, const AxisList &axes) {
  out.key(key);
  axisList(out, axes);
}

void region(JsonWriter &out, const Region &value) {
  out.beginArray().value(value.segment).value(value.offset).value(value.bytes);
  if (value.stride != 0 || value.period != 0)
    out.value(value.stride);
  if (value.period != 0)
    out.value(value.period);
  out.endArray();
}

void region(JsonWriter &out, const char *key, const Region &value) {
  out.key(key);
  region(out, value);
}

void region(JsonWriter &out, const char *key, const std::optional<Region> &value) {
  if (value)
    region(out, key, *value);
}

/// A list with one item a line, the items `indent` spaces further in.
template <typename T, typename Render>
std::string itemLines(const std::vector<T> &values, size_t indent, Render render) {
  if (values.empty())
    return "[]";
  std::string json;
  for (const T &value : values) {
    json += json.empty() ? "[\n" : ",\n";
    json.append(indent + 2, ' ');
    json += render(value);
  }
  json += '\n';
  json.append(indent, ' ');
  return json + "]";
}

std::string meshText(const Mesh &mesh) {
  JsonWriter out;
  out.beginArray();
  for (const MeshAxis &axis : mesh.axes)
    out.beginObject().key("name").value(axis.name).key("size").value(axis.size).endObject();
  out.endArray();
  return out.take();
}

std::string batchText(const BatchLayout &batch) {
  JsonWriter out;
  out.beginObject();
  out.key("global_batch").value(batch.globalBatch);
  out.key("micro_batch").value(batch.microBatch);
  out.key("micro_batches").value(batch.microBatches);
  out.key("sequence").value(batch.sequence);
  out.key("vocabulary").value(batch.vocabulary);
  axisList(out, "data_axes", batch.dataAxes);
  axisList(out, "sequence_axes", batch.sequenceAxes);
  if (batch.zigzag != 1)
    out.key("zigzag").value(batch.zigzag);
  out.endObject();
  return out.take();
}

std::string segmentText(const Segment &segment) {
  JsonWriter out;
  out.beginObject().key("name").value(segment.name).key("bytes").value(segment.bytes);
  if (segment.copies != 1)
    out.key("copies").value(segment.copies);
  out.endObject();
  return out.take();
}

void sharding(JsonWriter &out, const std::string &key, const Sharding &cut) {
  out.key(key).beginArray();
  for (const AxisList &axes : cut.axes)
    axisList(out, axes);
  out.endArray();
}

std::string stateText(const StateEntry &entry) {
  JsonWriter out;
  out.beginObject().key("name").value(entry.name);
  if (!entry.aliases.empty())
    list(out, "aliases", entry.aliases);
  list(out, "file_shape", entry.fileShape);
  list(out, "shape", entry.shape);
  sharding(out, "axes", entry.sharding);
  out.key("decay").value(entry.decay);
  if (!entry.counted)
    out.key("counted").value(entry.counted);
  out.key("init").beginObject();
  out.key("mean").value(entry.initial.mean).key("std").value(entry.initial.std).endObject();
  for (size_t i = 0; i < slotCount; ++i) {
    const std::string name = nameOf(static_cast<Slot>(i));
    region(out, name.c_str(), entry.slots[i]);
    if (entry.ownShardings[i])
      sharding(out, name + "_axes", *entry.ownShardings[i]);
  }
  out.endObject();
  return out.take();
}

std::string exchangeText(const Exchange &exchange) {
  JsonWriter out;
  out.beginObject();
  region(out, "tokens", exchange.tokens);
  region(out, "targets", exchange.targets);
  region(out, "positions", exchange.positions);
  region(out, "learning_rate", exchange.learningRate);
  region(out, "correction1", exchange.correction1);
  region(out, "correction2", exchange.correction2);
  region(out, "loss", exchange.loss);
  region(out, "objective", exchange.objective);
  region(out, "gradient_norm", exchange.gradientNorm);
  region(out, "valid_count", exchange.validCount);
  out.endObject();
  return out.take();
}

struct ContentsWriter {
  JsonWriter &out;
  void operator()(const Constant::Numbers &numbers) const { list(out, "values", numbers.values); }
  void operator()(const Constant::Bytes &bytes) const {
    out.key("base64").value(toBase64(bytes.bytes));
  }
  void operator()(const Constant::Iota &iota) const {
    out.key("iota").beginObject().key("start").value(iota.start).key("step").value(iota.step);
    out.endObject();
  }
  void operator()(const Constant::BlockStart &start) const {
    out.key("block_start").beginObject();
    axisList(out, "axes", start.axes);
    out.key("scale").value(start.scale).endObject();
  }
};

std::string constantText(const Constant &constant) {
  JsonWriter out;
  out.beginObject().key("name").value(constant.name).key("type").value(nameOf(constant.type));
  region(out, "region", constant.region);
  std::visit(ContentsWriter{out}, constant.contents);
  out.endObject();
  return out.take();
}

const char *nameOf(ReductionKind kind) { return kind == ReductionKind::Sum ? "sum" : "max"; }

void operand(JsonWriter &out, const char *key, const MatrixOperand &matrix) {
  out.key(key).beginObject();
  region(out, "region", matrix.region);
  out.key("row").value(matrix.rowStride).key("column").value(matrix.columnStride).endObject();
}

void cut(JsonWriter &out, const CutDimension &dimension) {
  out.key("outer").value(dimension.outer).key("full").value(dimension.full);
  out.key("inner").value(dimension.inner);
}

struct CommandWriter {
  JsonWriter &out;

  void operator()(const KernelCommand &kernel) const {
    out.key("symbol").value(kernel.symbol).key("args").beginArray();
    for (const Region &arg : kernel.args)
      region(out, arg);
    out.endArray().key("extent").value(kernel.extent).key("grain").value(kernel.grain);
    if (kernel.threads > 0)
      out.key("threads").value(kernel.threads);
    if (kernel.sharedBytes > 0)
      out.key("shared").value(kernel.sharedBytes);
    if (kernel.writes.empty())
      return;
    out.key("writes").beginArray();
    for (DataType type : kernel.writes)
      out.value(nameOf(type));
    out.endArray();
  }
  void operator()(const MatmulCommand &matmul) const {
    operand(out, "a", matmul.a);
    operand(out, "b", matmul.b);
    operand(out, "c", matmul.c);
    out.key("m").value(matmul.m).key("n").value(matmul.n).key("k").value(matmul.k);
    if (!matmul.batch.empty()) {
      out.key("batch").beginArray();
      for (const MatrixBatch &batch : matmul.batch)
        out.beginArray()
            .value(batch.count)
            .value(batch.strideA)
            .value(batch.strideB)
            .value(batch.strideC)
            .endArray();
      out.endArray();
    }
    out.key("accumulate").value(matmul.accumulate);
    if (matmul.operandType != DataType::F32)
      out.key("of").value(nameOf(matmul.operandType));
    if (matmul.resultType != DataType::F32)
      out.key("as").value(nameOf(matmul.resultType));
  }
  void operator()(const PickedMatmulCommand &picked) const {
    pickedOperands(picked);
    out.key("rows").value(picked.rows).key("n").value(picked.n).key("k").value(picked.k);
    out.key("matrices").value(picked.matrices).key("share").value(picked.share);
    out.key("transposed").value(picked.transposed);
  }
  void operator()(const PickedOuterCommand &picked) const {
    pickedOperands(picked);
    out.key("rows").value(picked.rows).key("m").value(picked.m).key("n").value(picked.n);
    out.key("matrices").value(picked.matrices).key("share_a").value(picked.shareA);
    out.key("share_b").value(picked.shareB).key("accumulate").value(picked.accumulate);
  }
  void operator()(const ZeroCommand &zero) const { region(out, "region", zero.region); }
  void operator()(const CopyCommand &copy) const { ends(copy); }
  void operator()(const AllReduceCommand &reduce) const {
    out.key("group").value(reduce.group).key("reduction").value(nameOf(reduce.kind));
    out.key("type").value(rt::nameOf(reduce.type));
    ends(reduce);
  }
  void operator()(const AllGatherCommand &gather) const { collective(gather); }
  void operator()(const ReduceScatterCommand &scatter) const {
    out.key("reduction").value(nameOf(scatter.kind));
    collective(scatter);
  }
  void operator()(const SliceCommand &slice) const { collective(slice); }
  void operator()(const AllToAllCommand &exchange) const {
    out.key("group").value(exchange.group).key("type").value(rt::nameOf(exchange.type));
    out.key("outer").value(exchange.outer).key("first").value(exchange.first);
    out.key("middle").value(exchange.middle).key("second").value(exchange.second);
    out.key("inner").value(exchange.inner).key("split_first").value(exchange.splitFirst);
    ends(exchange);
  }
  /// Without the exchanges, which take lines of their own.
  void operator()(const BesideCommand &bucket) const { out.key("number").value(bucket.number); }
  void operator()(const AwaitCommand &await) const { out.key("number").value(await.number); }
  /// Without the body, likewise.
  void operator()(const RepeatCommand &repeat) const {
    out.key("count").value(repeat.count).key("first_layer").value(repeat.firstLayer);
    out.key("layer_step").value(repeat.layerStep);
  }

private:
  template <typename T> void pickedOperands(const T &picked) const {
    region(out, "a", picked.a);
    region(out, "b", picked.b);
    region(out, "index", picked.index);
    region(out, "offset", picked.offset);
    region(out, "c", picked.c);
    if (picked.operandType != DataType::F32)
      out.key("of").value(nameOf(picked.operandType));
  }
  template <typename T> void ends(const T &command) const {
    region(out, "source", command.source);
    region(out, "target", command.target);
  }
  template <typename T> void collective(const T &command) const {
    out.key("group").value(command.group).key("type").value(rt::nameOf(command.type));
    cut(out, command.cut);
    ends(command);
  }
};

/// `indent`: of the line on which the command stands.
std::string commandText(const Command &command, size_t indent) {
  JsonWriter out;
  out.beginObject().key("op").value(nameOf(command));
  if (!command.label.empty())
    out.key("label").value(command.label);
  std::visit(CommandWriter{out}, command.what);
  if (command.bytes != 0)
    out.key("bytes").value(command.bytes);
  if (command.flops != 0)
    out.key("flops").value(command.flops);
  if (command.ahead != 0)
    out.key("ahead").value(command.ahead);
  out.endObject();
  std::string text = out.take();
  auto addList = [&](const char *key, const std::vector<Command> &list) {
    text.pop_back();
    text += std::string(", \"") + key + "\": ";
    text += itemLines(list, indent,
                      [&](const Command &inner) { return commandText(inner, indent + 2); });
    text += '}';
  };
  if (const auto *repeat = std::get_if<RepeatCommand>(&command.what))
    addList("body", repeat->body);
  if (const auto *bucket = std::get_if<BesideCommand>(&command.what))
    addList("exchanges", bucket->exchanges);
  return text;
}

/// Of all members, for what is not beside, just the axes.
std::string groupText(const Group &group) {
  JsonWriter out;
  if (group.members.empty() && !group.beside) {
    axisList(out, group.axes);
    return out.take();
  }
  out.beginObject();
  axisList(out, "axes", group.axes);
  if (!group.members.empty())
    list(out, "members", group.members);
  if (group.beside)
    out.key("beside").value(true);
  out.endObject();
  return out.take();
}

std::string actionText(const PipelineAction &action) {
  JsonWriter out;
  out.beginArray().value(nameOf(action.kind)).value(action.stage).value(action.microBatch);
  out.value(action.slot);
  if (action.isTransfer())
    out.value(action.peer);
  out.endArray();
  return out.take();
}

std::string regionsText(const std::vector<Region> &regions) {
  JsonWriter out;
  out.beginArray();
  for (const Region &each : regions)
    region(out, each);
  out.endArray();
  return out.take();
}

void messages(JsonWriter &out, const MessageCount &count) {
  out.key("calls").value(count.calls).key("bytes").value(count.bytes);
}

std::string trafficText(const Traffic &traffic) {
  JsonWriter out;
  out.beginObject().key("collectives").beginArray();
  for (const Traffic::Collective &each : traffic.collectives) {
    out.beginObject().key("group").value(each.group).key("kind").value(each.kind);
    messages(out, each.count);
    out.endObject();
  }
  out.endArray().key("transfers").beginArray();
  for (const Traffic::Transfer &each : traffic.transfers) {
    out.beginObject().key("kind").value(nameOf(each.kind)).key("peer").value(each.peer);
    messages(out, each.count);
    out.endObject();
  }
  out.endArray().endObject();
  return out.take();
}

std::string predictionText(const Prediction &prediction) {
  JsonWriter out;
  out.beginObject();
  if (prediction.bytesPerRank)
    out.key("bytes_per_rank").value(*prediction.bytesPerRank);
  if (prediction.stepSeconds)
    out.key("step_seconds").value(*prediction.stepSeconds);
  out.endObject();
  return out.take();
}

/// Assembles an object that takes lines: one member a line, long lists one item a line.
class ObjectText {
public:
  /// `indent`: of the line on which the object begins.
  explicit ObjectText(size_t indent = 0) : indent(indent) {}

  void member(std::string_view key, std::string_view json) {
    text += text.empty() ? "{\n" : ",\n";
    text.append(inner(), ' ');
    appendJsonString(text, key);
    text += ": ";
    text += json;
  }
  template <typename T, typename Render>
  void items(std::string_view key, const std::vector<T> &values, Render render) {
    member(key, itemLines(values, inner(), render));
  }
  void commands(std::string_view key, const std::vector<Command> &commands) {
    items(key, commands, [&](const Command &command) { return commandText(command, inner() + 2); });
  }
  std::string take() {
    text += '\n';
    text.append(indent, ' ');
    text += '}';
    return std::move(text);
  }
  /// Of the lines of members; those of the outermost object stand at the margin.
  size_t inner() const { return indent == 0 ? 0 : indent + 2; }

private:
  const size_t indent;
  std::string text;
};

std::string stageText(const Stage &stage, size_t indent) {
  ObjectText out(indent);
  out.member("number", std::to_string(stage.number));
  out.member("inputs", regionsText(stage.boundary.inputs));
  out.member("outputs", regionsText(stage.boundary.outputs));
  out.member("output_gradients", regionsText(stage.boundary.outputGradients));
  out.member("input_gradients", regionsText(stage.boundary.inputGradients));
  for (size_t i = 0; i < stageEntryCount; ++i)
    if (static_cast<StageEntry>(i) != StageEntry::Last || !stage.entries[i].empty())
      out.commands(nameOf(static_cast<StageEntry>(i)), stage.entries[i]);
  return out.take();
}

std::string pipelineText(const Pipeline &pipeline, size_t indent) {
  ObjectText out(indent);
  JsonWriter axes;
  axisList(axes, pipeline.axes);
  out.member("axes", axes.take());
  out.member("index", std::to_string(pipeline.index));
  out.member("buffers", std::to_string(pipeline.buffers));
  if (pipeline.surveyed > 0)
    out.member("surveyed", std::to_string(pipeline.surveyed));
  out.items("stages", pipeline.stages,
            [&](const Stage &stage) { return stageText(stage, out.inner() + 2); });
  out.items("actions", pipeline.actions, actionText);
  return out.take();
}

/// What each program has of its own.
void ownMembers(ObjectText &out, const Program &program) {
  out.items("segments", program.segments, segmentText);
  out.items("state", program.state, stateText);
  out.member("exchange", exchangeText(program.exchange));
  out.items("constants", program.constants, constantText);
  out.items("groups", program.groups, groupText);
  for (size_t i = 0; i < entryCount; ++i)
    if (static_cast<EntryKind>(i) == EntryKind::Last
            ? !program.entries[i].empty()
            : !program.pipeline || static_cast<EntryKind>(i) != EntryKind::MicroBatch)
      out.commands(nameOf(static_cast<EntryKind>(i)), program.entries[i]);
  if (program.pipeline)
    out.member("pipeline", pipelineText(*program.pipeline, out.inner()));
  if (program.traffic)
    out.member("traffic", trafficText(*program.traffic));
  out.member("prediction", predictionText(program.prediction));
}

} // namespace

std::string toImageText(const Image &image) {
  const Program &common = image.first();
  ObjectText out;
  out.member("version", std::to_string(Program::currentVersion));
  out.member("model", toString(JsonValue(common.modelName)));
  out.member("profile", toString(JsonValue(common.profile)));
  if (common.device != "cpu")
    out.member("device", toString(JsonValue(common.device)));
  out.member("mesh", meshText(common.mesh));
  out.member("batch", batchText(common.batch));
  if (common.pipeline)
    out.items("programs", image.programs, [](const Program &program) {
      ObjectText own(2);
      ownMembers(own, program);
      return own.take();
    });
  else
    ownMembers(out, common);
  out.member("recipe", toString(common.recipe));
  out.member("plan", toString(common.plan));
  out.member("config", toString(JsonValue(common.configText)));
  return out.take() + '\n';
}

} // namespace cleave::rt
