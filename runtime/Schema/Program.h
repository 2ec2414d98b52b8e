// The program image: everything the runtime needs to run a compiled model, and
// nothing else. The compiler fills a `Program`, writes it as JSON text, and that
// text is linked into the training binary beside the kernels it names; the
// runtime reads it back and checks every index, offset and size before anything
// runs. `--emit=image` prints it. This is the only bridge between compiler and
// runtime: plain structs, no LLVM, no device, no behaviour.
//
// One program serves all ranks, or with a pipeline all ranks of the same stages
// (runtime/Schema/Image.h has them together). Ranks of a program differ only in
// what they read at run time: their coordinates (constants of kind `BlockStart`),
// their blocks of parameters (`StateEntry::sharding`) and their sequences
// (`BatchLayout`).
//
// Memory is a few *segments*; every buffer is a `Region` (segment, byte offset,
// byte size). Segments start at addresses that are multiples of 64 and are zero
// when the process starts; what a command leaves there stays until overwritten.
//
// A training step runs the entries
//     begin, count × M, prepare, microbatch × M, update
// where M = `BatchLayout::microBatches`; before the i-th count and the i-th
// microbatch the runtime fills tokens, targets and positions with micro-batch i,
// and before `begin` the scalars of the step. Evaluation runs, for each
// micro-batch, begin, count, prepare, evaluate, after which the loss scalar holds
// the mean over the valid targets counted on all ranks.
//
// With a pipeline the actions of `Pipeline::actions` stand in the place of
// microbatch × M, and before `evaluate` the stages' own entries `evaluate` run, in
// the order of the model; see `Pipeline`.
#pragma once

#include "runtime/Base/Json.h"
#include "runtime/Base/Status.h"
#include "runtime/Schema/Commands.h"
#include "runtime/Schema/Layout.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace cleave::rt {

/// Memory of one rank, allocated once.
struct Segment {
  std::string name;
  int64_t bytes = 0;
  /// As often as the segment is allocated, once for each slot of a pipeline.
  /// Regions are places in one copy; a stage's entry works on the copy of its
  /// slot, other entries on copy 0. State, exchange and constants lie in segments
  /// with one copy, and all segments with more have equally many.
  int64_t copies = 1;
};

/// Which sequences a rank reads. A step takes `globalBatch` = D·M·b consecutive
/// sequences, D = product of `dataAxes`, b = `microBatch`, M = `microBatches`;
/// micro-batch m of the ranks with index r over `dataAxes` holds sequences
/// (r·M + m)·b … + b − 1 of them. With `sequenceAxes` each rank holds only its
/// block of rows of these sequences (padded with token 0, target −100 and the
/// positions that would follow). Row i of a sequence holds its position
/// `zigzagOrder(sequence, zigzag)[i]` (TokenOrder.h).
struct BatchLayout {
  int64_t globalBatch = 1;
  int64_t microBatch = 1;
  int64_t microBatches = 1;
  int64_t sequence = 1;
  int64_t vocabulary = 1;
  AxisList dataAxes;
  AxisList sequenceAxes;
  /// Blocks between which the work of causal attention is balanced; 1: in order.
  int64_t zigzag = 1;
};

/// A target with this value does not count.
inline constexpr int32_t ignoredTarget = -100;

enum class Slot { Value, Gradient, Moment1, Moment2 };
inline constexpr size_t slotCount = 4;
const char *nameOf(Slot slot);

/// How a parameter starts when no weights are given: normal numbers of this mean
/// and deviation (std = 0: all equal to mean).
struct Initial {
  double mean = 0;
  double std = 0;
};

/// One parameter. `shape` is its global shape as the program sees it, `fileShape`
/// as files hold it: the same elements in the same row-major order. Slots are f32
/// and hold the padded block row-major; they are cut as `sharding` says, but for
/// those that have a sharding of their own (ZeRO).
///
/// With "{}" in its name, files hold a tensor of `fileShape` for each index of the first
/// dimension, the index in place of the braces: the experts of a layer. Checkpoints hold
/// it whole, under the name with the braces.
struct StateEntry {
  static constexpr int64_t maxFileTensors = 65536;

