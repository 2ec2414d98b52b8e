//===- Run.cpp - What a whole training run takes -----------------------------===//

#include "cleave/Planner/Run.h"
#include <cmath>

namespace cleave {

StepOperations operationsOf(const cost::ModelWork &work, int64_t length, int64_t sequences,
                            Recompute recompute) {
  cost::Cut whole;
  whole.open = {{"batch", static_cast<double>(sequences)},
                {"sequence", static_cast<double>(length)}};
  std::vector<double> forward;
  for (const cost::KindWork &kind : work.kinds) {
    double sum = 0;
    for (const cost::Product &p : kind.products)
      sum += 2 * whole.elements(p.rows) * whole.elements(p.columns) * whole.elements(p.summed);
    for (const cost::Scores &s : kind.scores) {
      const auto keyWidth = static_cast<double>(s.queries.back().size);
      const auto valueWidth = static_cast<double>(s.values.back().size);
      // A token sees half of a sequence, or a window.
      double seen = static_cast<double>(length) / 2;
      if (s.window && *s.window < length)
        seen = static_cast<double>(*s.window);
      sum += 2 * whole.elements(s.queries) / keyWidth * seen * (keyWidth + valueWidth);
    }
    forward.push_back(sum);
  }
  StepOperations out;
  for (size_t i = 0; i < work.layers.size(); ++i) {
    const double layer = forward[work.layers[i]];
    out.model += 3 * layer;
    const bool isEdge = i == 0 || i + 1 == work.layers.size();
    out.executed += (recompute == Recompute::Full && !isEdge ? 4 : 3) * layer;
  }
  return out;
}

double sixND(double parameters, double tokens) { return 6 * parameters * tokens; }

double checkpointInterval(double checkpoint, double between) {
  if (checkpoint >= 2 * between)
    return between;
  // Daly 2006, "A higher order estimate of the optimum checkpoint interval", eq. 37.
  const double x = std::sqrt(checkpoint / (2 * between));
  return std::sqrt(2 * checkpoint * between) * (1 + x / 3 + x * x / 9) - checkpoint;
}

double goodputOf(double checkpoint, double interval, double between, double restart) {
  const double saving = interval / (interval + checkpoint);
  const double lost = (restart + (interval + checkpoint) / 2) / between;
  return std::max(0., saving * (1 - lost));
}

RunFacts runOf(double stepSeconds, double tokensOfStep, double tokens, const Cluster &cluster,
               std::optional<double> power, double state) {
  const auto devices = static_cast<double>(cluster.ranks());
  RunFacts run;
  run.steps = std::ceil(tokens / tokensOfStep);
  const double seconds = run.steps * stepSeconds;
  run.days = seconds / 86400;
  run.deviceHours = seconds / 3600 * devices;
  if (power) {
    run.power = *power * devices * cluster.powerOverhead.value_or(1);
    run.energy = *run.power / 1000 * seconds / 3600;
  }
  if (cluster.pricePerDeviceHour)
    run.money = run.deviceHours * *cluster.pricePerDeviceHour;
  if (cluster.storageBandwidth)
    run.checkpoint = state / (*cluster.storageBandwidth * static_cast<double>(cluster.nodes));
  if (!cluster.mtbfHoursPerDevice)
    return run;
  run.between = *cluster.mtbfHoursPerDevice * 3600 / devices;
  run.interruptions = seconds / *run.between;
  if (!run.checkpoint)
    return run;
  run.interval = checkpointInterval(*run.checkpoint, *run.between);
  run.goodput =
      goodputOf(*run.checkpoint, *run.interval, *run.between, cluster.restartSeconds.value_or(0));
  if (*run.goodput > 0)
    run.daysWithInterruptions = run.days / *run.goodput;
  return run;
}

} // namespace cleave
