//===- Compile.cpp - cleave compile ------------------------------------------===//

#include "BinaryText.h"
#include "CommText.h"
#include "CompileRequest.h"
#include "ModelInput.h"
#include "Output.h"
#include "PipeText.h"
#include "PlanTask.h"

#include "cleave/Pipelines/Phases.h"
#include "cleave/Pipelines/Register.h"
#include "cleave/Planner/Machines.h"
#include "cleave/Target/CUDA/Assemble.h"
#include "cleave/Target/CUDA/MapLaunches.h"
#include "cleave/Target/Image/Image.h"
#include "dialects/Exec/Exec.h"
#include "runtime/Base/CodeArchive.h"
#include "runtime/Base/Files.h"
#include "runtime/Base/Json.h"
#include "runtime/Base/Suggest.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <tuple>
#include <unistd.h>

namespace cleave::tool {

namespace {
/// One compilation: the module as it passes through the phases.
class Compilation {
public:
  explicit Compilation(CompileRequest request) : request(std::move(request)) {
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    cpu::registerKernelDialects(registry);
    context.appendDialectRegistry(registry);
  }

  rt::Status run();
  static std::vector<std::string> phaseNames();

private:
  rt::Status import();
  rt::Status differentiate() { return differentiatePhase(*module); }
  rt::Status plan();
  rt::Status choose();
  void tellChosen() const;
  std::optional<double> predictedStep() const;
  rt::Status pipe();
  rt::Status apply() { return applyPhase(*module, *chosen, optimizerOf(request.recipe)); }
  rt::Status dist() { return distPhase(*module); }
  rt::Status exec();
  rt::Status comm();
  rt::Status image();
  rt::Status cuda();
  rt::Status binary();
  Nodes nodes();
  void noteSurvey();
  rt::Status checkBudget();

  std::string textOf(mlir::ModuleOp op) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    op.print(stream);
    stream << "\n";
    return text;
  }
  rt::Status write(std::string_view phase, const std::string &text) {
    const bool toFile = !request.output.empty();
    if (toFile)
      CLEAVE_RT_RETURN_IF_ERROR(rt::writeFileAtomically(request.output, text));
    if (request.json)
      say(phase, toFile ? "file" : "module", toFile ? request.output : text);
    else if (!toFile)
      std::fputs(text.c_str(), stdout);
    return rt::Status::success();
  }
  /// The one document of --json.
  void say(std::string_view phase, std::string_view key, const std::string &value) {
    rt::JsonWriter out;
    out.beginObject().key("phase").value(phase).key(key).value(value);
    if (phase == "pipe")
      writeScheduleJson(out.key("schedule"), *pipeline, surveys);
    if (phase == "comm")
      writeCommunicationJson(out.key("communication"), traffic, request.plan.ranks, nodes());
    out.endObject();
    std::fputs((out.take() + "\n").c_str(), stdout);
  }
  void progress(std::string_view phase) {
    if (isatty(STDERR_FILENO))
      tell("\r\033[Kcompile: {}", phase);
  }

  CompileRequest request;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module, chosen, pipeline;
  std::optional<CompiledImage> compiled;
  std::string cudaText;
  /// Source of the kernels of --target cuda.
  std::string gpuText;
  /// Of it, what is compiled ahead.
  std::string gpuCode;
  std::vector<TrafficRow> traffic;
  /// What a step of the plan takes by the cost model, where that knows the plan and the devices.
  std::optional<StepModel> step;
  std::optional<PricedChoice> price;
  /// Whether micro-batches go forward once more, since something is summed over all of them.
  bool surveys = false;

  struct Phase {
    std::string_view name;
    rt::Status (Compilation::*run)();
    /// What `--emit` prints after it.
    std::string (*print)(Compilation &);
    /// Left out unless it is the one to print: the binary does not need it.
    bool onRequest = false;
  };
  static std::span<const Phase> phases();
};
} // namespace

