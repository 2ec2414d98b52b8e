//===- NN.h - The nn dialect -----------------------------------------------===//
//
// Transformer operators on tensors with named dimensions. See NNBase.td for the
// idea; this header adds what C++ needs to speak of names.
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
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/NN/NNDialect.h.inc"
#include "dialects/NN/NNEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/NN/NNAttrs.h.inc"

namespace cleave::nn {

/// True for a ranked tensor of rank 0, or one whose dimensions are named.
bool isNamedTensor(mlir::Type type);

/// The names of a tensor's dimensions, in order (empty for rank 0).
llvm::ArrayRef<mlir::StringAttr> dimNames(mlir::Type type);
inline llvm::ArrayRef<mlir::StringAttr> dimNames(mlir::Value v) { return dimNames(v.getType()); }

/// Position of the dimension called `name`, or -1.
int findDim(mlir::Type type, llvm::StringRef name);

/// A tensor type with named dimensions.
mlir::RankedTensorType namedTensor(mlir::Type element, llvm::ArrayRef<int64_t> shape,
                                   llvm::ArrayRef<mlir::StringAttr> names);
mlir::RankedTensorType namedTensor(mlir::Type element, llvm::ArrayRef<int64_t> shape,
                                   llvm::ArrayRef<llvm::StringRef> names);

/// `type` with another element type, dimensions unchanged.
mlir::RankedTensorType withElement(mlir::RankedTensorType type, mlir::Type element);

/// A sharding rule in which dimensions with one name are one factor. Names that
/// some result lacks get `ReductionKind::Sum` with neutral element 0. Factors
/// are in order of first appearance, operands first.
ShardingRule ruleByNames(mlir::Operation *op);

/// Says that it is `operand` whose padding must be neutral, for every factor that
/// is summed over. For a gradient operator that is the gradient: it is what all
/// the sums are linear in.
void setNeutralOperand(ShardingRule &rule, int operand);

/// Makes every dimension of `type` impossible to cut in `rule`.
void keepWhole(ShardingRule &rule, mlir::Type type);

/// Checks that `values` have the dimensions `names`, in this order; `what` says
/// in the diagnostic which values these are.
llvm::LogicalResult verifyDims(mlir::Operation *op, mlir::ValueRange values,
                               llvm::ArrayRef<mlir::StringAttr> names, llvm::StringRef what);

/// Checks that dimensions with one name have one size, over all operands and
/// results (a dynamic size agrees only with a dynamic one).
llvm::LogicalResult verifySizesByName(mlir::Operation *op);
/// The same over `types`, some of the operands' and results'.
llvm::LogicalResult verifySizesByName(mlir::Operation *op, mlir::TypeRange types);

/// The name of the tensor that the parameter (or scalar) `symbol` stands for in
/// iteration `iteration` of the repeat around `op`.
std::string tensorName(mlir::Operation *op, mlir::FlatSymbolRefAttr symbol, int64_t iteration);

/// The attribute `rows` = [begin, step, all] of a state operator, if it has one.
std::optional<StateRows> rowsOf(std::optional<llvm::ArrayRef<int64_t>> rows);

/// A copy of the state operator `op` for `rows` of its tensor.
mlir::Operation *buildForRows(mlir::OpBuilder &builder, mlir::Operation *op,
                              mlir::ValueRange operands, mlir::TypeRange types, StateRows rows);

} // namespace cleave::nn

#define GET_OP_CLASSES
#include "dialects/NN/NNOps.h.inc"
