//===- Verify.cpp - cleave verify --------------------------------------------===//
//
// Reads a model and one or two plans, makes the case small, and has the library compare
// the layouts. What differs first is an error, `verify.mismatch`.
//
//===----------------------------------------------------------------------===//

#include "CompileRequest.h"
#include "ModelInput.h"
#include "Output.h"
#include "VerifyInputs.h"
#include "VerifyText.h"

#include "cleave/Pipelines/Phases.h"
#include "cleave/Pipelines/Register.h"
#include "cleave/Verify/Shrink.h"
#include "cleave/Verify/Verify.h"
#include "runtime/Base/Files.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <unistd.h>

namespace cleave::tool {

using Module = mlir::OwningOpRef<mlir::ModuleOp>;

namespace {
struct VerifyRequest {
  CompileRequest plan;
  std::string against, program, init, data, keep;
  int64_t steps = 2;
  double tolerance = 1e-9;
  /// Whether a tolerance was asked for.
  bool tolerates = false;
  bool fullSize = false;
};

/// One verification: from files to a report.
class Verification {
public:
  explicit Verification(VerifyRequest request) : request(std::move(request)) {
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
  }
  rt::Status run();

private:
  rt::Status readModel();
  rt::Status makePlan();
  void takeUnrounded(mlir::ModuleOp plan, const std::string &file);
  rt::Status readProgram();
  rt::Status shrink();
  rt::Status makeAgainst();
  rt::Status keepFiles();
  rt::Status compare();
  VerifyCase describe();
  void progress(const std::string &what) {
    if (isatty(STDERR_FILENO))
      tell("\r\033[K{}{}", what.empty() ? "" : "verify: ", what);
  }
  /// As text, ending with a line's end.
  static std::string textOf(mlir::ModuleOp op) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    op.print(stream);
    return text + "\n";
  }

  VerifyRequest request;
  mlir::MLIRContext context;
  Module model, layout, against, program;
  std::optional<frontend::ModelDescription> description;
  std::vector<frontend::ShrunkModel::Change> changes;
};
} // namespace

/// Beyond these a step takes hours and all memory.
static constexpr int64_t kMostRanks = 1 << 14;

/// All ranks are played in one process.
static rt::Status checkRankCount(int64_t ranks) {
  if (ranks <= kMostRanks)
    return rt::Status::success();
  return rt::userError("verify.too_many_ranks", "more ranks than can be run beside each other here")
      .withGiven(fmt::format("{} ranks", ranks))
      .withRule(fmt::format("verify runs at most {} ranks", kMostRanks))
      .suggest("the same layout with fewer data ranks");
}

/// The product, or the largest number where it is beyond that.
static int64_t product(std::initializer_list<int64_t> degrees) {
  int64_t n = 1;
  for (int64_t degree : degrees)
    if (__builtin_mul_overflow(n, degree, &n))
      return std::numeric_limits<int64_t>::max();
  return n;
}

static int64_t ranksOf(mlir::ModuleOp plan) {
  const plan::AxisTable axes(solutionOf(plan));
  return axes.size(axes.names);
}

static rt::Status checkPlanOf(mlir::ModuleOp plan, mlir::ModuleOp model, int64_t ranks) {
  return withDiagnostics(*model.getContext(),
                         [&] { return checkPlan(solutionOf(plan), model, ranks); });
}

rt::Status Verification::readModel() {
  description = request.plan.model;
  if (description) {
    model = frontend::importModel(*description, context);
  } else {
    CLEAVE_RT_ASSIGN_OR_RETURN(model, loadModel(request.plan.modelPath, context));
  }
  return differentiatePhase(*model);
}

