// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

#bm = #nn.dims<batch, model>
#m = #nn.dims<model>

// CHECK-DAG: #[[BM:.+]] = #nn.dims<batch, model>
// CHECK-DAG: #[[M:.+]] = #nn.dims<model>

// CHECK-LABEL: @broadcast
// CHECK: nn.add %{{.*}}, %{{.*}} : (tensor<?x6xf32, #[[BM]]>, tensor<6xf32, #[[M]]>) -> tensor<?x6xf32, #[[BM]]>
// CHECK: nn.mul %{{.*}}, %{{.*}} : (tensor<?x6xf32, #[[BM]]>, tensor<f32>) -> tensor<?x6xf32, #[[BM]]>
func.func @broadcast(%x: tensor<?x6xf32, #bm>, %b: tensor<6xf32, #m>, %s: tensor<f32>) -> tensor<?x6xf32, #bm> {
  %0 = nn.add %x, %b : (tensor<?x6xf32, #bm>, tensor<6xf32, #m>) -> tensor<?x6xf32, #bm>
  %1 = nn.mul %0, %s : (tensor<?x6xf32, #bm>, tensor<f32>) -> tensor<?x6xf32, #bm>
  return %1 : tensor<?x6xf32, #bm>
}

// CHECK-LABEL: @add_n
// CHECK: nn.add_n %{{.*}}, %{{.*}}, %{{.*}} : (tensor<6xf32, #[[M]]>, tensor<6xf32, #[[M]]>, tensor<6xf32, #[[M]]>) -> tensor<6xf32, #[[M]]>
func.func @add_n(%x: tensor<6xf32, #m>) -> tensor<6xf32, #m> {
  %y = nn.add_n %x, %x, %x : (tensor<6xf32, #m>, tensor<6xf32, #m>, tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return %y : tensor<6xf32, #m>
}

// CHECK-LABEL: @activations
// CHECK: nn.silu %{{.*}} : (tensor<6xf32, #[[M]]>) -> tensor<6xf32, #[[M]]>
// CHECK: nn.silu_grad %{{.*}}, %{{.*}} :
// CHECK: nn.gelu %{{.*}} : (tensor<6xf32, #[[M]]>)
// CHECK: nn.gelu %{{.*}} {tanh} : (tensor<6xf32, #[[M]]>)
// CHECK: nn.gelu_grad %{{.*}}, %{{.*}} {tanh} :
// CHECK: nn.relu %{{.*}} :
// CHECK: nn.relu_grad %{{.*}}, %{{.*}} :
func.func @activations(%x: tensor<6xf32, #m>) -> tensor<6xf32, #m> {
  %0 = nn.silu %x : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  %1 = nn.silu_grad %x, %0 : (tensor<6xf32, #m>, tensor<6xf32, #m>) -> tensor<6xf32, #m>
  %2 = nn.gelu %1 : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  %3 = nn.gelu %2 {tanh} : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  %4 = nn.gelu_grad %2, %3 {tanh} : (tensor<6xf32, #m>, tensor<6xf32, #m>) -> tensor<6xf32, #m>
  %5 = nn.relu %4 : (tensor<6xf32, #m>) -> tensor<6xf32, #m>
  %6 = nn.relu_grad %4, %5 : (tensor<6xf32, #m>, tensor<6xf32, #m>) -> tensor<6xf32, #m>
  return %6 : tensor<6xf32, #m>
}
