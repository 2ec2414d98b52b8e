// What a rank's entries consist of: commands over regions of its memory. Part of the
// program image, see runtime/Schema/Program.h.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace cleave::rt {

enum class DataType { F32, BF16, I32, I64 };

/// Bytes of one element.
int64_t elementBytes(DataType type);
/// "f32", "bf16", "i32", "i64".
const char *nameOf(DataType type);

/// `bytes` bytes at `offset` in a segment. JSON: [segment, offset, bytes], with the stride
/// behind it where that isn't 0, and the period behind that where there is one.
struct Region {
  int32_t segment = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  /// Bytes by which the region moves with each iteration of the repeat that
  /// holds the command; may be negative. 0 outside of repeats.
  int64_t stride = 0;
  /// Iterations after which it is back at `offset`; 0: it never is. What one turn of a
  /// repeat makes for another has two places or more, see `Command::ahead`.
  int64_t period = 0;
};

/// Runs `symbol(args, begin, end)` over [0, extent) in pieces of exactly `grain`
/// (the last one shorter), in any order and on any thread; the pieces, and so the
/// results, do not depend on the number of threads.
struct KernelCommand {
  std::string symbol;
  std::vector<Region> args;
  int64_t extent = 1;
  int64_t grain = 1;
  /// Types of the elements of the last arguments, which are what it writes; may be empty.
  std::vector<DataType> writes = {};
  /// Of a GPU's kernel, of which `extent` blocks of so many threads are launched; 0: it is the
  /// processor's.
  int64_t threads = 0;
  /// Shared memory of each block, beside what the kernel's text declares.
  int64_t sharedBytes = 0;
};

/// A matrix inside a region; strides in elements. One of the two strides
/// must be 1 wherever the matrix is larger than 1 in that direction.
struct MatrixOperand {
  Region region;
  int64_t rowStride = 1;
  int64_t columnStride = 1;
};

/// Number of matrices along one batch dimension and the distance between
/// neighbours, in elements (0 in a or b: the same matrix for all).
struct MatrixBatch {
  int64_t count = 1;
  int64_t strideA = 0;
  int64_t strideB = 0;
  int64_t strideC = 0;
};

/// c[m × n] = a[m × k] · b[k × n], or += with `accumulate`, for every index of
/// the batch dimensions. c must not overlap a or b. Elements are f32 or bf16, a result of
/// bf16 (not with `accumulate`) only of such operands; sums are in f32.
struct MatmulCommand {
  MatrixOperand a, b, c;
  int64_t m = 1, n = 1, k = 1;
  std::vector<MatrixBatch> batch;
  bool accumulate = false;
  DataType operandType = DataType::F32, resultType = DataType::F32;
};

/// Each of `rows` rows times the matrix that its index picks: row r of c (n elements) is
/// row r / share of a (k elements) times matrix index[r] − offset of b, zeros where there
/// is none. Rows lie one behind the other; b holds `matrices` dense matrices of k × n, by
/// rows or, with `transposed`, by columns. index (and offset, 0 if absent) are i32.
struct PickedMatmulCommand {
  Region a, b, index, c;
  std::optional<Region> offset;
  int64_t rows = 1, n = 1, k = 1, matrices = 1;
  int64_t share = 1;
  bool transposed = false;
  /// Of a and b, F32 or BF16; c is F32.
  DataType operandType = DataType::F32;
};

/// Matrix e of c (m × n, dense, one behind the other) is the sum, or += with
/// `accumulate`, of the outer products of row r / shareA of a (m elements) and row
/// r / shareB of b (n elements) over all rows r with index[r] − offset = e.
struct PickedOuterCommand {
  Region a, b, index, c;
  std::optional<Region> offset;
  int64_t rows = 1, m = 1, n = 1, matrices = 1;
  int64_t shareA = 1, shareB = 1;
  bool accumulate = false;
  /// Of a and b, F32 or BF16; c is F32.
  DataType operandType = DataType::F32;
};

struct ZeroCommand {
  Region region;
};

/// Sizes equal, no overlap.
struct CopyCommand {
  Region source;
  Region target;
};

enum class ReductionKind { Sum, Max };

/// Element-wise over the group, the result on every member. `target` may be
/// `source` itself, else they don't overlap.
struct AllReduceCommand {
  int32_t group = 0;
  ReductionKind kind = ReductionKind::Sum;
  DataType type = DataType::F32;
  Region source;
  Region target;
};

