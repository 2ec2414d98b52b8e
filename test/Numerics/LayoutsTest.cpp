//===- LayoutsTest.cpp - Every layout computes what one rank computes ------===//
//
// The gate before any kernel: one rank, interpreted in float64, equals the
// golden files (an independent float64 implementation) at step 0, and every
// layout equals one rank in loss and in every gradient, to 1e-9.
//
//===----------------------------------------------------------------------===//

#include "Comparison.h"
#include "runtime/Base/Json.h"
#include <array>
#include <cmath>
#include <set>

using namespace cleave;
using namespace cleave::test;

static double norm(const HostTensor &t) {
  double sum = 0;
  for (double x : t.data)
    sum += x * x;
  return std::sqrt(sum);
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, OneRankEqualsTheGoldenStep0) {
  const StepResult &step = oneRank(GetParam());
  auto expected = rt::parseJson(readGolden(GetParam(), "expected.json"));
  ASSERT_TRUE(expected.ok());
  const rt::JsonValue &step0 = *expected->find("step0");
  const rt::JsonValue &row = (*expected->find("steps")).elements()[0];
  EXPECT_PRED2(agrees, step.loss, row.find("loss")->number());
  const rt::JsonValue *objective = row.find("objective");
  EXPECT_PRED2(agrees, step.objective, (objective ? objective : row.find("loss"))->number());

  const auto &logits = step0.find("logits_first_sequence_last_position")->elements();
  size_t width = logits.size(), first = 31 * width;
  ASSERT_EQ(step.logits.shape.back(), static_cast<int64_t>(width));
  for (size_t i = 0; i < width; ++i)
    ASSERT_PRED2(agrees, step.logits.data[first + i], logits[i].number()) << "logit " << i;

  const auto &norms = step0.find("grad_norms")->members();
  // What isn't trained has a gradient of zeros, if any.
  const rt::JsonValue *fixed = expected->find("fixed_tensors");
  EXPECT_EQ(norms.size() + (fixed ? fixed->elements().size() : 0), step.gradients.size());
  for (size_t i = 0; fixed && i < fixed->elements().size(); ++i)
    EXPECT_EQ(norm(step.gradients.at(fixed->elements()[i].string())), 0);
  for (const auto &member : norms) {
    ASSERT_TRUE(step.gradients.count(member.key)) << member.key;
    EXPECT_PRED2(agrees, norm(step.gradients.at(member.key)), member.value.number()) << member.key;
  }
}

/// How many tokens went to each expert, exactly, in every layer that has some.
TEST_P(Golden, ExpertsGetTheTokensOfTheGoldenStep0) {
  const StepResult &step = oneRank(GetParam());
  auto expected = rt::parseJson(readGolden(GetParam(), "expected.json"));
  ASSERT_TRUE(expected.ok());
  // By number of layer, of which no model has ten.
  const auto &layers = expected->find("step0")->find("expert_counts")->members();
  ASSERT_EQ(step.choices.size(), layers.size());
  for (auto [choices, layer] : llvm::zip(step.choices, layers)) {
    std::vector<int64_t> counts(layer.value.elements().size());
    for (double e : choices.data)
      ++counts.at(static_cast<size_t>(e));
    for (auto [got, want] : llvm::zip(counts, layer.value.elements()))
      EXPECT_EQ(got, want.integer()) << "layer " << layer.key;
  }
}

static const std::string kModels[] = {"t0",        "t0-tied",    "t0-vocab251", "t0-llama31-rope",
                                      "gpt2-mini", "qwen2-mini", "qwen3-mini",  "mistral-mini"};
/// Families that differ from those in a few operators; they take part in a spread of layouts.
static const std::string kFurtherModels[] = {"olmo2-mini",  "gemma-mini",         "gemma2-mini",
                                             "gemma3-mini", "phi3-mini",          "gpt-neox-mini",
                                             "phi-mini",    "mistral-window-mini"};
/// Layers of experts, beside dense ones and shared experts.
static const std::string kExpertModels[] = {"t0-moe", "qwen3-moe-mini", "deepseek-v2-mini",
                                            "deepseek-v3-mini", "gpt-oss-mini"};
