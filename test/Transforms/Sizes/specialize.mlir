// RUN: cleave-opt %s --cleave-sizes-specialize=sizes=batch:2,sequence:5 | FileCheck %s
// RUN: cleave-opt %s --cleave-sizes-specialize=sizes=batch:2,sequence:5 --cleave-sizes-specialize=sizes=batch:2,sequence:5 | FileCheck %s
// RUN: cleave-opt %s --cleave-sizes-specialize=sizes=batch:2 | FileCheck %s --check-prefix=PART
// RUN: not cleave-opt %s --cleave-sizes-specialize=sizes=batch 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: not cleave-opt %s --cleave-sizes-specialize=sizes=batch:0 2>&1 | FileCheck %s --check-prefix=ZERO

// TEXT: error: cannot read the size 'batch'; write name:size, such as batch:8
// ZERO: error: cannot have 0 elements along 'batch'; give a positive size

#bs = #nn.dims<batch, sequence>
#bsm = #nn.dims<batch, sequence, model>

// CHECK: func.func private @kind(%{{.*}}: tensor<2x5x4xf32, #{{.*}}>) -> tensor<2x5x4xf32, #{{.*}}>
// CHECK: nn.relu %{{.*}} : (tensor<2x5x4xf32, #{{.*}}>) -> tensor<2x5x4xf32, #{{.*}}>
// PART: func.func private @kind(%{{.*}}: tensor<2x?x4xf32, #{{.*}}>) -> tensor<2x?x4xf32, #{{.*}}>
func.func private @kind(%x: tensor<?x?x4xf32, #bsm>) -> tensor<?x?x4xf32, #bsm> {
  %y = nn.relu %x : (tensor<?x?x4xf32, #bsm>) -> tensor<?x?x4xf32, #bsm>
  return %y : tensor<?x?x4xf32, #bsm>
}

// CHECK: func.func @forward(%{{.*}}: tensor<2x5xi32, #{{.*}}>, %{{.*}}: tensor<2x5x4xf32, #{{.*}}>)
// CHECK-SAME: note.type = tensor<2x5xf32, #{{.*}}>
// CHECK: call @kind(%{{.*}}) : (tensor<2x5x4xf32, #{{.*}}>) -> tensor<2x5x4xf32, #{{.*}}>
// CHECK: tensor<?xf32>
func.func @forward(%t: tensor<?x?xi32, #bs>, %x: tensor<?x?x4xf32, #bsm>) attributes {note.type = tensor<?x?xf32, #bs>} {
  %y = call @kind(%x) : (tensor<?x?x4xf32, #bsm>) -> tensor<?x?x4xf32, #bsm>
  %n = arith.constant 3 : index
  %unnamed = tensor.empty(%n) : tensor<?xf32>
  return
}