/// Where rounding is neither asked for nor tolerated, a plan's layout is what is looked at: in
/// bf16 two right ones differ by more than a mistake may make. A program has its own roundings.
void Verification::takeUnrounded(mlir::ModuleOp plan, const std::string &file) {
  plan::SolutionOp solution = solutionOf(plan);
  const std::optional<rt::Precision> asked = request.plan.recipe.precision;
  if (precisionOf(solution) != rt::Precision::Bf16 || !request.program.empty() ||
      asked == rt::Precision::Bf16 || (!asked && request.tolerates))
    return;
  for (auto entry : llvm::make_early_inc_range(solution.getOps<plan::PrecisionOp>()))
    entry.erase();
  tell("note: {}: its layout is compared in fp32, without its lines plan.precision; in bf16: "
       "--tolerance 0.05\n",
       file);
}

/// The plan at its own size. Without a cluster, pins say how many ranks there are; where the
/// recipe is silent, a step has enough micro-batches to be worth looking at.
rt::Status Verification::makePlan() {
  if (!request.plan.planFile.empty()) {
    CLEAVE_RT_ASSIGN_OR_RETURN(layout, readPlan(context, request.plan.planFile));
    const int64_t ranks = request.plan.cluster ? request.plan.cluster->ranks() : ranksOf(*layout);
    CLEAVE_RT_RETURN_IF_ERROR(checkRankCount(ranksOf(*layout)));
    CLEAVE_RT_RETURN_IF_ERROR(checkPlanOf(*layout, *model, ranks));
    takeUnrounded(*layout, request.plan.planFile);
    return comparePlan(request.plan, solutionOf(*layout));
  }
  PlanRequest &wanted = request.plan.plan;
  Pins &pins = wanted.pins;
  const int64_t inner = product({pins.tp.value_or(1), pins.cp.value_or(1), pins.pp.value_or(1)});
  wanted.ranks = product({pins.dp.value_or(1), inner});
  CLEAVE_RT_RETURN_IF_ERROR(fillPlanRequest(request.plan));
  CLEAVE_RT_RETURN_IF_ERROR(checkRankCount(wanted.ranks));
  if (!request.plan.recipe.globalBatch) {
    const int64_t dp =
        pins.dp.value_or(std::max<int64_t>(wanted.ranks / std::max<int64_t>(inner, 1), 1));
    const int64_t micros = pins.pp.value_or(1) > 1 ? *pins.pp + 1 : 2;
    if (!pins.microBatch)
      pins.microBatch = 1;
    wanted.globalBatch = product({dp, micros, *pins.microBatch});
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(layout, planPhase(*model, wanted));
  return rt::Status::success();
}

rt::Status Verification::readProgram() {
  auto parsed = parseModule(request.program, context);
  if (!parsed.ok()) {
    const rt::Error &error = parsed.status().error();
    if (error.kind != "model.ir_invalid")
      return error;
    return rt::userError("verify.program_invalid", error.message)
        .at(error.where)
        .withGiven("--program " + request.program)
        .withRule("a program is a module as --emit=dist prints it")
        .suggest("--keep DIR writes the one of the plan");
  }
  program = std::move(*parsed);
  return rt::Status::success();
}

rt::Status Verification::shrink() {
  if (!description)
    return rt::userError("verify.not_shrinkable", "an .mlir model has the sizes that it has")
        .withGiven(request.plan.modelPath)
        .withRule("a model is shrunk by its config")
        .suggest("--full-size");
  std::vector<mlir::ModuleOp> plans = {*layout};
  if (against)
    plans.push_back(*against);
  CLEAVE_RT_ASSIGN_OR_RETURN(SmallCase small, shrinkCase(*description, *model, plans));
  model = std::move(small.model);
  description = std::move(small.description);
  changes = std::move(small.changes);
  return rt::Status::success();
}

/// One rank that takes the same micro-batches.
rt::Status Verification::makeAgainst() {
  plan::SolutionOp solution = solutionOf(*layout);
  auto batch = plan::entry<plan::BatchOp>(solution);
  PlanRequest one;
  one.ranks = 1;
  one.sequence = batch.getSequence();
  one.globalBatch = batch.getGlobal();
  one.pins.microBatch =
      static_cast<int64_t>(batch.getMicro()) *
      plan::AxisTable(solution).ways(plan::entry<plan::LayoutOp>(solution).getDims(), "batch");
  CLEAVE_RT_ASSIGN_OR_RETURN(against, planPhase(*model, one));
  return rt::Status::success();
}

/// What another run can start from.
rt::Status Verification::keepFiles() {
  auto write = [&](const char *name, mlir::ModuleOp module) {
    return rt::writeFileAtomically(fmt::format("{}/{}.mlir", request.keep, name), textOf(module));
  };
  if (description)
    CLEAVE_RT_RETURN_IF_ERROR(
        rt::writeFileAtomically(request.keep + "/config.json", description->configText));
  CLEAVE_RT_RETURN_IF_ERROR(write("plan", *layout));
  CLEAVE_RT_RETURN_IF_ERROR(write("against", *against));
  CLEAVE_RT_ASSIGN_OR_RETURN(const Module made,
                             programFor(*model, *layout, optimizerOf(request.plan.recipe)));
  return write("program", *made);
}

/// "pipe=2 × tensor=2"
static std::string axesOf(mlir::ModuleOp plan) {
  std::vector<std::string> axes;
  for (auto axis : solutionOf(plan).getOps<plan::AxisOp>()) {
    int64_t size = 1;
    for (int64_t part : axis.getSizes())
      size *= part;
    if (size > 1)
      axes.push_back(fmt::format("{}={}", axis.getName().str(), size));
  }
  return axes.empty() ? "one rank" : fmt::format("{}", fmt::join(axes, " × "));
}

VerifyCase Verification::describe() {
  const auto rounds = [](mlir::ModuleOp plan) {
    return precisionOf(solutionOf(plan)) == rt::Precision::Bf16;
  };
  return {request.plan.modelPath, changes,
          axesOf(*layout),        axesOf(*against),
          ranksOf(*layout),       ranksOf(*against),
          request.tolerance,      rounds(*layout) || rounds(*against)};
}

rt::Status Verification::compare() {
  auto batch = plan::entry<plan::BatchOp>(solutionOf(*layout));
  const auto vocabulary = (*model)->getAttrOfType<mlir::IntegerAttr>("nn.vocab");
  CLEAVE_RT_ASSIGN_OR_RETURN(const VerifyWeights weights,
                             VerifyWeights::open(request.init, request.plan.recipe.seed));
  CLEAVE_RT_ASSIGN_OR_RETURN(const VerifyTokens tokens,
                             VerifyTokens::open(request.data, request.plan.recipe.seed,
                                                vocabulary ? vocabulary.getInt() : 2,
                                                batch.getSequence(), batch.getGlobal(),
                                                request.steps));
  VerifySettings settings;
  settings.steps = request.steps;
  settings.tolerance = request.tolerance;
  settings.optimizer = optimizerOf(request.plan.recipe);
  settings.rate = [&](int64_t) { return request.plan.recipe.learningRate.peak; };
  settings.weights = [&](nn::ParameterOp p, const std::string &name) {
    return weights.read(p, name);
  };
  settings.batch = [&](llvm::StringRef name, int64_t step, int64_t first, int64_t count) {
    return tokens.read(name, step, first, count);
  };
  settings.progress = [&](const std::string &what) { progress(what); };
  const VerifyCase checked = describe();
  tell("{}", describeCase(checked));
  if (checked.ranks == 1 && checked.againstRanks == 1 && request.against.empty() && !program)
    tell("note: one rank is compared with itself; --cluster local:N, or a pin of dp, tp, cp or pp, "
         "makes more ranks\n");
  auto report =
      verifyLayouts(*model, {*layout, program ? *program : mlir::ModuleOp()}, {*against}, settings);
  progress("");
  if (!report.ok())
    return report.status();
  if (report->first)
    return mismatchError(*report->first, checked);
  std::fputs(
      (request.plan.json ? reportJson(*report, checked) : describeReport(*report, checked)).c_str(),
      stdout);
  return rt::Status::success();
}

rt::Status Verification::run() {
  if (!request.keep.empty())
    CLEAVE_RT_RETURN_IF_ERROR(checkOutputFolder(request.keep));
  CLEAVE_RT_RETURN_IF_ERROR(readModel());
  CLEAVE_RT_RETURN_IF_ERROR(makePlan());
  if (!request.against.empty()) {
    CLEAVE_RT_ASSIGN_OR_RETURN(against, readPlan(context, request.against));
    CLEAVE_RT_RETURN_IF_ERROR(checkRankCount(ranksOf(*against)));
    CLEAVE_RT_RETURN_IF_ERROR(checkPlanOf(*against, *model, ranksOf(*against)));
    takeUnrounded(*against, request.against);
    CLEAVE_RT_RETURN_IF_ERROR(checkSameBatch(*layout, *against));
  }
  if (!request.program.empty())
    CLEAVE_RT_RETURN_IF_ERROR(readProgram());
  if (!request.fullSize)
    CLEAVE_RT_RETURN_IF_ERROR(shrink());
  if (!against)
    CLEAVE_RT_RETURN_IF_ERROR(makeAgainst());
  if (!request.keep.empty())
    CLEAVE_RT_RETURN_IF_ERROR(keepFiles());
  return compare();
}

template <typename T>
static rt::Status readNumber(const CommandLine &line, const char *option, T &into, T least) {
  const std::string text = line.text(option);
  if (text.empty())
    return rt::Status::success();
  T number{};
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed == std::errc() && end == text.data() + text.size() && number >= least &&
      number <= T(1e6)) {
    into = number;
    return rt::Status::success();
  }
  return rt::userError("usage.bad_value", fmt::format("--{} can't be {}", option, text))
      .withGiven(fmt::format("--{} {}", option, text))
      .withRule(fmt::format("--{} is a number from {} to 1e6", option, least))
      .suggest(fmt::format("--{} {}", option, into));
}

