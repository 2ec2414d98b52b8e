// RUN: cleave-opt %s -split-input-file -verify-diagnostics -cleave-sharding-propagate

#m = #nn.dims<model>
// expected-error@below {{has 0 meshes; it needs one dist.mesh, as cleave-apply writes it}}
module {
  func.func @no_mesh(%x: tensor<6xf32, #m>) { return }
}

// -----

// expected-error@below {{'dist.mesh' op must be called @mesh, which is how collectives name it}}
dist.mesh @grid ["tensor"] = [2]

// -----

dist.mesh @mesh ["tensor"] = [2]
// expected-error@below {{'func.func' op cannot be cut over ranks: it needs a body of one block}}
func.func private @declared(tensor<6xf32, #nn.dims<model>>)

// -----

dist.mesh @mesh ["tensor"] = [2]
// expected-error@below {{'func.func' op cannot be cut over ranks: an argument is no ranked tensor}}
func.func @index(%i: index) { return }

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
// expected-error@below {{'func.func' op names an axis that the mesh has not: "tenser"}}
func.func @axis(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[tenser]]>}) { return }

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
// expected-error@below {{'func.func' op uses the axis "tensor" twice for one value}}
func.func @twice(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[tensor]], partial [tensor]>}) { return }

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
// expected-error@below {{'func.func' op places 2 dimensions of argument 0, which has 1}}
func.func @rank(%x: tensor<6xf32, #m> {dist.sharding = #dist.sharding<[[tensor], []]>}) { return }

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
// expected-error@below {{'func.func' op places argument 0 by what is no #dist.sharding: "tensor"}}
func.func @text(%x: tensor<6xf32, #m> {dist.sharding = "tensor"}) { return }

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
func.func @factors(%x: tensor<6xf32, #m>) {
  // expected-error@below {{'nn.relu' op needs a list of axes for the factor 'model'}}
  %y = nn.relu %x {dist.factors = {model = "tensor"}} : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return
}

// -----

#ab = #nn.dims<a, b>
dist.mesh @mesh ["tensor"] = [2]
func.func @two_factors(%x: tensor<6x4xf32, #ab>) {
  // expected-error@below {{'nn.relu' op is cut along two factors by the axis "tensor"}}
  %y = nn.relu %x {dist.factors = {a = ["tensor"], b = ["tensor"]}} : (tensor<6x4xf32, #ab>) -> tensor<6x4xf32, #ab>
  return
}

// -----

#tm = #nn.dims<token, model>
#t = #nn.dims<token>
#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
func.func @whole_rows(%x: tensor<4x6xf32, #tm>, %w: tensor<6xf32, #m>) {
  // expected-error@below {{'nn.rms_norm' op cannot be cut along 'model'}}
  %y, %r = nn.rms_norm %x, %w {eps = 1.0e-5 : f64, dist.factors = {model = ["tensor"]}} : (tensor<4x6xf32, #tm>, tensor<6xf32, #m>) -> (tensor<4x6xf32, #tm>, tensor<4xf32, #t>)
  return
}

// -----

dist.mesh @mesh ["tensor"] = [2]
func.func @no_rule() {
  // expected-error@below {{'arith.constant' op has no sharding rule}}
  %c = arith.constant dense<1.0> : tensor<4xf32>
  return
}

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
// expected-error@below {{'nn.parameter' op names an axis that the mesh has not: "data"}}
nn.parameter @w : tensor<6xf32, #m> {file_shape = array<i64: 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64, dist.value = #dist.sharding<[[data]]>}
func.func @slot() {
  %w = nn.load @w value : tensor<6xf32, #m>
  return
}

// -----

#m = #nn.dims<model>
dist.mesh @mesh ["tensor"] = [2]
func.func private @loop(%x: tensor<6xf32, #m>) -> tensor<6xf32, #m> {
  // expected-error@below {{'func.call' op calls a function that it is in}}
  %y = func.call @loop(%x) : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return %y : tensor<6xf32, #m>
}
func.func @main(%x: tensor<6xf32, #m>) {
  %y = func.call @loop(%x) : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return
}

// -----

#bm = #nn.dims<batch, model>
dist.mesh @mesh ["data"] = [2]
func.func @torn_slices(%x: tensor<8x6xf32, #bm> {dist.sharding = #dist.sharding<[[data], []]>}) {
  // expected-error@below {{'nn.repeat' op slices 'tensor<8x6xf32, #nn.dims<batch, model>>' in 1 blocks along a dimension that is cut 2 ways}}
  nn.repeat 2 along ["batch"] scan(%x : tensor<8x6xf32, #bm>) {
  ^bb0(%part: tensor<4x6xf32, #bm>):
    nn.yield
  }
  return
}
