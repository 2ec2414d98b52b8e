// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

#bs = #nn.dims<batch, sequence>
#bsm = #nn.dims<batch, sequence, model>
#bsv = #nn.dims<batch, sequence, vocab>
#vm = #nn.dims<vocab, model>

// CHECK-LABEL: @embedding
// CHECK: nn.embedding %{{.*}}, %{{.*}} : (tensor<9x6xf32, #{{.*}}>, tensor<?x?xi32, #{{.*}}>) -> tensor<?x?x6xf32, #{{.*}}>
// CHECK: nn.embedding %{{.*}}, %{{.*}}, %{{.*}} : (tensor<9x6xf32, #{{.*}}>, tensor<?x?xi32, #{{.*}}>, tensor<i32>) -> tensor<?x?x6xf32, #{{.*}}>
// CHECK: nn.embedding_grad %{{.*}}, %{{.*}} :
// CHECK: nn.embedding_grad %{{.*}}, %{{.*}}, %{{.*}} :
func.func @embedding(%t: tensor<9x6xf32, #vm>, %ids: tensor<?x?xi32, #bs>, %offset: tensor<i32>) -> tensor<9x6xf32, #vm> {
  %0 = nn.embedding %t, %ids : (tensor<9x6xf32, #vm>, tensor<?x?xi32, #bs>) -> tensor<?x?x6xf32, #bsm>
  %1 = nn.embedding %t, %ids, %offset : (tensor<9x6xf32, #vm>, tensor<?x?xi32, #bs>, tensor<i32>) -> tensor<?x?x6xf32, #bsm>
  %2 = nn.embedding_grad %ids, %0 : (tensor<?x?xi32, #bs>, tensor<?x?x6xf32, #bsm>) -> tensor<9x6xf32, #vm>
  %3 = nn.embedding_grad %ids, %1, %offset : (tensor<?x?xi32, #bs>, tensor<?x?x6xf32, #bsm>, tensor<i32>) -> tensor<9x6xf32, #vm>
  return %3 : tensor<9x6xf32, #vm>
}

// CHECK-LABEL: @cross_entropy
// CHECK: %[[LOSS:.*]], %[[LSE:.*]] = nn.cross_entropy %{{.*}}, %{{.*}} :
// CHECK: nn.cross_entropy_grad %{{.*}}, %{{.*}}, %[[LSE]], %[[LOSS]] :
// CHECK: nn.count_valid %{{.*}} : (tensor<?x?xi32, #{{.*}}>) -> tensor<f32>
func.func @cross_entropy(%x: tensor<?x?x9xf32, #bsv>, %t: tensor<?x?xi32, #bs>) -> tensor<f32> {
  %loss, %lse = nn.cross_entropy %x, %t : (tensor<?x?x9xf32, #bsv>, tensor<?x?xi32, #bs>) -> (tensor<?x?xf32, #bs>, tensor<?x?xf32, #bs>)
  %dx = nn.cross_entropy_grad %x, %t, %lse, %loss : (tensor<?x?x9xf32, #bsv>, tensor<?x?xi32, #bs>, tensor<?x?xf32, #bs>, tensor<?x?xf32, #bs>) -> tensor<?x?x9xf32, #bsv>
  %n = nn.count_valid %t : (tensor<?x?xi32, #bs>) -> tensor<f32>
  return %n : tensor<f32>
}

// CHECK-LABEL: @cross_entropy_in_parts
// CHECK: %[[MAX:.*]], %[[SUM:.*]], %[[TARGET:.*]] = nn.cross_entropy_partial %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK: %[[SCALED:.*]] = nn.rescale_sum %[[SUM]], %[[MAX]], %[[MAX]] :
// CHECK: nn.cross_entropy_combine %[[MAX]], %[[SCALED]], %[[TARGET]], %{{.*}} :
func.func @cross_entropy_in_parts(%x: tensor<?x?x9xf32, #bsv>, %t: tensor<?x?xi32, #bs>, %offset: tensor<i32>) -> tensor<?x?xf32, #bs> {
  %max, %sum, %target = nn.cross_entropy_partial %x, %t, %offset : (tensor<?x?x9xf32, #bsv>, tensor<?x?xi32, #bs>, tensor<i32>) -> (tensor<?x?xf32, #bs>, tensor<?x?xf32, #bs>, tensor<?x?xf32, #bs>)
  %scaled = nn.rescale_sum %sum, %max, %max : (tensor<?x?xf32, #bs>, tensor<?x?xf32, #bs>, tensor<?x?xf32, #bs>) -> tensor<?x?xf32, #bs>
  %loss, %lse = nn.cross_entropy_combine %max, %scaled, %target, %t : (tensor<?x?xf32, #bs>, tensor<?x?xf32, #bs>, tensor<?x?xf32, #bs>, tensor<?x?xi32, #bs>) -> (tensor<?x?xf32, #bs>, tensor<?x?xf32, #bs>)
  return %loss : tensor<?x?xf32, #bs>
}
