//===- BinaryText.h - What is told of a training binary ------------*- C++ -*-===//
#pragma once

#include "CompileRequest.h"

#include "cleave/Planner/Search.h"
#include "runtime/Schema/Image.h"

#include <optional>

namespace cleave::tool {

struct MadeBinary {
  const CompileRequest &request;
  const rt::Image &image;
  /// What a step of it takes here by the cost model; what one of the plan takes on its devices.
  std::optional<double> stepSeconds;
  const PricedChoice *price = nullptr;
};

/// What was made, what of it does not fit, and how to run it, for people.
void tellBinary(const MadeBinary &made);

} // namespace cleave::tool
