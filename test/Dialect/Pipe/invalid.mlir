// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// The numbers are those of the rules of pipe.schedule.

// Rule 1: parts in order.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  // expected-error@+1 {{is out of order: number 1 is next}}
  pipe.stage 2 on 1
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 1: a stage's rank is there.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  // expected-error@+1 {{is on rank 2, which is not there}}
  pipe.stage 1 on 2
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 1: a rank has a stage.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 0
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  // expected-error@+1 {{has no stage}}
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 2: each forward.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-error@+1 {{lacks 'F0.1'}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, recv G1.0[0] from 1, B0.0[0]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 2: each backward.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-error@+1 {{lacks 'B0.1'}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 2: once.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-error@+1 {{has 'F0.0[0]' twice}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.0[0], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 2: by nobody else.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  // expected-error@+1 {{has 'F0.0[0]', but stage 0 is on rank 0}}
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], F0.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 2: gradients of weights for all.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-error@+1 {{lacks 'W0.0'}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1], W0.1[1]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// A stage that is not there.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  // expected-error@+1 {{stages that compute are 0 to 1}}
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F2.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Nothing enters the first stage.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  // expected-error@+1 {{stages that an activation enters are 1 to 1}}
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G0.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// A micro-batch that is not there.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  // expected-error@+1 {{micro-batches are 0 to 1}}
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.2[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// A slot that is not there.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  // expected-error@+1 {{its slots are 0 to 0}}
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[1], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 3: forward before backward.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  // expected-error@+1 {{does 'B1.0[0]' before 'F1.0[0]', on which it depends}}
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, B1.0[0], F1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 3: what is read is received before.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  // expected-error@+1 {{does 'F1.0[0]' before 'recv A1.0[0] from 0', on which it depends}}
  pipe.rank 1 slots 1 [
    F1.0[0], recv A1.0[0] from 0, B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 3: what is sent is made before.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-error@+1 {{does 'send A1.1[1] to 1' before 'F0.1[1]', on which it depends}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, send A1.1[1] to 1, F0.1[1],
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 3: a gradient is received before it is used.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-error@+1 {{does 'B0.0[0]' before 'recv G1.0[0] from 1', on which it depends}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    B0.0[0], recv G1.0[0] from 1, recv G1.1[1] from 1, B0.1[1]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 3: a gradient is sent after it is made.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  // expected-error@+1 {{does 'send G1.0[0] to 0' before 'B1.0[0]', on which it depends}}
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], send G1.0[0] to 0, B1.0[0],
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 3: gradients of weights after that of the input.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-error@+1 {{does 'W0.0[0]' before 'B0.0[0]', on which it depends}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, W0.0[0], B0.0[0], recv G1.1[1] from 1, B0.1[1], W0.1[1]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], W1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], W1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 3: forward after that of the stage before, on the same rank.
pipe.schedule @step "test" micro_batches 1 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 0
  pipe.stage 2 on 1
  // expected-error@+1 {{does 'F1.0[1]' before 'F0.0[0]', on which it depends}}
  pipe.rank 0 slots 2 [
    F1.0[1], F0.0[0], send A2.0[1] to 1, recv G2.0[1] from 1, B1.0[1], B0.0[0]
  ]
  pipe.rank 1 slots 1 [
    recv A2.0[0] from 0, F2.0[0], B2.0[0], send G2.0[0] to 0
  ]
}

// -----

// Rule 3: backward after that of the stage behind, on the same rank.
pipe.schedule @step "test" micro_batches 1 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 0
  pipe.stage 2 on 1
  // expected-error@+1 {{does 'B0.0[0]' before 'B1.0[1]', on which it depends}}
  pipe.rank 0 slots 2 [
    F0.0[0], F1.0[1], send A2.0[1] to 1, recv G2.0[1] from 1, B0.0[0], B1.0[1]
  ]
  pipe.rank 1 slots 1 [
    recv A2.0[0] from 0, F2.0[0], B2.0[0], send G2.0[0] to 0
  ]
}

// -----

// Rule 4: received.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  // expected-error@+1 {{lacks 'recv A1.0[0] from 0'}}
  pipe.rank 1 slots 1 [
    F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 4: sent.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-error@+1 {{lacks 'send A1.1[1] to 1'}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1],
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 4: gradients received.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-error@+1 {{lacks 'recv G1.0[0] from 1'}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 4: gradients sent.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  // expected-error@+1 {{lacks 'send G1.0[0] to 0'}}
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0],
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 4: once.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-error@+1 {{has 'send A1.1[1] to 1' twice}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1, send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 4: to the rank that needs it.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-error@+1 {{but stage 1 is on rank 1}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 0, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 4: nothing on the same rank.
pipe.schedule @step "test" micro_batches 1 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 0
  pipe.stage 2 on 1
  // expected-error@+1 {{has 'send A1.0[0] to 0', but stage 1 is on rank 0}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 0, F1.0[1], send A2.0[1] to 1, recv G2.0[1] from 1, B1.0[1], B0.0[0]
  ]
  pipe.rank 1 slots 1 [
    recv A2.0[0] from 0, F2.0[0], B2.0[0], send G2.0[0] to 0
  ]
}

// -----

// Rule 5: one slot.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-error@+1 {{has 'B0.1[0]', but keeps micro-batch 1 of stage 0 in slot 1}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[0]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 5: not over what is needed.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-error@+1 {{takes slot 0 for 'F0.1[0]' while 'B0.0[0]' still needs what is there}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[0], send A1.1[0] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[0] from 1, B0.1[0]
  ]
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 5: from the first action to the last, transfers too.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  // expected-error@+1 {{takes slot 0 for 'recv A1.1[0] from 0' while 'send G1.0[0] to 0' still needs what is there}}
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], recv A1.1[0] from 0,
    send G1.0[0] to 0, F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 5: until the stage before has read the gradient.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 0
  pipe.stage 2 on 1
  // expected-error@+1 {{takes slot 1 for 'F1.1[1]' while 'B0.0[0]' still needs what is there}}
  pipe.rank 0 slots 3 [
    F0.0[0], F1.0[1], send A2.0[1] to 1, F0.1[2],
    recv G2.0[1] from 1, B1.0[1], F1.1[1], send A2.1[1] to 1, B0.0[0],
    recv G2.1[1] from 1, B1.1[1], B0.1[2]
  ]
  pipe.rank 1 slots 1 [
    recv A2.0[0] from 0, F2.0[0], B2.0[0], send G2.0[0] to 0,
    recv A2.1[0] from 0, F2.1[0], B2.1[0], send G2.1[0] to 0
  ]
}

