// RUN: cleave-opt %s --split-input-file --verify-diagnostics

plan.solution version 1 {
  plan.batch global 1 micro 1 sequence 1
  plan.layout {}
  plan.overlap
  // expected-error@+1 {{says twice that exchanges overlap}}
  plan.overlap
}

// -----

plan.solution version 1 {
  plan.batch global 1 micro 1 sequence 1
  plan.layout {}
  // expected-error@+1 {{has buckets of 0 bytes; they are of at least 1}}
  plan.overlap bucket 0
}
