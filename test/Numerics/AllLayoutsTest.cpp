//===- AllLayoutsTest.cpp - Every valid layout on up to 8 ranks ------------===//
//
// Enumerated from what can be pinned, not from a list: every degree of data, context,
// tensor and pipeline parallelism whose product is at most 8, with every combination of
// sequence and vocabulary cut, ZeRO stage, recomputation, micro-batches, schedule, and
// pieces of classifier and loss; experts over every part of the ranks. Each equals one rank to
// 1e-9. `scripts/test --all-layouts` runs them; `LayoutsTest` is the spread that every run has.
//
//===----------------------------------------------------------------------===//

#include "Comparison.h"
#include <tuple>

using namespace cleave;
using namespace cleave::test;

/// The largest batch of at most 8 sequences that `dp` ranks share in even micro-batches.
static int64_t batchFor(int64_t dp) {
  int64_t batch = 8 / dp * dp;
  return batch / dp % 2 == 0 || batch / dp == 1 ? batch : batch - dp;
}

/// The golden models have four query heads, which three, five, … ranks cannot share.
static bool dealsOutHeads(int64_t tp) { return 4 % tp == 0; }

/// The combinations of everything beside the degrees.
static void addVariants(std::vector<Layout> &out, int64_t dp, int64_t cp, int64_t tp) {
  int64_t batch = batchFor(dp), each = batch / dp;
  for (bool sequence : {false, true})
    for (bool vocabulary : {true, false})
      for (int64_t zero : {0, 1, 2, 3})
        for (Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full})
          for (int64_t micro : {1, 2}) {
            if ((tp == 1 && (sequence || !vocabulary)) || (dp * cp == 1 && zero > 0) ||
                each % micro)
              continue;
            Layout layout{"", dp, tp, sequence, vocabulary, micro};
            layout.cp = cp;
            layout.zero = zero;
            layout.recompute = recompute;
            layout.batch = batch;
            // None, pieces of the tokens, blocks of the vocabulary, in turn.
            int64_t kind = static_cast<int64_t>(out.size()) % 3;
            if (kind == 1)
              layout.batchPieces = each / micro;
            else if (kind == 2)
              layout.vocabularyPieces = 3;
            layout.name = "dp" + std::to_string(dp) + "_cp" + std::to_string(cp) + "_tp" +
                          std::to_string(tp) + (sequence ? "_sp" : "") +
                          (vocabulary ? "" : "_novocab") + "_zero" + std::to_string(zero) +
                          "_recompute_" + recomputeName(recompute) + "_micro" +
                          std::to_string(micro) + (kind == 1 ? "_tokens" : "") +
                          (kind == 2 ? "_blocks" : "");
            out.push_back(layout);
          }
}

/// Embedding, head and four blocks: the layers that stages are made of.
static constexpr int64_t kLayers = 6;

/// Stages on `pp` ranks beside the other degrees: schedules, numbers of micro-batches,
/// and what fits in one slot, in turn.
static void addPipelines(std::vector<Layout> &out, int64_t pp, int64_t dp, int64_t cp, int64_t tp) {
  static constexpr const char *schedules[] = {"1f1b", "gpipe", "zb-h1", "interleaved"};
  int64_t batch = batchFor(dp), each = batch / dp;
  for (bool sequence : {false, true})
    for (int64_t zero : {0, 1, 2, 3})
      for (Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full})
        for (const char *schedule : schedules) {
          Layout layout{"", dp, tp, sequence};
          layout.vp = schedule == std::string("interleaved") ? 2 : 1;
          if ((tp == 1 && sequence) || (dp * cp == 1 && zero > 0) || pp * layout.vp > kLayers)
            continue;
          int64_t number = static_cast<int64_t>(out.size());
          layout.microBatches = number % 3 == 0 ? 1 : number % 3 == 1 && each % 2 == 0 ? 2 : each;
          layout.schedule = schedule;
          layout.pp = pp;
          layout.cp = cp;
          layout.zero = zero;
          layout.recompute = recompute;
          layout.batch = batch;
          layout.vocabulary = number % 5 != 0;
          if (number % 4 == 1)
            layout.batchPieces = each / layout.microBatches;
          else if (number % 4 == 2)
            layout.vocabularyPieces = 3;
          layout.name = "pp" + std::to_string(pp) + "_" + schedule + "_dp" + std::to_string(dp) +
                        "_cp" + std::to_string(cp) + "_tp" + std::to_string(tp) +
                        (sequence ? "_sp" : "") + "_zero" + std::to_string(zero) + "_recompute_" +
                        recomputeName(recompute) + "_micro" + std::to_string(layout.microBatches);
          out.push_back(layout);
        }
}