// -----

// Rule 6: the sender's order.
pipe.schedule @step "test" micro_batches 2 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-note@+1 {{it does 'send A1.0[0] to 1'}}
  pipe.rank 0 slots 2 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1,
    recv G1.0[0] from 1, B0.0[0], recv G1.1[1] from 1, B0.1[1]
  ]
  // expected-error@+1 {{expects 'recv A1.1[0] from 0' where rank 0 sends another value}}
  pipe.rank 1 slots 2 [
    recv A1.1[0] from 0, recv A1.0[1] from 0, F1.0[1], B1.0[1], send G1.0[1] to 0,
    F1.1[0], B1.1[0], send G1.1[0] to 0
  ]
}

// -----

// Rule 7: each waits for the other.
// expected-error@+1 {{never ends with channels of 1 values}}
pipe.schedule @step "test" micro_batches 1 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  // expected-note@+1 {{rank 0 waits at 'recv G1.0[0] from 1'}}
  pipe.rank 0 slots 1 [
    F0.0[0], recv G1.0[0] from 1, send A1.0[0] to 1, B0.0[0]
  ]
  // expected-note@+1 {{rank 1 waits at 'recv A1.0[0] from 0'}}
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], B1.0[0], send G1.0[0] to 0
  ]
}

// -----

// expected-error@+1 {{has no stage}}
pipe.schedule @step "test" micro_batches 1 buffers 1 {
}

