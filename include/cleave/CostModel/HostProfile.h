//===- HostProfile.h - The software that runs a step -----------------------===//
//
// Two runs of one layout on one machine differ by what drives it: which attention
// kernel, what is fused, who waits for which exchange, where a gradient is kept.
// None of this is physics, so it is an input, in a file of `share/hosts`. What a
// profile says must be known of the software (its documents, its source, the release
// that was used); it is never chosen to meet a measurement.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/AxisOrder.h"
#include "cleave/CostModel/Units.h"
#include "runtime/Base/Status.h"
#include <string>
#include <vector>

namespace cleave::cost {

struct HostProfile {
  std::string name;
  /// What it cannot do, as `cleave plan --forbid` takes it: "cp,zero=3". No price depends on it; it
  /// is for those who ask what else a published run could have done.
  std::string lacks;
  /// The orders of axes that it has, likewise; empty: all.
  std::vector<AxisOrder> orders;
  /// A kernel of `Device::attention`, or "unfused": scores are kept in memory.
  std::string attention = "flash3";
  /// Products of one input run as one.
  bool mergesProducts = true;
  /// Chains of elementwise operators run as one kernel.
  bool fusesElementwise = true;
  /// What memory-bound kernels move, against the least that they must.
  double memoryPasses = 1.2;
  /// Bytes moved for each element of a statistic over a dimension (the loss over the
  /// vocabulary), forward and backward.
  Bytes statisticBytes{18};
  /// Time of the host for each launch; 0 where a graph is replayed.
  Seconds launch;
  /// Launches for each unit of work that the graph has.
  double launchesPerPiece = 1.6;
  /// Further launches for each expert of a rank, by width of products.
  double launchesPerExpert16 = 4, launchesPerExpert8 = 18, launchesPerExpertScaled = 36;
  /// The share of tensor-parallel exchanges that runs beside products.
  double hiddenTensor = 0;
  /// The share of expert exchanges that runs beside others' work.
  double hiddenExperts = 0;
  /// Gradients are summed, and parameters gathered, beside backward and forward.
  bool overlapsData = true;
  /// Where gradients are shared (ZeRO-2), new weights are gathered once a step, behind the update,
  /// and waited for; otherwise each micro-batch gathers them for its forward.
  bool gathersOnce = false;
  /// Each parameter is a message of its own.
  bool exchangesTensors = false;
  /// Keys and values of other ranks come while scores of those at hand are computed.
  bool overlapsContext = true;
  /// Stages are sent while others compute.
  bool overlapsSends = true;
  /// Products of before cuBLAS 12 do not split the last wave of tiles.
  bool splitsWaves = true;
  /// A layer that is computed again ends with the last value that its backward reads; otherwise
  /// all of it is done again.
  bool stopsRecompute = false;
  /// Stages of a pipeline were given layers so that they take equal times.
  bool balancesStages = false;
  /// What a gradient takes in memory and in its exchange, for each parameter.
  Bytes gradient{4}, gradientExchange{4};
  /// Moved to add a micro-batch's gradient to what is there, for each parameter; 0: the product
  /// that makes it adds it.
  Bytes accumulate{0};
  /// What is kept of each element of a statistic from its forward to the end of its backward.
  Bytes statisticKept{6};
  /// What an owned parameter's gradient takes on the way into its update, beside `gradient`: parts
  /// of it flattened, and turned into fp32.
  Bytes ownedGradient{0};
  /// The sum of an owned parameter's gradient where gradients are whole and the optimizer's state
  /// is shared.
  Bytes reducedGradient{0};
  /// What each element of the largest parameter takes while its gradient is added to the others'.
  Bytes addedGradient{0};
  /// Buffers that gradients are gathered up in before they are exchanged.
  Bytes buckets{0};
  /// What a stage hands on is kept until its gradient comes.
  bool keepsOutputs = false;
  /// Values have their places when the program is compiled: all that the backward reads is kept, of
  /// each row what operators note beside it, nothing else; and there is a place for each value that
  /// lives while a layer goes back, for what stages hand on and get back, and for gradients whose
  /// products come later.
  bool packs = false;
  /// Ranks that experts are dealt out over have rows of all their tokens, instead of those that go
  /// to their own experts.
  bool gathersTokens = false;
  /// Weights are there in the width of products too; otherwise each matrix is made narrow for the
  /// products that read it.
  bool keepsNarrowWeights = true;
  /// A statistic is made of pieces with so many bytes at most, forward and backward; 0: at once.
  Bytes statisticPiece{0};
  /// Masks of dropout that a layer keeps, of a byte for each element between layers.
  double dropoutMasks = 0;
  /// What the update reads and writes for each parameter.
  Bytes update{34};
  /// Once a step: loss reduction, logging, data.
  Seconds step{20e-3};
};

/// `share`/hosts/`name`.json. Errors: `host.unknown` with the known ones, `host.*`.
rt::StatusOr<HostProfile> readHostProfile(const std::string &share, const std::string &name);

} // namespace cleave::cost
