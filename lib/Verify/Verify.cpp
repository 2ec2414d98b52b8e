//===- Verify.cpp - Do two layouts of a model train alike? -----------------===//

#include "cleave/Verify/Verify.h"
#include "cleave/Pipelines/Phases.h"
#include "lib/Verify/Compare.h"
#include "lib/Verify/Origins.h"
#include "lib/Verify/Placements.h"
#include "lib/Verify/Values.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <cmath>

using namespace mlir;
namespace cleave {

namespace {
/// A layout, compiled and ready to run.
struct Side {
  OwningOpRef<ModuleOp> own;
  /// What is run: `own`, or a program in its place.
  ModuleOp program;
  PlacedOps ops;
  std::unique_ptr<Placements> placements;
  std::unique_ptr<Training> training;
  MicroBatches micros;
};
} // namespace

/// After `dist`; `placements` takes what lies where, if it is given.
static rt::StatusOr<OwningOpRef<ModuleOp>> compile(ModuleOp model, ModuleOp plan,
                                                   const OptimizerSettings &optimizer,
                                                   std::unique_ptr<Placements> *placements) {
  OwningOpRef<ModuleOp> program = model.clone();
  CLEAVE_RT_RETURN_IF_ERROR(applyPhase(*program, plan, optimizer));
  if (placements) {
    CLEAVE_RT_ASSIGN_OR_RETURN(Placements read, Placements::read(*program));
    *placements = std::make_unique<Placements>(std::move(read));
  }
  CLEAVE_RT_RETURN_IF_ERROR(distPhase(*program));
  return program;
}

rt::StatusOr<OwningOpRef<ModuleOp>> programFor(ModuleOp model, ModuleOp plan,
                                               const OptimizerSettings &optimizer) {
  return compile(model, plan, optimizer, nullptr);
}

static rt::Error programMismatch(const std::string &message) {
  return rt::userError("verify.program_mismatch", message)
      .withRule("a program in place of a plan's own has the same parts, mesh, entries and kept "
                "tensors; operators may differ")
      .suggest("--keep DIR writes the program of the plan to start from");
}

/// Whether `program` can be run with what is known of `own`.
static rt::Status checkProgram(ModuleOp program, ModuleOp own) {
  SmallVector<ModuleOp> given = programsIn(program), wanted = programsIn(own);
  if (given.size() != wanted.size())
    return programMismatch("the program has " + std::to_string(given.size()) +
                           " parts, the plan's has " + std::to_string(wanted.size()));
  for (auto [part, fact] : llvm::zip(given, wanted)) {
    auto meshes = part.getOps<dist::MeshOp>();
    if (meshes.empty() || dist::Mesh(*meshes.begin()).ranks() !=
                              dist::Mesh(*fact.getOps<dist::MeshOp>().begin()).ranks())
      return programMismatch("the program's mesh has not the ranks of the plan");
    for (auto function : fact.getOps<func::FuncOp>()) {
      if (!function->hasAttr("nn.entry"))
        continue;
      auto same = part.lookupSymbol<func::FuncOp>(function.getName());
      if (!same || same.getFunctionType() != function.getFunctionType())
        return programMismatch("the program has no entry @" + function.getName().str() +
                               " of the plan's type");
    }
    for (auto parameter : fact.getOps<nn::ParameterOp>())
      if (auto same = part.lookupSymbol<nn::ParameterOp>(parameter.getSymName());
          !same || same.getTensorType() != parameter.getTensorType())
        return programMismatch("the program has no tensor @" + parameter.getSymName().str() +
                               " of the model's shape");
  }
  return rt::Status::success();
}

static rt::StatusOr<Side> makeSide(ModuleOp model, const VerifyLayout &layout,
                                   const VerifySettings &settings) {
  Side side;
  CLEAVE_RT_ASSIGN_OR_RETURN(side.own,
                             compile(model, layout.plan, settings.optimizer, &side.placements));
  side.program = layout.program ? layout.program : *side.own;
  if (layout.program)
    CLEAVE_RT_RETURN_IF_ERROR(checkProgram(layout.program, *side.own));
  side.ops = layout.program ? side.placements->locateEdited(layout.program, *side.own)
                            : side.placements->locate(*side.own);
  side.training = std::make_unique<Training>(side.program, *side.own);
  plan::SolutionOp solution = solutionOf(layout.plan);
  auto batch = plan::entry<plan::BatchOp>(solution);
  const int64_t ways =
      plan::AxisTable(solution).ways(plan::entry<plan::LayoutOp>(solution).getDims(), "batch");
  side.micros.rows = static_cast<int64_t>(batch.getMicro()) * ways;
  side.micros.count = static_cast<int64_t>(batch.getGlobal()) / side.micros.rows;
  return side;
}

rt::Status checkSameBatch(ModuleOp plan, ModuleOp other) {
  auto one = plan::entry<plan::BatchOp>(solutionOf(plan)),
       two = plan::entry<plan::BatchOp>(solutionOf(other));
  if (one.getGlobal() == two.getGlobal() && one.getSequence() == two.getSequence())
    return rt::Status::success();
  auto text = [](plan::BatchOp batch) {
    return "global " + std::to_string(batch.getGlobal()) + " sequence " +
           std::to_string(batch.getSequence());
  };
  return rt::userError("verify.batch_mismatch", "the two plans have steps of other sequences")
      .withGiven(text(one) + ", and " + text(two))
      .withRule("both plans have the same global batch and sequence length")
      .suggest(text(one) + " in both");
}

namespace {
/// Both sides, side by side.
class Verifier {
public:
  Verifier(std::vector<Origin> origins, Side layout, Side against, const VerifySettings &settings)
      : layout(std::move(layout)), against(std::move(against)), settings(settings),
        comparison(settings.tolerance),
        values(std::move(origins), this->against.micros, this->layout.micros, comparison) {
    for (auto &part : this->against.training->parts())
      watches.push_back(std::make_unique<Watch>(
          *part, this->against.ops, [this](Part &p, const Seen &v) { values.keep(p, v); },
          [this](const std::string &name) { values.keepGradient(name); }));
    for (auto [place, part] : llvm::enumerate(this->layout.training->parts()))
      watches.push_back(std::make_unique<Watch>(
          *part, this->layout.ops,
          [this, place = place](Part &p, const Seen &v) { values.compare(p, v, place); }));
  }

