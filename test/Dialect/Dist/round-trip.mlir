// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

// CHECK: dist.mesh @mesh ["data", "tensor.0", "tensor.1"] = [2, 2, 3]
dist.mesh @mesh ["data", "tensor.0", "tensor.1"] = [2, 2, 3]

// CHECK-LABEL: @reshard
// CHECK: dist.reshard %{{.*}} <{{\[}}[data], []], partial [tensor.0, tensor.1]> to <{{\[}}[data], [tensor.0, tensor.1]]> : tensor<4x6xf32>
func.func @reshard(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %y = dist.reshard %x <[[data], []], partial ["tensor.0", "tensor.1"]> to <[[data], ["tensor.0", "tensor.1"]]> : tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// CHECK-LABEL: @apart
// CHECK: dist.reshard %{{.*}} <{{\[}}[], []], apart [data]> to <{{\[}}[], []]> : tensor<4x6xf32>
func.func @apart(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %y = dist.reshard %x <[[], []], apart [data]> to <[[], []]> : tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// CHECK-LABEL: @exchanges
// CHECK: dist.all_reduce %{{.*}} sum on @mesh ["tensor.0", "tensor.1"] : tensor<4x6xf32>
// CHECK: dist.all_reduce %{{.*}} max on @mesh ["data"] : tensor<4x6xf32>
// CHECK: dist.all_gather %{{.*}} dim 0 on @mesh ["data"] : (tensor<4x6xf32>) -> tensor<7x6xf32>
// CHECK: dist.reduce_scatter %{{.*}} dim 1 on @mesh ["tensor.0"] : (tensor<7x6xf32>) -> tensor<7x3xf32>
// CHECK: dist.all_to_all %{{.*}} split 0 gather 1 on @mesh ["tensor.0"] : (tensor<7x3xf32>) -> tensor<4x6xf32>
// CHECK: dist.slice %{{.*}} dim 1 on @mesh ["tensor.1"] : (tensor<4x6xf32>) -> tensor<4x2xf32>
// CHECK: dist.mask %{{.*}} dim 0 size 7 value -1.000000e+00 on @mesh ["data"] : tensor<4x2xf32>
// CHECK: dist.keep_first %{{.*}} on @mesh ["data"] : tensor<4x2xf32>
// CHECK: dist.offset block 4 on @mesh ["data"] : tensor<i32>
func.func @exchanges(%x: tensor<4x6xf32>) -> tensor<4x2xf32> {
  %0 = dist.all_reduce %x sum on @mesh ["tensor.0", "tensor.1"] : tensor<4x6xf32>
  %1 = dist.all_reduce %0 max on @mesh ["data"] : tensor<4x6xf32>
  %2 = dist.all_gather %1 dim 0 on @mesh ["data"] : (tensor<4x6xf32>) -> tensor<7x6xf32>
  %3 = dist.reduce_scatter %2 dim 1 on @mesh ["tensor.0"] : (tensor<7x6xf32>) -> tensor<7x3xf32>
  %4 = dist.all_to_all %3 split 0 gather 1 on @mesh ["tensor.0"] : (tensor<7x3xf32>) -> tensor<4x6xf32>
  %5 = dist.slice %4 dim 1 on @mesh ["tensor.1"] : (tensor<4x6xf32>) -> tensor<4x2xf32>
  %6 = dist.mask %5 dim 0 size 7 value -1.0 on @mesh ["data"] : tensor<4x2xf32>
  %7 = dist.keep_first %6 on @mesh ["data"] : tensor<4x2xf32>
  %8 = dist.offset block 4 on @mesh ["data"] : tensor<i32>
  return %7 : tensor<4x2xf32>
}