  std::string name; // Hugging Face
  /// Other names under which a file may hold the same tensor (tied weights).
  std::vector<std::string> aliases;
  std::vector<int64_t> fileShape;
  std::vector<int64_t> shape;
  Sharding sharding;
  bool decay = false;
  /// False for a copy of a tensor that another stage's program has too and that
  /// counts there (tied weights): it starts and is loaded like the other, and is
  /// neither saved nor exported nor among the numbers of parameters.
  bool counted = true;
  Initial initial;
  std::array<std::optional<Region>, slotCount> slots;
  std::array<std::optional<Sharding>, slotCount> ownShardings;

  const Sharding &shardingOf(Slot which) const {
    const auto &own = ownShardings[static_cast<size_t>(which)];
    return own ? *own : sharding;
  }
  /// Number of tensors in files, and the name of each.
  int64_t fileTensors() const { return isSliced() ? shape.front() : 1; }
  std::string fileName(int64_t index) const;
  /// Whether files hold its slices.
  bool isSliced() const { return name.find("{}") != std::string::npos && !shape.empty(); }
  const std::optional<Region> &slot(Slot which) const { return slots[static_cast<size_t>(which)]; }
  std::optional<Region> &slot(Slot which) { return slots[static_cast<size_t>(which)]; }
};

/// Where the runtime exchanges values with the program. tokens, targets and
/// positions are i32 [microBatch, local sequence]; the others are f32 scalars.
/// The runtime writes learningRate, correction1 = 1 − beta1^t and correction2 =
/// 1 − beta2^t (t from 1) before `begin`, and reads, after `update`, loss (mean
/// over the valid targets of the global batch, the same on all ranks),
/// objective (if it differs from the loss), gradientNorm (before clipping), and
/// after `prepare` validCount (over all ranks). A null region is left alone.
struct Exchange {
  Region tokens;
  Region targets;
  std::optional<Region> positions;
  std::optional<Region> learningRate;
  std::optional<Region> correction1;
  std::optional<Region> correction2;
  Region loss;
  std::optional<Region> objective;
  std::optional<Region> gradientNorm;
  std::optional<Region> validCount;
};

/// Contents written once, before anything runs.
struct Constant {
  std::string name;
  Region region;
  DataType type = DataType::F32;

  /// As they stand; f32 and bf16 from the doubles (rounded to nearest even).
  struct Numbers {
    std::vector<double> values;
  };
  /// The bytes of the region, base64 (RFC 4648, with padding) in JSON.
  struct Bytes {
    std::string bytes;
  };
  /// start, start + step, …: as many as the region holds.
  struct Iota {
    double start = 0;
    double step = 1;
  };
  /// One element: scale · (the rank's index over `axes`), for instance the first
  /// row of a vocabulary block (scale = rows of a block).
  struct BlockStart {
    AxisList axes;
    int64_t scale = 1;
  };
  std::variant<Numbers, Bytes, Iota, BlockStart> contents;
};

/// `Last`, where it has commands, is run for the last of several micro-batches in place of
/// `MicroBatch`.
enum class EntryKind { Begin, Count, Prepare, MicroBatch, Update, Evaluate, Survey, Last };
inline constexpr size_t entryCount = 8;
/// "begin", "count", "prepare", "microbatch", "update", "evaluate", "survey", "last".
const char *nameOf(EntryKind kind);

/// A list of commands for each entry.
using Entries = std::array<std::vector<Command>, entryCount>;
/// Commands that an entry may run, iterations of repeats counted.
inline constexpr int64_t maxCommands = int64_t(1) << 22;

/// What a stage does for one micro-batch, in the slot that an action names.
/// `Weights` has the gradients of weights where `Backward` leaves them out. `Last`, where it
/// has commands, is run in place of a step's last `Weights`, or last `Backward` where that
/// leaves nothing out.
enum class StageEntry { Forward, Backward, Weights, Evaluate, Survey, Last };
inline constexpr size_t stageEntryCount = 6;
/// "forward", "backward", "weights", "evaluate", "survey", "last".
const char *nameOf(StageEntry kind);

