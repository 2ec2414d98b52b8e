// Checks of single commands: indices, sizes against regions, overlap.
#include "runtime/Schema/ValidateCommands.h"

#include "runtime/Schema/CheckedSize.h"
#include "runtime/Schema/Unroll.h"

#include <fmt/format.h>

#include <limits>

namespace cleave::rt {
namespace {

/// Of a kernel's extent and grain.
constexpr int64_t largest = int64_t(1) << 48;

bool overlap(const Region &a, const Region &b) {
  return a.segment == b.segment && a.bytes > 0 && b.bytes > 0 && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

bool same(const Region &a, const Region &b) {
  return a.segment == b.segment && a.offset == b.offset && a.bytes == b.bytes;
}

Error refused(const std::string &owner, const std::string &what) {
  return userError("image.command", fmt::format("{} {}", owner, what))
      .suggest("compile the model again: the image does not fit this runtime");
}

class CommandChecker {
public:
  /// `isBeside`: of an exchange in a bucket.
  CommandChecker(const Program &program, std::string owner, bool isBeside = false)
      : program(program), owner(std::move(owner)), isBeside(isBeside) {}

  Status operator()(const KernelCommand &kernel) const {
    if (kernel.symbol.empty())
      return wrong("names no kernel");
    // Bounded so that the end of a piece can be computed without overflow.
    if (kernel.extent < 0 || kernel.grain < 1 || kernel.extent > largest || kernel.grain > largest)
      return wrong(fmt::format("has extent {} and grain {}", kernel.extent, kernel.grain));
    if (kernel.threads > 0 && program.device == "cpu")
      return wrong("is launched on a GPU by a program of the cpu");
    for (const Region &arg : kernel.args)
      CLEAVE_RT_RETURN_IF_ERROR(checkRegion(program, arg, 1, owner));
    if (kernel.writes.size() > kernel.args.size())
      return wrong("writes more than its arguments");
    return {};
  }

  Status operator()(const MatmulCommand &matmul) const {
    if (matmul.m < 0 || matmul.n < 0 || matmul.k < 0)
      return wrong("has a negative size");
    CLEAVE_RT_RETURN_IF_ERROR(checkMatrix(matmul, matmul.a, matmul.m, matmul.k,
                                          &MatrixBatch::strideA, "a",
                                          elementBytes(matmul.operandType)));
    CLEAVE_RT_RETURN_IF_ERROR(checkMatrix(matmul, matmul.b, matmul.k, matmul.n,
                                          &MatrixBatch::strideB, "b",
                                          elementBytes(matmul.operandType)));
    CLEAVE_RT_RETURN_IF_ERROR(checkMatrix(matmul, matmul.c, matmul.m, matmul.n,
                                          &MatrixBatch::strideC, "c",
                                          elementBytes(matmul.resultType)));
    if (!isProductType(matmul.operandType) || !isProductType(matmul.resultType))
      return wrong("multiplies elements that are neither f32 nor bf16");
    if (matmul.resultType == DataType::BF16 &&
        (matmul.accumulate || matmul.operandType != DataType::BF16))
      return wrong("rounds a result that it adds to, or that is of f32 operands");
    // Results of two matrices of the batch must not meet.
    for (const MatrixBatch &batch : matmul.batch)
      if (batch.count > 1 && batch.strideC == 0)
        return wrong("writes several results of the batch to the same place");
    return {};
  }

  Status operator()(const PickedMatmulCommand &picked) const {
    CLEAVE_RT_RETURN_IF_ERROR(checkPicked(picked));
    const int64_t each = elementBytes(picked.operandType);
    CLEAVE_RT_RETURN_IF_ERROR(checkShare(picked.rows, picked.share));
    CLEAVE_RT_RETURN_IF_ERROR(checkBytes(
        picked.a, checkedProduct({picked.rows / picked.share, picked.k, each}), each, "a"));
    CLEAVE_RT_RETURN_IF_ERROR(checkBytes(
        picked.b, checkedProduct({picked.matrices, picked.k, picked.n, each}), each, "b"));
    return checkBytes(picked.c, checkedProduct({picked.rows, picked.n, 4}), 4, "c");
  }

  Status operator()(const PickedOuterCommand &picked) const {
    CLEAVE_RT_RETURN_IF_ERROR(checkPicked(picked));
    const int64_t each = elementBytes(picked.operandType);
    CLEAVE_RT_RETURN_IF_ERROR(checkShare(picked.rows, picked.shareA));
    CLEAVE_RT_RETURN_IF_ERROR(checkShare(picked.rows, picked.shareB));
    CLEAVE_RT_RETURN_IF_ERROR(checkBytes(
        picked.a, checkedProduct({picked.rows / picked.shareA, picked.m, each}), each, "a"));
    CLEAVE_RT_RETURN_IF_ERROR(checkBytes(
        picked.b, checkedProduct({picked.rows / picked.shareB, picked.n, each}), each, "b"));
    return checkBytes(picked.c, checkedProduct({picked.matrices, picked.m, picked.n, 4}), 4, "c");
  }

  Status operator()(const ZeroCommand &zero) const {
    return checkRegion(program, zero.region, 1, owner);
  }

  Status operator()(const CopyCommand &copy) const {
    CLEAVE_RT_RETURN_IF_ERROR(checkRegion(program, copy.source, 1, owner));
    CLEAVE_RT_RETURN_IF_ERROR(checkRegion(program, copy.target, 1, owner));
    if (copy.source.bytes != copy.target.bytes)
      return wrong(fmt::format("copies {} bytes to {}", copy.source.bytes, copy.target.bytes));
    if (overlap(copy.source, copy.target))
      return wrong("copies a region onto itself");
    return {};
  }

  Status operator()(const AllReduceCommand &reduce) const {
    CLEAVE_RT_RETURN_IF_ERROR(checkGroup(reduce.group));
    const int64_t element = elementBytes(reduce.type);
    CLEAVE_RT_RETURN_IF_ERROR(checkRegion(program, reduce.source, element, owner));
    CLEAVE_RT_RETURN_IF_ERROR(checkRegion(program, reduce.target, element, owner));
    if (reduce.source.bytes != reduce.target.bytes || reduce.source.bytes % element != 0)
      return wrong("needs source and target of the same whole number of elements");
    if (overlap(reduce.source, reduce.target) && !same(reduce.source, reduce.target))
      return wrong("has source and target that overlap in part");
    return {};
  }

  Status operator()(const AllGatherCommand &gather) const {
    return checkCut(gather, /*sourceIsWhole=*/false);
  }
  Status operator()(const ReduceScatterCommand &scatter) const {
    return checkCut(scatter, /*sourceIsWhole=*/true);
  }
  Status operator()(const SliceCommand &slice) const {
    return checkCut(slice, /*sourceIsWhole=*/true);
  }

  Status operator()(const AllToAllCommand &exchange) const {
    CLEAVE_RT_RETURN_IF_ERROR(checkGroup(exchange.group));
    const int64_t members = program.groups[exchange.group].size(program.mesh);
    const int64_t element = elementBytes(exchange.type);
    if (exchange.first < 0 || exchange.second < 0)
      return wrong("has a negative size");
    const int64_t firstBlock = blockSize(exchange.first, members);
    const int64_t secondBlock = blockSize(exchange.second, members);
    const auto cutSecond = checkedProduct(
        {exchange.outer, exchange.first, exchange.middle, secondBlock, exchange.inner, element});
    const auto cutFirst = checkedProduct(
        {exchange.outer, firstBlock, exchange.middle, exchange.second, exchange.inner, element});
    const auto &source = exchange.splitFirst ? cutSecond : cutFirst;
    const auto &target = exchange.splitFirst ? cutFirst : cutSecond;
    CLEAVE_RT_RETURN_IF_ERROR(checkBytes(exchange.source, source, element, "source"));
    CLEAVE_RT_RETURN_IF_ERROR(checkBytes(exchange.target, target, element, "target"));
    return checkApart(exchange.source, exchange.target);
  }

  Status operator()(const BesideCommand &bucket) const {
    const Command *first = bucket.exchanges.empty() ? nullptr : &bucket.exchanges.front();
    if (!first)
      return wrong("is a bucket without exchanges");
    for (const Command &exchange : bucket.exchanges) {
      if (!isMessage(exchange))
        return wrong(
            fmt::format("has a {} in it, which is no exchange of a bucket", nameOf(exchange)));
      if (exchange.what.index() != first->what.index() || !isReducedAlike(exchange, *first) ||
          groupOf(exchange) != groupOf(*first) || exchange.ahead != 0)
        return wrong("has exchanges of several kinds or groups in one bucket");
      CLEAVE_RT_RETURN_IF_ERROR(std::visit(CommandChecker(program, owner, true), exchange.what));
    }
    return {};
  }
  Status operator()(const AwaitCommand &) const { return {}; }

  Status operator()(const RepeatCommand &) const {
    return wrong("stands in a repeat; repeats don't nest");
  }

private:
  Error wrong(const std::string &what) const { return refused(owner, what); }

  Status checkGroup(int32_t group) const {
    if (group < 0 || static_cast<size_t>(group) >= program.groups.size())
      return wrong(fmt::format("uses group {} of {}", group, program.groups.size()));
    if (program.groups[group].beside != isBeside)
      return wrong(isBeside ? "is in a bucket, but its group is not for exchanges beside"
                            : "is in no bucket, but its group is for exchanges beside");
    return {};
  }

  static bool isMessage(const Command &command) {
    return std::holds_alternative<AllReduceCommand>(command.what) ||
           std::holds_alternative<AllGatherCommand>(command.what) ||
           std::holds_alternative<ReduceScatterCommand>(command.what);
  }

  /// Of two commands of one kind.
  static bool isReducedAlike(const Command &a, const Command &b) {
    auto kind = [](const Command &command) {
      if (const auto *reduce = std::get_if<AllReduceCommand>(&command.what))
        return reduce->kind;
      const auto *scatter = std::get_if<ReduceScatterCommand>(&command.what);
      return scatter ? scatter->kind : ReductionKind::Sum;
    };
    return kind(a) == kind(b);
  }

  Status checkBytes(const Region &region, std::optional<int64_t> bytes, int64_t element,
                    const char *name) const {
    CLEAVE_RT_RETURN_IF_ERROR(checkRegion(program, region, element, owner));
    if (!bytes || *bytes != region.bytes)
      return wrong(fmt::format("has a {} of {} bytes, its sizes need {}", name, region.bytes,
                               bytes ? std::to_string(*bytes) : "more than there are"));
    return {};
  }

  /// What products with picked matrices have in common.
  static bool isProductType(DataType type) {
    return type == DataType::F32 || type == DataType::BF16;
  }

  template <typename T> Status checkPicked(const T &picked) const {
    // A row's number is an i32.
    if (picked.rows < 1 || picked.rows > std::numeric_limits<int32_t>::max() || picked.n < 1 ||
        picked.matrices < 1)
      return wrong(fmt::format("has {} rows, {} columns and {} matrices", picked.rows, picked.n,
                               picked.matrices));
    CLEAVE_RT_RETURN_IF_ERROR(
        checkBytes(picked.index, checkedProduct({picked.rows, 4}), 4, "index"));
    if (picked.offset)
      CLEAVE_RT_RETURN_IF_ERROR(checkBytes(*picked.offset, 4, 4, "offset"));
    if (!isProductType(picked.operandType))
      return wrong("multiplies elements that are neither f32 nor bf16");
    for (const Region *read : {&picked.a, &picked.b, &picked.index})
      if (overlap(*read, picked.c))
        return wrong("writes to what it reads");
    return {};
  }

  Status checkShare(int64_t rows, int64_t share) const {
    if (share < 1 || rows % share != 0)
      return wrong(fmt::format("shares a row between {} of {}", share, rows));
    return {};
  }

  Status checkApart(const Region &source, const Region &target) const {
    if (overlap(source, target))
      return wrong("has source and target that overlap");
    return {};
  }

  template <typename T> Status checkCut(const T &command, bool sourceIsWhole) const {
    CLEAVE_RT_RETURN_IF_ERROR(checkGroup(command.group));
    const int64_t members = program.groups[command.group].size(program.mesh);
    const int64_t element = elementBytes(command.type);
    const CutDimension &cut = command.cut;
    if (cut.full < 0)
      return wrong("has a negative size");
    const auto whole = checkedProduct({cut.outer, cut.full, cut.inner, element});
    const auto block =
        checkedProduct({cut.outer, blockSize(cut.full, members), cut.inner, element});
    CLEAVE_RT_RETURN_IF_ERROR(
        checkBytes(command.source, sourceIsWhole ? whole : block, element, "source"));
    CLEAVE_RT_RETURN_IF_ERROR(
        checkBytes(command.target, sourceIsWhole ? block : whole, element, "target"));
    return checkApart(command.source, command.target);
  }

  /// The last element of the last matrix lies inside the region.
  Status checkMatrix(const MatmulCommand &matmul, const MatrixOperand &matrix, int64_t rows,
                     int64_t columns, int64_t MatrixBatch::*stride, const char *name,
                     int64_t element) const {
    CLEAVE_RT_RETURN_IF_ERROR(checkRegion(program, matrix.region, element, owner));
    if (rows == 0 || columns == 0)
      return {};
    // A vector may have any stride; a matrix is packed along one direction.
    const bool rowMajor = matrix.columnStride == 1 && matrix.rowStride >= columns;
    const bool columnMajor = matrix.rowStride == 1 && matrix.columnStride >= rows;
    if (rows > 1 && columns > 1 && !rowMajor && !columnMajor)
      return wrong(fmt::format("has a matrix {} with strides {} and {}; one must be 1, the other "
                               "at least the size of that direction",
                               name, matrix.rowStride, matrix.columnStride));
    if ((rows > 1 && matrix.rowStride < 1) || (columns > 1 && matrix.columnStride < 1))
      return wrong(fmt::format("has a matrix {} with a stride of 0", name));
    int64_t last = 0;
    auto reach = [&](int64_t count, int64_t step) {
      int64_t distance = 0;
      return count >= 1 && step >= 0 && !__builtin_mul_overflow(count - 1, step, &distance) &&
             !__builtin_add_overflow(last, distance, &last);
    };
    bool inside = reach(rows, matrix.rowStride) && reach(columns, matrix.columnStride);
    for (const MatrixBatch &batch : matmul.batch) {
      if (batch.count == 0)
        return {};
      inside = inside && reach(batch.count, batch.*stride);
    }
    if (!inside || last >= matrix.region.bytes / element)
      return wrong(
          fmt::format("reaches past the {} bytes of its matrix {}", matrix.region.bytes, name));
    return {};
  }

  const Program &program;
  std::string owner;
  const bool isBeside;
};

/// `owner()` is the command's place in words. Those take longer to make than the
/// checks, and an entry may run millions of commands: only a refused one is named.
template <typename Owner>
Status checkCommand(const Program &program, const Command &command, Owner owner) {
  if (std::visit(CommandChecker(program, {}), command.what).ok())
    return {};
  return std::visit(CommandChecker(program, owner()), command.what);
}

Status checkLayers(const RepeatCommand &repeat, const std::string &owner) {
  constexpr int64_t most = RepeatCommand::maxLayer;
  if (repeat.firstLayer < 0 || repeat.firstLayer > most || repeat.layerStep < -most ||
      repeat.layerStep > most)
    return refused(owner, fmt::format("counts layers from {} by {}; the first is 0 to {}, the step "
                                      "at most that either way",
                                      repeat.firstLayer, repeat.layerStep, most));
  const int64_t last = repeat.firstLayer + (repeat.count - 1) * repeat.layerStep;
  if (last < 0 || last > most)
    return refused(owner, fmt::format("ends at layer {}; layers are 0 to {}", last, most));
  return {};
}

/// Every iteration as it runs. `unrolled` counts the commands of the entry.
Status checkRepeat(const Program &program, const Command &command, const RepeatCommand &repeat,
                   const std::string &owner, int64_t &unrolled) {
  if (repeat.count < 1 || repeat.count > RepeatCommand::maxCount)
    return refused(owner, fmt::format("runs its body {} times; a repeat runs it 1 to {} times",
                                      repeat.count, RepeatCommand::maxCount));
  CLEAVE_RT_RETURN_IF_ERROR(checkLayers(repeat, owner));
  if (command.bytes != 0 || command.flops != 0)
    return refused(owner, "states bytes or operations of its own beside those of its body");
  for (const Command &inner : repeat.body)
    if (inner.ahead < -RepeatCommand::maxAhead || inner.ahead > RepeatCommand::maxAhead)
      return refused(owner, fmt::format("has a command {} turns ahead; it is at most {} either way",
                                        inner.ahead, RepeatCommand::maxAhead));
  const auto size = static_cast<int64_t>(repeat.body.size());
  if (size > (maxCommands - unrolled) / repeat.count)
    return refused(owner, fmt::format("runs {} commands {} times; an entry runs at most {}", size,
                                      repeat.count, maxCommands));
  unrolled += size * repeat.count;
  for (int64_t i = 0; i < repeat.count; ++i)
    for (size_t c = 0; c < repeat.body.size(); ++c) {
      const Command moved = inIteration(repeat, repeat.body[c], i);
      CLEAVE_RT_RETURN_IF_ERROR(checkCommand(program, moved, [&] {
        return fmt::format("{}, iteration {}, command {} ({})", owner, i, c, titleOf(moved));
      }));
    }
  return {};
}

Status checkEntry(const Program &program, size_t entry) {
  const std::vector<Command> &commands = program.entryList(entry);
  int64_t unrolled = 0;
  for (size_t i = 0; i < commands.size(); ++i) {
    const Command &command = commands[i];
    const auto owner = [&] {
      return fmt::format("{} command {} ({})", program.entryName(entry), i, titleOf(command));
    };
    if (const auto *repeat = std::get_if<RepeatCommand>(&command.what)) {
      CLEAVE_RT_RETURN_IF_ERROR(checkRepeat(program, command, *repeat, owner(), unrolled));
      continue;
    }
    if (unrolled == maxCommands)
      return refused(owner(),
                     fmt::format("is one too many; an entry runs at most {}", maxCommands));
    ++unrolled;
    if (command.ahead != 0)
      return refused(owner(), "is ahead of the turns of a repeat, but stands in none");
    CLEAVE_RT_RETURN_IF_ERROR(checkCommand(program, command, owner));
  }
  return {};
}

} // namespace

std::string titleOf(const Command &command) {
  return fmt::format("{}{}{}", nameOf(command), command.label.empty() ? "" : " ", command.label);
}

Status validateCommands(const Program &program) {
  for (size_t entry = 0; entry < program.entryLists(); ++entry)
    CLEAVE_RT_RETURN_IF_ERROR(checkEntry(program, entry));
  return {};
}

} // namespace cleave::rt
