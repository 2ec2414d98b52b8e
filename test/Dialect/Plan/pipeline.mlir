// RUN: cleave-opt %s | FileCheck %s
// RUN: cleave-opt %s | cleave-opt | diff - <(cleave-opt %s)

// CHECK:      plan.pipeline "1f1b" over "pipe" {
// CHECK-NEXT:   plan.stage layers ["embed", "block"] counts [1, 3]
// CHECK-NEXT:   plan.stage layers ["head"] counts [1]
// CHECK-NEXT:   plan.shared "embed_tokens.weight" stages [0, 1]
// CHECK-NEXT: }
plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["embed", "block"] counts [1, 3]
    plan.stage layers ["head"] counts [1]
    plan.shared "embed_tokens.weight" stages [0, 1]
  }
}