/// What a stage exchanges with its neighbours for one micro-batch. The lists of
/// two neighbours agree in the bytes of each region; whole words of 4 bytes, in
/// segments with a copy for each slot.
struct StageBoundary {
  /// Written by the runtime before `Forward`, `Evaluate` and `Survey`; none in the first
  /// stage.
  std::vector<Region> inputs;
  /// What these leave to be sent on; none in the last stage.
  std::vector<Region> outputs;
  /// Written by the runtime before `Backward`; none in the last stage.
  std::vector<Region> outputGradients;
  /// What `Backward` leaves to be sent back; none in the first stage.
  std::vector<Region> inputGradients;
};

struct Stage {
  /// In the whole model, from 0.
  int64_t number = 0;
  StageBoundary boundary;
  std::array<std::vector<Command>, stageEntryCount> entries;

  std::vector<Command> &entry(StageEntry kind) { return entries[static_cast<size_t>(kind)]; }
  const std::vector<Command> &entry(StageEntry kind) const {
    return entries[static_cast<size_t>(kind)];
  }
};

/// One thing that a rank does in a step of a pipeline.
struct PipelineAction {
  enum class Kind {
    Forward,
    Backward,
    Weights,
    SendActivation,
    SendGradient,
    ReceiveActivation,
    ReceiveGradient
  };
  static constexpr size_t kinds = 7;

  Kind kind = Kind::Forward;
  /// Index among this program's stages: the one that computes, made what is sent,
  /// or reads what is received.
  int32_t stage = 0;
  int32_t microBatch = 0;
  /// Copy of the segments with several; one for each (stage, micro-batch) from its
  /// first action to its last.
  int32_t slot = 0;
  /// Of a transfer: the other side, as an index over the pipeline's axes; else -1.
  int32_t peer = -1;

  bool isSend() const { return kind == Kind::SendActivation || kind == Kind::SendGradient; }
  bool isReceive() const {
    return kind == Kind::ReceiveActivation || kind == Kind::ReceiveGradient;
  }
  bool isTransfer() const { return isSend() || isReceive(); }
  /// Of a transfer: whether it is of a gradient.
  bool isOfGradient() const { return kind == Kind::SendGradient || kind == Kind::ReceiveGradient; }
};

/// "forward", "send_activation", …: as in the image.
const char *nameOf(PipelineAction::Kind kind);

/// The part that the ranks of one program have in a pipeline. Ranks that differ in
/// their index over `axes` alone go through the model's stages together. Between
/// two of them there is a channel for activations and one for gradients in each
/// direction: it holds `buffers` messages, a send waits while it is full and a
/// receive while it is empty. A message is all regions of a boundary's list.
struct Pipeline {
  AxisList axes;
  /// The program is that of the ranks with this index over `axes`.
  int64_t index = 0;
  int64_t buffers = 1;
  /// How many of the model's first stages have a `Survey`: before `prepare` each
  /// micro-batch goes through them, in slot 0, as an evaluation does through all.
  int64_t surveyed = 0;
  /// This program's stages, in ascending order of their numbers; never two that
  /// follow each other in the model.
  std::vector<Stage> stages;
  /// What a rank does in a step between `prepare` and `update`. Before each
  /// computation the runtime fills tokens, targets and positions with its
  /// micro-batch. Evaluation needs no list: each stage in turn receives into slot
  /// 0, runs `Evaluate` and sends on.
  std::vector<PipelineAction> actions;

  /// What runs for action number `index`, which is no transfer.
  StageEntry entryOf(size_t index) const;
};

/// Ranks that communicate: those that differ in their index over `axes` alone, in
/// ascending order of it.
struct Group {
  AxisList axes;
  /// Indices over `axes` that take part, ascending; empty: all. Only what belongs to
  /// some of a pipeline's stages leaves any out.
  std::vector<int64_t> members;
  /// For exchanges of buckets (`BesideCommand`) and for no others: threads share no
  /// communicator. Such a group is of one program.
  bool beside = false;

  /// Number of ranks.
  int64_t size(const Mesh &mesh) const;
  /// The rank's place in its group; -1 if it takes no part.
  int64_t indexOf(const Mesh &mesh, int64_t rank) const;
  /// The ranks of the group of `rank`, in order.
  std::vector<int64_t> ranksOf(const Mesh &mesh, int64_t rank) const;
};

/// Messages of one kind and their bytes, as a communicator or a channel counts them
/// (runtime/Comm/Communicator.h).
struct MessageCount {
  int64_t calls = 0;
  int64_t bytes = 0;
  auto operator<=>(const MessageCount &) const = default;
};

