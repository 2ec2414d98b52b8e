//===- Models.h - Models of rows, each read once ----------------------------===//
#pragma once

#include "cleave/Planner/Search.h"
#include <map>
#include <string>

namespace cleave::validate {

struct KnownModel {
  cost::ModelWork work;
  ModelLimits limits;
};

/// The work of each model once, by its config.json.
class KnownModels {
public:
  /// `file` is what errors call it.
  rt::StatusOr<const KnownModel *> of(const std::string &config, const std::string &file);

private:
  std::map<std::string, KnownModel> known;
};

} // namespace cleave::validate
