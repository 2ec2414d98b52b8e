//===- ExecBase.td - The exec dialect: addresses and base classes ----------===//
#ifndef CLEAVE_EXEC_BASE
#define CLEAVE_EXEC_BASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::cleave::exec";
  let summary = "What one rank runs: commands over addresses";
  let description = [{
    The program of one rank after every decision: segments of memory, where state
    lies in them, and for each entry of a step a list of commands. There are no
    values any more. Commands name the bytes that they read and write:

    ```mlir
    exec.program on @mesh {
      exec.segment "weights" 8192
      exec.segment "arena" 65536
      exec.entry microbatch {
        exec.repeat "layers" 4 layers [0, 1] {
          exec.launch "layers.*/norm" @k_norm(<arena + 0, 4096>, <weights + 0, 256 step 512>,
                                              <arena + 4096, 4096>) extent 16 grain 4
        }
      }
    }
    ```

    All ranks run the same program. They differ in what `exec.rank_index` gives
    them, in their blocks of the state, and in the sequences they are dealt.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def Exec_AtAttr : AttrDef<Exec_Dialect, "At"> {
  let mnemonic = "at";
  let summary = "Bytes of a segment";
  let description = [{
    `#exec.at<arena + 4096, 256>` stands for the 256 bytes from byte 4096 of the segment
    `arena`. With a step, as in `#exec.at<weights + 0, 256 step 512>`, they lie 512
    bytes further with each iteration of the repeat around the command, or with each
    layer of an `exec.state`. Steps may be negative. `<arena + 0, 256 step 512 period 2>` is
    back at its beginning after two iterations: what one turn of a repeat makes for
    another has two places.
  }];
  let parameters = (ins "::mlir::StringAttr":$segment, "int64_t":$offset, "int64_t":$bytes,
                        "int64_t":$step, "int64_t":$period);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The most that an offset, a size or a step may be.
    static constexpr int64_t kMaxBytes = int64_t(1) << 46;
    static AtAttr get(const Address &address);
    Address getAddress() const;
    /// Where it begins in iteration `i`.
    int64_t offsetIn(int64_t i) const {
      return getOffset() + (getPeriod() ? i % getPeriod() : i) * getStep();
    }
  }];
}

/// How a tensor lies over the ranks.
def Exec_Sharding : Attr<CPred<"::llvm::isa<::cleave::dist::ShardingAttr>($_self)">,
                         "#dist.sharding"> {
  let storageType = "::cleave::dist::ShardingAttr";
  let returnType = "::cleave::dist::ShardingAttr";
  let convertFromStorage = "$_self";
}

def Exec_Addresses : TypedArrayAttrBase<Exec_AtAttr, "addresses">;

def Exec_Reduction : I32EnumAttr<"Reduction", "How the blocks of a group are combined", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">]> {
  let cppNamespace = "::cleave::exec";
}

def Exec_ElementType : TypeAttrBase<"::mlir::Type", "f32, bf16, i32 or i64",
                                    CPred<"::cleave::exec::isElementType($_self)">> {
  let constBuilderCall = "::mlir::TypeAttr::get($0)";
}

def Exec_ProductType : TypeAttrBase<"::mlir::Type", "f32 or bf16",
                                  CPred<"::cleave::exec::isProductType($_self)">> {
  let constBuilderCall = "::mlir::TypeAttr::get($0)";
}

def Exec_Size : ConfinedAttr<I64Attr, [IntNonNegative]>;
def Exec_Count : ConfinedAttr<I64Attr, [IntPositive]>;

def Exec_CommandInterface : OpInterface<"CommandOpInterface"> {
  let cppNamespace = "::cleave::exec";
  let description = "A command: it reads and writes bytes of segments.";
  let methods = [
    InterfaceMethod<"All bytes that it names.", "::llvm::SmallVector<::cleave::exec::AtAttr>",
                    "getAddresses">,
    InterfaceMethod<"What offsets and steps are multiples of.", "int64_t", "getAlignment", (ins),
                    "", [{ return 1; }]>,
    InterfaceMethod<"Name of the group that takes part; null: the rank is alone.",
                    "::mlir::StringAttr", "getGroupAttr", (ins), "", [{ return {}; }]>,
    InterfaceMethod<"Sizes against a group of `members` ranks.", "::llvm::LogicalResult",
                    "verifyGroup", (ins "int64_t":$members), "", [{ return ::llvm::success(); }]>,
    InterfaceMethod<[{
        Bytes of the message that goes through a group of `members` ranks: the whole buffer
        of a reduction on all, the gathered one, the scattered one, what is sent to all. 0:
        nothing is sent.
      }], "int64_t", "getMessageBytes", (ins "int64_t":$members), "", [{ return 0; }]>,
    InterfaceMethod<"Turns of the repeat around it by which it comes early.", "int64_t",
                    "getAhead">,
    InterfaceMethod<"The path of the operators it came from.", "::llvm::StringRef", "getLabel">,
    InterfaceMethod<"Bytes read and written, for reports.", "uint64_t", "getBytes">,
    InterfaceMethod<"Arithmetic operations, for reports.", "uint64_t", "getFlops">,
  ];
}

class Exec_Op<string mnemonic, list<Trait> traits = []> : Op<Exec_Dialect, mnemonic, traits>;

#endif
