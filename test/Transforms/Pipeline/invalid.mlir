// RUN: cleave-opt %s --split-input-file --verify-diagnostics -cleave-pipeline-schedule

// expected-error@below {{holds 0 plans; cleave-pipeline-schedule needs one plan.solution}}
module {}

// -----

plan.solution version 1 {
  // expected-error@below {{is not dealt out evenly over 2 ranks}}
  plan.batch global 8 micro 3 sequence 8
  plan.axis "data" [2]
  plan.layout {batch = ["data"]}
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  // expected-error@below {{has no schedule 'new' of 2 stages over the axis 'pipe'}}
  plan.pipeline "new" over "pipe" {
    plan.stage layers ["a"] counts [1]
    plan.stage layers ["b"] counts [1]
  }
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  // expected-error@below {{has no schedule '1f1b' of 3 stages over the axis 'pipe'}}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["a"] counts [1]
    plan.stage layers ["b"] counts [1]
    plan.stage layers ["c"] counts [1]
  }
}
