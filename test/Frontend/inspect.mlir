// RUN: cleave inspect %S/configs/gpt2.json | FileCheck %s --check-prefix=TEXT
// RUN: cleave inspect %S/configs/gpt2.json --json | FileCheck %s --check-prefix=JSON
// RUN: cleave inspect %s --json | FileCheck %s --check-prefix=IR

// RUN: cleave compile %S/configs/gpt2.json --emit=nn -o %t.mlir
// RUN: cleave inspect %t.mlir | FileCheck %s --check-prefix=IMPORTED
// RUN: cleave compile %S/configs/t0.json --emit=nn --json | FileCheck %s --check-prefix=PHASE

// RUN: cleave compile %S/configs/t0.json --emit=nn --json -o %t.mlir | FileCheck %s --check-prefix=FILE
// FILE: {"phase": "nn", "file": "{{.*}}.mlir"}

// IMPORTED: parameters  124,439,808 in 148 tensors
// IMPORTED-NEXT: layers      12 × block (0–11), 7,087,872 parameters each
// PHASE: {"phase": "nn", "module": "#batch_sequence

// TEXT: family      gpt2
// TEXT-NEXT: parameters  124,439,808 in 148 tensors
// TEXT-NEXT: layers      12 × block (0–11), 7,087,872 parameters each
// TEXT: hidden_size                768
// TEXT: defaults (not in the file)
// TEXT: n_inner                    3072 (4 · n_embd)
// TEXT: unused keys
// TEXT: summary_type               for classification heads
// TEXT: note: "embd_pdrop" is 0.1

// JSON: "family": "gpt2"
// JSON-NEXT: "parameters": 124439808
// JSON-NEXT: "active_parameters": 124439808
// JSON: "layers": [
// JSON: "kind": "block"
// JSON-NEXT: "count": 12
// JSON: "sizes": {
// JSON-NEXT: "hidden_size": 768
// JSON: "defaults": {
// JSON: "tie_word_embeddings": true
// JSON: "unused_keys": [
// JSON: "n_ctx"
// JSON: "notes": [

// An .mlir file is counted by its parameters.
// IR: "family": "llama"
// IR-NEXT: "parameters": 24
// IR: "vocab_size": 10
module attributes {nn.family = "llama", nn.vocab = 10 : i64} {
  nn.parameter @a : tensor<2x10xf32, #nn.dims<model, vocab>> {file_shape = array<i64: 2, 10>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
  nn.parameter @b : tensor<4xf32, #nn.dims<ffn>> {file_shape = array<i64: 4>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
}