  rt::StatusOr<VerifyReport> run() {
    CLEAVE_RT_RETURN_IF_ERROR(load(against));
    CLEAVE_RT_RETURN_IF_ERROR(load(layout));
    for (step = 1; step <= settings.steps && !report.first; ++step) {
      CLEAVE_RT_RETURN_IF_ERROR(runStep());
      ++report.steps;
    }
    report.values = values.compared();
    report.largest = comparison.largest();
    return std::move(report);
  }

private:
  rt::Status load(Side &side) {
    return side.training->load(
        [&](nn::ParameterOp p, const std::string &name) { return settings.weights(p, name); });
  }

  rt::Status accumulate(Side &side) {
    side.training->begin();
    rt::Status done =
        side.training->accumulate(side.micros.count, [&](StringRef name, int64_t micro) {
          return settings.batch(name, step, micro * side.micros.rows, side.micros.rows);
        });
    return done.ok() ? done : explained(done.error(), side);
  }

  /// What fails in a program that was given is not our mistake.
  static rt::Error explained(const rt::Error &error, const Side &side) {
    if (side.program == *side.own)
      return error;
    return rt::userError("verify.program_failed", "the program cannot be run: " + error.message)
        .at(error.where)
        .withRule("every operator has a meaning and finds what it reads")
        .suggest("--keep DIR writes the program of the plan to start from");
  }

  rt::StatusOr<std::vector<Training::Updated>> update(Side &side) {
    const OptimizerSettings &o = settings.optimizer;
    auto updated = side.training->update(settings.rate(step), 1 - std::pow(o.beta1, step),
                                         1 - std::pow(o.beta2, step));
    if (!updated.ok())
      return explained(updated.status().error(), side);
    return updated;
  }

  void tell(const char *what) {
    if (settings.progress)
      settings.progress("step " + std::to_string(step) + ", " + what);
  }

