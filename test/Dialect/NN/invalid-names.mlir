// RUN: cleave-opt %s --split-input-file --verify-diagnostics

#m = #nn.dims<model>
// expected-error@+1 {{#nn.dims names 1 dimensions of a tensor of rank 2}}
func.func private @rank(tensor<2x3xf32, #m>)

// -----

#mm = #nn.dims<model, model>
// expected-error@+1 {{#nn.dims names two dimensions 'model'}}
func.func private @twice(tensor<2x3xf32, #mm>)

// -----

func.func @unnamed(%x: tensor<3xf32>) {
  // expected-error@+1 {{operand #0 must be tensor with named dimensions, but got 'tensor<3xf32>'}}
  %y = nn.relu %x : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

#m = #nn.dims<model>
func.func @two_sizes(%x: tensor<3xf32, #m>, %y: tensor<4xf32, #m>) {
  // expected-error@+1 {{has two sizes for dimension 'model'}}
  %z = nn.add %x, %y : (tensor<3xf32, #m>, tensor<4xf32, #m>) -> tensor<3xf32, #m>
  return
}

// -----

#m = #nn.dims<model>
func.func @dynamic_and_static(%x: tensor<?xf32, #m>) {
  // expected-error@+1 {{has two sizes for dimension 'model'}}
  %z = nn.relu %x : (tensor<?xf32, #m>) -> tensor<3xf32, #m>
  return
}
