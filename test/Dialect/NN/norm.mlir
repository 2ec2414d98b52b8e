// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

#bm = #nn.dims<batch, model>
#b = #nn.dims<batch>
#m = #nn.dims<model>

// CHECK-LABEL: @rms_norm
// CHECK: %{{.*}}, %[[RSTD:.*]] = nn.rms_norm %{{.*}}, %{{.*}} {eps = 1.000000e-05 : f64} : (tensor<?x6xf32, #{{.*}}>, tensor<6xf32, #{{.*}}>) -> (tensor<?x6xf32, #{{.*}}>, tensor<?xf32, #{{.*}}>)
// CHECK: nn.rms_norm_grad %{{.*}}, %{{.*}}, %[[RSTD]], %{{.*}} :
func.func @rms_norm(%x: tensor<?x6xf32, #bm>, %w: tensor<6xf32, #m>) -> tensor<6xf32, #m> {
  %y, %rstd = nn.rms_norm %x, %w {eps = 1.0e-5 : f64} : (tensor<?x6xf32, #bm>, tensor<6xf32, #m>) -> (tensor<?x6xf32, #bm>, tensor<?xf32, #b>)
  %dx, %dw = nn.rms_norm_grad %x, %w, %rstd, %y : (tensor<?x6xf32, #bm>, tensor<6xf32, #m>, tensor<?xf32, #b>, tensor<?x6xf32, #bm>) -> (tensor<?x6xf32, #bm>, tensor<6xf32, #m>)
  return %dw : tensor<6xf32, #m>
}

// CHECK-LABEL: @layer_norm
// CHECK: %{{.*}}, %[[MEAN:.*]], %[[RSTD:.*]] = nn.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {eps = 1.000000e-05 : f64} :
// CHECK: nn.layer_norm_grad %{{.*}}, %{{.*}}, %[[MEAN]], %[[RSTD]], %{{.*}} :
func.func @layer_norm(%x: tensor<?x6xf32, #bm>, %w: tensor<6xf32, #m>, %c: tensor<6xf32, #m>) -> tensor<6xf32, #m> {
  %y, %mean, %rstd = nn.layer_norm %x, %w, %c {eps = 1.0e-5 : f64} : (tensor<?x6xf32, #bm>, tensor<6xf32, #m>, tensor<6xf32, #m>) -> (tensor<?x6xf32, #bm>, tensor<?xf32, #b>, tensor<?xf32, #b>)
  %dx, %dw, %db = nn.layer_norm_grad %x, %w, %mean, %rstd, %y : (tensor<?x6xf32, #bm>, tensor<6xf32, #m>, tensor<?xf32, #b>, tensor<?xf32, #b>, tensor<?x6xf32, #bm>) -> (tensor<?x6xf32, #bm>, tensor<6xf32, #m>, tensor<6xf32, #m>)
  return %db : tensor<6xf32, #m>
}