/// One that also minimises a loss of unbalanced experts.
static const std::string kBalancedModel = "t0-moe-aux";
INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::ValuesIn(kModels));
/// With six experts, which four ranks cannot share evenly.
static const std::string kSixExperts = "qwen2-moe-mini";
INSTANTIATE_TEST_SUITE_P(SixExperts, Golden, testing::Values(kSixExperts));
INSTANTIATE_TEST_SUITE_P(Experts, Golden, testing::ValuesIn(kExpertModels));
INSTANTIATE_TEST_SUITE_P(Balanced, Golden, testing::Values(kBalancedModel));
INSTANTIATE_TEST_SUITE_P(Further, Golden, testing::ValuesIn(kFurtherModels));

/// Schedules, numbers of micro-batches and stages, and stages beside all other axes, of
/// models with four blocks between embedding and head.
static std::vector<Layout> pipelines() {
  std::vector<Layout> out;
  auto add = [&](std::string name, int64_t pp, int64_t micros, Layout layout) {
    layout.name = "pp" + std::to_string(pp) + name + "_micro" + std::to_string(micros);
    layout.pp = pp;
    layout.microBatches = micros;
    out.push_back(std::move(layout));
  };
  add("", 2, 1, {});
  add("", 2, 4, {});
  add("_gpipe", 2, 4, {.schedule = "gpipe"});
  add("_zbh1", 2, 4, {.schedule = "zb-h1"});
  add("_zbh1_tp2_sp", 3, 4, {.tp = 2, .sequence = true, .schedule = "zb-h1"});
  add("_zbh1_dp2_zero2_recompute", 2, 2,
      {.dp = 2, .zero = 2, .recompute = Recompute::Full, .schedule = "zb-h1"});
  add("_zbh1_tokens", 2, 2, {.batchPieces = 4, .sequencePieces = 2, .schedule = "zb-h1"});
  add("", 3, 2, {});
  add("", 4, 8, {});
  add("_each_layer", 6, 4, {});
  add("_uneven", 3, 4, {.stageSizes = {1, 4, 1}});
  add("_uneven_back", 2, 2, {.stageSizes = {5, 1}});
  add("_interleaved", 2, 4, {.vp = 2});
  add("_interleaved", 3, 4, {.vp = 2});
  add("_tp2_sp", 2, 2, {.tp = 2, .sequence = true});
  add("_cp2_dp2_zero1", 2, 2, {.dp = 2, .zero = 1, .cp = 2});
  add("_cp3_tp2_sp", 2, 2, {.tp = 2, .sequence = true, .cp = 3});
  add("_dp2_zero1", 2, 2, {.dp = 2, .zero = 1});
  add("_dp2_tp2_zero2", 2, 2, {.dp = 2, .tp = 2, .zero = 2});
  add("_zbh1_tp2_sp_selective", 2, 2,
      {.tp = 2, .sequence = true, .recompute = Recompute::Selective, .schedule = "zb-h1"});
  add("_dp2_zero3_recompute", 3, 2, {.dp = 2, .zero = 3, .recompute = Recompute::Full});
  add("_tokens", 2, 2, {.batchPieces = 4, .sequencePieces = 4});
  add("_vocab3", 2, 2, {.dp = 2, .vocabularyPieces = 3});
  add("_tp2_novocab_recompute", 2, 4, {.tp = 2, .vocabulary = false, .recompute = Recompute::Full});
  return out;
}