/// What a rank of the program exchanges in a step, as the compiler's table of communication
/// has it (`--emit=comm`). A rank's counters must come to just this.
struct Traffic {
  struct Collective {
    /// Of more than one rank.
    int32_t group = 0;
    /// "all_reduce", "all_gather", "reduce_scatter" or "all_to_all".
    std::string kind;
    MessageCount count;
    bool isLike(const Collective &other) const {
      return group == other.group && kind == other.kind;
    }
  };
  struct Transfer {
    /// A send or a receipt.
    PipelineAction::Kind kind = PipelineAction::Kind::SendActivation;
    /// The other side, as an index over the pipeline's axes.
    int32_t peer = 0;
    MessageCount count;
    bool isLike(const Transfer &other) const { return kind == other.kind && peer == other.peer; }
  };
  /// None twice.
  std::vector<Collective> collectives;
  std::vector<Transfer> transfers;
};

/// What the compiler expected, for reports. Absent = not predicted.
struct Prediction {
  /// Peak resident memory of one rank.
  std::optional<int64_t> bytesPerRank;
  /// One step of all ranks, on the machines that it was planned for.
  std::optional<double> stepSeconds;
};

struct Program {
  /// Raised when an older runtime would misread the image.
  static constexpr int64_t currentVersion = 3;

  std::string modelName;
  /// Instruction set the kernels need: x86-64, x86-64-v2, x86-64-v3, x86-64-v4,
  /// x86-64-v4+avx512bf16.
  std::string profile = "x86-64";
  /// What launches its kernels: cpu, or cuda.
  std::string device = "cpu";
  Mesh mesh;
  BatchLayout batch;
  std::vector<Segment> segments;
  std::vector<StateEntry> state;
  Exchange exchange;
  std::vector<Constant> constants;
  /// Communicator groups; one of a single rank is allowed. Collectives of groups
  /// whose members run different programs stand in `entries` alone and come in one
  /// order in all of them.
  std::vector<Group> groups;
  Entries entries;
  /// Then `microbatch` is empty.
  std::optional<Pipeline> pipeline;
  /// Absent in images made by hand and by earlier versions: counters are not compared.
  std::optional<Traffic> traffic;
  Prediction prediction;
  /// The model's config.json, byte for byte, for export.
  std::string configText;
  /// The recipe with all defaults filled in, read by runtime/Train.
  JsonValue recipe = JsonValue::object();
  /// A short account of the plan for the log's first line; any JSON.
  JsonValue plan;

  std::vector<Command> &entry(EntryKind kind) { return entries[static_cast<size_t>(kind)]; }
  const std::vector<Command> &entry(EntryKind kind) const {
    return entries[static_cast<size_t>(kind)];
  }
  /// Local positions of a sequence: `sequence` cut by `sequenceAxes`.
  int64_t localSequence() const;
  /// Copies of the segments that have several; 1 if none has.
  int64_t slots() const;

  /// Entries are counted through, those of stages after the seven: what runs them
  /// has a list for each.
  size_t entryLists() const;
  static size_t entryIndex(EntryKind kind) { return static_cast<size_t>(kind); }
  /// `stage`: index among this program's stages.
  static size_t entryIndex(size_t stage, StageEntry kind) {
    return entryCount + stage * stageEntryCount + static_cast<size_t>(kind);
  }
  const std::vector<Command> &entryList(size_t index) const;
  /// "update", "forward of stage 3".
  std::string entryName(size_t index) const;
  /// Null for the seven.
  const Stage *stageOfEntry(size_t index) const;
};

/// Checks everything a run of one program relies on: indices, offsets, sizes and
/// alignment of regions, shapes against regions, overlap rules, batch arithmetic,
/// the program's own part of a pipeline. Errors: `image.segment`, `image.region`,
/// `image.mesh`, `image.batch`, `image.state`, `image.exchange`, `image.constant`,
/// `image.group`, `image.command`, `image.pipeline`, `image.traffic`. The message names the entry
/// and the command's index and label, in a repeat the iteration too: commands of a repeat are
/// checked as each iteration runs them. What programs of a pipeline must have in common is checked
/// by the other `validate`, of runtime/Schema/Image.h.
Status validate(const Program &program);

} // namespace cleave::rt
