// RUN: cleave-opt %s --split-input-file -cleave-pipeline-schedule | FileCheck %s
// What is there gives way; the same plan gives the same table.
// RUN: cleave-opt %s --split-input-file -cleave-pipeline-schedule -cleave-pipeline-schedule | FileCheck %s

// Layers go from the plan's stages to the table's; stage s of S is on rank s mod P.
// CHECK-LABEL: plan.solution
// CHECK:       pipe.schedule @step "interleaved" micro_batches 1 buffers 1 {
// CHECK-NEXT:    pipe.stage 0 on 0 layers ["embed"] counts [1]
// CHECK-NEXT:    pipe.stage 1 on 1 layers ["block"] counts [3]
// CHECK-NEXT:    pipe.stage 2 on 0 layers ["block"] counts [1]
// CHECK-NEXT:    pipe.stage 3 on 1 layers ["block", "head"] counts [2, 1]
// CHECK-NEXT:    pipe.rank 0 slots 2 [
// CHECK-NEXT:      F0.0[0], send A1.0[0] to 1,
// CHECK-NEXT:      recv A2.0[1] from 1, F2.0[1], send A3.0[1] to 1,
// CHECK-NEXT:      recv G3.0[1] from 1, B2.0[1], send G2.0[1] to 1,
// CHECK-NEXT:      recv G1.0[0] from 1, B0.0[0]
// CHECK-NEXT:    ]
// CHECK-NEXT:    pipe.rank 1 slots 2 [
// CHECK-NEXT:      recv A1.0[0] from 0, F1.0[0], send A2.0[0] to 0,
// CHECK-NEXT:      recv A3.0[1] from 0, F3.0[1],
// CHECK-NEXT:      B3.0[1], send G3.0[1] to 0,
// CHECK-NEXT:      recv G2.0[0] from 0, B1.0[0], send G1.0[0] to 0
// CHECK-NEXT:    ]
// CHECK-NOT:   pipe.schedule
plan.solution version 1 {
  plan.batch global 8 micro 4 sequence 8
  plan.axis "pipe" [2]
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
  plan.pipeline "interleaved" over "pipe" {
    plan.stage layers ["embed"] counts [1]
    plan.stage layers ["block"] counts [3]
    plan.stage layers ["block"] counts [1]
    plan.stage layers ["block", "head"] counts [2, 1]
  }
}

// -----

// Gradients of weights apart, put off by the last rank.
// CHECK:       pipe.schedule @step "zb-h1" micro_batches 2 buffers 1 {
// CHECK:         pipe.rank 0 slots 2 [
// CHECK-NEXT:      F0.0[0], send A1.0[0] to 1,
// CHECK-NEXT:      F0.1[1], send A1.1[1] to 1,
// CHECK-NEXT:      recv G1.0[0] from 1, B0.0[0],
// CHECK-NEXT:      W0.0[0],
// CHECK-NEXT:      recv G1.1[1] from 1, B0.1[1],
// CHECK-NEXT:      W0.1[1]
// CHECK-NEXT:    ]
// CHECK-NEXT:    pipe.rank 1 slots 2 [
// CHECK-NEXT:      recv A1.0[0] from 0, F1.0[0],
// CHECK-NEXT:      B1.0[0], send G1.0[0] to 0,
// CHECK-NEXT:      recv A1.1[1] from 0, F1.1[1],
// CHECK-NEXT:      B1.1[1], send G1.1[1] to 0,
// CHECK-NEXT:      W1.0[0],
// CHECK-NEXT:      W1.1[1]
// CHECK-NEXT:    ]
plan.solution version 1 {
  plan.batch global 2 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  plan.pipeline "zb-h1" over "pipe" {
    plan.stage layers ["embed"] counts [1]
    plan.stage layers ["head"] counts [1]
  }
}

// -----

// No pipeline is one stage on one rank.
// CHECK:       pipe.schedule @step "1f1b" micro_batches 2 buffers 1 {
// CHECK-NEXT:    pipe.stage 0 on 0
// CHECK-NEXT:    pipe.rank 0 slots 1 [
// CHECK-NEXT:      F0.0[0],
// CHECK-NEXT:      B0.0[0],
// CHECK-NEXT:      F0.1[0],
// CHECK-NEXT:      B0.1[0]
// CHECK-NEXT:    ]
plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
}
