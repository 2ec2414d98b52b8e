//===- WorkTest.cpp - Pieces of a model, from its graph --------------------===//

#include "cleave/CostModel/Prediction.h"
#include "cleave/Frontend/Model.h"
#include <gtest/gtest.h>
#include <set>

namespace cleave::cost {
namespace {

ModelWork workOfConfig(const std::string &config) {
  auto model = frontend::readModelText(config, "config.json");
  EXPECT_TRUE(model.ok()) << rt::renderText(model.error());
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = frontend::importModel(*model, context);
  auto work = workOf(*module);
  EXPECT_TRUE(work.has_value());
  return *work;
}

constexpr const char *kLlama = R"({"model_type": "llama", "hidden_size": 512,
  "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64,
  "intermediate_size": 1024, "vocab_size": 1000, "tie_word_embeddings": false})";

constexpr const char *kExperts = R"({"model_type": "qwen3_moe", "hidden_size": 512,
  "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64,
  "intermediate_size": 1024, "vocab_size": 1000, "num_experts": 16, "num_experts_per_tok": 4,
  "moe_intermediate_size": 128, "tie_word_embeddings": false})";

Layout layoutOf(int64_t tensor, int64_t expert = 1) {
  Layout layout;
  layout.devices = layout.tensor = tensor;
  layout.expert = layout.data = expert;
  layout.devices *= expert;
  layout.sequenceLength = 128;
  layout.microBatch = layout.globalBatch = 2;
  return layout;
}

/// Multiply-adds of a kind's products for the whole micro-batch.
double productsOf(const KindWork &kind, const Layout &layout) {
  const Cuts cuts = cutsOf(kind, layout);
  double sum = 0;
  for (const Product &p : kind.products) {
    const Cut &cut = p.isPicked ? cuts.routed : cuts.plain;
    sum += cut.gathered(p.rows) * cut.gathered(p.columns) * cut.gathered(p.summed);
  }
  return sum;
}

TEST(Work, ProductsAndScoresOfADecoder) {
  const ModelWork work = workOfConfig(kLlama);
  ASSERT_EQ(work.layers.size(), 5u);
  const KindWork &block = work.kinds[work.layers[1]];
  EXPECT_EQ(block.products.size(), 7u);
  ASSERT_EQ(block.scores.size(), 1u);
  const double tokens = 2 * 128;
  const double perToken = 512. * (512 + 2 * 128) + 512. * 512 + 3. * 512 * 1024;
  EXPECT_EQ(productsOf(block, layoutOf(1)), tokens * perToken);
  const KindWork &head = work.kinds[work.layers.back()];
  EXPECT_EQ(productsOf(head, layoutOf(1)), tokens * 512 * 1000);
}

TEST(Work, TheLastProductMakesNothingThatBackwardReads) {
  const ModelWork work = workOfConfig(kLlama);
  for (const Product &p : work.kinds[work.layers[1]].products)
    EXPECT_EQ(p.isLast, p.path == "mlp.down") << p.path;
}

TEST(Prediction, RecomputationMayEndBeforeTheLastProduct) {
  auto device = readDevice(CLEAVE_SHARE, "h100-sxm-80gb");
  auto host = readHostProfile(CLEAVE_SHARE, "megatron");
  ASSERT_TRUE(device.ok() && host.ok());
  const ModelWork work = workOfConfig(kLlama);
  Layout layout = layoutOf(1);
  layout.recompute = Recompute::All;
  const KindWork &block = work.kinds[work.layers[1]];
  host->stopsRecompute = false;
  const LayerTimes whole = layerTimes(block, *device, *host, layout);
  EXPECT_EQ(whole.recompute, whole.forward);
  host->stopsRecompute = true;
  EXPECT_LT(layerTimes(block, *device, *host, layout).recompute, whole.forward);
}

