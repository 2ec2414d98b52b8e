// Comparing a checkpoint's state with the run that wants to go on from it.
#include "runtime/Train/Resume.h"

#include "runtime/Train/Schedule.h"

#include <fmt/format.h>

namespace cleave::rt {

namespace {

std::string textOf(const std::optional<uint64_t> &value) {
  return value ? std::to_string(*value) : "unset";
}

Error changed(const char *kind, const std::string &what, const std::string &saved,
              const std::string &now) {
  return userError(kind, fmt::format("{} is {} in the checkpoint and {} now", what, saved, now))
      .withGiven(now)
      .withRule(fmt::format("a resumed run keeps its {}", what))
      .suggest(saved);
}

StatusOr<Recipe> checkSchedule(const Recipe &saved, const RunState &state,
                               const ResumeRequest &now) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const Schedule before,
                             Schedule::create(saved.learningRate, now.steps));
  // An absent total means "as it was", not "as long as this run is".
  LearningRateRecipe wanted = now.recipe.learningRate;
  if (!wanted.total)
    wanted.total = before.recipe().total;
  CLEAVE_RT_ASSIGN_OR_RETURN(const Schedule after, Schedule::create(wanted, now.steps));
  if (before.sameRates(after) || now.allowScheduleChange) {
    Recipe inForce = now.recipe;
    inForce.learningRate = after.recipe();
    return inForce;
  }
  const uint64_t next = state.step + 1;
  return changed("resume.schedule_changed", "learning-rate schedule", before.toString(),
                 after.toString())
      .suggest("--allow-schedule-change")
      .note(fmt::format("at step {} the rate was to be {} and would be {}", next,
                        before.rateAt(next), after.rateAt(next)));
}

} // namespace

std::vector<std::string> allowedChanges(const RunState &state, const Recipe &now) {
  const StatusOr<Recipe> saved = parseRecipe(state.recipe, "the checkpoint");
  if (!saved.ok())
    return {};
  std::vector<std::string> changes;
  auto compare = [&](const char *key, double before, double after) {
    if (before != after)
      changes.push_back(fmt::format("\"{}\" was {} in the checkpoint and is {} from here on", key,
                                    before, after));
  };
  const OptimizerRecipe &before = saved->optimizer, &after = now.optimizer;
  compare("optimizer.beta1", before.beta1, after.beta1);
  compare("optimizer.beta2", before.beta2, after.beta2);
  compare("optimizer.eps", before.epsilon, after.epsilon);
  compare("optimizer.weight_decay", before.weightDecay, after.weightDecay);
  compare("clip_norm", saved->clipNorm, now.clipNorm);
  return changes;
}

StatusOr<JsonValue> recipeForCheckpoint(const Recipe &recipe, uint64_t steps) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const Schedule schedule, Schedule::create(recipe.learningRate, steps));
  Recipe filled = recipe;
  filled.learningRate = schedule.recipe();
  return recipeToJson(filled);
}

StatusOr<Recipe> checkResume(const RunState &state, const ResumeRequest &now) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const Recipe saved, parseRecipe(state.recipe, "the checkpoint"));
  if (saved.globalBatch != now.recipe.globalBatch)
    return changed("resume.batch_changed", "global batch", textOf(saved.globalBatch),
                   textOf(now.recipe.globalBatch));
  if (saved.sequenceLength != now.recipe.sequenceLength)
    return changed("resume.batch_changed", "sequence length", textOf(saved.sequenceLength),
                   textOf(now.recipe.sequenceLength));
  if (state.seed != now.recipe.seed)
    return changed("resume.seed_changed", "seed", std::to_string(state.seed),
                   std::to_string(now.recipe.seed));
  if (saved.order != now.recipe.order)
    return changed("resume.order_changed", "data order", nameOf(saved.order),
                   nameOf(now.recipe.order));
  if (state.dataDigest != now.dataDigest && !now.allowDataChange)
    return changed("resume.data_changed", "digest of the data files", state.dataDigest,
                   now.dataDigest)
        .suggest("--allow-data-change");
  return checkSchedule(saved, state, now);
}

} // namespace cleave::rt
