// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

#bsm = #nn.dims<batch, sequence, model>
#bsf = #nn.dims<batch, sequence, ffn>
#fm = #nn.dims<ffn, model>
#qm = #nn.dims<qkv, model>
#m = #nn.dims<model>

// CHECK: #[[BSM:.+]] = #nn.dims<batch, sequence, model>

// CHECK-LABEL: @contract
// CHECK: nn.contract %{{.*}}, %{{.*}} : (tensor<?x?x6xf32, #[[BSM]]>, tensor<8x6xf32, #{{.*}}>) -> tensor<?x?x8xf32, #{{.*}}>
func.func @contract(%x: tensor<?x?x6xf32, #bsm>, %w: tensor<8x6xf32, #fm>) -> tensor<?x?x8xf32, #bsf> {
  %y = nn.contract %x, %w : (tensor<?x?x6xf32, #bsm>, tensor<8x6xf32, #fm>) -> tensor<?x?x8xf32, #bsf>
  return %y : tensor<?x?x8xf32, #bsf>
}

// CHECK-LABEL: @to_scalar
// CHECK: nn.contract %{{.*}}, %{{.*}} : (tensor<6xf32, #{{.*}}>, tensor<6xf32, #{{.*}}>) -> tensor<f32>
func.func @to_scalar(%x: tensor<6xf32, #m>) -> tensor<f32> {
  %y = nn.contract %x, %x : (tensor<6xf32, #m>, tensor<6xf32, #m>) -> tensor<f32>
  return %y : tensor<f32>
}

// CHECK-LABEL: @sum
// CHECK: nn.sum %{{.*}} : (tensor<?x?x6xf32, #[[BSM]]>) -> tensor<6xf32, #{{.*}}>
func.func @sum(%x: tensor<?x?x6xf32, #bsm>) -> tensor<6xf32, #m> {
  %y = nn.sum %x : (tensor<?x?x6xf32, #bsm>) -> tensor<6xf32, #m>
  return %y : tensor<6xf32, #m>
}

// CHECK-LABEL: @stacks
// CHECK: %[[PARTS:.*]]:3 = nn.unstack %{{.*}} {dim = "qkv"} : (tensor<3x6xf32, #{{.*}}>) -> (tensor<6xf32, #[[M:.*]]>, tensor<6xf32, #[[M]]>, tensor<6xf32, #[[M]]>)
// CHECK: nn.stack %[[PARTS]]#2, %[[PARTS]]#1, %[[PARTS]]#0 {dim = "qkv"} :
func.func @stacks(%x: tensor<3x6xf32, #qm>) -> tensor<3x6xf32, #qm> {
  %0:3 = nn.unstack %x {dim = "qkv"} : (tensor<3x6xf32, #qm>) -> (tensor<6xf32, #m>, tensor<6xf32, #m>, tensor<6xf32, #m>)
  %1 = nn.stack %0#2, %0#1, %0#0 {dim = "qkv"} : (tensor<6xf32, #m>, tensor<6xf32, #m>, tensor<6xf32, #m>) -> tensor<3x6xf32, #qm>
  return %1 : tensor<3x6xf32, #qm>
}

// CHECK-LABEL: @fill
// CHECK: nn.fill {value = 5.000000e-01 : f64} : () -> tensor<?x?x6xf32, #[[BSM]]>
func.func @fill() -> tensor<?x?x6xf32, #bsm> {
  %y = nn.fill {value = 0.5 : f64} : () -> tensor<?x?x6xf32, #bsm>
  return %y : tensor<?x?x6xf32, #bsm>
}