std::span<const Compilation::Phase> Compilation::phases() {
  static constexpr auto printModule = [](Compilation &c) { return c.textOf(*c.module); };
  static constexpr Phase all[] = {
      {"nn", &Compilation::import, printModule},
      {"grad", &Compilation::differentiate, printModule},
      {"plan", &Compilation::plan, [](Compilation &c) { return c.textOf(*c.chosen); }},
      {"pipe", &Compilation::pipe,
       [](Compilation &c) { return drawnSchedule(*c.pipeline, c.surveys) + c.textOf(*c.pipeline); },
       /*onRequest=*/true},
      {"apply", &Compilation::apply, printModule},
      {"dist", &Compilation::dist, printModule},
      {"exec", &Compilation::exec,
       [](Compilation &c) { return c.textOf(*withKernelsDeclared(*c.module)); }},
      {"comm", &Compilation::comm,
       [](Compilation &c) { return communicationText(c.traffic, c.request.plan.ranks, c.nodes()); },
       /*onRequest=*/true},
      {"image", &Compilation::image,
       [](Compilation &c) { return rt::toImageText(c.compiled->image); }},
      {"kernels", nullptr, [](Compilation &c) { return c.textOf(*c.compiled->kernels); }},
      {"cuda", &Compilation::cuda, [](Compilation &c) { return c.cudaText; }, /*onRequest=*/true},
  };
  return all;
}

