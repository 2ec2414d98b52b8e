// RUN: cleave-opt %s --split-input-file --verify-diagnostics --cleave-lower-to-exec

// expected-error@+1 {{needs one dist.mesh}}
module {
}

// -----

dist.mesh @mesh ["data"] = [2]
// expected-error@+1 {{needs its sharding in dist.value}}
nn.parameter @w : tensor<4xf32, #nn.dims<model>>
  {file_shape = array<i64: 4>, init_mean = 0.0, init_std = 0.0}

// -----

dist.mesh @mesh ["data"] = [2]
// expected-error@+1 {{is cut by "tensor", which is no axis of the mesh}}
nn.parameter @w : tensor<4xf32, #nn.dims<model>>
  {file_shape = array<i64: 4>, init_mean = 0.0, init_std = 0.0, dist.value = #dist.sharding<[[tensor]]>}

// -----

// expected-error@+1 {{has no function @prepare, which is an entry of every program}}
module {
  dist.mesh @mesh ["data"] = [2]
  func.func @count(%t: tensor<4xi32, #nn.dims<sequence>> {nn.name = "targets"}) {
    return
  }
}

// -----

dist.mesh @mesh ["data"] = [2]
// expected-error@+1 {{needs to know of argument 0 in nn.name which of tokens, targets, positions, rate, correction1, correction2 it is}}
func.func @count(%t: tensor<4xi32, #nn.dims<sequence>>) {
  return
}

// -----

dist.mesh @mesh ["data"] = [2]
func.func @count(%t: tensor<4xi32, #nn.dims<sequence>> {nn.name = "targets"}) {
  return
}
// expected-error@+1 {{returns 0 values; the runtime reads 1}}
func.func @prepare() {
  return
}

// -----

dist.mesh @mesh ["data"] = [2]
func.func @count(%t: tensor<4xi32, #nn.dims<sequence>> {nn.name = "targets"}) {
  return
}
func.func @prepare() -> (tensor<f32> {nn.name = "valid"}) {
  %0 = nn.fill {value = 0.0} : () -> tensor<f32>
  return %0 : tensor<f32>
}
// expected-error@+1 {{needs tokens, targets and positions}}
func.func @microbatch(%t: tensor<4xi32, #nn.dims<sequence>> {nn.name = "tokens"}) {
  return
}
func.func @update() -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "norm"}) {
  %0 = nn.fill {value = 0.0} : () -> tensor<f32>
  return %0, %0 : tensor<f32>, tensor<f32>
}
func.func @evaluate() -> (tensor<f32> {nn.name = "loss"}) {
  %0 = nn.fill {value = 0.0} : () -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

dist.mesh @mesh ["data"] = [2]
// expected-error@+1 {{has a value of type 'tensor<?xi32, #nn.dims<sequence>>'; values in memory are static tensors of f32, bf16 or i32}}
func.func @count(%t: tensor<?xi32, #nn.dims<sequence>> {nn.name = "targets"}) {
  return
}
func.func @prepare() -> (tensor<f32> {nn.name = "valid"}) {
  %0 = nn.fill {value = 0.0} : () -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @microbatch(%t: tensor<4xi32, #nn.dims<sequence>> {nn.name = "tokens"},
                      %u: tensor<4xi32, #nn.dims<sequence>> {nn.name = "targets"},
                      %p: tensor<4xi32, #nn.dims<sequence>> {nn.name = "positions"}) {
  return
}
func.func @update() -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "norm"}) {
  %0 = nn.fill {value = 0.0} : () -> tensor<f32>
  return %0, %0 : tensor<f32>, tensor<f32>
}
func.func @evaluate() -> (tensor<f32> {nn.name = "loss"}) {
  %0 = nn.fill {value = 0.0} : () -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

dist.mesh @mesh ["data"] = [2]
func.func @count(%t: tensor<4xi32, #nn.dims<sequence>> {nn.name = "targets"}) {
  return
}
// expected-error@+1 {{needs to know of result 0 in nn.name what it is}}
func.func @prepare() -> tensor<f32> {
  %0 = nn.fill {value = 0.0} : () -> tensor<f32>
  return %0 : tensor<f32>
}
