// RUN: cleave-opt %s | FileCheck %s
// RUN: cleave-opt %s | cleave-opt | diff - <(cleave-opt %s)
// RUN: cleave-opt %s --mlir-print-op-generic | cleave-opt | diff - <(cleave-opt %s)

// A line holds a computation with what it receives before and sends after.
// CHECK-LABEL: pipe.schedule @step "1f1b" micro_batches 2 buffers 1 {
// CHECK-NEXT:    pipe.stage 0 on 0 layers ["embed", "block"] counts [1, 2]
// CHECK-NEXT:    pipe.stage 1 on 1 layers ["block", "head"] counts [2, 1]
// CHECK-NEXT:    pipe.rank 0 slots 2 [
// CHECK-NEXT:      F0.0[0], send A1.0[0] to 1,
// CHECK-NEXT:      F0.1[1], send A1.1[1] to 1,
// CHECK-NEXT:      recv G1.0[0] from 1, B0.0[0],
// CHECK-NEXT:      recv G1.1[1] from 1, B0.1[1]
// CHECK-NEXT:    ]
// CHECK-NEXT:    pipe.rank 1 slots 1 [
// CHECK-NEXT:      recv A1.0[0] from 0, F1.0[0],
// CHECK-NEXT:      B1.0[0], send G1.0[0] to 0,
// CHECK-NEXT:      recv A1.1[0] from 0, F1.1[0],
// CHECK-NEXT:      B1.1[0], send G1.1[0] to 0
// CHECK-NEXT:    ]
// CHECK-NEXT:  }
pipe.schedule @step "1f1b" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0 layers ["embed", "block"] counts [1, 2]
  pipe.stage 1 on 1 layers ["block", "head"] counts [2, 1]
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// Gradients of weights apart; two neighbouring stages on a rank, which send nothing to
// each other; receives that come early.
// CHECK-LABEL: pipe.schedule @apart
// CHECK:         pipe.rank 0 slots 2 [
// CHECK-NEXT:      F0.0[0],
// CHECK-NEXT:      F1.0[1], send A2.0[1] to 1,
// CHECK-NEXT:      recv G2.0[1] from 1, B1.0[1],
// CHECK-NEXT:      W1.0[1],
// CHECK-NEXT:      B0.0[0],
// CHECK-NEXT:      W0.0[0]
// CHECK-NEXT:    ]
pipe.schedule @apart "mine" micro_batches 1 buffers 2 {
  pipe.stage 0 on 0
  pipe.stage 1 on 0
  pipe.stage 2 on 1
  pipe.rank 0 slots 2 [
    F0.0[0], F1.0[1], send A2.0[1] to 1, recv G2.0[1] from 1, B1.0[1], W1.0[1], B0.0[0], W0.0[0]
  ]
  pipe.rank 1 slots 1 [
    recv A2.0[0] from 0, F2.0[0], B2.0[0], send G2.0[0] to 0, W2.0[0]
  ]
}

// Channels of one value would not do here: rank 0 sends three before it receives.
// CHECK-LABEL: pipe.schedule @wide "mine" micro_batches 3 buffers 2 {
pipe.schedule @wide "mine" micro_batches 3 buffers 2 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  pipe.stage 2 on 0
  pipe.rank 0 slots 4 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1, F0.2[2], send A1.2[2] to 1,
    recv A2.0[3] from 1, F2.0[3], B2.0[3], send G2.0[3] to 1, recv G1.0[0] from 1, B0.0[0],
    recv A2.1[3] from 1, F2.1[3], B2.1[3], send G2.1[3] to 1, recv G1.1[1] from 1, B0.1[1],
    recv A2.2[3] from 1, F2.2[3], B2.2[3], send G2.2[3] to 1, recv G1.2[2] from 1, B0.2[2]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], send A2.0[0] to 0, recv G2.0[0] from 0, B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], send A2.1[0] to 0, recv G2.1[0] from 0, B1.1[0], send G1.1[0] to 0,
    recv A1.2[0] from 0, F1.2[0], send A2.2[0] to 0, recv G2.2[0] from 0, B1.2[0], send G1.2[0] to 0
  ]
}
