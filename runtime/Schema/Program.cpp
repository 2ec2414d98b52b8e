// Names and small sums of the program image.
#include "runtime/Schema/Program.h"

namespace cleave::rt {

int64_t elementBytes(DataType type) {
  switch (type) {
  case DataType::BF16:
    return 2;
  case DataType::F32:
  case DataType::I32:
    return 4;
  case DataType::I64:
    return 8;
  }
  return 0;
}

const char *nameOf(DataType type) {
  switch (type) {
  case DataType::F32:
    return "f32";
  case DataType::BF16:
    return "bf16";
  case DataType::I32:
    return "i32";
  case DataType::I64:
    return "i64";
  }
  return "";
}

const char *nameOf(Slot slot) {
  switch (slot) {
  case Slot::Value:
    return "value";
  case Slot::Gradient:
    return "gradient";
  case Slot::Moment1:
    return "moment1";
  case Slot::Moment2:
    return "moment2";
  }
  return "";
}

const char *nameOf(EntryKind kind) {
  switch (kind) {
  case EntryKind::Begin:
    return "begin";
  case EntryKind::Count:
    return "count";
  case EntryKind::Prepare:
    return "prepare";
  case EntryKind::MicroBatch:
    return "microbatch";
  case EntryKind::Update:
    return "update";
  case EntryKind::Evaluate:
    return "evaluate";
  }
  return "";
}

const char *nameOf(const Command &command) {
  struct Name {
    const char *operator()(const KernelCommand &) const { return "kernel"; }
    const char *operator()(const MatmulCommand &) const { return "matmul"; }
    const char *operator()(const ZeroCommand &) const { return "zero"; }
    const char *operator()(const CopyCommand &) const { return "copy"; }
    const char *operator()(const AllReduceCommand &) const { return "all_reduce"; }
    const char *operator()(const AllGatherCommand &) const { return "all_gather"; }
    const char *operator()(const ReduceScatterCommand &) const { return "reduce_scatter"; }
    const char *operator()(const SliceCommand &) const { return "slice"; }
    const char *operator()(const AllToAllCommand &) const { return "all_to_all"; }
    const char *operator()(const RepeatCommand &) const { return "repeat"; }
  };
  return std::visit(Name{}, command.what);
}

int64_t Program::localSequence() const {
  return blockSize(batch.sequence, mesh.sizeOf(batch.sequenceAxes));
}

} // namespace cleave::rt
