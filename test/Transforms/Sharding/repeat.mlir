// RUN: cleave-opt %s -split-input-file -cleave-sharding-propagate -cleave-sharding-insert-reshards -cleave-partition | FileCheck %s

#bm = #nn.dims<batch, model>
#bf = #nn.dims<batch, ffn>
#lbf = #nn.dims<layer, batch, ffn>
#fm = #nn.dims<ffn, model>
#mf = #nn.dims<model, ffn>

dist.mesh @mesh ["tensor"] = [2]
nn.parameter @"h.{0..2}.up" : tensor<8x6xf32, #fm> {file_shape = array<i64: 8, 6>, init_mean = 0.0 : f64, init_std = 1.0 : f64, layers = array<i64: 0, 3, 1>, dist.value = #dist.sharding<[[tensor], []]>}
nn.parameter @"h.{0..2}.down" : tensor<6x8xf32, #mf> {file_shape = array<i64: 6, 8>, init_mean = 0.0 : f64, init_std = 1.0 : f64, layers = array<i64: 0, 3, 1>, dist.value = #dist.sharding<[[], [tensor]]>}

// What is carried is completed in every iteration, what is stacked stays cut.
// CHECK-LABEL: func.func @layers
// CHECK: nn.repeat 3 along ["layer"] carry(%{{.*}} : tensor<4x6xf32, {{.*}}>) -> tensor<4x6xf32, {{.*}}> stack(tensor<3x4x4xf32, {{.*}}>) {
// CHECK: %[[H:.*]] = nn.contract {{.*}} -> tensor<4x4xf32,
// CHECK: %[[Y:.*]] = nn.contract %[[H]], {{.*}} -> tensor<4x6xf32,
// CHECK: %[[SUM:.*]] = dist.all_reduce %[[Y]] sum on @mesh ["tensor"]
// CHECK: nn.yield %[[SUM]], %[[H]]
func.func @layers(%x: tensor<4x6xf32, #bm>) -> (tensor<4x6xf32, #bm>, tensor<3x4x8xf32, #lbf>) {
  %y, %tape = nn.repeat 3 along ["layer"] carry(%x : tensor<4x6xf32, #bm>) -> tensor<4x6xf32, #bm> stack(tensor<3x4x8xf32, #lbf>) {
  ^bb0(%a: tensor<4x6xf32, #bm>):
    %up = nn.load @"h.{0..2}.up" value : tensor<8x6xf32, #fm>
    %down = nn.load @"h.{0..2}.down" value : tensor<6x8xf32, #mf>
    %h = nn.contract %a, %up {dist.factors = {ffn = ["tensor"]}} : (tensor<4x6xf32, #bm>, tensor<8x6xf32, #fm>) -> tensor<4x8xf32, #bf>
    %z = nn.contract %h, %down {dist.factors = {ffn = ["tensor"]}} : (tensor<4x8xf32, #bf>, tensor<6x8xf32, #mf>) -> tensor<4x6xf32, #bm>
    nn.yield %z, %h : tensor<4x6xf32, #bm>, tensor<4x8xf32, #bf>
  }
  return %y, %tape : tensor<4x6xf32, #bm>, tensor<3x4x8xf32, #lbf>
}

// -----

#bm = #nn.dims<batch, model>
dist.mesh @mesh ["data"] = [2]

// A dimension that is cut into as many blocks as the slices say: each rank has one.
// CHECK-LABEL: func.func @pieces
// CHECK: nn.repeat 2 along ["batch"] scan(%{{.*}} : tensor<4x6xf32, {{.*}}>) stack(tensor<4x6xf32, {{.*}}>) {
// CHECK-NEXT: ^bb0(%[[P:.*]]: tensor<2x6xf32,
// CHECK: nn.relu %[[P]] {{.*}} -> tensor<2x6xf32,
func.func @pieces(%x: tensor<8x6xf32, #bm> {dist.sharding = #dist.sharding<[[data], []]>}) -> (tensor<8x6xf32, #bm> {dist.sharding = #dist.sharding<[[data], []]>}) {
  %y = nn.repeat 2 along ["batch"] blocks [2] scan(%x : tensor<8x6xf32, #bm>) stack(tensor<8x6xf32, #bm>) {
  ^bb0(%part: tensor<4x6xf32, #bm>):
    %r = nn.relu %part : (tensor<4x6xf32, #bm>) -> tensor<4x6xf32, #bm>
    nn.yield %r : tensor<4x6xf32, #bm>
  }
  return %y : tensor<8x6xf32, #bm>
}