  rt::Status runStep() {
    values.begin();
    for (auto &watch : watches)
      watch->begin();
    tell("the other layout");
    CLEAVE_RT_RETURN_IF_ERROR(accumulate(against));
    tell("the plan");
    CLEAVE_RT_RETURN_IF_ERROR(accumulate(layout));
    if (auto first = values.first())
      return take(*first);
    CLEAVE_RT_RETURN_IF_ERROR(compareGradients());
    if (report.first)
      return rt::Status::success();
    tell("updates");
    CLEAVE_RT_ASSIGN_OR_RETURN(const auto want, update(against));
    CLEAVE_RT_ASSIGN_OR_RETURN(const auto got, update(layout));
    report.losses.push_back(want[0].loss);
    return compareUpdates(got, want[0]);
  }

  rt::Status take(Divergence divergence) {
    divergence.step = step;
    report.first = std::move(divergence);
    return rt::Status::success();
  }

  rt::Status compareGradients();
  rt::Status compareUpdates(const std::vector<Training::Updated> &got, Training::Updated want);
  rt::Status compareSlot(StringRef slot, const char *phase);
  std::optional<Divergence> compareTensor(size_t place, nn::ParameterOp p, const std::string &name,
                                          StringRef slot, const HostTensor &want,
                                          const HostTensor &gradient);
  rt::StatusOr<HostTensor> total(Side &side, const std::string &name, StringRef slot);

