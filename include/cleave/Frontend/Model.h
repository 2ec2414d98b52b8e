//===- Model.h - From a config.json to the nn graph --------------------------===//
//
// The front door of the compiler: a Hugging Face `config.json` becomes a
// `ModelDescription`, plain data about the model, and that becomes a module in
// the `nn` dialect. The description answers all that can be known without a
// graph (sizes, every parameter, what the file said, what was assumed, what
// nothing reads); the graph and the parameters come from one list, so that they
// can't disagree.
//
// What a family of models looks like is written in `lib/Frontend/Families`, one
// file a family. Weights are not read here, and nothing here knows of recipes,
// devices or plans.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Base/Json.h"
#include "runtime/Base/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave::frontend {

struct Architecture;

/// One dimension of a tensor as operators see it.
struct NamedDim {
  std::string name;
  int64_t size = 0;

  bool operator==(const NamedDim &) const = default;
};

/// A trained tensor.
struct Parameter {
  /// As in Hugging Face checkpoints.
  std::string name;
  /// The shape in checkpoints and exports.
  std::vector<int64_t> fileShape;
  /// The same elements in the same order, with names.
  std::vector<NamedDim> dims;
  /// The first dimension is one tensor each in files: `name` has the index in place
  /// of `{}`, and `fileShape` is that of each. So experts are mostly kept.
  bool tensorPerSlice = false;
  /// How many slices of the first dimension take part in one token's forward pass;
  /// absent: all. The experts of a layer are such a dimension.
  std::optional<int64_t> activeSlices = {};
  /// How it starts: normal around `initMean`; a constant where `initStd` is 0.
  double initMean = 0;
  double initStd = 0;
  /// The first dimension of the file is such slices and nothing else.
  bool isStack = false;
  /// Other names under which weight files may hold the same tensor: a tied
  /// output matrix beside the embedding.
  std::vector<std::string> aliases = {};

  /// Number of elements, of all slices.
  int64_t elements() const;
  /// Of those, the ones that take part in one token's forward pass.
  int64_t activeElements() const;
  /// Number of tensors in files.
  int64_t tensors() const { return tensorPerSlice ? dims.front().size : 1; }
  /// Weight decay acts on tensors (or slices of a stack) of two or more dimensions in the file.
  bool decays() const { return fileShape.size() >= (isStack ? 3 : 2); }
};

/// The sizes that families have in common, under Hugging Face's names.
struct ModelSizes {
  int64_t hiddenSize = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kvHeads = 0;
  int64_t headDim = 0;
  int64_t intermediateSize = 0;
  int64_t vocabSize = 0;
  int64_t maxPositions = 0;
  /// What only some families have, under a name that they share:
  /// num_experts, num_experts_per_tok, moe_intermediate_size, n_shared_experts,
  /// q_lora_rank, kv_lora_rank, sliding_window, …
  std::vector<std::pair<std::string, int64_t>> others = {};
};

/// Layers that are one function of the graph, apart from their weights.
struct LayerSummary {
  std::string kind;
  int64_t count = 0;
  /// Layer numbers, first and last included.
  std::vector<std::pair<int64_t, int64_t>> spans;
  /// Elements of one layer's parameters.
  int64_t parametersPerLayer = 0;
};

/// A key that the file left out (or gave as null), and what holds instead.
struct DefaultedKey {
  std::string key;
  rt::JsonValue value;
  /// Where the value comes from: "default of the family", "hidden_size / …".
  std::string reason;
};

/// A key of the file that nothing reads.
struct UnusedKey {
  std::string key;
  /// Why it does not matter; empty for a key the family's table does not know.
  std::string reason;
};

/// A dropout probability above zero.
struct DropoutKey {
  std::string key;
  double probability = 0;
  rt::Where where;
};

/// Everything that a config says about a model. It is complete whether or not the
/// model can be trained: sizes, counts and keys need no graph.
struct ModelDescription {
  /// `model_type`: "llama", "gpt2".
  std::string family;
  /// The file that was read.
  std::string file;
  /// Its text, byte for byte, for exports.
  std::string configText;
  ModelSizes sizes;
  /// The type in which the model's publisher stored it ("bfloat16"). Training
  /// precision is the recipe's decision.
  std::string storedType;
  /// Every trained tensor once, in the order of the graph.
  std::vector<Parameter> parameters;
  /// Kinds of layers in order of first appearance; embedding and head excluded.
  std::vector<LayerSummary> layers;
  std::vector<DefaultedKey> defaults;
  std::vector<UnusedKey> unusedKeys;
  std::vector<std::string> notes;
  /// For those who train: dropout is refused unless the recipe switches it off.
  std::vector<DropoutKey> dropouts;
  /// Why no graph can be built: an error for each thing that the config asks for
  /// and operators can't express yet. Empty: the model can be trained.
  std::vector<rt::Error> untrained;
  /// What the graph is built from.
  std::shared_ptr<const Architecture> architecture;

  /// Exact number of trained elements; a tied matrix counts once.
  int64_t parameterCount() const;
  /// Elements that take part in one token's forward pass: all but the experts that
  /// a token is not sent to. Embedding, output matrix and routers are in it.
  int64_t activeParameterCount() const;
  /// Number of tensors in files.
  int64_t tensorCount() const;
};

/// Reads `path`, a config.json or a folder that holds one. Errors: `file.*`,
/// `json.*`, and `config.*` with the key's place, what was given, the rule and
/// a value that would work.
rt::StatusOr<ModelDescription> readModel(const std::string &path);

/// The same from text; `file` is only named in errors.
rt::StatusOr<ModelDescription> readModelText(const std::string &text, const std::string &file);

/// The `model_type`s that can be read, in alphabetical order.
std::vector<std::string> supportedFamilies();

/// `config.dropout_unsupported` at the first key whose dropout is above zero.
/// For those who train without switching dropout off in the recipe.
rt::Status refuseDropout(const ModelDescription &model);

/// The first of `model.untrained`, the others as notes; success if it is empty. For
/// those who go on to importModel.
rt::Status refuseUntrained(const ModelDescription &model);

/// Builds the forward graph of `model`, which must have nothing untrained: parameters
/// as symbols, one private function per kind of layer, `@forward` calling them. Batch
/// and sequence are dynamic. Loads the dialects it needs into `context`.
mlir::OwningOpRef<mlir::ModuleOp> importModel(const ModelDescription &model,
                                              mlir::MLIRContext &context);

} // namespace cleave::frontend
