//===- Family.h - What a family of models states about itself ----------------===//
//
// A family is a table of config keys, and a function that turns a config which
// passed the table into sizes and an architecture. Adding one: a file in
// Families/ and a line in Families/Families.cpp (docs/Guides/AddAModelFamily.md).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "lib/Frontend/Config.h"
#include "lib/Frontend/LayerGraph.h"

namespace cleave::frontend {

/// What a family makes of a config.
struct FamilyModel {
  ModelSizes sizes;
  Architecture architecture;
};

/// A `model_type` whose text model is described in a part of the file, beside parts for
/// pictures or sound. Only the text is compiled.
struct Wrapper {
  std::string_view modelType;
  std::string_view className;
  /// The key of the part, and the model_type that stands in it.
  std::string_view part;
  std::string_view textType;
};

struct Family {
  /// Value of `model_type`.
  std::string_view modelType;
  /// Its class in transformers, to recognise files without a model_type.
  std::string_view className;
  /// Its tables, checked in order, after those that all families share.
  std::vector<std::span<const ConfigKey>> (*tables)();
  rt::StatusOr<FamilyModel> (*describe)(Config &config);
};

/// All families, in alphabetical order of `modelType`.
std::span<const Family *const> families();

/// All wrappers, in alphabetical order of `modelType`.
std::span<const Wrapper> wrappers();

/// Keys that every Hugging Face config may hold, whatever the family.
std::span<const ConfigKey> commonKeys();

/// The largest divisor of `n` that is at most `limit`, to suggest one.
int64_t largestDivisor(int64_t n, int64_t limit);

/// The activation named by a Text key. `config.activation_unsupported` with the
/// names that are.
rt::StatusOr<Activation> readActivation(const Config &config, std::string_view key);

} // namespace cleave::frontend