  Side layout, against;
  const VerifySettings &settings;
  BlockComparison comparison;
  ValueComparison values;
  std::vector<std::unique_ptr<Watch>> watches;
  VerifyReport report;
  int64_t step = 1;
};
} // namespace

/// The parameter that stands for tensor `name` in `part`, or null.
static nn::ParameterOp ownerOf(Part &part, const std::string &name) {
  for (auto p : part.parameters())
    for (int64_t i = 0; i < p.getCount(); ++i)
      if (p.getTensorName(i) == name)
        return p;
  return {};
}

/// The slot of a tensor over all places: the sum of what those that have it hold.
rt::StatusOr<HostTensor> Verifier::total(Side &side, const std::string &name, StringRef slot) {
  std::optional<HostTensor> sum;
  for (auto &part : side.training->parts()) {
    nn::ParameterOp p = ownerOf(*part, name);
    if (!p)
      continue;
    CLEAVE_RT_ASSIGN_OR_RETURN(HostTensor tensor, part->joined(p, name, slot));
    if (!sum)
      sum = std::move(tensor);
    else
      for (auto [x, y] : llvm::zip(sum->data, tensor.data))
        x += y;
  }
  if (!sum)
    return rt::internalError("no place has " + name);
  return std::move(*sum);
}

/// What micro-batches have added up, before any of it is reduced.
rt::Status Verifier::compareGradients() {
  for (const std::string &name : values.gradientOrder()) {
    CLEAVE_RT_ASSIGN_OR_RETURN(const HostTensor want, total(against, name, "gradient"));
    CLEAVE_RT_ASSIGN_OR_RETURN(const HostTensor got, total(layout, name, "gradient"));
    ++report.gradients;
    Divergence found;
    std::optional<WrongElement> wrong;
    std::vector<size_t> having;
    auto &parts = layout.training->parts();
    for (size_t place = 0; place < parts.size(); ++place)
      if (ownerOf(*parts[place], name))
        having.push_back(place);
    if (having.size() == 1) {
      Part &part = *parts[having[0]];
      wrong = comparison.compare(*part.state.find(name, "gradient"), want,
                                 part.shardingOf(ownerOf(part, name), "gradient"), part.mesh);
      if (wrong)
        values.locate(found, wrong->rank, having[0], part);
    } else {
      wrong = comparison.compare(got, want);
    }
    if (!wrong)
      continue;
    found.phase = "gradient";
    found.tensor = name;
    found.index = wrong->index;
    found.got = wrong->got;
    found.want = wrong->want;
    return take(found);
  }
  return rt::Status::success();
}

rt::Status Verifier::compareUpdates(const std::vector<Training::Updated> &got,
                                    Training::Updated want) {
  CLEAVE_RT_RETURN_IF_ERROR(compareSlot("reduced", "reduced gradient"));
  for (auto [place, updated] : llvm::enumerate(got))
    for (auto [phase, a, b] : {std::tuple("loss", updated.loss, want.loss),
                               std::tuple("objective", updated.objective, want.objective),
                               std::tuple("norm", updated.norm, want.norm)}) {
      if (report.first || !comparison.compare(HostTensor({}, a), HostTensor({}, b)))
        continue;
      Divergence found;
      found.phase = phase;
      found.got = a;
      found.want = b;
      values.locate(found, 0, place, *layout.training->parts()[place]);
      CLEAVE_RT_RETURN_IF_ERROR(take(found));
    }
  for (auto [slot, phase] : {std::pair("moment1", "moment1"), std::pair("moment2", "moment2"),
                             std::pair("value", "weight")})
    CLEAVE_RT_RETURN_IF_ERROR(compareSlot(slot, phase));
  return rt::Status::success();
}

/// One slot of all tensors, as each rank of each place holds it.
rt::Status Verifier::compareSlot(StringRef slot, const char *phase) {
  for (const std::string &name : values.gradientOrder()) {
    if (report.first)
      return rt::Status::success();
    std::optional<HostTensor> want;
    HostTensor gradient;
    for (auto &part : against.training->parts())
      if (nn::ParameterOp p = ownerOf(*part, name); p && !want && part->state.find(name, slot)) {
        CLEAVE_RT_ASSIGN_OR_RETURN(want, part->joined(p, name, slot));
        CLEAVE_RT_ASSIGN_OR_RETURN(gradient, part->joined(p, name, "reduced"));
      }
    for (auto [place, part] : llvm::enumerate(layout.training->parts())) {
      nn::ParameterOp p = ownerOf(*part, name);
      if (!p || !want || !part->state.find(name, slot) || report.first)
        continue;
      ++report.states;
      if (auto found = compareTensor(place, p, name, slot, *want, gradient)) {
        found->phase = phase;
        CLEAVE_RT_RETURN_IF_ERROR(take(std::move(*found)));
      }
    }
  }
  return rt::Status::success();
}

std::optional<Divergence> Verifier::compareTensor(size_t place, nn::ParameterOp p,
                                                  const std::string &name, StringRef slot,
                                                  const HostTensor &want,
                                                  const HostTensor &gradient) {
  Part &part = *layout.training->parts()[place];
  // Adam's step is the gradient over its own size: where that is rounding alone, the
  // step may be anything up to the rate.
  const double rate = settings.rate(step), epsilon = settings.optimizer.eps;
  auto slack = [&](size_t i) {
    return rate * settings.tolerance / (std::fabs(gradient.data[i]) + epsilon);
  };
  auto wrong = slot == "value" ? comparison.compare(*part.state.find(name, slot), want,
                                                    part.shardingOf(p, slot), part.mesh, slack)
                               : comparison.compare(*part.state.find(name, slot), want,
                                                    part.shardingOf(p, slot), part.mesh);
  if (!wrong)
    return std::nullopt;
  Divergence found;
  found.tensor = name;
  found.index = wrong->index;
  found.got = wrong->got;
  found.want = wrong->want;
  values.locate(found, wrong->rank, place, part);
  return found;
}

rt::StatusOr<VerifyReport> verifyLayouts(ModuleOp model, const VerifyLayout &layout,
                                         const VerifyLayout &against,
                                         const VerifySettings &settings) {
  CLEAVE_RT_RETURN_IF_ERROR(checkSameBatch(layout.plan, against.plan));
  OwningOpRef<ModuleOp> numbered = model.clone();
  std::vector<Origin> origins = numberOperators(*numbered);
  if (settings.progress)
    settings.progress("compile");
  CLEAVE_RT_ASSIGN_OR_RETURN(Side one, makeSide(*numbered, layout, settings));
  CLEAVE_RT_ASSIGN_OR_RETURN(Side other, makeSide(*numbered, against, settings));
  return Verifier(std::move(origins), std::move(one), std::move(other), settings).run();
}

} // namespace cleave
