// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | FileCheck %s

#bse = #nn.dims<batch, sequence, expert>
#bsc = #nn.dims<batch, sequence, choice>
#bsm = #nn.dims<batch, sequence, model>
#bscf = #nn.dims<batch, sequence, choice, ffn>
#efm = #nn.dims<expert, ffn, model>

// CHECK-LABEL: @router
// CHECK: %[[I:.*]] = nn.top_k %{{.*}} : (tensor<?x?x4xf32, #{{.*}}>) -> tensor<?x?x2xi32, #{{.*}}>
// CHECK: nn.pick %{{.*}}, %[[I]] : (tensor<?x?x4xf32, #{{.*}}>, tensor<?x?x2xi32, #{{.*}}>) -> tensor<?x?x2xf32, #{{.*}}>
// CHECK: nn.place %{{.*}}, %[[I]] : (tensor<?x?x2xf32, #{{.*}}>, tensor<?x?x2xi32, #{{.*}}>) -> tensor<?x?x4xf32, #{{.*}}>
func.func @router(%x: tensor<?x?x4xf32, #bse>) -> tensor<?x?x4xf32, #bse> {
  %p = nn.softmax %x : (tensor<?x?x4xf32, #bse>) -> tensor<?x?x4xf32, #bse>
  %i = nn.top_k %p : (tensor<?x?x4xf32, #bse>) -> tensor<?x?x2xi32, #bsc>
  %w = nn.pick %p, %i : (tensor<?x?x4xf32, #bse>, tensor<?x?x2xi32, #bsc>) -> tensor<?x?x2xf32, #bsc>
  %s = nn.place %w, %i : (tensor<?x?x2xf32, #bsc>, tensor<?x?x2xi32, #bsc>) -> tensor<?x?x4xf32, #bse>
  %d = nn.softmax_grad %p, %s : (tensor<?x?x4xf32, #bse>, tensor<?x?x4xf32, #bse>) -> tensor<?x?x4xf32, #bse>
  return %d : tensor<?x?x4xf32, #bse>
}

// CHECK-LABEL: @experts
// CHECK: nn.expert_contract %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK: nn.expert_contract %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK: nn.expert_outer %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK: nn.expert_outer %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} :
func.func @experts(%x: tensor<?x?x6xf32, #bsm>, %t: tensor<4x8x6xf32, #efm>, %i: tensor<?x?x2xi32, #bsc>, %o: tensor<i32>) -> tensor<4x8x6xf32, #efm> {
  %0 = nn.expert_contract %x, %t, %i : (tensor<?x?x6xf32, #bsm>, tensor<4x8x6xf32, #efm>, tensor<?x?x2xi32, #bsc>) -> tensor<?x?x2x8xf32, #bscf>
  %1 = nn.expert_contract %x, %t, %i, %o : (tensor<?x?x6xf32, #bsm>, tensor<4x8x6xf32, #efm>, tensor<?x?x2xi32, #bsc>, tensor<i32>) -> tensor<?x?x2x8xf32, #bscf>
  %2 = nn.expert_outer %0, %x, %i : (tensor<?x?x2x8xf32, #bscf>, tensor<?x?x6xf32, #bsm>, tensor<?x?x2xi32, #bsc>) -> tensor<4x8x6xf32, #efm>
  %3 = nn.expert_outer %1, %x, %i, %o : (tensor<?x?x2x8xf32, #bscf>, tensor<?x?x6xf32, #bsm>, tensor<?x?x2xi32, #bsc>, tensor<i32>) -> tensor<4x8x6xf32, #efm>
  return %3 : tensor<4x8x6xf32, #efm>
}