// Products and attention are kept, what is linear in them in their place, and nothing that no
// backward reads: the last product, and the first two where a sum of what comes in is kept.
TEST(Work, DearResultsAreKeptAndPassesDoneAgain) {
  const ModelWork work = workOfConfig(kLlama);
  const KindWork &block = work.kinds[work.layers[1]];
  const Cuts cuts = cutsOf(block, layoutOf(1));
  double elements = 0;
  for (const Saved &saved : block.dear)
    elements += cuts.plain.elements(saved.extents);
  const double tokens = 2 * 128;
  // The sum, q, k and v, what attention makes, what leaves it, gate and up.
  EXPECT_EQ(elements, tokens * (512 + (512 + 2 * 128) + 512 + 512 + 2 * 1024));
  ASSERT_EQ(block.dearStatistics.size(), 1u);
  EXPECT_EQ(cuts.plain.elements(block.dearStatistics[0]), tokens * 8);
  for (const Pass &pass : block.passes)
    EXPECT_EQ(pass.isDoneAgain, pass.path != "attention.residual") << pass.path;
}

TEST(Work, DearResultsHaveTheirBiases) {
  const ModelWork work = workOfConfig(R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2,
    "n_head": 4, "n_positions": 128, "vocab_size": 1000})");
  const KindWork &block = work.kinds[work.layers[1]];
  const Cuts cuts = cutsOf(block, layoutOf(1));
  double elements = 0;
  for (const Saved &saved : block.dear)
    elements += cuts.plain.elements(saved.extents);
  EXPECT_EQ(elements, 2. * 128 * 64 * (1 + 3 + 1 + 1 + 4));
  std::set<std::string> again;
  for (const Pass &pass : block.passes)
    if (pass.isDoneAgain)
      again.insert(pass.path);
  EXPECT_EQ(again,
            (std::set<std::string>{"attention.norm", "mlp.residual", "mlp.norm", "mlp.act"}));
}

TEST(Prediction, PassesAloneAreDoneAgain) {
  auto device = readDevice(CLEAVE_SHARE, "h100-sxm-80gb");
  ASSERT_TRUE(device.ok());
  for (const char *name : {"megatron-graph", "fsdp-eager", "fsdp-compiled", "cleave-cpu"})
    for (const std::string &config : {std::string(kLlama), std::string(kExperts)}) {
      SCOPED_TRACE(name);
      auto host = readHostProfile(CLEAVE_SHARE, name);
      ASSERT_TRUE(host.ok());
      host->launch = {};
      const ModelWork work = workOfConfig(config);
      const KindWork &block = work.kinds[work.layers[1]];
      Layout layout = layoutOf(2);
      layout.microBatch = layout.globalBatch = 64;
      std::vector<LayerTimes> times;
      std::vector<double> saved;
      for (Recompute value : {Recompute::None, Recompute::Passes, Recompute::All}) {
        layout.recompute = value;
        times.push_back(layerTimes(block, *device, *host, layout));
        saved.push_back(layerMemory(work, *host, layout)[work.layers[1]].saved.value);
      }
      EXPECT_EQ(times[0].recompute, Seconds());
      EXPECT_GT(times[1].recompute, Seconds());
      EXPECT_LE(times[1].recompute, times[1].forwardParts.passes);
      EXPECT_LT(times[1].recompute, times[2].recompute);
      EXPECT_GT(saved[0], saved[1]);
      EXPECT_GT(saved[1], saved[2]);
    }
}

TEST(Prediction, SharedGradientsMayGatherWeightsOnce) {
  auto device = readDevice(CLEAVE_SHARE, "h100-sxm-80gb");
  auto host = readHostProfile(CLEAVE_SHARE, "cleave-cpu");
  ASSERT_TRUE(device.ok() && host.ok());
  ASSERT_TRUE(host->gathersOnce);
  const ModelWork work = workOfConfig(kLlama);
  Layout layout = layoutOf(1);
  layout.devices = layout.data = 4;
  layout.sharing = Sharing::Gradients;
  auto more = [&](int64_t micros) {
    layout.globalBatch = layout.data * layout.microBatch * micros;
    host->gathersOnce = false;
    const Seconds each = predict(work, *device, *host, layout).step;
    host->gathersOnce = true;
    return each - predict(work, *device, *host, layout).step;
  };
  // With one micro-batch it is the same but for a copy; each further one gathers once more.
  const Seconds further = more(2) - more(1);
  EXPECT_GE(more(1).value, 0);
  EXPECT_LT(more(1).value, 0.5 * further.value);
  EXPECT_NEAR((more(8) - more(1)).value, 7 * further.value, 1e-9);
}

