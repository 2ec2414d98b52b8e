// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{needs a size for each axis}}
dist.mesh @mesh ["data", "tensor"] = [2]

// -----

// expected-error@+1 {{has the axis "tensor" of size 0}}
dist.mesh @mesh ["data", "tensor"] = [2, 0]

// -----

// expected-error@+1 {{names the axis "data" twice}}
dist.mesh @mesh ["data", "data"] = [2, 2]
