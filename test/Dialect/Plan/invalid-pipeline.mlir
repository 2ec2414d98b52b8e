// RUN: cleave-opt %s --split-input-file --verify-diagnostics

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  // expected-error@+1 {{has no stage}}
  plan.pipeline "1f1b" over "pipe" {
  }
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["a"] counts [1]
  }
  // expected-error@+1 {{is the second; a plan has one pipeline at most}}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["a"] counts [1]
  }
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["a"] counts [1]
    // expected-error@+1 {{needs one count, at least 1, for each kind of layer, and one kind at least}}
    plan.stage layers ["a", "b"] counts [1]
  }
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["a"] counts [1]
    // expected-error@+1 {{needs one count, at least 1, for each kind of layer, and one kind at least}}
    plan.stage layers ["a"] counts [0]
  }
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["a"] counts [1]
    // expected-error@+1 {{needs one count, at least 1, for each kind of layer, and one kind at least}}
    plan.stage layers [] counts []
  }
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["a"] counts [1]
    plan.stage layers ["a"] counts [1]
    // expected-error@+1 {{needs two or more stages of 0 to 1, in order}}
    plan.shared "w" stages [0]
  }
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["a"] counts [1]
    plan.stage layers ["a"] counts [1]
    // expected-error@+1 {{needs two or more stages of 0 to 1, in order}}
    plan.shared "w" stages [1, 0]
  }
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["a"] counts [1]
    plan.stage layers ["a"] counts [1]
    // expected-error@+1 {{needs two or more stages of 0 to 1, in order}}
    plan.shared "w" stages [0, 0]
  }
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["a"] counts [1]
    plan.stage layers ["a"] counts [1]
    // expected-error@+1 {{needs two or more stages of 0 to 1, in order}}
    plan.shared "w" stages [0, 2]
  }
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["a"] counts [1]
    plan.stage layers ["a"] counts [1]
    // expected-error@+1 {{needs two or more stages of 0 to 1, in order}}
    plan.shared "w" stages [-1, 1]
  }
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["a"] counts [1]
    plan.stage layers ["a"] counts [1]
    plan.shared "w" stages [0, 1]
    // expected-error@+1 {{shares 'w' twice}}
    plan.shared "w" stages [0, 1]
  }
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  plan.pipeline "1f1b" over "pipe" {
    plan.stage layers ["a"] counts [1]
    // expected-error@+1 {{is no part of a pipeline}}
    builtin.module {}
  }
}

// -----

plan.solution version 1 {
  plan.batch global 8 micro 1 sequence 8
  plan.axis "pipe" [2]
  plan.layout {}
  // expected-error@+1 {{is no part of a plan}}
  plan.stage layers ["a"] counts [1]
}
