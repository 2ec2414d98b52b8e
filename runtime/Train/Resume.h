// Whether a run may go on from a checkpoint: what must be the same, and what
// may differ when the user says so. Layout, ranks and micro-batch may differ
// freely; they are not looked at.
#pragma once

#include "runtime/Checkpoint/Manifest.h"
#include "runtime/Train/Recipe.h"

namespace cleave::rt {

struct ResumeRequest {
  Recipe recipe;
  /// Steps of the run in all (not what is left).
  uint64_t steps = 0;
  /// Digest of the data given now.
  std::string dataDigest;
  bool allowScheduleChange = false;
  bool allowDataChange = false;
};

/// The recipe a checkpoint records: with the schedule's total filled in, so
/// that a later run of another length is compared with what was in force.
StatusOr<JsonValue> recipeForCheckpoint(const Recipe &recipe, uint64_t steps);

/// The recipe a run goes on with: the one asked for, with the schedule's total
/// as it was where none is asked for. Kinds: `resume.schedule_changed`,
/// `resume.data_changed`, `resume.batch_changed` (global batch or sequence
/// length), `resume.seed_changed`, `resume.order_changed`.
StatusOr<Recipe> checkResume(const RunState &saved, const ResumeRequest &now);

/// What a run may change and has changed against its checkpoint, a sentence each.
std::vector<std::string> allowedChanges(const RunState &saved, const Recipe &now);

} // namespace cleave::rt