// -----

pipe.schedule @step "test" micro_batches 1 buffers 1 {
  // expected-error@+1 {{has layers and their counts, or neither}}
  "pipe.stage"() {index = 0, rank = 0, layers = ["block"]} : () -> ()
}

// -----

pipe.schedule @step "test" micro_batches 1 buffers 1 {
  // expected-error@+1 {{needs one count, at least 1, for each kind of layer}}
  pipe.stage 0 on 0 layers ["block", "head"] counts [1]
}

// -----

// expected-error@+1 {{attribute 'micro_batches' failed to satisfy constraint}}
pipe.schedule @step "test" micro_batches 0 buffers 1 {
}

// -----

pipe.schedule @step "test" micro_batches 1 buffers 1 {
  pipe.stage 0 on 0
  pipe.rank 0 slots 1 [
    // expected-error@+1 {{'F0' is none of FBW with a stage and a micro-batch, as F0.3}}
    F0[0]
  ]
}

// -----

pipe.schedule @step "test" micro_batches 1 buffers 1 {
  pipe.stage 0 on 0
  pipe.rank 0 slots 1 [
    // expected-error@+1 {{'X0.0' is none of FBW with a stage and a micro-batch, as F0.3}}
    X0.0[0]
  ]
}

// -----

pipe.schedule @step "test" micro_batches 1 buffers 1 {
  pipe.stage 0 on 0
  pipe.rank 0 slots 1 [
    // expected-error@+1 {{'F0.0' is none of AG with a stage and a micro-batch, as A0.3}}
    send F0.0[0] to 1
  ]
}

// -----

pipe.schedule @step "test" micro_batches 1 buffers 1 {
  pipe.stage 0 on 0
  pipe.rank 0 slots 1 [
    // expected-error@+1 {{'F0.99999999999' is none of FBW}}
    F0.99999999999[0]
  ]
}

// -----

// Rule 7: a send waits for room, which the receiver would make later.
// expected-error@+1 {{never ends with channels of 1 values}}
pipe.schedule @step "test" micro_batches 3 buffers 1 {
  pipe.stage 0 on 0
  pipe.stage 1 on 1
  pipe.stage 2 on 0
  // expected-note@+1 {{rank 0 waits at 'send A1.2[2] to 1'}}
  pipe.rank 0 slots 4 [
    F0.0[0], send A1.0[0] to 1, F0.1[1], send A1.1[1] to 1, F0.2[2], send A1.2[2] to 1,
    recv A2.0[3] from 1, F2.0[3], B2.0[3], send G2.0[3] to 1, recv G1.0[0] from 1, B0.0[0],
    recv A2.1[3] from 1, F2.1[3], B2.1[3], send G2.1[3] to 1, recv G1.1[1] from 1, B0.1[1],
    recv A2.2[3] from 1, F2.2[3], B2.2[3], send G2.2[3] to 1, recv G1.2[2] from 1, B0.2[2]
  ]
  // expected-note@+1 {{rank 1 waits at 'recv G2.0[0] from 0'}}
  pipe.rank 1 slots 1 [
    recv A1.0[0] from 0, F1.0[0], send A2.0[0] to 0, recv G2.0[0] from 0, B1.0[0], send G1.0[0] to 0,
    recv A1.1[0] from 0, F1.1[0], send A2.1[0] to 0, recv G2.1[0] from 0, B1.1[0], send G1.1[0] to 0,
    recv A1.2[0] from 0, F1.2[0], send A2.2[0] to 0, recv G2.2[0] from 0, B1.2[0], send G1.2[0] to 0
  ]
}
