//===- StateLayout.h - Segments and where state lies in them ---------------===//
#pragma once

#include "dialects/Exec/Exec.h"
#include "dialects/NN/NN.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

namespace cleave::image {

/// A segment of a program, to which addresses are appended, 64-byte aligned.
class SegmentWriter {
public:
  SegmentWriter(exec::ProgramOp program, llvm::StringRef name);
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
  StateLayout(mlir::ModuleOp module, exec::ProgramOp program);

  /// Where (symbol, slot) lies; of the tensors of several layers the first, with
  /// the step to the next.
  exec::Address slot(llvm::StringRef symbol, llvm::StringRef slot) const;
  /// The address of an entry's argument or result by name ("tokens", "rate").
  std::optional<exec::Address> exchange(llvm::StringRef name) const;
  /// An i32 constant: this rank's index over `axes` times `scale`.
  exec::Address rankIndex(mlir::ArrayAttr axes, int64_t scale);
  /// A table of constants, or this rank's coordinate.
  exec::Address extra(const BodyInput &input);
  /// Name of the communicator group over `axes`.
  mlir::StringAttr group(mlir::ArrayAttr axes);
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
  llvm::DenseMap<mlir::Attribute, mlir::StringAttr> groups;
  llvm::SmallVector<exec::Address> zeroed;
};

} // namespace cleave::image