static rt::StatusOr<VerifyRequest> readVerifyRequest(const CommandLine &line) {
  VerifyRequest request;
  CLEAVE_RT_RETURN_IF_ERROR(readPlanOptions(line, request.plan));
  request.against = line.text("against");
  request.program = line.text("program");
  request.init = line.text("init");
  request.data = line.text("data");
  request.keep = line.text("keep");
  // A program has the sizes that it has.
  request.fullSize = line.has("full-size") || !request.program.empty();
  CLEAVE_RT_RETURN_IF_ERROR(readNumber<int64_t>(line, "steps", request.steps, 1));
  CLEAVE_RT_RETURN_IF_ERROR(readNumber<double>(line, "tolerance", request.tolerance, 0));
  request.tolerates = line.has("tolerance");
  if (!request.init.empty() && !request.fullSize)
    return rt::userError("verify.init_size", "weights of a file do not fit a model that is shrunk")
        .withGiven("--init " + request.init)
        .withRule("--init goes with --full-size")
        .suggest("--full-size, or leave out --init for weights by chance");
  return request;
}

rt::Status runVerify(const Words &words) {
  CommandLine line("verify", "run two layouts of a model step by step and name where they differ",
                   {"MODEL"});
  addPlanOptions(line);
  auto option = [&](const char *name, const char *help, const char *value) {
    line.add()(name, help, cxxopts::value<std::string>(), value);
  };
  option("against", "the other layout's plan; left out: one rank", "FILE");
  option("steps", "steps to run; left out: 2", "N");
  option("tolerance", "what may differ, in parts of a tensor's largest number; left out: 1e-9",
         "X");
  option("init", "weights, with --full-size; left out: by chance", "FILE|DIR");
  option("data", "tokens; left out: by chance", "FILE");
  option("program", "run this program, of the form of --emit=dist, in place of the plan's", "FILE");
  option("keep", "write the config, plans and program that are run into this folder", "DIR");
  line.add()("full-size", "do not shrink the model");
  CLEAVE_RT_RETURN_IF_ERROR(line.parse(words));
  if (line.helped())
    return rt::Status::success();
  CLEAVE_RT_ASSIGN_OR_RETURN(VerifyRequest request, readVerifyRequest(line));
  return Verification(std::move(request)).run();
}

} // namespace cleave::tool