TEST(Prediction, KeysAndValuesOfContextRanksMayComeInTheOpen) {
  auto device = readDevice(CLEAVE_SHARE, "h100-sxm-80gb");
  auto host = readHostProfile(CLEAVE_SHARE, "megatron");
  ASSERT_TRUE(device.ok() && host.ok());
  const ModelWork work = workOfConfig(kLlama);
  Layout layout = layoutOf(1);
  layout.devices = layout.context = 4;
  const KindWork &block = work.kinds[work.layers[1]];
  const LayerTimes beside = layerTimes(block, *device, *host, layout);
  host->overlapsContext = false;
  const LayerTimes open = layerTimes(block, *device, *host, layout);
  EXPECT_GT(open.forwardParts.context, beside.forwardParts.context);
  EXPECT_EQ(open.backwardParts.context, 2 * open.forwardParts.context);
}

TEST(Prediction, ExpertsExchangeWhatARouterReadsToo) {
  // Rows go to their experts and come back, in the forward and in the backward.
  auto device = readDevice(CLEAVE_SHARE, "h100-sxm-80gb");
  auto host = readHostProfile(CLEAVE_SHARE, "megatron");
  ASSERT_TRUE(device.ok() && host.ok());
  const ModelWork work = workOfConfig(kExperts);
  const LayerTimes times = layerTimes(work.kinds[work.layers[1]], *device, *host, layoutOf(1, 8));
  const double bytes = 2. * 128 * 4 * 512 * 2;
  const double least = 2 * bytes * 7 / 8 / device->link.bandwidth.value;
  EXPECT_GT(times.forwardParts.experts.value, least);
  EXPECT_EQ(times.forwardParts.experts, times.backwardParts.experts);
}

TEST(Work, TensorRanksShareProductsEvenly) {
  const ModelWork work = workOfConfig(kLlama);
  const KindWork &block = work.kinds[work.layers[1]];
  EXPECT_EQ(productsOf(block, layoutOf(2)), productsOf(block, layoutOf(1)) / 2);
  // With 8 ranks for 2 key heads, the ranks repeat these.
  const double repeated = 2 * 128 * 512. * 2 * 128 * (0.5 - 0.125);
  EXPECT_EQ(productsOf(block, layoutOf(8)), productsOf(block, layoutOf(1)) / 8 + repeated);
}

TEST(Work, ExpertsDoTheChoicesOfTheirTokens) {
  const ModelWork work = workOfConfig(kExperts);
  const KindWork &block = work.kinds[work.layers[1]];
  double routed = 0;
  const Cut cut = cutsOf(block, layoutOf(1)).routed;
  int spreads = 0, gathers = 0;
  for (const Product &p : block.products)
    if (p.isPicked) {
      routed += cut.gathered(p.rows) * cut.gathered(p.columns) * cut.gathered(p.summed);
      spreads += p.spreads;
      gathers += p.gathers;
      EXPECT_EQ(p.picked.size, 16);
    }
  EXPECT_EQ(routed, 2. * 128 * 4 * 3 * 512 * 128);
  EXPECT_EQ(spreads, 2);
  EXPECT_EQ(gathers, 1);
}

TEST(Work, WeightsOfRanks) {
  const ModelWork work = workOfConfig(kExperts);
  const KindWork &block = work.kinds[work.layers[1]];
  EXPECT_EQ(weightsOf(block, layoutOf(1)).experts, 16. * 3 * 512 * 128);
  EXPECT_EQ(weightsOf(block, layoutOf(1, 8)).experts, 2. * 3 * 512 * 128);
}

