//===- NNBase.td - The nn dialect: attributes and base classes -------------===//
#ifndef CLEAVE_NN_BASE
#define CLEAVE_NN_BASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/Interfaces/Interfaces.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::cleave::nn";
  let summary = "Transformer operators on tensors with named dimensions";
  let description = [{
    Pure operators on tensors, ignorant of meshes. Every tensor of rank one or
    more carries the names of its dimensions in its type:

    ```mlir
    tensor<?x?x64xf32, #nn.dims<batch, sequence, model>>
    ```

    A name is a symbol for a size: all the `?` called `batch` are equal, and
    turn into a constant together. Names also say which dimensions of an
    operator's operands and results belong together: `nn.contract` sums over
    the names that its result lacks, elementwise operators broadcast by name,
    and two dimensions with one name are one factor of the sharding rule.
    Within one tensor names differ.

    Backward operators are operators like the others.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def NN_DimsAttr : AttrDef<NN_Dialect, "Dims",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "dims";
  let summary = "The names of a tensor's dimensions";
  let description = [{ `#nn.dims<batch, sequence, model>` }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Position of `name`, or -1.
    int find(::llvm::StringRef name) const;
  }];
}

/// A tensor whose dimensions are named (rank 0 needs no names).
def NN_Tensor : Type<
    CPred<"::cleave::nn::isNamedTensor($_self)">, "tensor with named dimensions",
    "::mlir::RankedTensorType">;

class NN_Op<string mnemonic, list<Trait> traits = []>
  : Op<NN_Dialect, mnemonic, traits>;

/// Pure operators that can be sharded and interpreted.
class NN_ComputeOp<string mnemonic, list<Trait> traits = []>
  : NN_Op<mnemonic, !listconcat(traits, [Pure,
      DeclareOpInterfaceMethods<ShardingRuleInterface>,
      DeclareOpInterfaceMethods<InterpretableInterface>])> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

/// The same, with a local form of its own.
class NN_PlacedOp<string mnemonic, list<Trait> traits = []>
  : NN_Op<mnemonic, !listconcat(traits, [Pure,
      DeclareOpInterfaceMethods<ShardingRuleInterface, ["buildLocal"]>,
      DeclareOpInterfaceMethods<InterpretableInterface>])> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

/// Operators that a generated kernel can compute; by name what is not the default.
class NN_Fusable<list<string> methods = []>
  : DeclareOpInterfaceMethods<FusionInterface, methods>;

/// Operators that go through a dimension in blocks in a way of their own.
class NN_Blockwise<list<string> methods = []>
  : DeclareOpInterfaceMethods<BlockwiseInterface, methods>;

def NN_Differentiable : DeclareOpInterfaceMethods<DifferentiableInterface>;

#endif
