//===- Program.cpp - A golden model as an interpreted program --------------===//

#include "Program.h"
#include "cleave/Frontend/Model.h"
#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/Checkpoint/SafeTensors.h"
#include "runtime/Schema/TokenOrder.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

using namespace mlir;
namespace cleave::test {

template <typename T> static T need(rt::StatusOr<T> value) {
  if (!value.ok())
    throw std::runtime_error(rt::renderText(value.status().error()));
  return std::move(*value);
}
static void need(rt::Status status) {
  if (!status.ok())
    throw std::runtime_error(rt::renderText(status.error()));
}

std::string readGolden(const std::string &model, const std::string &file) {
  std::ifstream in(std::string(CLEAVE_TEST_GOLDEN) + "/" + model + "/" + file, std::ios::binary);
  if (!in)
    throw std::runtime_error("no golden file " + model + "/" + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

namespace {
class Runner {
public:
  Runner(const std::string &model, const Layout &layout) : model(model), layout(layout) {
    std::string config = std::string(CLEAVE_TEST_GOLDEN) + "/" + model + "/config.json";
    module = frontend::importModel(need(frontend::readModel(config)), context);
    need(differentiatePhase(*module));
    PlanRequest request;
    request.ranks = layout.dp * layout.cp * layout.tp;
    request.sequence = layout.length;
    request.globalBatch = layout.batch;
    request.pins.dp = layout.dp;
    request.pins.cp = layout.cp;
    request.pins.tp = layout.tp;
    request.pins.microBatch = layout.batch / layout.dp / layout.microBatches;
    request.pins.sequence = layout.sequence;
    request.pins.vocabulary = layout.vocabulary;
    request.pins.zero = layout.zero;
    request.pins.recompute = layout.recompute;
    auto plan = need(planPhase(*module, request));
    addChunk(solutionOf(*plan));
    if (!layout.zigzag)
      plan::entry<plan::BatchOp>(solutionOf(*plan)).removeZigzagAttr();
    need(withDiagnostics(context,
                         [&] { return checkPlan(solutionOf(*plan), *module, request.ranks); }));
    need(applyPhase(*module, *plan, OptimizerSettings()));
    need(distPhase(*module));
    mesh = dist::Mesh(*module->getOps<dist::MeshOp>().begin());
    options.ranks = static_cast<unsigned>(mesh.ranks());
    options.observer = [this](Operation *op, ArrayRef<const RankTensors *> results) {
      auto path = op->getAttrOfType<StringAttr>("nn.path");
      // Each path once: gradients have those of their operators. A bias or a cap comes last.
      if (path && path.getValue().starts_with("head.logits") &&
          logitsSeen.insert(path.str()).second)
        result.logits = (*results[0])[0];
    };
  }

  StepResult run() {
    loadParameters();
    for (int64_t m = 0; m < layout.microBatches; ++m)
      call("count", {targets(m)});
    call("prepare", {});
    for (int64_t m = 0; m < layout.microBatches; ++m)
      call("microbatch", {tokens(m, 0), targets(m), positions()});
    result.loss = joined(module->lookupSymbol("step.loss"), "step.loss", "value").data[0];
    for (auto p : module->getOps<nn::ParameterOp>())
      for (int64_t i = 0; i < p.getCount(); ++i)
        result.gradients[p.getTensorName(i)] = joined(p, p.getTensorName(i), "gradient");
    auto scalar = [](double x) { return HostTensor({}, x); };
    result.norm = call("update", {scalar(1e-2), scalar(0.1), scalar(0.05)})[1][0].data[0];
    for (auto p : module->getOps<nn::ParameterOp>())
      for (int64_t i = 0; i < p.getCount(); ++i)
        result.values[p.getTensorName(i)] = joined(p, p.getTensorName(i), "value");
    return std::move(result);
  }

private:
  void addChunk(plan::SolutionOp solution) {
    OpBuilder b = OpBuilder::atBlockEnd(&solution.getBody().front());
    if (int64_t blocks = layout.vocabularyPieces; blocks > 1) {
      // What a rank has of the vocabulary, padding included.
      int64_t size = llvm::divideCeil((*module)->getAttrOfType<IntegerAttr>("nn.vocab").getInt(),
                                      layout.vocabulary ? layout.tp : 1);
      while (layout.zero > 1 && size % blocks != 0)
        ++blocks;
      plan::ChunkOp::create(b, solution.getLoc(), "head", b.getStrArrayAttr({"vocab"}), blocks);
    }
    if (layout.batchPieces * layout.sequencePieces == 1)
      return;
    plan::ChunkOp::create(b, solution.getLoc(), "head", b.getStrArrayAttr({"batch", "sequence"}),
                          ArrayRef<int64_t>{layout.batchPieces, layout.sequencePieces});
  }

  dist::ShardingAttr shardingOf(Operation *symbol, StringRef slot) {
    auto sharding = symbol->getAttrOfType<dist::ShardingAttr>(("dist." + slot).str());
    return sharding ? sharding : dist::ShardingAttr::replicated(&context, 0);
  }

  void loadParameters() {
    auto weights = need(rt::SafeTensorsFile::open(std::string(CLEAVE_TEST_GOLDEN) + "/" + model +
                                                  "/model.safetensors"));
    std::map<std::string, const rt::TensorEntry *> entries;
    for (const rt::TensorEntry &e : weights.tensors())
      entries[e.name] = &e;
    for (auto p : module->getOps<nn::ParameterOp>())
      for (int64_t i = 0; i < p.getCount(); ++i) {
        std::string name = p.getTensorName(i);
        auto it = entries.find(name);
        if (it == entries.end())
          throw std::runtime_error("no weights for " + name);
        HostTensor whole(p.getTensorType().getShape());
        std::vector<float> values(whole.data.size());
        need(weights.readFloats(*it->second, 0, values));
        std::copy(values.begin(), values.end(), whole.data.begin());
        state.set(name, "value", cut(whole, shardingOf(p, "value")));
        HostTensor zeros(whole.shape, 0.0);
        for (StringRef moment : {"moment1", "moment2"})
          state.set(name, moment, cut(zeros, shardingOf(p, moment)));
      }
  }

  RankTensors cut(const HostTensor &whole, dist::ShardingAttr sharding) {
    RankTensors blocks;
    for (int64_t r = 0; r < mesh.ranks(); ++r)
      blocks.push_back(dist::cutBlock(whole, sharding, mesh, r));
    return blocks;
  }

  /// The whole of the tensor `name`, for which `op` stands.
  HostTensor joined(Operation *op, const std::string &name, StringRef slot) {
    SmallVector<int64_t> shape;
    if (auto p = dyn_cast<nn::ParameterOp>(op))
      shape.assign(p.getTensorType().getShape().begin(), p.getTensorType().getShape().end());
    const RankTensors *blocks = state.find(name, slot);
    if (!blocks)
      throw std::runtime_error("nothing stored for " + name);
    SmallVector<const HostTensor *> pointers;
    for (const HostTensor &t : *blocks)
      pointers.push_back(&t);
    return dist::joinBlocks(pointers, shape, shardingOf(op, slot), mesh);
  }

  /// Sequences of micro-batch `m`, shifted by `shift` tokens. Rank r of the data
  /// axis takes the sequences that a cut of the batch gives it.
  HostTensor tokens(int64_t m, int64_t shift) {
    std::string bytes = readGolden(model, "tokens.bin");
    int64_t rows = layout.batch / layout.microBatches;
    HostTensor out({rows, layout.length});
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t s = 0; s < layout.length; ++s) {
        size_t at = static_cast<size_t>((m * rows + i) * layout.length + s + shift) * 2;
        out.data[i * layout.length + s] =
            static_cast<unsigned char>(bytes[at]) + 256 * static_cast<unsigned char>(bytes[at + 1]);
      }
    return out;
  }

  HostTensor targets(int64_t m) {
    HostTensor out = tokens(m, 1);
    const int64_t rows = out.shape[0];
    for (int64_t i = 0; layout.ragged && i < rows; ++i)
      std::fill(out.data.begin() + i * layout.length + raggedLength(m * rows + i),
                out.data.begin() + (i + 1) * layout.length, -100.0);
    return out;
  }

  HostTensor positions() {
    HostTensor out({layout.batch / layout.microBatches, layout.length});
    for (size_t i = 0; i < out.data.size(); ++i)
      out.data[i] = static_cast<double>(i % layout.length);
    return out;
  }

  /// The rows of every sequence in the order in which the entry asks for them.
  static HostTensor ordered(HostTensor whole, int64_t blocks) {
    const int64_t length = whole.shape[1];
    const std::vector<int64_t> order = rt::zigzagOrder(length, blocks);
    HostTensor out(whole.shape);
    for (int64_t i = 0; i < whole.size(); ++i)
      out.data[i] = whole.data[i / length * length + order[i % length]];
    return out;
  }

  std::vector<RankTensors> call(StringRef entry, ArrayRef<HostTensor> arguments) {
    std::vector<RankTensors> results;
    auto function = module->lookupSymbol<func::FuncOp>(entry);
    std::vector<RankTensors> blocks;
    for (auto [i, whole] : llvm::enumerate(arguments)) {
      auto zigzag = function.getArgAttrOfType<IntegerAttr>(i, "nn.zigzag");
      blocks.push_back(cut(zigzag ? ordered(whole, zigzag.getInt()) : whole,
                           function.getArgAttrOfType<dist::ShardingAttr>(i, "dist.sharding")));
    }
    need(withDiagnostics(context, [&]() -> LogicalResult {
      auto run = cleave::interpret(cast<FunctionOpInterface>(function.getOperation()), blocks,
                                   state, options);
      if (failed(run))
        return failure();
      results = std::move(*run);
      return success();
    }));
    return results;
  }

  std::string model;
  Layout layout;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  dist::Mesh mesh;
  StateStore state;
  InterpreterOptions options;
  StepResult result;
  std::set<std::string> logitsSeen;
};
} // namespace

StepResult runStep0(const std::string &model, const Layout &layout) {
  return Runner(model, layout).run();
}

} // namespace cleave::test