/// Sequences of 32 tokens over 2 to 7 ranks, even and not, with everything else.
static void addContexts(std::vector<Layout> &out) {
  auto add = [&](int64_t cp, Layout layout) {
    layout.name = "cp" + std::to_string(cp) + layout.name;
    layout.cp = cp;
    out.push_back(layout);
  };
  for (int64_t cp : {2, 3, 4, 5, 6, 7})
    add(cp, {""});
  add(2, {"_dp2", 2, 1});
  add(3, {"_tp2_sp", 1, 2, true});
  add(2, {"_dp2_tp2_sp_micro2", 2, 2, true, true, 2});
  add(4, {"_tp2_novocab", 1, 2, false, false});
  add(2, {"_tp4_sp_recompute", 1, 4, true, true, 1, 1, 1, 0, Recompute::Full});
  add(2, {"_zero1", 1, 1, false, true, 1, 1, 1, 1});
  add(3, {"_dp2_zero2", 2, 1, false, true, 1, 1, 1, 2});
  add(2, {"_dp2_tp2_sp_zero3", 2, 2, true, true, 1, 1, 1, 3});
  add(2, {"_tp2_sp_pieces_b8_s4", 1, 2, true, true, 1, 8, 4});
  add(5, {"_zero3", 1, 1, false, true, 1, 1, 1, 3});
  Layout blocks{"_dp2_zero3_vocab4", 2, 1, false, true, 1, 1, 1, 3};
  blocks.vocabularyPieces = 4;
  add(2, blocks);
  // Tokens in the order in which they come.
  for (int64_t cp : {2, 5}) {
    Layout plain{"_inorder", 1, 2, true};
    plain.zigzag = "";
    add(cp, plain);
  }
  // In zig-zag over an axis along which attention is not cut.
  Layout heads{"_tp4_sp_zigzag", 1, 4, true};
  heads.zigzag = "tensor";
  add(1, heads);
}

static std::vector<Layout> layouts() {
  std::vector<Layout> out;
  struct Degrees {
    int64_t dp, tp;
  };
  for (Degrees d : {Degrees{2, 1}, {1, 2}, {2, 2}, {1, 4}, {4, 2}})
    for (bool sequence : {false, true})
      for (bool vocabulary : {false, true}) {
        if (d.tp == 1 && (sequence || !vocabulary))
          continue;
        std::string name = "dp" + std::to_string(d.dp) + "_tp" + std::to_string(d.tp);
        if (sequence)
          name += "_sp";
        if (d.tp > 1 && !vocabulary)
          name += "_novocab";
        out.push_back({name, d.dp, d.tp, sequence, vocabulary, 1});
      }
  out.push_back({"dp1_tp1_micro4", 1, 1, false, true, 4});
  out.push_back({"dp2_tp2_sp_micro2", 2, 2, true, true, 2});
  // Classifier and loss in pieces of the batch, of each sequence, or both.
  out.push_back({"pieces_b4", 1, 1, false, true, 1, 4, 1});
  out.push_back({"micro8_pieces_s4", 1, 1, false, true, 8, 1, 4});
  out.push_back({"dp2_micro2_pieces_b2_s4", 2, 1, false, true, 2, 2, 4});
  out.push_back({"tp2_pieces_b8_s2", 1, 2, false, true, 1, 8, 2});
  out.push_back({"dp2_tp2_sp_pieces_b4_s8", 2, 2, true, true, 1, 4, 8});
  out.push_back({"tp4_sp_novocab_micro8_pieces_s2", 1, 4, true, false, 8, 1, 2});
  // In blocks of the vocabulary, the last one smaller for most.
  for (Layout l :
       {Layout{"vocab3", 1, 1}, Layout{"dp2_micro2_vocab4", 2, 1, false, true, 2},
        Layout{"dp2_tp2_sp_vocab5", 2, 2, true}, Layout{"tp4_novocab_vocab7", 1, 4, false, false},
        Layout{"dp2_zero1_vocab4", 2, 1, false, true, 1, 1, 1, 1},
        Layout{"dp2_tp1_zero3_vocab6", 2, 1, false, true, 1, 1, 1, 3},
        Layout{"recompute_vocab2", 1, 1, false, true, 1, 1, 1, 0, Recompute::Full}}) {
    l.vocabularyPieces = l.name.back() - '0';
    out.push_back(l);
  }
  for (int64_t zero : {1, 2, 3}) {
    std::string name = "zero" + std::to_string(zero);
    out.push_back({name + "_dp2", 2, 1, false, true, 1, 1, 1, zero});
    out.push_back({name + "_dp2_tp2_sp_micro2", 2, 2, true, true, 2, 1, 1, zero});
    out.push_back({name + "_dp8_pieces_s2", 8, 1, false, true, 1, 1, 2, zero});
  }
  addContexts(out);
  // Groups that share state, beside each other.
  out.push_back({.name = "dp4_zero3_groups_of_2", .dp = 4, .zero = 3, .zeroGroup = 2});
  out.push_back({.name = "dp4_tp2_sp_zero2_groups_of_2",
                 .dp = 4,
                 .tp = 2,
                 .sequence = true,
                 .zero = 2,
                 .zeroGroup = 2});
  out.push_back({.name = "dp2_cp2_zero3_groups_of_2", .dp = 2, .zero = 3, .cp = 2, .zeroGroup = 2});
  out.push_back({"recompute", 1, 1, false, true, 1, 1, 1, 0, Recompute::Full});
  out.push_back({"dp2_tp2_sp_zero3_recompute", 2, 2, true, true, 1, 1, 1, 3, Recompute::Full});
  return out;
}

