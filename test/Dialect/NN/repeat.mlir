// RUN: cleave-opt %s | cleave-opt | FileCheck %s

#bm = #nn.dims<batch, model>
#lbm = #nn.dims<layer, batch, model>
#m = #nn.dims<model>

// CHECK: nn.parameter @"h.{2..6:2}.scale" {{.*}}layers = array<i64: 2, 3, 2>
nn.parameter @"h.{2..6:2}.scale" : tensor<4xf32, #m> {file_shape = array<i64: 4>, init_mean = 0.0 : f64, init_std = 1.0 : f64, layers = array<i64: 2, 3, 2>}

// CHECK-LABEL: func.func @carried_and_stacked
// CHECK: %[[LAST:.*]], %[[ALL:.*]] = nn.repeat 3 along ["layer"] carry(%{{.*}} : tensor<2x4xf32, {{.*}}>) -> tensor<2x4xf32, {{.*}}> stack(tensor<3x2x4xf32, {{.*}}>) attributes {layers = array<i64: 2, 2>} {
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<2x4xf32
// CHECK: nn.yield %{{.*}}, %[[X]]
func.func @carried_and_stacked(%x: tensor<2x4xf32, #bm>) -> tensor<2x4xf32, #bm> {
  %y, %all = nn.repeat 3 along ["layer"] carry(%x : tensor<2x4xf32, #bm>) -> tensor<2x4xf32, #bm> stack(tensor<3x2x4xf32, #lbm>) attributes {layers = array<i64: 2, 2>} {
  ^bb0(%h: tensor<2x4xf32, #bm>):
    %w = nn.load @"h.{2..6:2}.scale" value : tensor<4xf32, #m>
    %z = nn.mul %h, %w : (tensor<2x4xf32, #bm>, tensor<4xf32, #m>) -> tensor<2x4xf32, #bm>
    nn.yield %z, %h : tensor<2x4xf32, #bm>, tensor<2x4xf32, #bm>
  }
  return %y : tensor<2x4xf32, #bm>
}

// CHECK-LABEL: func.func @scanned
// CHECK: nn.repeat 2 along ["batch"] blocks [2] reverse scan(%{{.*}} : tensor<8x4xf32, {{.*}}>) stack(tensor<8x4xf32, {{.*}}>) {
func.func @scanned(%x: tensor<8x4xf32, #bm>) -> tensor<8x4xf32, #bm> {
  %y = nn.repeat 2 along ["batch"] blocks [2] reverse scan(%x : tensor<8x4xf32, #bm>) stack(tensor<8x4xf32, #bm>) {
  ^bb0(%part: tensor<4x4xf32, #bm>):
    nn.yield %part : tensor<4x4xf32, #bm>
  }
  return %y : tensor<8x4xf32, #bm>
}

// CHECK-LABEL: func.func @nothing_carried
// CHECK: nn.repeat 2 {
func.func @nothing_carried() {
  nn.repeat 2 {
    nn.yield
  }
  return
}
