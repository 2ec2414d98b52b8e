//===- StateLayout.h - Segments and where state lies in them ---------------===//
#pragma once

#include "dialects/Exec/Exec.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

namespace cleave::image {

/// A segment of a program, to which addresses are appended, 64-byte aligned.
class SegmentWriter {
public:
  SegmentWriter(exec::ProgramOp program, llvm::StringRef name, int64_t copies = 1);
  exec::Address add(int64_t bytes);
  mlir::StringAttr name() { return segment.getNameAttr(); }
  int64_t bytes() { return static_cast<int64_t>(segment.getBytes()); }
  /// Makes the segment at least this large.
  void reserve(int64_t bytes);

private:
  exec::SegmentOp segment;
};

/// The memory that every entry shares: parameters and their slots, scalars, what
/// the runtime exchanges with the program, and constants. All of it is written into
/// the program, in front of the entries.
class StateLayout {
public:
  /// `program` has its entries.
  /// With `inFlight` it is of a place in a pipeline that keeps as many micro-batches.
  StateLayout(mlir::ModuleOp module, exec::ProgramOp program, int64_t inFlight = 0);

  /// Where (symbol, slot) lies; of the tensors of several layers the first, with
  /// the step to the next.
  exec::Address slot(llvm::StringRef symbol, llvm::StringRef slot) const;
  /// The address of an entry's argument or result by name ("tokens", "rate"); of an
  /// entry of stage `stage`, if it is not negative ("output.0", "tape.3").
  std::optional<exec::Address> exchange(llvm::StringRef name, int64_t stage = -1) const;
  /// Bytes of what `entries` of a stage take and return.
  static int64_t bytesOfSlot(llvm::ArrayRef<mlir::func::FuncOp> entries);
  /// Gives places in a slot to what `entries` of a stage take and return, and writes
  /// the stage down.
  void addStage(int64_t stage, llvm::ArrayRef<mlir::func::FuncOp> entries);
  /// An i32 constant: this rank's index over `axes` times `scale`.
  exec::Address rankIndex(mlir::ArrayAttr axes, int64_t scale);
  /// A table of constants, or this rank's coordinate.
  exec::Address extra(const BodyInput &input);
  /// Name of the communicator group over `axes`, or of those of its ranks with an index
  /// in `members`; with `isBeside` the one for exchanges of buckets.
  mlir::StringAttr group(mlir::ArrayAttr axes, mlir::DenseI64ArrayAttr members = {},
                         bool isBeside = false);
  /// What is zero when a step starts.
  llvm::ArrayRef<exec::Address> accumulators() const { return zeroed; }

private:
  exec::Address addLayers(SegmentWriter &writer, nn::ParameterOp parameter,
                          dist::ShardingAttr sharding);
  void addParameters(mlir::ModuleOp module);
  void addExchange(mlir::ModuleOp module);

  mlir::OpBuilder builder;
  mlir::Location loc;
  dist::Mesh mesh;
  SegmentWriter scalars, io, constants;
  llvm::StringMap<exec::Address> slots, named;
  llvm::DenseMap<std::pair<mlir::Attribute, int64_t>, exec::Address> indices;
  llvm::DenseMap<mlir::Attribute, exec::Address> tables;
  llvm::DenseMap<std::tuple<mlir::Attribute, mlir::Attribute, int>, mlir::StringAttr> groups;
  std::optional<SegmentWriter> slotMemory;
  llvm::SmallVector<exec::Address> zeroed;
};

} // namespace cleave::image