TEST(Prediction, MoreLayersTakeMoreTimeAndMemory) {
  auto device = readDevice(CLEAVE_SHARE, "h100-sxm-80gb");
  auto host = readHostProfile(CLEAVE_SHARE, "megatron");
  ASSERT_TRUE(device.ok() && host.ok());
  ModelWork work = workOfConfig(kLlama);
  const Prediction few = predict(work, *device, *host, layoutOf(1));
  work.layers.insert(work.layers.begin() + 1, 20, work.layers[1]);
  const Prediction many = predict(work, *device, *host, layoutOf(1));
  EXPECT_LT(few.step, many.step);
  EXPECT_LT(few.memory.sum(), many.memory.sum());
}

TEST(Prediction, TiedEmbeddingsAreKeptOnceOnARankThatHasBoth) {
  auto device = readDevice(CLEAVE_SHARE, "h100-sxm-80gb");
  auto host = readHostProfile(CLEAVE_SHARE, "megatron");
  ASSERT_TRUE(device.ok() && host.ok());
  std::string tied = kLlama;
  tied.replace(tied.find("false}"), 6, "true}");
  const Bytes alone = predict(workOfConfig(kLlama), *device, *host, layoutOf(1)).memory.weights;
  const Bytes once = predict(workOfConfig(tied), *device, *host, layoutOf(1)).memory.weights;
  EXPECT_EQ(alone - once, Bytes(2. * 1000 * 512));
  // A stage for each layer and one for both ends: copies.
  Layout piped = layoutOf(1);
  piped.pipeline = piped.devices = 3;
  piped.globalBatch = 6;
  EXPECT_EQ(predict(workOfConfig(tied), *device, *host, piped).memory.weights,
            predict(workOfConfig(kLlama), *device, *host, piped).memory.weights);
}

TEST(Prediction, MemoryOfWhatTheSoftwareKeeps) {
  auto device = readDevice(CLEAVE_SHARE, "h100-sxm-80gb");
  auto host = readHostProfile(CLEAVE_SHARE, "megatron");
  ASSERT_TRUE(device.ok() && host.ok());
  const ModelWork work = workOfConfig(kLlama);
  const MemoryParts before = predict(work, *device, *host, layoutOf(1)).memory;
  host->buckets = Bytes(1e9);
  host->addedGradient = Bytes(2);
  host->ownedGradient = Bytes(8);
  const MemoryParts after = predict(work, *device, *host, layoutOf(1)).memory;
  // The largest parameters are those of the MLP.
  EXPECT_NEAR((after.temporary - before.temporary).value, 1e9 + 2. * 1024 * 512, 1);
  EXPECT_NEAR(after.optimizer / before.optimizer, 20. / 12, 1e-9);
  Layout piped = layoutOf(1);
  piped.pipeline = piped.devices = 3;
  piped.globalBatch = 6;
  const Bytes freed = predict(work, *device, *host, piped).memory.activations;
  host->keepsOutputs = true;
  // Three micro-batches of two sequences wait on the first rank.
  EXPECT_EQ(predict(work, *device, *host, piped).memory.activations - freed,
            Bytes(3 * 2. * 2 * 128 * 512));
}

TEST(Prediction, PartsAddUpToTheStep) {
  auto device = readDevice(CLEAVE_SHARE, "h100-sxm-80gb");
  auto host = readHostProfile(CLEAVE_SHARE, "megatron");
  ASSERT_TRUE(device.ok() && host.ok());
  ModelWork work = workOfConfig(kLlama);
  work.layers.insert(work.layers.begin() + 1, 29, work.layers[1]);
  Layout layout = layoutOf(2);
  layout.pipeline = 4;
  layout.devices = 8;
  layout.globalBatch = 32;
  for (Sharing sharing : {Sharing::None, Sharing::Optimizer}) {
    layout.sharing = sharing;
    const Prediction p = predict(work, *device, *host, layout);
    const Seconds parts =
        p.layers.sum() + p.host + p.recompute + p.bubble + p.data + p.update + p.fixed;
    EXPECT_NEAR(parts / p.step, 1, 0.02);
  }
}

} // namespace
} // namespace cleave::cost