static std::vector<Layout> allLayouts() {
  std::vector<Layout> out;
  for (int64_t dp = 1; dp <= 8; ++dp)
    for (int64_t cp = 1; dp * cp <= 8; ++cp)
      for (int64_t tp = 1; dp * cp * tp <= 8; ++tp)
        if (dealsOutHeads(tp)) {
          addVariants(out, dp, cp, tp);
          for (int64_t pp = 2; pp <= kLayers && pp * dp * cp * tp <= 8; ++pp)
            addPipelines(out, pp, dp, cp, tp);
        }
  return out;
}

/// Whether a pin can deal the four experts of t0-moe out over `ep` ranks: a part of data, of
/// context, and all or one of tensor.
static bool dealsOutExperts(int64_t ep, int64_t dp, int64_t cp, int64_t tp) {
  for (int64_t data = 1; data <= dp; ++data)
    for (int64_t context = 1; context <= cp; ++context)
      for (int64_t tensor : {int64_t(1), tp})
        if (4 % ep == 0 && dp % data == 0 && cp % context == 0 && data * context * tensor == ep)
          return true;
  return false;
}

/// Experts over every part of data, context and tensor, beside every degree and ZeRO stage; what
/// else there is, in turn.
static std::vector<Layout> expertLayouts() {
  std::vector<Layout> out;
  auto add = [&](int64_t pp, int64_t dp, int64_t cp, int64_t tp, int64_t ep, int64_t zero) {
    static constexpr const char *schedules[] = {"1f1b", "gpipe", "zb-h1"};
    const auto number = static_cast<int64_t>(out.size());
    Layout layout{"", dp, tp, tp > 1 && number % 2 == 0, number % 3 != 0};
    layout.batch = batchFor(dp);
    layout.pp = pp;
    layout.cp = cp;
    layout.experts = ep;
    layout.zero = zero;
    layout.recompute = static_cast<Recompute>(number % 5 % 3);
    layout.schedule = pp > 1 ? schedules[number % 3] : "1f1b";
    layout.microBatches = pp > 1 || number % 4 == 1 ? layout.batch / dp : 1;
    layout.name = (pp > 1 ? "pp" + std::to_string(pp) + "_" + layout.schedule + "_" : "") + "dp" +
                  std::to_string(dp) + "_cp" + std::to_string(cp) + "_tp" + std::to_string(tp) +
                  "_ep" + std::to_string(ep) + "_zero" + std::to_string(zero);
    out.push_back(layout);
  };
  for (int64_t pp = 1; pp <= kLayers; ++pp)
    for (int64_t dp = 1; pp * dp <= 8; ++dp)
      for (int64_t cp = 1; pp * dp * cp <= 8; ++cp)
        for (int64_t tp = 1; pp * dp * cp * tp <= 8; ++tp)
          for (int64_t ep = 1; ep <= dp * cp * tp; ++ep)
            for (int64_t zero = 0; zero <= (dp * cp > 1 ? 3 : 0); ++zero)
              if (dealsOutHeads(tp) && dealsOutExperts(ep, dp, cp, tp))
                add(pp, dp, cp, tp, ep, zero);
  return out;
}

/// Those with several micro-batches, whose experts' choices are counted beforehand.
static std::vector<Layout> surveyedLayouts() {
  std::vector<Layout> out;
  for (Layout &layout : expertLayouts())
    if (layout.microBatches > 1)
      out.push_back(std::move(layout));
  return out;
}

class AllLayouts : public testing::TestWithParam<std::tuple<std::string, Layout>> {};

TEST_P(AllLayouts, EqualOneRank) {
  const auto &[model, layout] = GetParam();
  static std::map<std::pair<std::string, int64_t>, StepResult> ones;
  auto [one, fresh] = ones.try_emplace({model, layout.batch});
  if (fresh)
    one->second = runStep0(model, {.name = "one rank", .batch = layout.batch});
  expectEqual(runStep0(model, layout), one->second);
}

TEST(Refused, HeadsThatCannotBeDealtOut) {
  for (int64_t tp = 2; tp <= 8; ++tp)
    for (const char *model : {"t0", "gpt2-mini"})
      if (!dealsOutHeads(tp)) {
        SCOPED_TRACE(model + std::string(" tp=") + std::to_string(tp));
        std::string refusal;
        try {
          runStep0(model, {"refused", 1, tp});
        } catch (const std::exception &error) {
          refusal = error.what();
        }
        EXPECT_NE(refusal.find("error[plan.heads_indivisible]"), std::string::npos) << refusal;
      }
}

static const std::string kModels[] = {"t0", "t0-tied", "t0-vocab251", "gpt2-mini"};
static std::string nameOf(const testing::TestParamInfo<AllLayouts::ParamType> &info) {
  std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
  for (char &c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, AllLayouts,
                         testing::Combine(testing::ValuesIn(kModels),
                                          testing::ValuesIn(allLayouts())),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Experts, AllLayouts,
                         testing::Combine(testing::Values("t0-moe"),
                                          testing::ValuesIn(expertLayouts())),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Balanced, AllLayouts,
                         testing::Combine(testing::Values("t0-moe-aux"),
                                          testing::ValuesIn(surveyedLayouts())),
                         nameOf);