/// Experts over parts of the data axis, over the tensor axis, and over both.
static std::vector<Layout> expertLayouts() {
  std::vector<Layout> out;
  struct Degrees {
    int64_t dp, tp, ep;
  };
  for (Degrees d : {Degrees{2, 1, 2},
                    {1, 2, 2},
                    {4, 1, 2},
                    {4, 1, 4},
                    {2, 2, 2},
                    {2, 2, 4},
                    {1, 4, 4},
                    {4, 2, 2}})
    for (bool sequence : {false, true}) {
      if (sequence && d.tp == 1)
        continue;
      Layout layout{"dp" + std::to_string(d.dp) + "_tp" + std::to_string(d.tp) + "_ep" +
                        std::to_string(d.ep) + (sequence ? "_sp" : ""),
                    d.dp, d.tp, sequence};
      layout.experts = d.ep;
      out.push_back(layout);
    }
  for (int64_t zero : {1, 2, 3}) {
    Layout layout{
        "zero" + std::to_string(zero) + "_dp4_ep2_micro2", 4, 1, false, true, 2, 1, 1, zero};
    layout.experts = 2;
    out.push_back(layout);
    layout = {"zero" + std::to_string(zero) + "_dp2_tp2_ep4_recompute",
              2,
              2,
              true,
              true,
              1,
              1,
              1,
              zero,
              Recompute::Full};
    layout.experts = 4;
    out.push_back(layout);
  }
  for (const char *name : {"dp1_tp1_micro4", "recompute", "tp2_pieces_b8_s2"})
    for (Layout &layout : layouts())
      if (layout.name == name)
        out.push_back(std::move(layout));
  Layout context{"cp2_dp2_ep2_zero3", 2, 1, false, true, 1, 1, 1, 3};
  context.cp = context.experts = 2;
  out.push_back(context);
  context = {"cp3_tp2_ep2_sp", 1, 2, true};
  context.cp = 3;
  context.experts = 2;
  out.push_back(context);
  for (auto [cp, dp, tp, ep] :
       {std::array<int64_t, 4>{2, 1, 1, 2}, {4, 1, 1, 2}, {4, 1, 1, 4}, {2, 2, 1, 4}, {2, 1, 2, 4}})
    for (int64_t zero : {0, 3}) {
      Layout over{"cp" + std::to_string(cp) + "_dp" + std::to_string(dp) + "_tp" +
                      std::to_string(tp) + "_over_context_ep" + std::to_string(ep) +
                      (zero ? "_zero3_micro2" : ""),
                  dp,
                  tp,
                  tp > 1,
                  true,
                  zero ? 2 : 1};
      over.cp = cp;
      over.experts = ep;
      over.zero = zero;
      out.push_back(over);
    }
  Layout pipeline{"pp2_dp4_ep2_micro2", 4, 1, false, true, 2};
  pipeline.pp = pipeline.experts = 2;
  out.push_back(pipeline);
  pipeline = {"pp2_tp2_ep2_sp_micro4", 1, 2, true, true, 4};
  pipeline.pp = pipeline.experts = 2;
  out.push_back(pipeline);
  out.push_back({"tp2", 1, 2});
  out.push_back({"dp4_zero3", 4, 1, false, true, 1, 1, 1, 3});
  out.push_back({"dp2_tp2_sp", 2, 2, true});
  return out;
}

static std::vector<Layout> someLayouts() {
  static const std::set<std::string> names = {
      "dp2_tp2",    "dp1_tp4_sp",          "tp2_pieces_b8_s2", "zero3_dp2_tp2_sp_micro2",
      "recompute",  "dp1_tp2_novocab",     "pp3_micro2",       "pp2_tp2_sp_micro2",
      "cp3_tp2_sp", "cp2_dp2_tp2_sp_zero3"};
  std::vector<Layout> all = layouts(), out;
  llvm::append_range(all, pipelines());
  for (Layout &layout : all)
    if (names.contains(layout.name))
      out.push_back(std::move(layout));
  return out;
}

