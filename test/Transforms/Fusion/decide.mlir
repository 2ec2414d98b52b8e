// RUN: cleave-opt %s --cleave-fusion-decide | FileCheck %s

!x = tensor<2x3x8xf32, #nn.dims<batch, sequence, model>>
!w = tensor<8xf32, #nn.dims<model>>
!m = tensor<8x8xf32, #nn.dims<ffn, model>>
!h = tensor<2x3x8xf32, #nn.dims<batch, sequence, ffn>>
!r = tensor<2x3xf32, #nn.dims<batch, sequence>>

// What reads the sum by rows joins it; a contraction has no kernel.
// CHECK-LABEL: func.func @residual
// CHECK: nn.add {{.*}}{fusion.group = [[G:[0-9]+]] : i64}
// CHECK-NEXT: nn.rms_norm {{.*}}fusion.group = [[G]] : i64
// CHECK-NEXT: nn.contract
// CHECK-NOT: fusion.group
// CHECK: nn.silu {{.*}}{fusion.group = [[S:[0-9]+]] : i64}
func.func @residual(%a: !x, %b: !x, %w: !w, %m: !m) -> (!x, !h) {
  %s = nn.add %a, %b : (!x, !x) -> !x
  %y, %rstd = nn.rms_norm %s, %w {eps = 1.0e-5 : f64} : (!x, !w) -> (!x, !r)
  %f = nn.contract %y, %m : (!x, !m) -> !h
  %g = nn.silu %f : (!h) -> !h
  return %s, %g : !x, !h
}

// A path through the contraction leads from the first silu to the product, so the
// product may not join it.
// CHECK-LABEL: func.func @convex
// CHECK: nn.silu {{.*}}{fusion.group = [[A:[0-9]+]] : i64}
// CHECK: nn.contract
// CHECK: nn.mul
// CHECK-NOT: fusion.group = [[A]] : i64
// CHECK: return
func.func @convex(%x: !h, %m: tensor<8x8xf32, #nn.dims<model, ffn>>, %k: !m) -> !h {
  %a = nn.silu %x : (!h) -> !h
  %c = nn.contract %a, %m : (!h, tensor<8x8xf32, #nn.dims<model, ffn>>) -> !x
  %d = nn.contract %c, %k : (!x, !m) -> !h
  %p = nn.mul %a, %d : (!h, !h) -> !h
  return %p : !h
}

// The input gradient has one row for each token, the weight gradient one for each
// column: two operators in two groups.
// CHECK-LABEL: func.func @gradients
// CHECK-DAG: %[[DX:.*]], %{{.*}} = nn.rms_norm_grad {{.*}}{fusion.group = 0 : i64}
// CHECK-DAG: %{{.*}}, %[[DW:.*]] = nn.rms_norm_grad {{.*}}{fusion.group = 1 : i64}
// CHECK: return %[[DX]], %[[DW]]
func.func @gradients(%x: !x, %w: !w, %rstd: !r, %dy: !x) -> (!x, !w) {
  %dx, %dw = nn.rms_norm_grad %x, %w, %rstd, %dy : (!x, !w, !r, !x) -> (!x, !w)
  return %dx, %dw : !x, !w
}

// A decision that is there already stays.
// CHECK-LABEL: func.func @decided
// CHECK: nn.add {{.*}}{fusion.group = 40 : i64}
// CHECK: nn.silu {{.*}}{fusion.group = 41 : i64}
func.func @decided(%a: !x, %b: !x) -> !x {
  %s = nn.add %a, %b {fusion.group = 40 : i64} : (!x, !x) -> !x
  %y = nn.silu %s : (!x) -> !x
  return %y : !x
}
