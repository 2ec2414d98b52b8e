//===- Passes.td - Passes of the interpreter -------------------------------===//
#ifndef CLEAVE_INTERPRETER_PASSES
#define CLEAVE_INTERPRETER_PASSES
include "mlir/Pass/PassBase.td"

def InterpretPass : Pass<"cleave-interpret", "::mlir::ModuleOp"> {
  let summary = "Runs a function in float64 and writes its results down as attributes";
  let description = [{
    Inputs are attributes of the function's arguments, `cleave.value`: constants
    of any number type, or a list with one constant for each rank. A symbol that
    keeps state starts with its own `cleave.value`.

    Afterwards every result carries what each rank computed, `cleave.value =
    [dense<…> : tensor<…xf64>, …]`, and every symbol with state carries
    `cleave.state = {slot = […]}`. The program itself is unchanged.

    ```mlir
    func.func @main(%x: tensor<2xf32, #nn.dims<model>> {cleave.value = dense<[1.0, -1.0]> : tensor<2xf32>})
        -> tensor<2xf32, #nn.dims<model>> {
      %y = nn.relu %x : …
      return %y : …     // result attribute: [dense<[1.0, 0.0]> : tensor<2xf64>]
    }
    ```
  }];
  let options = [
    Option<"function", "function", "std::string", "\"main\"", "Name of the function">,
    Option<"ranks", "ranks", "unsigned", "1", "Ranks in lockstep">,
  ];
}

#endif
