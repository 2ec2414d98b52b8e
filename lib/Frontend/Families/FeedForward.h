//===- FeedForward.h - Branches that work on each token alone ------------------===//
#pragma once

#include "lib/Frontend/Families/Decoder.h"

namespace cleave::frontend {

/// down(act(up x)), or down(act(gate x) · up x) where there is a gate.
struct MlpShape {
  NamedDim model;
  int64_t width = 0;
  double std = 0;
  Activation activation = Activation::Silu;
  /// Empty: no gate.
  std::string gate = "mlp.gate_proj";
  std::string up = "mlp.up_proj";
  std::string down = "mlp.down_proj";
  /// One matrix for gate and up, gate first; empty: two matrices.
  std::string packed = "";
  bool bias = false;
  /// Before the paths of its operators ("mlp.up").
  std::string path = "mlp";
};

Branch mlp(MlpShape shape);

/// How the experts of a layer lie in files.
enum class ExpertPacking {
  /// Three matrices an expert, [out, in].
  Separate,
  /// Gate and up in one tensor for all experts, [expert, in, 2 · out], down in another,
  /// [expert, out, in].
  Stacked,
  /// The experts' rows below each other: gate, up and down are matrices [expert · ffn, model].
  Rows,
};

/// What a router does with the logits of the experts.
enum class Routing {
  /// Something that has no operators yet: the experts are described only.
  Described,
  /// The largest are chosen; softmax over all of them gives the weights.
  SoftmaxOfAll,
  /// The largest are chosen; softmax over these gives the weights, which is the same as
  /// dividing those of SoftmaxOfAll by their sum.
  SoftmaxOfChosen,
  /// A sigmoid gives each expert's score; what is chosen by is that with the correction
  /// added.
  Sigmoid,
};

/// A token goes to `active` of `experts` gated MLPs, which a router picks, and through a
/// shared one.
struct ExpertsShape {
  NamedDim model;
  int64_t experts = 0;
  int64_t active = 0;
  int64_t width = 0;
  double std = 0;
  Activation activation = Activation::Silu;
  Routing routing = Routing::Described;
  /// Whether loads and scores are counted for a loss of unbalanced experts.
  bool balanced = false;
  ExpertPacking packing = ExpertPacking::Separate;
  std::string router = "mlp.gate";
  bool routerBias = false;
  /// Added to scores when experts are chosen, and moved by loads instead of gradients (it
  /// stays as it is here); empty: none.
  std::string correction = "";
  /// Experts are in `groups` groups, of which those are chosen from whose `groupTake`
  /// largest scores add up to most: `keptGroups`. One group: all are.
  int64_t groups = 1, keptGroups = 1, groupTake = 1;
  /// Sigmoid: the weights of the chosen are divided by their sum.
  bool normalized = false;
  /// Of all weights.
  double factor = 1;
  /// Stems, `{}` standing for the expert's number; Stacked has `gateUp` and no suffix
  /// ".weight".
  std::string gate = "mlp.experts.{}.gate_proj";
  std::string up = "mlp.experts.{}.up_proj";
  std::string down = "mlp.experts.{}.down_proj";
  std::string gateUp = "mlp.experts.gate_up_proj";
  /// Whether its columns are gate and up in turn; else all of gate come first.
  bool inTurn = false;
  /// Of Stacked, named as the weights with "_bias" behind.
  bool bias = false;
  /// Bound of what enters the activation, which is then that of `LayerGraph::clampedGlu`;
  /// absent: the usual one.
  std::optional<double> limit = {};
  /// Width of the shared MLP; 0: none.
  int64_t sharedWidth = 0;
  /// Before its gate_proj, up_proj and down_proj.
  std::string shared = "mlp.shared_expert.";
  /// A gate of one number a token on the shared MLP; empty: none.
  std::string sharedGate = "";
};

Branch experts(const ExpertsShape &shape);

/// Records experts under the names that all families share, and that they can't be trained
/// yet, which `key` asks for, if their routing is only described. `config.out_of_range` if
/// a token would go to more experts than there are.
rt::Status readExperts(Config &config, ModelSizes &sizes, std::string_view key,
                       std::string_view activeKey, int64_t width,
                       Routing routing = Routing::Described);

} // namespace cleave::frontend