rt::Status Compilation::import() {
  if (request.model) {
    // What was assumed or left out, such as the parts of a model beside its text.
    if (request.emit.empty())
      for (const std::string &note : request.model->notes)
        tell("note: {}\n", note);
    module = frontend::importModel(*request.model, context);
    return rt::Status::success();
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(module, loadModel(request.modelPath, context));
  return rt::Status::success();
}

/// How often a step goes through the model.
static int64_t microBatchesOf(plan::SolutionOp solution) {
  auto batch = plan::entry<plan::BatchOp>(solution);
  plan::AxisTable axes(solution);
  auto list = plan::entry<plan::LayoutOp>(solution).getDims().getAs<mlir::ArrayAttr>("batch");
  return batch.getGlobal() / (batch.getMicro() * (list ? axes.size(axes.expand(list)) : 1));
}

rt::Status Compilation::plan() {
  CLEAVE_RT_RETURN_IF_ERROR(choose());
  CLEAVE_RT_ASSIGN_OR_RETURN(chosen, planPhase(*module, request.plan, request.planFile));
  plan::SolutionOp solution = solutionOf(*chosen);
  if (!request.planFile.empty())
    CLEAVE_RT_RETURN_IF_ERROR(comparePlan(request, solution));
  // What the recipe leaves open is what the plan says.
  if (!request.recipe.precision)
    request.recipe.precision = precisionOf(solution);
  if (request.searches) {
    keepWords(solution, request.words);
    tellChosen();
  } else if (step) {
    price = step->priceOf(request, solution);
  }
  if (request.planFile.empty() && !request.searches && request.emit.empty())
    for (const std::string &pin : idlePins(*module, request.plan))
      tell("note: {} changes nothing on this model and these ranks\n", pin);
  noteSurvey();
  return checkBudget();
}

/// Searches what is left open, if that is asked for or nothing was pinned.
rt::Status Compilation::choose() {
  rt::StatusOr<StepModel> model = StepModel::of(request, *module);
  if (model.ok())
    step = std::move(*model);
  else if (request.asksForSearch)
    return model.status();
  request.searches &= model.ok();
  if (request.searches) {
    if (const std::string note =
            request.cluster ? noteOfNetwork(*request.cluster, step->device) : "";
        !note.empty())
      tell("note: {}\n", note);
    CLEAVE_RT_ASSIGN_OR_RETURN(price, choosePlan(request, *step, *module));
  } else if (request.isOpen) {
    const std::string_view kind = model.status().error().kind;
    tell(
        "note: the plan is made by a fixed policy, not searched: {}\n",
        kind.starts_with("device.")
            ? fmt::format("\"device\" of {} is none that `cleave plan` knows", request.plan.cluster)
            : model.status().error().message);
  }
  return rt::Status::success();
}

/// What was chosen, what it takes, and how to see why.
void Compilation::tellChosen() const {
  const bool isWritten = request.emit == "plan" && !request.output.empty();
  tell("plan: {}, predicted {:.4g} s a step (±{:.0f} %) and {:.0f} MB a rank; why: {}\n",
       pinTextOf(step->problemOf(request), price->choice), price->seconds(),
       100 * price->prediction.errorBar, price->bytes() / 1e6,
       isWritten ? "cleave explain " + request.output
                 : "--emit=plan -o plan.mlir, then cleave explain plan.mlir");
}

/// What a step costs beside its micro-batches is said.
void Compilation::noteSurvey() {
  const int64_t micros = microBatchesOf(solutionOf(*chosen));
  module->walk([&](WholeBatchOpInterface) { surveys = micros > 1; });
  if (surveys && request.emit.empty())
    tell("note: a loss of all tokens of a step needs their choices before the first way back: "
         "its {} micro-batches go forward twice; one micro-batch would go once\n",
         micros);
}

/// Seconds of a step of the binary, which runs on processors: nothing where the cluster has other
/// devices, or where these only play a device.
std::optional<double> Compilation::predictedStep() const {
  if (!price || request.target != "cpu" || (request.cluster && !isOurs(*request.cluster)))
    return std::nullopt;
  return price->seconds();
}

rt::Status Compilation::exec() {
  CLEAVE_RT_RETURN_IF_ERROR(execPhase(*module, request.profile));
  if (request.target != "cuda")
    return rt::Status::success();
  CLEAVE_RT_RETURN_IF_ERROR(withDiagnostics(context, [&]() -> llvm::LogicalResult {
    mlir::FailureOr<cuda::Text> text = cuda::mapLaunches(*module, {request.gpuLibraries});
    if (succeeded(text))
      gpuText = std::move(text->source);
    return text;
  }));
  if (!request.emit.empty())
    return rt::Status::success();
  for (const std::string &architecture : request.architectures) {
    progress("exec, " + architecture);
    CLEAVE_RT_ASSIGN_OR_RETURN(const std::string code, cuda::assemble(gpuText, architecture));
    rt::addCode(gpuCode, architecture, code);
  }
  return rt::Status::success();
}

/// The least that a rank needs is the state of its parameters; more than a
/// device has cannot work.
rt::Status Compilation::checkBudget() {
  std::optional<Cluster> cluster = request.cluster;
  if (!cluster && request.emit.empty()) {
    CLEAVE_RT_ASSIGN_OR_RETURN(cluster, clusterOf(request));
  }
  if (!cluster || !cluster->deviceMemory)
    return rt::Status::success();
  int64_t bytes = stateBytesPerRank(solutionOf(*chosen), *module);
  double memory = *cluster->deviceMemory;
  if (static_cast<double>(bytes) <= memory)
    return rt::Status::success();
  // In one unit, so that the two can be compared.
  const bool large = memory >= 1e9;
  const double unit = large ? 1e9 : 1e6;
  std::string message = fmt::format(
      "the state of a rank's parameters alone takes {:.1f} {}, a device of {} has {:.1f} {}",
      static_cast<double>(bytes) / unit, large ? "GB" : "MB", cluster->name, memory / unit,
      large ? "GB" : "MB");
  if (request.allowOverBudget) {
    tell("warning[plan.over_budget]: {}\n", message);
    return rt::Status::success();
  }
  return rt::userError("plan.over_budget", message)
      .withGiven(fmt::format("ranks={}", request.plan.ranks))
      .withRule("weights, gradients and both moments (16 bytes a parameter) fit in a device")
      .suggest("--pin zero=3 with several data ranks, tp=… or pp=… with a larger degree, or more "
               "devices")
      .suggest("--allow-over-budget to go on for inspection");
}

rt::Status Compilation::pipe() {
  CLEAVE_RT_ASSIGN_OR_RETURN(pipeline, pipePhase(*chosen));
  return rt::Status::success();
}

/// Where the plan's ranks stand; on one node if the cluster is not known.
Nodes Compilation::nodes() {
  auto program = *module->getOps<cleave::exec::ProgramOp>().begin();
  return Nodes(*dist::Mesh::lookup(program, program.getMeshAttr()),
               request.cluster ? request.cluster->devicesPerNode : request.plan.ranks);
}

rt::Status Compilation::comm() {
  traffic = trafficOf(*module, microBatchesOf(solutionOf(*chosen)));
  tell("{}", nodes().warning(traffic));
  return rt::Status::success();
}

rt::Status Compilation::image() {
  plan::SolutionOp solution = solutionOf(*chosen);
  auto batch = plan::entry<plan::BatchOp>(solution);
  plan::AxisTable axes(solution);
  ImageSettings settings;
  settings.profile = request.profile;
  settings.device = request.target;
  settings.globalBatch = batch.getGlobal();
  settings.microBatch = batch.getMicro();
  settings.sequence = batch.getSequence();
  if (batch.getZigzag())
    settings.zigzag = axes.size(axes.expand(*batch.getZigzag()));
  if (request.model) {
    settings.modelName = request.model->family;
    settings.configText = request.model->configText;
  }
  if (auto vocabulary = (*module)->getAttrOfType<mlir::IntegerAttr>("nn.vocab"))
    settings.vocabulary = vocabulary.getInt();
  request.recipe.globalBatch = batch.getGlobal();
  request.recipe.sequenceLength = batch.getSequence();
  settings.recipe = rt::recipeToJson(request.recipe);
  settings.plan = rt::JsonValue(textOf(*chosen));
  settings.stepSeconds = predictedStep();
  auto layout = plan::entry<plan::LayoutOp>(solution).getDims();
  if (auto list = layout.getAs<mlir::ArrayAttr>("batch"))
    for (mlir::StringAttr axis : axes.expand(list))
      settings.dataAxes.push_back(axis.str());
  rt::StatusOr<CompiledImage> built = buildImage(*module, settings);
  // What a user can ask for and no machine can address.
  if (!built.ok() && built.error().kind == "image.segment")
    return rt::userError("plan.batch_too_large", "a micro-batch needs more memory than there is on "
                                                 "any machine: " +
                                                     built.error().message)
        .withGiven(fmt::format("micro_batch={}, sequence_length={}", settings.microBatch,
                               settings.sequence))
        .withRule("what a rank holds at a time can be addressed")
        .suggest("--micro-batch 1");
  CLEAVE_RT_ASSIGN_OR_RETURN(compiled, std::move(built));
  compiled->gpuText = gpuText;
  compiled->gpuCode = gpuCode;
  return rt::Status::success();
}

rt::Status Compilation::cuda() {
  if (!gpuText.empty()) {
    cudaText = gpuText;
    return rt::Status::success();
  }
  return withDiagnostics(context, [&]() -> llvm::LogicalResult {
    mlir::FailureOr<std::string> text = cuda::emitCudaText(*compiled->kernels);
    if (failed(text))
      return llvm::failure();
    cudaText = std::move(*text);
    return llvm::success();
  });
}

rt::Status Compilation::binary() {
  if (request.cluster && request.cluster->nodes > 1)
    CLEAVE_RT_RETURN_IF_ERROR(comm());
  progress("link");
  return writeAside(request.output, [&](const std::string &aside) {
    return emitBinary(*compiled, request.profile, {librariesFolder()}, aside);
  });
}

static rt::Status unknownPhase(const std::string &name, std::vector<std::string> names) {
  rt::Error error = rt::userError("usage.emit", fmt::format("there is no phase \"{}\"", name))
                        .withGiven("--emit=" + name)
                        .withRule(fmt::format("phases: {}", fmt::join(names, ", ")));
  error.suggestions.push_back("--emit=" + rt::nearestName(name, names).value_or(names.front()));
  return error;
}

std::vector<std::string> Compilation::phaseNames() {
  std::vector<std::string> names;
  for (const Phase &phase : phases())
    names.emplace_back(phase.name);
  return names;
}

rt::Status Compilation::run() {
  const std::vector<std::string> names = phaseNames();
  auto last = std::find(names.begin(), names.end(), request.emit);
  if (!request.emit.empty() && last == names.end())
    return unknownPhase(request.emit, names);
  if (request.emit.empty() && request.output.empty())
    return rt::userError("usage.missing", "the training binary needs a name")
        .withRule("-o names the binary, or --emit a phase to print")
        .suggest("-o train");
  if (!request.output.empty())
    CLEAVE_RT_RETURN_IF_ERROR(checkOutput(request.output, request.inputs));
  if (!request.dumpFolder.empty())
    CLEAVE_RT_RETURN_IF_ERROR(checkOutputFolder(request.dumpFolder));
  int number = 0;
  for (const Phase &phase : phases()) {
    if (phase.onRequest && phase.name != request.emit)
      continue;
    progress(phase.name);
    if (phase.run)
      CLEAVE_RT_RETURN_IF_ERROR((this->*phase.run)());
    if (!request.dumpFolder.empty())
      CLEAVE_RT_RETURN_IF_ERROR(rt::writeFileAtomically(
          fmt::format("{}/{:02}-{}.txt", request.dumpFolder, number++, phase.name),
          phase.print(*this)));
    if (phase.name == request.emit) {
      progress("");
      return write(phase.name, phase.print(*this));
    }
  }
  CLEAVE_RT_RETURN_IF_ERROR(binary());
  progress("");
  if (request.json)
    say("binary", "file", request.output);
  else
    tellBinary({request, compiled->image, predictedStep(), price ? &*price : nullptr});
  return rt::Status::success();
}

rt::Status runCompile(const Words &words) {
  CommandLine line("compile", "compile a model into a training binary, or print a phase of it",
                   {"MODEL"});
  addCompileOptions(line, fmt::format("{}", fmt::join(Compilation::phaseNames(), ", ")));
  CLEAVE_RT_RETURN_IF_ERROR(line.parse(words));
  if (line.helped())
    return rt::Status::success();
  CLEAVE_RT_ASSIGN_OR_RETURN(CompileRequest request, readCompileRequest(line));
  return Compilation(std::move(request)).run();
}

} // namespace cleave::tool
