//===- CompileRequest.cpp - What the user asks of cleave compile -----------===//

#include "CompileRequest.h"
#include "ModelInput.h"
#include "PlanTask.h"
#include "cleave/CostModel/Hardware.h"
#include "cleave/Planner/Machines.h"
#include "cleave/Target/CUDA/Assemble.h"
#include "runtime/Base/Files.h"
#include "runtime/Base/Machine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>

namespace cleave::tool {

namespace {
/// An option with a value.
struct Row {
  const char *names, *help, *value, *standard = nullptr;
};
} // namespace

static void addRows(CommandLine &line, std::span<const Row> rows) {
  for (const Row &row : rows) {
    auto value = cxxopts::value<std::string>();
    line.add()(row.names, row.help, row.standard ? value->default_value(row.standard) : value,
               row.value);
  }
}

/// What `--plan` names in place of a file.
static constexpr std::string_view kBestPlan = "best";

void addRequestOptions(CommandLine &line) {
  static constexpr Row rows[] = {
      {"cluster", "local:N, another preset (dgx-h100:N, …) or a file; left out: one rank", "C"},
      {"hardware", "what cleave calibrate wrote, in place of the description of the device",
       "FILE"},
      {"recipe", "batch, learning rate, optimizer: see docs/Formats.md", "FILE"},
      {"seq-len", "short for --set sequence_length=N; left out: the model's positions", "N"},
      {"global-batch", "short for --set global_batch=N; left out: one sequence a rank", "N"},
      {"micro-batch", "short for --set micro_batch=N; left out: all of a rank at once", "N"},
      {"tokens", "short for --set tokens=N", "N"},
      {"pin",
       "what of the plan is fixed, as dp=2,tp=4; keys: dp, tp, cp, pp, ep, sp, vocab, zero, "
       "zero_group, overlap, bucket, recompute, vp, schedule, micro_batch, order, "
       "precision.PATH",
       "PINS"},
  };
  addRows(line, rows);
  line.add()("set", "a key of the recipe, as learning_rate.peak=1e-3; may be repeated",
             cxxopts::value<std::vector<std::string>>(), "KEY=VALUE");
}

void addPlanOptions(CommandLine &line) {
  addRequestOptions(line);
  static constexpr Row plan[] = {{"plan",
                                  "a plan to carry out, as `plan` and --emit=plan write it; best: "
                                  "search what pins leave open, "
                                  "as is done where nothing is pinned",
                                  "FILE"}};
  addRows(line, plan);
}

void addCompileOptions(CommandLine &line, const std::string &phases) {
  line.add()("emit", "stop after a phase and print it: " + phases, cxxopts::value<std::string>(),
             "PHASE");
  static constexpr Row output[] = {
      {"o,output", "the training binary, or the file for a printed phase", "FILE"}};
  addRows(line, output);
  addPlanOptions(line);
  static constexpr Row rows[] = {
      {"target", "cpu, or cuda: kernels of a GPU, which --device emulated runs here", "T", "cpu"},
      {"arch",
       "with --target cuda: compile kernels ahead, by nvcc, for sm_90,…; left out: at the first "
       "start, by NVRTC",
       "A"},
      {"gpu-libraries", "on, or off: products by kernels of our own text in place of libraries",
       "ON", "on"},
      {"profile", "instruction set of the binary: avx2, avx512, avx512-bf16 or host", "P", "host"},
      {"dump-phases", "write what each phase prints into this folder", "DIR"},
  };
  addRows(line, rows);
  line.add()("allow-over-budget", "go on although the plan needs more memory than a device has");
}

/// A folder by its name beside the program's folder, or in the source tree.
static std::string besideProgram(const char *name) {
  static int anchor = 0;
  std::string self = llvm::sys::fs::getMainExecutable(nullptr, &anchor);
  llvm::SmallString<256> at(llvm::sys::path::parent_path(llvm::sys::path::parent_path(self)));
  llvm::sys::path::append(at, name);
  return at.str().str();
}

std::string shareFolder() {
  std::string installed = besideProgram("share");
  return llvm::sys::fs::exists(installed) ? installed : besideProgram("../share");
}

std::string librariesFolder() { return besideProgram("lib"); }

static rt::StatusOr<rt::Recipe> readRecipe(const CommandLine &line) {
  rt::JsonValue json = rt::JsonValue::object();
  std::string file = line.text("recipe");
  if (!file.empty()) {
    CLEAVE_RT_ASSIGN_OR_RETURN(std::string text, rt::readWholeFile(file));
    rt::JsonReadOptions options;
    options.file = file;
    CLEAVE_RT_ASSIGN_OR_RETURN(json, rt::parseJson(text, options));
  }
  std::vector<std::string> settings;
  if (line.has("set"))
    settings = line.list("set");
  const std::pair<const char *, const char *> shorts[] = {{"seq-len", "sequence_length"},
                                                          {"global-batch", "global_batch"},
                                                          {"micro-batch", "micro_batch"},
                                                          {"tokens", "tokens"}};
  for (auto [flag, key] : shorts)
    if (std::string value = line.text(flag); !value.empty())
      settings.push_back(std::string(key) + "=" + value);
  for (const std::string &setting : settings)
    CLEAVE_RT_RETURN_IF_ERROR(rt::applySetting(json, setting));
  return rt::parseRecipe(json, file.empty() ? "<command line>" : file);
}

/// What this version trains with; anything else is refused by key.
static rt::Status checkRecipe(const rt::Recipe &recipe) {
  auto refuse = [](const char *key, std::string given, const char *works) -> rt::Status {
    return rt::userError("recipe.unsupported",
                         fmt::format("this version cannot train with {} = {}", key, given))
        .withGiven(fmt::format("{}={}", key, given))
        .withRule(fmt::format("{} is {}", key, works))
        .suggest(fmt::format("--set {}={}", key, works));
  };
  if (recipe.zLoss != 0)
    return refuse("z_loss", fmt::format("{}", recipe.zLoss), "0");
  if (recipe.initStd)
    return refuse("init.std", fmt::format("{}", *recipe.initStd), "null");
  if (recipe.dropout.value_or(0) > 0)
    return refuse("dropout", fmt::format("{}", *recipe.dropout), "0");
  return rt::Status::success();
}

rt::StatusOr<cpu::Profile> readProfile(const std::string &name) {
  std::string wanted = name;
  if (name == "host") {
    const rt::MachineInfo machine = rt::probeMachine();
    wanted = machine.avx512Bf16 ? "avx512-bf16" : machine.x86Level >= 4 ? "avx512" : "avx2";
  }
  auto profile = cpu::Profile::byName(wanted);
  if (mlir::succeeded(profile))
    return *profile;
  return rt::userError("usage.option", "there is no such instruction-set profile")
      .withGiven("--profile=" + name)
      .withRule("--profile is avx2, avx512, avx512-bf16 or host")
      .suggest("--profile=host");
}

/// The recipe's sizes, or what a model of unknown purpose is planned with.
rt::Status fillPlanRequest(CompileRequest &request) {
  PlanRequest &plan = request.plan;
  if (request.cluster)
    plan.ranks = request.cluster->ranks();
  plan.ranksPerNode = request.cluster ? request.cluster->devicesPerNode : 0;
  plan.cluster = request.cluster ? request.cluster->name : "";
  int64_t longest = request.model ? request.model->sizes.maxPositions : 0;
  plan.sequence = request.recipe.sequenceLength.value_or(std::max<int64_t>(longest, 1));
  if (longest > 0 && plan.sequence > longest)
    return rt::userError("recipe.sequence_too_long",
                         "the sequences are longer than the model has positions")
        .withGiven(fmt::format("sequence_length={}, positions={}", plan.sequence, longest))
        .withRule("sequence_length is at most the model's positions")
        .suggest(fmt::format("--seq-len {}", longest));
  plan.narrow = request.recipe.precision == rt::Precision::Bf16;
  plan.globalBatch = request.recipe.globalBatch.value_or(plan.ranks);
  return rt::Status::success();
}

/// Puts the device that the file describes in place of the cluster's.
static rt::Status readHardware(const std::string &path, std::optional<Cluster> &cluster) {
  if (path.empty())
    return rt::Status::success();
  CLEAVE_RT_ASSIGN_OR_RETURN(const cost::Device device, cost::readDeviceFile(path));
  if (!cluster) {
    CLEAVE_RT_ASSIGN_OR_RETURN(cluster, readCluster("local:1", shareFolder()));
  }
  cluster->device = device.name;
  cluster->hardwareFile = path;
  // Of ranks on this machine it is known.
  if (!cluster->local)
    cluster->deviceMemory = device.memory.value;
  return rt::Status::success();
}

rt::Status readPlanOptions(const CommandLine &line, CompileRequest &request) {
  CLEAVE_RT_ASSIGN_OR_RETURN(request.modelPath, line.required("MODEL"));
  if (line.has("plan"))
    request.planFile = line.text("plan");
  for (const std::string &input : {request.modelPath, request.planFile, line.text("recipe"),
                                   line.text("cluster"), line.text("hardware")})
    if (!input.empty())
      request.inputs.push_back(input);
  request.inputs.push_back(request.modelPath + "/config.json");
  if (!request.planFile.empty() && request.planFile != kBestPlan && line.has("pin"))
    return rt::userError("plan.conflict", "a plan leaves nothing to pin")
        .withGiven(fmt::format("--pin {} --plan {}", line.text("pin"), request.planFile))
        .withRule("--pin makes a plan and --plan brings one")
        .suggest("leave out --plan")
        .suggest("edit the plan");
  request.json = line.json();
  CLEAVE_RT_ASSIGN_OR_RETURN(request.recipe, readRecipe(line));
  CLEAVE_RT_RETURN_IF_ERROR(checkRecipe(request.recipe));
  if (!isModuleFile(request.modelPath)) {
    CLEAVE_RT_ASSIGN_OR_RETURN(request.model, frontend::readModel(request.modelPath));
    CLEAVE_RT_RETURN_IF_ERROR(frontend::refuseUntrained(*request.model));
  }
  if (std::string cluster = line.text("cluster"); !cluster.empty()) {
    CLEAVE_RT_ASSIGN_OR_RETURN(request.cluster, readCluster(cluster, shareFolder()));
  }
  CLEAVE_RT_RETURN_IF_ERROR(readHardware(line.text("hardware"), request.cluster));
  CLEAVE_RT_ASSIGN_OR_RETURN(request.plan.pins, parsePins(line.text("pin")));
  if (const auto &pinned = request.plan.pins.microBatch;
      pinned && line.has("micro-batch") && request.recipe.microBatch &&
      static_cast<int64_t>(*request.recipe.microBatch) != *pinned)
    return rt::userError("plan.conflict", "the micro-batch is asked for twice")
        .withGiven(fmt::format("--micro-batch {} --pin micro_batch={}", *request.recipe.microBatch,
                               *pinned))
        .withRule("a value is given once, or alike")
        .suggest(fmt::format("leave out --micro-batch {}", *request.recipe.microBatch));
  if (request.recipe.microBatch && !request.plan.pins.microBatch)
    request.plan.pins.microBatch = *request.recipe.microBatch;
  return rt::Status::success();
}

/// Whether there is a description of the cluster's devices to search with.
static bool knowsDevice(const CompileRequest &request) {
  const auto cluster = clusterOf(request);
  return cluster.ok() && deviceOf(*cluster, shareFolder()).ok();
}

static rt::Status readArchitectures(const std::string &text, CompileRequest &request) {
  auto refused = [&](const char *message, const char *instead) {
    return rt::userError("usage.arch", message)
        .withGiven("--arch " + text)
        .withRule("with --target cuda, architectures as nvcc calls them, joined by commas")
        .suggest(instead);
  };
  if (text.empty())
    return rt::Status::success();
  if (request.target != "cuda")
    return refused("kernels are compiled ahead for GPUs alone", "--target cuda");
  llvm::SmallVector<llvm::StringRef> names;
  llvm::StringRef(text).split(names, ',');
  for (llvm::StringRef name : names) {
    if (!cuda::isArchitecture(name.str()))
      return refused("there is no such architecture", "--arch sm_80,sm_90");
    if (!llvm::is_contained(request.architectures, name.str()))
      request.architectures.push_back(name.str());
  }
  return rt::Status::success();
}

rt::StatusOr<CompileRequest> readCompileRequest(const CommandLine &line) {
  CompileRequest request;
  request.emit = line.text("emit");
  request.output = line.text("output");
  request.dumpFolder = line.text("dump-phases");
  request.allowOverBudget = line.has("allow-over-budget");
  request.target = line.text("target");
  if (request.target != "cpu" && request.target != "cuda")
    return rt::userError("usage.target", "there is no such target")
        .withGiven("--target=" + request.target)
        .withRule("--target is cpu or cuda")
        .suggest("--target cpu");
  CLEAVE_RT_RETURN_IF_ERROR(readArchitectures(line.text("arch"), request));
  const std::string libraries = line.text("gpu-libraries");
  if ((libraries != "on" && libraries != "off") || (libraries == "off" && request.target != "cuda"))
    return rt::userError("usage.gpu_libraries", "products cannot be computed so")
        .withGiven(fmt::format("--gpu-libraries={} --target={}", libraries, request.target))
        .withRule("--gpu-libraries is on, or off with --target cuda")
        .suggest("--target cuda --gpu-libraries off");
  request.gpuLibraries = libraries == "on";
  CLEAVE_RT_ASSIGN_OR_RETURN(request.profile, readProfile(line.text("profile")));
  CLEAVE_RT_RETURN_IF_ERROR(readPlanOptions(line, request));
  request.words = taskWords(line, request.modelPath);
  request.asksForSearch = request.planFile == kBestPlan;
  if (request.asksForSearch)
    request.planFile.clear();
  request.isOpen = !line.has("pin") && request.planFile.empty();
  request.searches = request.asksForSearch || (request.isOpen && knowsDevice(request));
  if (request.searches)
    assumePrecision(request);
  const bool trains = request.emit.empty();
  if (request.model && trains && !request.recipe.dropout)
    CLEAVE_RT_RETURN_IF_ERROR(frontend::refuseDropout(*request.model));
  CLEAVE_RT_RETURN_IF_ERROR(fillPlanRequest(request));
  return request;
}

rt::Precision precisionOf(plan::SolutionOp solution) {
  return solution.getOps<plan::PrecisionOp>().empty() ? rt::Precision::Fp32 : rt::Precision::Bf16;
}

rt::Status comparePlan(const CompileRequest &request, plan::SolutionOp solution) {
  auto batch = plan::entry<plan::BatchOp>(solution);
  const rt::Recipe &recipe = request.recipe;
  const std::tuple<const char *, std::optional<uint64_t>, int64_t> sizes[] = {
      {"global_batch", recipe.globalBatch, batch.getGlobal()},
      {"sequence_length", recipe.sequenceLength, batch.getSequence()},
      {"micro_batch", recipe.microBatch, batch.getMicro()}};
  for (auto [key, asked, planned] : sizes)
    if (asked && *asked != static_cast<uint64_t>(planned))
      return rt::userError("plan.conflict",
                           fmt::format("\"{}\" is {} in the request and {} in the plan", key,
                                       *asked, planned))
          .withGiven(fmt::format("{}={}, --plan {}", key, *asked, request.planFile))
          .withRule("a plan says its batch; a recipe beside it says the same or leaves it out")
          .suggest(fmt::format("--set {}={}", key, planned))
          .suggest("a plan made for this recipe: --emit=plan");
  const rt::Precision planned = precisionOf(solution);
  if (recipe.precision.value_or(planned) == planned)
    return rt::Status::success();
  return rt::userError("plan.conflict",
                       fmt::format("\"precision\" is {} in the request and {} in the plan",
                                   rt::nameOf(*recipe.precision), rt::nameOf(planned)))
      .withGiven(
          fmt::format("precision={}, --plan {}", rt::nameOf(*recipe.precision), request.planFile))
      .withRule("a plan whose lines plan.precision say bf16 is one of precision bf16")
      .suggest(fmt::format("--set precision={}", rt::nameOf(planned)));
}

OptimizerSettings optimizerOf(const rt::Recipe &recipe) {
  OptimizerSettings settings;
  settings.beta1 = recipe.optimizer.beta1;
  settings.beta2 = recipe.optimizer.beta2;
  settings.eps = recipe.optimizer.epsilon;
  settings.weightDecay = recipe.optimizer.weightDecay;
  settings.clipNorm = recipe.clipNorm > 0 ? std::optional<double>(recipe.clipNorm) : std::nullopt;
  return settings;
}

} // namespace cleave::tool
