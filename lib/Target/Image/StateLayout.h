//===- StateLayout.h - Segments and where state lies in them ---------------===//
#pragma once

#include "cleave/Target/Image/Image.h"
#include "dialects/Dist/Dist.h"
#include "llvm/ADT/StringMap.h"

namespace cleave::image {

/// Appends regions to a segment, 64-byte aligned.
class SegmentWriter {
public:
  SegmentWriter(rt::Program &program, std::string name);
  rt::Region add(int64_t bytes);
  int32_t index() const { return segment; }

private:
  rt::Program &program;
  int32_t segment;
};

/// The memory that every entry shares: parameters and their slots, scalars, what
/// the runtime exchanges with the program, and constants.
class StateLayout {
public:
  StateLayout(mlir::ModuleOp module, rt::Program &program);

  /// Where (symbol, slot) lies; of the tensors of several layers the first, with
  /// the stride to the next.
  rt::Region slot(llvm::StringRef symbol, llvm::StringRef slot) const;
  /// The region of an entry's argument or result by name ("tokens", "rate").
  std::optional<rt::Region> exchange(llvm::StringRef name) const;
  /// An i32 constant: this rank's index over `axes` times `scale`.
  rt::Region rankIndex(mlir::ArrayAttr axes, int64_t scale);
  /// A table of constants, or this rank's coordinate.
  rt::Region extra(const BodyInput &input);
  /// Number of the communicator group over `axes`.
  int32_t group(mlir::ArrayAttr axes);
  /// Regions that are zero when a step starts.
  llvm::ArrayRef<rt::Region> accumulators() const { return zeroed; }

private:
  void addParameters(mlir::ModuleOp module);
  void addExchange(mlir::ModuleOp module);
  rt::AxisList axisList(mlir::ArrayAttr axes) const;
  rt::AxisList axisList(llvm::ArrayRef<mlir::StringAttr> axes) const;

  rt::Program &program;
  dist::Mesh mesh;
  SegmentWriter scalars, io, constants;
  llvm::StringMap<rt::Region> slots, named;
  std::map<std::pair<rt::AxisList, int64_t>, rt::Region> indices;
  llvm::DenseMap<mlir::Attribute, rt::Region> tables;
  llvm::SmallVector<rt::Region> zeroed;
};

} // namespace cleave::image