/// One dimension of a tensor cut over a group of k ranks: the whole has
/// [outer, full, inner] elements, a block [outer, ceil(full / k), inner].
/// All sizes in elements.
struct CutDimension {
  int64_t outer = 1;
  int64_t full = 1;
  int64_t inner = 1;
};

/// source: the rank's block; target: the whole, without padding.
struct AllGatherCommand {
  int32_t group = 0;
  DataType type = DataType::F32;
  CutDimension cut;
  Region source;
  Region target;
};

/// source: the whole on every rank; target: the rank's block of the sum (or
/// maximum), padding zero.
struct ReduceScatterCommand {
  int32_t group = 0;
  ReductionKind kind = ReductionKind::Sum;
  DataType type = DataType::F32;
  CutDimension cut;
  Region source;
  Region target;
};

/// The rank's own block of a whole that it holds; padding zero. No communication.
struct SliceCommand {
  int32_t group = 0;
  DataType type = DataType::F32;
  CutDimension cut;
  Region source;
  Region target;
};

/// Moves a cut from one dimension to another. The whole is [outer, first, middle,
/// second, inner]. With `splitFirst` the source is whole along `first` and the
/// rank's block along `second`, the target the other way round; without, the
/// reverse. Padding of the target is zero.
struct AllToAllCommand {
  int32_t group = 0;
  DataType type = DataType::F32;
  int64_t outer = 1, first = 1, middle = 1, second = 1, inner = 1;
  bool splitFirst = true;
  Region source;
  Region target;
};

struct Command;

/// Starts a bucket: exchanges that run beside the commands behind this one, on a thread
/// that a rank has for them, one bucket after the other. They are of one kind (all_reduce,
/// all_gather or reduce_scatter, with one reduction) and of one group, which is for
/// exchanges beside. Until the `AwaitCommand` of this number, later in the same entry,
/// nobody writes what they read nor touches what they write.
struct BesideCommand {
  /// Of no other bucket of the entry; in a repeat each iteration has one of its own.
  int64_t number = 0;
  std::vector<Command> exchanges;
};

/// Waits until the bucket is done.
struct AwaitCommand {
  int64_t number = 0;
};

/// Runs `body` from its first command to its last, `count` times: the commands
/// of layers that differ only in where their values lie. In iteration i (from 0)
/// every region of the body lies i · `stride` further (with a period, i mod `period` times
/// that), and every "*" in its labels stands for firstLayer + i · layerStep. Repeats don't
/// nest. What an entry runs is the list without repeats, see runtime/Schema/Unroll.h.
///
/// A command with `ahead` a runs in turn t for iteration t + a, so that what it does for
/// iteration i is done a turns before the rest of that. Turns before the first and behind
/// the last iteration run just the commands that have an iteration then.
struct RepeatCommand {
  static constexpr int64_t maxCount = 65536;
  /// Of `Command::ahead`, either way.
  static constexpr int64_t maxAhead = 16;
  /// Of `firstLayer + i · layerStep`, and of layerStep either way.
  static constexpr int64_t maxLayer = std::numeric_limits<int32_t>::max();

  int64_t count = 1;
  int64_t firstLayer = 0;
  int64_t layerStep = 1;
  std::vector<Command> body;
};

/// One command with what reports need. Bytes and operations are of one rank.
struct Command {
  std::variant<KernelCommand, MatmulCommand, PickedMatmulCommand, PickedOuterCommand, ZeroCommand,
               CopyCommand, AllReduceCommand, AllGatherCommand, ReduceScatterCommand, SliceCommand,
               AllToAllCommand, BesideCommand, AwaitCommand, RepeatCommand>
      what;
  /// Path of the operators it came from, with the layer: "layers.3/mlp.gate", in
  /// a repeat "layers.*/mlp.gate".
  std::string label;
  /// 0 for a repeat: the commands of its body state theirs, of one iteration. 0 for a
  /// bucket too, whose exchanges state theirs.
  double bytes = 0;
  double flops = 0;
  /// Turns of the repeat around it by which it comes early, or if negative late; see
  /// `RepeatCommand`.
  int64_t ahead = 0;
};

/// "kernel", "matmul", "all_reduce", …: as in the image.
const char *nameOf(const Command &command);
/// The group in which a command communicates; of a bucket that of its exchanges.
std::optional<int32_t> groupOf(const Command &command);

} // namespace cleave::rt
