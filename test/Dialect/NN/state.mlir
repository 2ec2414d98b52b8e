// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

#fm = #nn.dims<ffn, model>

// CHECK: nn.parameter @model.layers.0.mlp.up_proj.weight : tensor<8x6xf32, #[[FM:.*]]> {decay, file_shape = array<i64: 8, 6>, init_mean = 0.000000e+00 : f64, init_std = 2.000000e-02 : f64}
// CHECK: nn.accumulator @loss : tensor<f32>
// CHECK: nn.accumulator @loads : tensor<8xf32, #[[E:.*]]>
nn.parameter @model.layers.0.mlp.up_proj.weight : tensor<8x6xf32, #fm> {decay, file_shape = array<i64: 8, 6>, init_mean = 0.0 : f64, init_std = 0.02 : f64}
nn.accumulator @loss : tensor<f32>
nn.accumulator @loads : tensor<8xf32, #nn.dims<expert>>

// CHECK-LABEL: @batch_sum
// CHECK: nn.batch_sum %{{.*}} : tensor<8xf32, #[[E]]>
func.func @batch_sum(%x: tensor<8xf32, #nn.dims<expert>>) -> tensor<8xf32, #nn.dims<expert>> {
  %y = nn.batch_sum %x : tensor<8xf32, #nn.dims<expert>>
  return %y : tensor<8xf32, #nn.dims<expert>>
}

// CHECK-LABEL: @slots
// CHECK: %[[W:.*]] = nn.load @model.layers.0.mlp.up_proj.weight value : tensor<8x6xf32, #[[FM]]>
// CHECK: nn.store %[[W]], @model.layers.0.mlp.up_proj.weight moment1 : tensor<8x6xf32, #[[FM]]>
// CHECK: nn.store %[[W]], @model.layers.0.mlp.up_proj.weight moment2 : tensor<8x6xf32, #[[FM]]>
// CHECK: nn.accumulate %[[W]], @model.layers.0.mlp.up_proj.weight gradient : tensor<8x6xf32, #[[FM]]>
// CHECK: nn.accumulate %{{.*}}, @loss value : tensor<f32>
func.func @slots(%x: tensor<f32>) {
  %w = nn.load @model.layers.0.mlp.up_proj.weight value : tensor<8x6xf32, #fm>
  nn.store %w, @model.layers.0.mlp.up_proj.weight moment1 : tensor<8x6xf32, #fm>
  nn.store %w, @model.layers.0.mlp.up_proj.weight moment2 : tensor<8x6xf32, #fm>
  nn.accumulate %w, @model.layers.0.mlp.up_proj.weight gradient : tensor<8x6xf32, #fm>
  nn.accumulate %x, @loss value : tensor<f32>
  return
}

// CHECK-LABEL: @optimizer
// CHECK: %[[TOTAL:.*]] = nn.sum_squares %{{.*}} : (tensor<8x6xf32, #[[FM]]>) -> tensor<f32>
// CHECK: %{{.*}}, %[[SCALE:.*]] = nn.clip_scale %[[TOTAL]] {max_norm = 1.000000e+00 : f64} : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
// CHECK: nn.clip_scale %[[TOTAL]] : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
// CHECK: nn.reciprocal %[[SCALE]] : (tensor<f32>) -> tensor<f32>
// CHECK: nn.adamw %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[SCALE]], %{{.*}}, %{{.*}}, %{{.*}} {beta1 = 9.000000e-01 : f64, beta2 = 0.94999999999999996 : f64, eps = 1.000000e-08 : f64, weight_decay = 1.000000e-01 : f64} :
func.func @optimizer(%p: tensor<8x6xf32, #fm>, %rate: tensor<f32>) -> tensor<8x6xf32, #fm> {
  %total = nn.sum_squares %p : (tensor<8x6xf32, #fm>) -> tensor<f32>
  %norm, %scale = nn.clip_scale %total {max_norm = 1.0 : f64} : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  %norm2, %one = nn.clip_scale %total : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  %r = nn.reciprocal %scale : (tensor<f32>) -> tensor<f32>
  %new, %m1, %m2 = nn.adamw %p, %p, %p, %p, %scale, %rate, %r, %r {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, weight_decay = 0.1 : f64} : (tensor<8x6xf32, #fm>, tensor<8x6xf32, #fm>, tensor<8x6xf32, #fm>, tensor<8x6xf32, #fm>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8x6xf32, #fm>, tensor<8x6xf32, #fm>, tensor<8x6xf32, #fm>)
  return %new : tensor<8x6xf32, #fm>
}

// CHECK-LABEL: @rows
// CHECK: nn.load @model.layers.0.mlp.up_proj.weight value rows [3, 0, 8] : tensor<2x6xf32, #[[FM]]>
// CHECK: nn.accumulate %{{.*}}, @model.layers.0.mlp.up_proj.weight gradient rows [3, 0, 8] : tensor<2x6xf32, #[[FM]]>
func.func @rows() {
  %w = nn.load @model.layers.0.mlp.up_proj.weight value rows [3, 0, 8] : tensor<2x6xf32, #fm>
  nn.accumulate %w, @model.layers.0.mlp.up_proj.weight gradient rows [3, 0, 8] : tensor<2x6xf32, #fm>
  return
}

// CHECK-LABEL: @constant
// CHECK: nn.constant dense<[0, 3]> : tensor<2xi32, #{{.*}}>
func.func @constant() -> tensor<2xi32, #nn.dims<ffn>> {
  %c = nn.constant dense<[0, 3]> : tensor<2xi32, #nn.dims<ffn>>
  return %c : tensor<2xi32, #nn.dims<ffn>>
}
