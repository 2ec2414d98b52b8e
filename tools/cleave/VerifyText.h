//===- VerifyText.h - What verify found, for people and scripts ------------===//
#pragma once

#include "cleave/Frontend/Shrink.h"
#include "cleave/Verify/Verify.h"
#include "runtime/Base/Status.h"

#include <string>
#include <vector>

namespace cleave::tool {

/// What was compared.
struct VerifyCase {
  std::string model;
  /// What of the model was shrunk; empty where it was not.
  std::vector<frontend::ShrunkModel::Change> changes;
  /// "pipe=4 × tensor=2", and how many ranks these are.
  std::string layout, against;
  int64_t ranks = 1, againstRanks = 1;
  double tolerance = 0;
  /// One of the layouts rounds to bf16; the other does not, or not in the same places.
  bool rounds = false;
};

/// `verify.mismatch`: what differs first, where, and what it reads. Its notes are
/// "key: value".
rt::Error mismatchError(const Divergence &divergence, const VerifyCase &checked);

/// What is told of a case before it is run, line by line.
std::string describeCase(const VerifyCase &checked);

/// The result where nothing differs.
std::string describeReport(const VerifyReport &report, const VerifyCase &checked);
std::string reportJson(const VerifyReport &report, const VerifyCase &checked);

} // namespace cleave::tool
