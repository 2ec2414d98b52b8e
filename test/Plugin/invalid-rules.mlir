// RUN: cleave-opt %s --load-dialect-plugin=%plugins/SoftCap.so -split-input-file -verify-diagnostics --cleave-autodiff-differentiate --cleave-sharding-propagate

// What an operator does not say of itself is an error at the operator.

#tm = #nn.dims<token, model>
#t = #nn.dims<token>

dist.mesh @mesh ["tensor"] = [2]

func.func @cut(%x: tensor<4x6xf32, #tm> {dist.sharding = #dist.sharding<[[], [tensor]]>}) {
  // expected-error@below {{'ext.row_max' op is cut along 'model', over which it takes a maximum; buildLocal must complete it}}
  %y = ext.row_max %x : (tensor<4x6xf32, #tm>) -> tensor<4xf32, #t>
  return
}

// -----

#tm = #nn.dims<token, model>
#t = #nn.dims<token>

nn.parameter @w : tensor<4x6xf32, #tm> {file_shape = array<i64: 4, 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64}

func.func private @kind(%x: tensor<4x6xf32, #tm> {nn.parameter = "w"}) -> tensor<4xf32, #t> attributes {nn.kind = "kind"} {
  // expected-error@below {{'ext.row_max' op depends on a trained parameter but has no gradient}}
  %y = ext.row_max %x : (tensor<4x6xf32, #tm>) -> tensor<4xf32, #t>
  return %y : tensor<4xf32, #t>
}
func.func @forward() -> tensor<4xf32, #t> attributes {nn.entry = "forward"} {
  %w = nn.load @w value : tensor<4x6xf32, #tm>
  %y = call @kind(%w) : (tensor<4x6xf32, #tm>) -> tensor<4xf32, #t>
  return %y : tensor<4xf32, #t>
}
