//===- NNOps.td - All operators of the nn dialect, by family ---------------===//
#ifndef CLEAVE_NN_OPS
#define CLEAVE_NN_OPS
include "dialects/NN/Contract.td"
include "dialects/NN/Elementwise.td"
include "dialects/NN/Norm.td"
include "dialects/NN/Attention.td"
include "dialects/NN/Vocabulary.td"
include "dialects/NN/Routing.td"
include "dialects/NN/Experts.td"
include "dialects/NN/Join.td"
include "dialects/NN/State.td"
include "dialects/NN/Optimizer.td"
#endif
