//===- Program.cpp - A golden model as an interpreted program --------------===//

#include "Program.h"
#include "cleave/Frontend/Model.h"
#include "cleave/Transforms/Overlap/Overlap.h"
#include "cleave/Verify/Training.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Interfaces/LayerNames.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/Checkpoint/SafeTensors.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
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
    request.ranks = layout.dp * layout.cp * layout.tp * layout.pp;
    request.sequence = layout.length;
    request.globalBatch = layout.batch;
    request.pins.dp = layout.dp;
    request.pins.cp = layout.cp;
    request.pins.tp = layout.tp;
    request.pins.microBatch = layout.batch / layout.dp / layout.microBatches;
    request.pins.sequence = layout.sequence;
    request.pins.vocabulary = layout.vocabulary;
    request.pins.zero = layout.zero;
    if (layout.zeroGroup)
      request.pins.zeroGroup = layout.zeroGroup;
    request.pins.recompute = layout.recompute;
    request.pins.experts = layout.experts;
    request.narrow = layout.narrow;
    request.pins.overlap = layout.overlap;
    request.pins.order = cost::AxisOrder::of(layout.order);
    EXPECT_TRUE(request.pins.order) << layout.order;
    if (layout.pp > 1) {
      request.pins.pp = layout.pp;
      request.pins.vp = layout.vp;
      request.pins.schedule = layout.schedule;
    }
    auto plan = need(planPhase(*module, request));
    addChunk(solutionOf(*plan));
    if (!layout.stageSizes.empty())
      setStages(solutionOf(*plan));
    if (layout.dataRanks) {
      setDataRanks(solutionOf(*plan));
      request.ranks = request.ranks / layout.dp * layout.dataRanks;
    }
    auto batch = plan::entry<plan::BatchOp>(solutionOf(*plan));
    if (layout.zigzag.empty())
      batch.removeZigzagAttr();
    else if (layout.zigzag != "context")
      batch.setZigzagAttr(Builder(&context).getStrArrayAttr({layout.zigzag}));
    need(withDiagnostics(context,
                         [&] { return checkPlan(solutionOf(*plan), *module, request.ranks); }));
    need(applyPhase(*module, *plan, OptimizerSettings()));
    need(distPhase(*module));
    SmallVector<ModuleOp> parts(module->getOps<ModuleOp>());
    for (ModuleOp part : parts.empty() ? SmallVector<ModuleOp>{*module} : parts) {
      writeOutLayers(part);
      placeExchanges(part);
    }
    training.emplace(*module);
    training->parts()[0]->options.observer =
        [this](Operation *op, ArrayRef<const RankTensors *> results, ArrayRef<Iteration>) {
          auto path = op->getAttrOfType<StringAttr>("nn.path");
          // Each path once: gradients have those of their operators. A bias or a cap comes last.
          if (path && path.getValue().starts_with("head.logits") &&
              logitsSeen.insert(path.str()).second)
            result.logits = (*results[0])[0];
          if (path && path.getValue() == "mlp.choose")
            result.choices.push_back((*results[0])[0]);
        };
  }

  StepResult run() {
    loadParameters();
    training->begin();
    need(training->accumulate(layout.microBatches, [&](StringRef name, int64_t m) {
      return name == "tokens" ? tokens(m, 0) : name == "targets" ? targets(m) : positions();
    }));
    collect("gradient", result.gradients);
    auto updated = need(training->update(1e-2, 0.1, 0.05));
    result.loss = updated[0].loss;
    result.norm = updated[0].norm;
    result.objective = updated[0].objective;
    // The same in all places.
    for (const Training::Updated &each : updated) {
      EXPECT_EQ(result.loss, each.loss);
      EXPECT_EQ(result.norm, each.norm);
      EXPECT_EQ(result.objective, each.objective);
    }
    std::map<std::string, HostTensor> copies;
    collect("value", result.values, &copies);
    for (auto &[name, copy] : copies)
      EXPECT_EQ(copy.data, result.values.at(name).data) << name;
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
    // Uneven shares of a sequence have no equal pieces, not even one.
    SmallVector<StringRef> along = {"batch", "sequence"};
    SmallVector<int64_t> pieces = {layout.batchPieces, layout.sequencePieces};
    if (layout.cp > 1 && layout.sequencePieces == 1) {
      along.pop_back();
      pieces.pop_back();
    }
    plan::ChunkOp::create(b, solution.getLoc(), "head", b.getStrArrayAttr(along), pieces);
  }

  /// Makes the data axis as long as the layout says, with smaller micro-batches.
  void setDataRanks(plan::SolutionOp solution) {
    for (auto axis : solution.getOps<plan::AxisOp>())
      if (axis.getName() == "data")
        axis.setSizes({layout.dataRanks});
    plan::entry<plan::BatchOp>(solution).setMicro(layout.batch / layout.dataRanks /
                                                  layout.microBatches);
  }

  /// Deals the layers out as the layout says.
  void setStages(plan::SolutionOp solution) {
    auto pipeline = plan::entry<plan::PipelineOp>(solution);
    std::vector<std::string> kinds;
    for (auto stage : pipeline.getOps<plan::StageOp>())
      for (auto [kind, count] :
           llvm::zip(stage.getLayers().getAsValueRange<StringAttr>(), stage.getCounts()))
        kinds.insert(kinds.end(), static_cast<size_t>(count), kind.str());
    size_t at = 0;
    for (auto [stage, size] : llvm::zip(pipeline.getOps<plan::StageOp>(), layout.stageSizes)) {
      SmallVector<StringRef> names;
      SmallVector<int64_t> counts;
      for (int64_t i = 0; i < size; ++i, ++at) {
        if (names.empty() || names.back() != kinds[at]) {
          names.push_back(kinds[at]);
          counts.push_back(0);
        }
        ++counts.back();
      }
      stage.setLayersAttr(Builder(&context).getStrArrayAttr(names));
      stage.setCountsAttr(Builder(&context).getDenseI64ArrayAttr(counts));
    }
  }

  void loadParameters() {
    auto weights = need(rt::SafeTensorsFile::open(std::string(CLEAVE_TEST_GOLDEN) + "/" + model +
                                                  "/model.safetensors"));
    std::map<std::string, const rt::TensorEntry *> entries;
    for (const rt::TensorEntry &e : weights.tensors())
      entries[e.name] = &e;
    need(
        training->load([&](nn::ParameterOp p, const std::string &name) -> rt::StatusOr<HostTensor> {
          HostTensor whole(p.getTensorType().getShape());
          size_t at = 0;
          for (const std::string &file : fileNames(p, name)) {
            auto it = entries.find(file);
            if (it == entries.end())
              throw std::runtime_error("no weights for " + file);
            std::vector<float> values(it->second->elements());
            need(weights.readFloats(*it->second, 0, values));
            std::copy(values.begin(), values.end(), whole.data.begin() + at);
            at += values.size();
          }
          return whole;
        }));
  }

  /// The tensors in files of the parameter's tensor `name`.
  static std::vector<std::string> fileNames(nn::ParameterOp p, const std::string &name) {
    if (!p.getSlices())
      return {name};
    std::vector<std::string> names;
    for (int64_t i = 0; i < p.getTensorType().getDimSize(0); ++i)
      names.push_back(nameOfSlice(name, i));
    return names;
  }

  /// `whole`, tensor by tensor as files have it.
  static std::vector<std::pair<std::string, HostTensor>>
  byFile(nn::ParameterOp p, const std::string &name, const HostTensor &whole) {
    std::vector<std::pair<std::string, HostTensor>> tensors;
    auto names = fileNames(p, name);
    ArrayRef<int64_t> shape(whole.shape);
    int64_t size = whole.size() / static_cast<int64_t>(names.size());
    for (auto [i, file] : llvm::enumerate(names)) {
      HostTensor part(p.getSlices() ? shape.drop_front() : shape);
      std::copy_n(whole.data.begin() + static_cast<int64_t>(i) * size, size, part.data.begin());
      tensors.emplace_back(file, std::move(part));
    }
    return tensors;
  }

  /// The slot of every tensor, whole. What several places have is added up (gradients)
  /// or goes to `copies`.
  void collect(StringRef slot, std::map<std::string, HostTensor> &into,
               std::map<std::string, HostTensor> *copies = nullptr) {
    for (auto &part : training->parts())
      for (auto p : part->parameters())
        for (int64_t i = 0; i < p.getCount(); ++i) {
          const std::string whole = p.getTensorName(i);
          for (auto &[name, tensor] : byFile(p, whole, need(part->joined(p, whole, slot)))) {
            auto [it, fresh] = into.try_emplace(name, tensor);
            if (fresh)
              continue;
            if (copies)
              (*copies)[name] = std::move(tensor);
            else
              for (auto [x, y] : llvm::zip(it->second.data, tensor.data))
                x += y;
          }
        }
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

  std::string model;
  Layout layout;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::optional<Training> training;
  StepResult result;
  std::set<std::string> logitsSeen;
};
} // namespace

StepResult runStep0(const std::string &model, const Layout &layout) {
  return Runner(model, layout).run();
}

} // namespace cleave::test