class Layouts : public testing::TestWithParam<std::tuple<std::string, Layout>> {};

TEST_P(Layouts, EqualOneRank) {
  const std::string &model = std::get<0>(GetParam());
  StepResult step = runStep0(model, std::get<1>(GetParam()));
  expectEqual(step, oneRank(model));
}

static std::string nameOf(const testing::TestParamInfo<Layouts::ParamType> &info) {
  std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
  for (char &c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Layouts,
                         testing::Combine(testing::ValuesIn(kModels), testing::ValuesIn(layouts())),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Pipelines, Layouts,
                         testing::Combine(testing::Values("t0", "t0-tied", "t0-vocab251",
                                                          "gpt2-mini"),
                                          testing::ValuesIn(pipelines())),
                         nameOf);
/// Choices of the whole batch, before the first way back of any micro-batch: with several of
/// them, under every schedule, with the term in the last stage, before it, or alone in one.
static std::vector<Layout> balancedLayouts() {
  std::vector<Layout> out = expertLayouts();
  auto add = [&](std::string name, int64_t pp, int64_t micros, Layout layout) {
    layout.name = "pp" + std::to_string(pp) + name + "_micro" + std::to_string(micros);
    layout.pp = pp;
    layout.microBatches = micros;
    out.push_back(std::move(layout));
  };
  add("", 1, 2, {});
  add("_dp2_ep2_tp2", 1, 4, {.dp = 2, .tp = 2, .experts = 2});
  add("_cp2_zero3", 1, 2, {.zero = 3, .cp = 2});
  add("_tokens", 1, 2, {.batchPieces = 4, .sequencePieces = 2});
  add("", 2, 1, {});
  add("", 2, 4, {});
  add("_gpipe", 2, 4, {.schedule = "gpipe"});
  add("_interleaved", 2, 2, {.vp = 2});
  add("_interleaved", 3, 4, {.vp = 2});
  add("_zbh1", 3, 4, {.schedule = "zb-h1"});
  add("_zbh1_dp2_ep2_zero2_recompute", 2, 2,
      {.dp = 2, .zero = 2, .recompute = Recompute::Full, .schedule = "zb-h1", .experts = 2});
  add("_tp2_ep2_sp", 2, 2, {.tp = 2, .sequence = true, .experts = 2});
  add("_each_layer", 7, 2, {});
  add("_term_before_the_head", 2, 4, {.stageSizes = {6, 1}});
  add("_term_alone", 4, 2, {.stageSizes = {2, 3, 1, 1}});
  add("_term_far_from_the_layers", 2, 2, {.vocabularyPieces = 3, .stageSizes = {5, 2}});
  return out;
}
INSTANTIATE_TEST_SUITE_P(Balanced, Layouts,
                         testing::Combine(testing::Values(kBalancedModel),
                                          testing::ValuesIn(balancedLayouts())),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Experts, Layouts,
                         testing::Combine(testing::ValuesIn(kExpertModels),
                                          testing::ValuesIn(expertLayouts())),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Some, Layouts,
                         testing::Combine(testing::ValuesIn(kFurtherModels),
                                          testing::ValuesIn(someLayouts())),
                         nameOf);

/// Exchanges moved to where they begin and are waited for; with several micro-batches sums of
/// gradients in the last one, behind all pieces of the classifier too.
static std::vector<Layout> layoutsBeside() {
  std::vector<Layout> out = {
      {.name = "dp2", .dp = 2},
      {.name = "dp2_micro2", .dp = 2, .microBatches = 2},
      {.name = "dp2_zero1_micro4", .dp = 2, .microBatches = 4, .zero = 1},
      {.name = "dp2_tp2_sp_zero1_micro2",
       .dp = 2,
       .tp = 2,
       .sequence = true,
       .microBatches = 2,
       .zero = 1,
       .recompute = Recompute::Full},
      {.name = "dp2_micro2_pieces",
       .dp = 2,
       .microBatches = 2,
       .batchPieces = 2,
       .sequencePieces = 4},
      {.name = "dp2_zero1_micro2_vocab4",
       .dp = 2,
       .microBatches = 2,
       .zero = 1,
       .vocabularyPieces = 4},
      {.name = "cp2_dp2_zero1_micro2", .dp = 2, .microBatches = 2, .zero = 1, .cp = 2},
      {.name = "dp4_zero2_groups_of_2_micro2",
       .dp = 4,
       .microBatches = 2,
       .zero = 2,
       .zeroGroup = 2},
      {.name = "dp2_zero3_micro2", .dp = 2, .microBatches = 2, .zero = 3},
      {.name = "pp2_dp2_zero1_micro2", .dp = 2, .microBatches = 2, .zero = 1, .pp = 2},
      {.name = "pp2_dp2_micro4_zbh1", .dp = 2, .microBatches = 4, .pp = 2, .schedule = "zb-h1"}};
  for (Layout &layout : out) {
    layout.name = "beside_" + layout.name;
    layout.overlap = true;
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(Beside, Layouts,
                         testing::Combine(testing::Values("t0", "t0-tied", "gemma2-mini",
                                                          "gpt-oss-mini", kBalancedModel),
                                          testing::ValuesIn(layoutsBeside())),
                         nameOf);

static std::vector<Layout> sixExpertsLayouts() {
  std::vector<Layout> all = expertLayouts(), out;
  for (Layout &layout : all)
    if (6 % layout.experts == 0)
      out.push_back(std::move(layout));
  return out;
}
INSTANTIATE_TEST_SUITE_P(SixExperts, Layouts,
                         testing::Combine(testing::Values(kSixExperts),
                                          testing::ValuesIn(sixExpertsLayouts())),
                         nameOf);

/// Mean over the targets that count, from logits [batch, sequence, vocab].
static double raggedLoss(const HostTensor &logits, const std::string &tokens) {
  const int64_t batch = logits.shape[0], sequence = logits.shape[1], vocab = logits.shape[2];
  double sum = 0, count = 0;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t s = 0; s < raggedLength(b); ++s, ++count) {
      const double *row = &logits.data[(b * sequence + s) * vocab];
      double total = 0;
      for (int64_t v = 0; v < vocab; ++v)
        total += std::exp(row[v]);
      const size_t at = 2 * static_cast<size_t>(b * sequence + s + 1);
      const int target =
          static_cast<unsigned char>(tokens[at]) + 256 * static_cast<unsigned char>(tokens[at + 1]);
      sum += std::log(total) - row[target];
    }
  return sum / count;
}

// One denominator, the targets that count in the whole batch, whatever a
// micro-batch or a rank holds of them: none in sequences 0 and 4.
TEST(Ragged, EveryLayoutDividesByTheTargetsThatCount) {
  const StepResult one = runStep0("t0", {.name = "one rank", .ragged = true});
  EXPECT_PRED2(agrees, one.loss, raggedLoss(one.logits, readGolden("t0", "tokens.bin")));
  for (const Layout &layout : {Layout{"micro2", 1, 1, false, true, 2},
                               {"micro8", 1, 1, false, true, 8},
                               {"dp2", 2, 1},
                               {"dp4", 4, 1},
                               {"dp4_micro2", 4, 1, false, true, 2},
                               {"tp2", 1, 2},
                               {"dp2_tp2_sp_micro4", 2, 2, true, true, 4}}) {
    SCOPED_TRACE(layout.name);
    Layout ragged = layout;
    ragged.ragged = true;
    expectEqualGradients(runStep0("t0", ragged), one);
  }
}

// Computing a value again is the same arithmetic: not one bit differs, in float64 nor as a
// binary rounds.
TEST(Recompute, ChangesNoBit) {
  for (const char *model :
       {"t0", "t0-moe", "gpt2-mini", "deepseek-v3-mini", "gemma2-mini", "gpt-oss-mini"})
    for (bool narrow : {false, true})
      for (Layout layout :
           {Layout{"one"}, Layout{"tp2_sp", 1, 2, true}, Layout{"dp2_zero3", 2, 1}}) {
        SCOPED_TRACE(std::string(model) + " " + layout.name + (narrow ? " narrow" : ""));
        layout.narrow = narrow;
        layout.zero = layout.dp > 1 ? 3 : 0;
        const StepResult kept = runStep0(model, layout);
        for (Recompute recompute : {Recompute::Selective, Recompute::Full}) {
          SCOPED_TRACE(recomputeName(recompute));
          layout.recompute = recompute;
          const StepResult again = runStep0(model, layout);
          EXPECT_EQ(again.loss, kept.loss);
          EXPECT_EQ(again.norm, kept.norm);
          ASSERT_EQ(again.gradients.size(), kept.gradients.size());
          for (const auto &[name, gradient] : kept.gradients)
            EXPECT_EQ(again.gradients.at(name).data, gradient.data) << name;
        }
      }
}

// Lengths that neither ranks nor pairs of chunks divide, down to ranks without a token.
TEST(Contexts, AnyLengthOverAnyRanks) {
  for (const char *model : {"t0", "gpt2-mini", "mistral-window-mini"})
    for (int64_t length : {5, 30, 31}) {
      Layout one{.name = "one rank", .batch = 2, .length = length};
      const StepResult want = runStep0(model, one);
      for (auto [cp, tp] : {std::pair<int64_t, int64_t>{2, 1}, {4, 2}, {7, 1}}) {
        SCOPED_TRACE(std::string(model) + " length " + std::to_string(length) + " cp " +
                     std::to_string(cp) + " tp " + std::to_string(tp));
        Layout layout{.name = "", .tp = tp, .sequence = tp > 1, .batch = 2, .length = length};
        layout.cp = cp;
        expectEqual(runStep0(model, layout), want);
      }
    }
}

// Blocks of two, two and no experts of four, of three, three and two of eight: by a plan
// that is edited, since a pin asks for even ones.
TEST(Experts, UnevenBlocksEqualOneRank) {
  for (const char *model : {"t0-moe", "qwen3-moe-mini"}) {
    SCOPED_TRACE(model);
    Layout layout{"dp3_ep3", 2, 1};
    layout.batch = 6;
    StepResult one = runStep0(model, {.name = "one rank", .batch = 6});
    layout.experts = 2;
    layout.dataRanks = 3;
    expectEqual(runStep0(model, layout), one);
    layout.zero = 3;
    expectEqual(runStep0(model, layout), one);
  }
}

// Rounded as a binary rounds, but computed in float64: near the golden step under every
// layout, and not equal to it.
TEST(Bf16, StaysNearTheGoldenStep0) {
  const Layout layouts[] = {{.name = "one rank", .narrow = true},
                            {.name = "tp2_sp", .tp = 2, .sequence = true, .narrow = true},
                            {.name = "dp2_zero3", .dp = 2, .zero = 3, .narrow = true},
                            {.name = "recompute", .recompute = Recompute::Full, .narrow = true},
                            {.name = "pieces", .batchPieces = 2, .narrow = true},
                            {.name = "vocabulary", .vocabularyPieces = 3, .narrow = true},
                            {.name = "cp2", .cp = 2, .narrow = true},
                            {.name = "pp2", .pp = 2, .narrow = true}};
  for (const char *model : {"t0", "t0-tied", "gpt2-mini", "t0-moe"}) {
    const double want = oneRank(model).loss;
    const double tolerance = model == std::string("t0-moe") ? 1e-2 : 2e-3;
    double wantNorm = 0;
    for (const auto &[name, gradient] : oneRank(model).gradients)
      wantNorm = std::hypot(wantNorm, norm(gradient));
    for (const Layout &layout :
         llvm::ArrayRef(layouts).take_front(model == std::string("t0") ? 8 : 2)) {
      SCOPED_TRACE(std::string(model) + " " + layout.name);
      const StepResult got = runStep0(model, layout);
      EXPECT_NEAR(got.loss, want, tolerance);
      EXPECT_NE(got.loss, want);
      double gotNorm = 0;
      for (const auto &[name, gradient] : got.gradients) {
        gotNorm = std::hypot(gotNorm, norm(gradient));
        EXPECT_TRUE(std::isfinite(norm(gradient))) << name;
      }
      EXPECT_NEAR(gotNorm / wantNorm, 1, 2e-2);
    }
  }
}
