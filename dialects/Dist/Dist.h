//===- Dist.h - Meshes, shardings, collectives -----------------------------===//
//
// The dist dialect, and the arithmetic of meshes and blocks that its passes and
// the interpreter share. See Dist.td for the idea.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Interfaces/Interfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Dist/DistDialect.h.inc"
#include "dialects/Dist/DistEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Dist/DistAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Dist/DistOps.h.inc"

namespace cleave::dist {

using Axes = llvm::SmallVector<mlir::StringAttr>;

/// The mesh's axes as numbers: which ranks share a block, who holds which.
class Mesh {
public:
  Mesh() = default;
  explicit Mesh(MeshOp op);
  /// The mesh that `op` speaks of, or nullopt if `name` is no mesh.
  static std::optional<Mesh> lookup(mlir::Operation *op, mlir::FlatSymbolRefAttr name);

  int64_t ranks() const;
  /// Position of an axis, or -1.
  int find(llvm::StringRef axis) const;
  int64_t size(llvm::StringRef axis) const { return sizes[find(axis)]; }
  /// Product of the sizes of `axes`.
  int64_t size(llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// Where `rank` stands along `axes`, major to minor: 0 … size(axes) − 1.
  int64_t coordinate(int64_t rank, llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// The ranks that differ from `rank` along `axes` only, in order of their
  /// coordinate along `axes`.
  llvm::SmallVector<int64_t> group(int64_t rank, llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// `axes` in mesh order.
  void sort(Axes &axes) const;

  llvm::SmallVector<std::string> names;
  llvm::SmallVector<int64_t> sizes;
};

/// Elements of a block when `n` are cut into `parts`.
inline int64_t blockSize(int64_t n, int64_t parts) { return (n + parts - 1) / parts; }

/// The shape of one rank's block (padding included).
llvm::SmallVector<int64_t> localShape(llvm::ArrayRef<int64_t> global, ShardingAttr sharding,
                                      const Mesh &mesh);

/// `type` with the local shape; names and element type stay.
mlir::RankedTensorType localType(mlir::RankedTensorType global, ShardingAttr sharding,
                                 const Mesh &mesh);

/// This rank's block of a whole tensor, padded with zeros. A partial sharding
/// puts the value on the first rank of each group and zero on the others.
HostTensor cutBlock(const HostTensor &whole, ShardingAttr sharding, const Mesh &mesh, int64_t rank);

/// The whole tensor from the blocks of all ranks: partial terms summed, padding
/// dropped. `shape` is the global shape. Where several ranks hold the same
/// block, the first one's is taken.
HostTensor joinBlocks(llvm::ArrayRef<const HostTensor *> blocks, llvm::ArrayRef<int64_t> shape,
                      ShardingAttr sharding, const Mesh &mesh);

/// The axes of an ArrayAttr of strings.
Axes axesOf(mlir::ArrayAttr list);

/// On a module: that exchanges may run beside the computation.
inline constexpr llvm::StringLiteral kOverlapAttr = "dist.overlap";
/// On an exchange in a block that repeats: it is done beside the computation, an iteration
/// early or late. The number (i64) is that of its bucket, which no other block has.
inline constexpr llvm::StringLiteral kAheadAttr = "dist.ahead", kBehindAttr = "dist.behind";
/// On an exchange in a block that runs once: it begins where it stands, and is waited for where
/// its result is first used. The number is as above.
inline constexpr llvm::StringLiteral kBesideAttr = "dist.beside";

/// On an operator outside of repeats whose path has no number: that (i64) of its layer.
inline constexpr llvm::StringLiteral kLayerAttr = "dist.layer";
/// Bytes of a bucket where the plan does not say how many.
inline constexpr int64_t kBucketBytes = int64_t(25) << 20;

/// Exchanges that travel together.
struct Bucket {
  int64_t number = 0;
  /// In which turn of its block it is under way: that before the one which needs it, that
  /// behind the one which made its operands, or that in which it stands.
  enum Turn { Before, Behind, Same } turn = Same;
};
/// The bucket of an exchange, if it is in one.
std::optional<Bucket> bucketOf(mlir::Operation *exchange);

} // namespace cleave::dist
