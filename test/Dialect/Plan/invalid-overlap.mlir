// RUN: cleave-opt %s --verify-diagnostics

plan.solution version 1 {
  plan.batch global 1 micro 1 sequence 1
  plan.layout {}
  plan.overlap
  // expected-error@+1 {{says twice that exchanges overlap}}
  plan.overlap
}
