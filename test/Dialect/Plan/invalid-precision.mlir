// RUN: cleave-opt %s --split-input-file --verify-diagnostics

plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.layout {}
  // expected-error@below {{needs a type to compute in, or one to store, or both}}
  plan.precision "block" "up"
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.layout {}
  // expected-error@below {{has the type 'f16'; what is said is bf16, the rest is f32}}
  plan.precision "block" "up" compute bf16 store f16
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 2 sequence 8
  plan.layout {}
  plan.precision "block" "up" compute bf16
  // expected-error@below {{gives 'up' types twice}}
  plan.precision "block" "up" store bf16
}
