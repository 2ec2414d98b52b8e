// RUN: cleave-opt %s -split-input-file -verify-diagnostics -cleave-autodiff-differentiate

#m = #nn.dims<model>

nn.parameter @w : tensor<6xf32, #m> {file_shape = array<i64: 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64}

func.func private @kind(%w: tensor<6xf32, #m> {nn.parameter = "w"}) -> tensor<6xf32, #m> attributes {nn.kind = "kind"} {
  // expected-error@below {{'nn.relu_grad' op depends on a trained parameter but has no gradient}}
  %y = nn.relu_grad %w, %w : (tensor<6xf32, #m>, tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return %y : tensor<6xf32, #m>
}
func.func @forward() -> tensor<6xf32, #m> attributes {nn.entry = "forward"} {
  %w = nn.load @w value : tensor<6xf32, #m>
  %y = call @kind(%w) : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return %y : tensor<6xf32, #m>
}

// -----

#m = #nn.dims<model>

// expected-error@below {{'func.func' op is a kind of layer that needs a body of one block}}
func.func private @kind(tensor<6xf32, #m>) -> tensor<6xf32, #m> attributes {nn.kind = "kind"}
func.func @forward(%x: tensor<6xf32, #m>) -> tensor<6xf32, #m> attributes {nn.entry = "forward"} {
  %y = call @kind(%x) : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return %y : tensor<6xf32, #m>
}

// -----

#m = #nn.dims<model>
nn.parameter @w : tensor<6xf32, #m> {file_shape = array<i64: 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64}
func.func private @kind(%w: tensor<6xf32, #m>) -> tensor<6xf32, #m> attributes {nn.kind = "kind"} {
  return %w : tensor<6xf32, #m>
}
func.func @forward() -> tensor<6xf32, #m> attributes {nn.entry = "forward"} {
  %w = nn.load @w value : tensor<6xf32, #m>
  %y = call @kind(%w) : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  // expected-error@below {{'nn.batch_sum' op is of what depends on a trained parameter: it would need the gradients of all micro-batches before those of the first}}
  %z = nn.batch_sum %y : tensor<6xf32, #m>
  return %z : tensor<6xf32, #m>
}
