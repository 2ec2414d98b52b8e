//===- plan.cpp - How long the search for a plan takes -------------------------===//
//
// The anchors of other planners (docs/Planner.md): time to the answer on one core, the size of the
// space, and how much of it was looked at.
//
//===----------------------------------------------------------------------===//

#include "cleave/Frontend/Model.h"
#include "cleave/Planner/Search.h"
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <vector>

using namespace cleave;

namespace {

struct Anchor {
  const char *name, *config, *device, *host;
  int64_t ranks, sequence, batch;
  /// Seconds that are asked for, and what others take.
  double limit;
  const char *other;
};

/// Llama-2-7B.
constexpr const char *kLlama7B = R"({"model_type": "llama", "hidden_size": 4096,
  "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
  "intermediate_size": 11008, "vocab_size": 32000, "max_position_embeddings": 4096,
  "tie_word_embeddings": false})";
constexpr const char *kLlama405B = R"({"model_type": "llama", "hidden_size": 16384,
  "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 8,
  "intermediate_size": 53248, "vocab_size": 128256, "max_position_embeddings": 131072,
  "tie_word_embeddings": false})";
constexpr const char *kDeepSeekV3 = R"({"model_type": "deepseek_v3", "hidden_size": 7168,
  "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
  "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
  "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
  "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "v_head_dim": 128, "n_group": 8, "topk_group": 4, "vocab_size": 129280,
  "max_position_embeddings": 163840, "tie_word_embeddings": false})";
constexpr const char *kTuring530B = R"({"model_type": "gpt2", "hidden_size": 20480,
  "num_hidden_layers": 105, "num_attention_heads": 128, "vocab_size": 51200, "n_inner": 81920,
  "max_position_embeddings": 2048})";

constexpr Anchor kAnchors[] = {
    {"Llama-2-7B, 8 A100", kLlama7B, "a100-sxm-80gb", "megatron", 8, 2048, 64, 0.3,
     "Galvatron 159 s"},
    {"Llama-3.1-405B, 16384 H100", kLlama405B, "h100-sxm-80gb", "megatron", 16384, 8192, 2048, 3,
     "none"},
    {"DeepSeek-V3, 2048 H800", kDeepSeekV3, "h800-sxm-80gb", "megatron", 2048, 4096, 15360, 5,
     "none"},
    {"Turing-530B, 5120 A100", kTuring530B, "a100-sxm-80gb", "megatron-2021", 5120, 2048, 2520, 2,
     "Calculon 63.5 s"},
};

/// A search, and the seconds of a core that it took from the model's description on.
struct Run {
  SearchResult found;
  double seconds;
  int64_t layouts;
};

Run run(const Anchor &anchor, const std::string &config, const std::string &share) {
  const std::clock_t start = std::clock();
  auto model = frontend::readModelText(config, "config.json");
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = frontend::importModel(*model, context);
  const auto work = cost::workOf(*module);
  const auto device = cost::readDevice(share, anchor.device);
  const auto host = cost::readHostProfile(share, anchor.host);
  if (!work || !device.ok() || !host.ok()) {
    std::fprintf(stderr, "%s: no description\n", anchor.name);
    std::exit(1);
  }
  SearchProblem problem{*work, *device, *host, limitsOf(*module), {}, {}, (*device).memory.value,
                        8};
  problem.request.ranks = anchor.ranks;
  problem.request.sequence = anchor.sequence;
  problem.request.globalBatch = anchor.batch;
  problem.request.narrow = true;
  SearchResult found = search(problem);
  const double spent = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return {std::move(found), spent, countChoices(problem)};
}

void printCounts(const Run &run) {
  const SearchCounts &c = run.found.counts;
  std::printf("%lld layouts in %lld families, %lld bounded, %lld too large, %lld predicted\n",
              static_cast<long long>(run.layouts), static_cast<long long>(c.families),
              static_cast<long long>(c.bounded), static_cast<long long>(c.tooLarge),
              static_cast<long long>(c.predicted));
  for (const PricedChoice &best : run.found.best)
    std::printf("  %s: %.4g s, %.1f GB\n", textOf(best.choice).c_str(), best.seconds(),
                best.bytes() / 1e9);
}

void runAnchors(const std::string &share) {
  for (const Anchor &anchor : kAnchors) {
    const Run done = run(anchor, anchor.config, share);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("%-28s %6.2f s (at most %g; %s), %ld MB; ", anchor.name, done.seconds, anchor.limit,
                anchor.other, usage.ru_maxrss / 1024);
    printCounts(done);
  }
}

/// The same cluster and batch for Llama-3.1-405B with fewer and more layers; the least of some
/// runs, which take turns.
void runDepths(const std::string &share) {
  constexpr int kRuns = 5;
  constexpr int64_t kDepths[] = {4, 8, 16, 32, 64, 126};
  const Anchor &anchor = kAnchors[1];
  std::vector<Run> least;
  for (int turn = 0; turn < kRuns; ++turn)
    for (size_t i = 0; i < std::size(kDepths); ++i) {
      std::string config = anchor.config;
      config.replace(config.find(": 126") + 2, 3, std::to_string(kDepths[i]));
      Run done = run(anchor, config, share);
      if (turn == 0)
        least.push_back(std::move(done));
      else if (done.seconds < least[i].seconds)
        least[i] = std::move(done);
    }
  for (size_t i = 0; i < std::size(kDepths); ++i) {
    std::printf("%4lld layers %8.4f s, %5.2f x; ", static_cast<long long>(kDepths[i]),
                least[i].seconds, least[i].seconds / least[0].seconds);
    printCounts(least[i]);
  }
}

} // namespace

int main(int argc, char **argv) {
  const bool depths = argc > 1 && std::string(argv[1]) == "--depths";
  const std::string share = argc > 1 + depths ? argv[1 + depths] : "share";
  depths ? runDepths(share) : runAnchors(share);
  return 0;
}
