// RUN: cleave-opt %s --cleave-interpret --split-input-file --verify-diagnostics

func.func @main() -> f32 {
  %a = arith.constant 1.0 : f32
  // expected-error@+1 {{'arith.addf' cannot be interpreted: it implements neither}}
  %b = arith.addf %a, %a : f32
  return %b : f32
}

// -----

#m = #nn.dims<model>
// expected-error@+1 {{has the type 'tensor<?xf32, #nn.dims<model>>', whose shape is not static; specialise its sizes first}}
func.func @main(%x: tensor<?xf32, #m> {cleave.value = dense<1.0> : tensor<3xf32>}) {
  return
}

// -----

#m = #nn.dims<model>
func.func @main() {
  // expected-error@+1 {{'nn.fill' has the type 'tensor<?xf32, #nn.dims<model>>', whose shape is not static}}
  %y = nn.fill {value = 0.0 : f64} : () -> tensor<?xf32, #m>
  return
}

// -----

#m = #nn.dims<model>
// expected-error@+1 {{argument 0 has the shape [4] on rank 0 where its type says [3]}}
func.func @main(%x: tensor<3xf32, #m> {cleave.value = dense<1.0> : tensor<4xf32>}) {
  return
}

// -----

#m = #nn.dims<model>
// expected-error@+1 {{has a 'cleave.value' for 2 ranks, not for 1}}
func.func @main(%x: tensor<1xf32, #m> {cleave.value = [dense<1.0> : tensor<1xf32>, dense<1.0> : tensor<1xf32>]}) {
  return
}

// -----

// expected-error@+1 {{needs a 'cleave.value' of dense numbers}}
func.func @main(%x: tensor<f32>) {
  return
}

// -----

// expected-error@+1 {{has no function @main to interpret}}
module {
}

// -----

func.func @main(%x: tensor<f32> {cleave.value = dense<0x7FC00000> : tensor<f32>}) {
  // expected-error@+1 {{result 0 of 'nn.mul' is not a number at element 0 on rank 0}}
  %y = nn.mul %x, %x : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return
}

// -----

nn.accumulator @loss : tensor<f32>
func.func @main() {
  // expected-error@+1 {{'nn.load' reads 'value' of @loss, which nothing has stored}}
  %x = nn.load @loss value : tensor<f32>
  return
}

// -----

#m = #nn.dims<model>
nn.parameter @w : tensor<3xf32, #m> {file_shape = array<i64: 3>, init_mean = 0.0 : f64, init_std = 0.0 : f64}
func.func @main() {
  %x = nn.fill {value = 1.0 : f64} : () -> tensor<3xf32, #m>
  %y = nn.fill {value = 1.0 : f64} : () -> tensor<2xf32, #m>
  nn.accumulate %x, @w gradient : tensor<3xf32, #m>
  // expected-error@+1 {{'nn.accumulate' adds to 'gradient' of @w, which has another shape or number of ranks}}
  nn.accumulate %y, @w gradient : tensor<2xf32, #m>
  return
}

// -----

// expected-error@+1 {{cannot be interpreted: it calls itself}}
func.func @main() {
  call @main() : () -> ()
  return
}

// -----

func.func private @elsewhere()
func.func @main() {
  // expected-error@+1 {{'func.call' calls a function without a body}}
  call @elsewhere() : () -> ()
  return
}

// -----

#b = #nn.dims<batch>
#bv = #nn.dims<batch, vocab>
func.func @main(%x: tensor<1x3xf32, #bv> {cleave.value = dense<0.0> : tensor<1x3xf32>}, %t: tensor<1xi32, #b> {cleave.value = dense<3> : tensor<1xi32>}) {
  // expected-error@+2 {{'nn.cross_entropy' op has the target 3 in a vocabulary of 3}}
  // expected-error@+1 {{'nn.cross_entropy' could not be interpreted on rank 0}}
  %loss, %lse = nn.cross_entropy %x, %t : (tensor<1x3xf32, #bv>, tensor<1xi32, #b>) -> (tensor<1xf32, #b>, tensor<1xf32, #b>)
  return
}
