//===- AllCases.cpp - Every operator of nn over odd shapes -----------------===//
//
// Sizes are odd, one, or no multiple of the two and three blocks that the tests
// cut them into. A new operator is listed here; `AllCases.NameEveryOperator`
// finds one that is not.
//
//===----------------------------------------------------------------------===//

#include "OpCase.h"

namespace cleave::test {

using Cases = std::vector<OpCase>;

static void addContractions(Cases &out) {
  out.push_back({"nn.contract",
                 {"batch=2 sequence=3 model=5", "ffn=7 model=5"},
                 {"batch=2 sequence=3 ffn=7"}});
  out.push_back({"nn.contract",
                 {"batch=2 sequence=3 ffn=4", "batch=2 sequence=3 model=5"},
                 {"ffn=4 model=5"}});
  out.push_back({"nn.contract",
                 {"batch=1 sequence=3 model=3", "kv_head=3 group=2 head_dim=4 model=3"},
                 {"batch=1 sequence=3 kv_head=3 group=2 head_dim=4"}});
  out.push_back({"nn.contract",
                 {"batch=2 kv_head=3 head_dim=4", "model=5 kv_head=3 head_dim=4"},
                 {"batch=2 model=5"}});
  out.push_back({"nn.contract", {"model=7", "model=7"}, {""}});
  out.push_back({"nn.contract", {"batch=3 model=5", "model=5"}, {"model=5 batch=3"}});
  out.push_back({"nn.sum", {"batch=3 sequence=4 model=5"}, {"model=5"}});
  out.push_back({"nn.sum", {"batch=3 sequence=4 model=5"}, {"model=5 batch=3"}});
  out.push_back({"nn.sum", {"batch=3 sequence=1"}, {""}});
  out.push_back({"nn.unstack",
                 {"batch=2 qkv=3 model=5"},
                 {"batch=2 model=5", "batch=2 model=5", "batch=2 model=5"},
                 "{dim = \"qkv\"}"});
  out.push_back({"nn.unstack", {"qkv=2 model=5"}, {"model=5", "model=5"}, "{dim = \"qkv\"}"});
  out.push_back({"nn.stack",
                 {"batch=2 model=5", "batch=2 model=5", "batch=2 model=5"},
                 {"batch=2 model=5 qkv=3"},
                 "{dim = \"qkv\"}"});
  out.push_back({"nn.split",
                 {"batch=2 sequence=3 key_dim=9"},
                 {"batch=2 sequence=3 plain=4", "batch=2 sequence=3 turned=5"}});
  out.push_back({"nn.split", {"batch=17 key_dim=5"}, {"batch=17 plain=5"}});
  out.push_back(
      {"nn.concat",
       {"batch=2 sequence=3 plain=4", "batch=2 sequence=3 turned=5", "batch=2 sequence=3 rest=1"},
       {"batch=2 sequence=3 head_dim=10"}});
  out.push_back({"nn.concat", {"batch=17 plain=5"}, {"batch=17 head_dim=5"}});
  out.push_back({"nn.constant",
                 {},
                 {"batch=2 model=3"},
                 "{value = dense<[[1.5, -2.0, 0.25], [0.0, 4.0, 8.0]]>"
                 " : tensor<2x3xf32, #nn.dims<batch, model>>}"});
  out.push_back({"nn.fill", {}, {"batch=2 model=5"}, "{value = 0.75 : f64}"});
}

static void addElementwise(Cases &out) {
  for (const char *binary : {"nn.add", "nn.mul"}) {
    out.push_back({binary, {"batch=2 model=5", "batch=2 model=5"}, {"batch=2 model=5"}});
    out.push_back(
        {binary, {"batch=3 sequence=2 model=5", "model=5"}, {"batch=3 sequence=2 model=5"}});
    out.push_back(
        {binary, {"model=5 batch=3", "sequence=4 batch=3"}, {"batch=3 sequence=4 model=5"}});
    out.push_back({binary, {"batch=3", ""}, {"batch=3"}});
  }
  out.push_back({"nn.add_n", {"model=5", "model=5", "model=5"}, {"model=5"}});
  out.push_back({"nn.add_n", {"batch=1 model=5"}, {"batch=1 model=5"}});
  out.push_back({"nn.cast", {"batch=3 ffn=17"}, {"bf16 batch=3 ffn=17"}});
  out.push_back({"nn.cast", {"bf16 batch=3 ffn=17"}, {"batch=3 ffn=17"}});
  for (std::string name : {"nn.silu", "nn.sigmoid", "nn.gelu", "nn.relu"}) {
    out.push_back({name, {"batch=3 ffn=17"}, {"batch=3 ffn=17"}});
    out.push_back({name + "_grad", {"batch=3 ffn=17", "batch=3 ffn=17"}, {"batch=3 ffn=17"}});
  }
  // Bounds that many of the elements exceed.
  const std::string glu = "{alpha = 1.702 : f64, limit = 0.4 : f64}", each = "batch=3 ffn=17";
  out.push_back({"nn.clamped_glu", {each, each}, {each}, glu});
  out.push_back({"nn.clamped_glu", {each, "ffn=17"}, {each}, glu});
  for (const char *name : {"nn.clamped_glu_gate_grad", "nn.clamped_glu_up_grad"})
    out.push_back({name, {each, each, each}, {each}, glu});
  out.push_back({"nn.soft_cap", {"batch=3 ffn=17"}, {"batch=3 ffn=17"}, "{cap = 0.7 : f64}"});
  out.push_back({"nn.soft_cap_grad",
                 {"batch=3 ffn=17", "batch=3 ffn=17"},
                 {"batch=3 ffn=17"},
                 "{cap = 0.7 : f64}"});
  out.push_back({"nn.gelu", {"batch=3 ffn=17"}, {"batch=3 ffn=17"}, "{tanh}"});
  out.push_back(
      {"nn.gelu_grad", {"batch=3 ffn=17", "batch=3 ffn=17"}, {"batch=3 ffn=17"}, "{tanh}"});
}

static void addNorms(Cases &out) {
  const std::string eps = "{eps = 1.0e-5 : f64}";
  for (std::string rows : {"batch=3", "batch=2 sequence=5", "sequence=1"}) {
    std::string x = rows + " model=7";
    out.push_back({"nn.rms_norm", {x, "model=7"}, {x, rows}, eps});
    out.push_back({"nn.rms_norm_grad", {x, "model=7", "positive " + rows, x}, {x, "model=7"}});
    out.push_back({"nn.layer_norm", {x, "model=7", "model=7"}, {x, rows, rows}, eps});
    out.push_back({"nn.layer_norm_grad",
                   {x, "model=7", rows, "positive " + rows, x},
                   {x, "model=7", "model=7"}});
  }
  out.push_back({"nn.rms_norm",
                 {"batch=3 kv_head=2 head_dim=3", "kv_head=2 head_dim=3"},
                 {"batch=3 kv_head=2 head_dim=3", "batch=3"},
                 eps});
}

static void addAttention(Cases &out) {
  const std::string rope = "{frequencies = array<f64: 1.0, 0.3>}";
  const std::string back = "{frequencies = array<f64: 1.0, 0.3>, inverse}";
  const std::string positions = "int:0:9 batch=2 sequence=5";
  for (const std::string &attributes : {rope, back}) {
    std::string x = "batch=2 sequence=5 kv_head=3 head_dim=4";
    out.push_back({"nn.rope", {x, positions}, {x}, attributes});
  }
  std::string grouped = "batch=2 sequence=5 kv_head=3 group=2 head_dim=4";
  out.push_back({"nn.rope", {grouped, positions}, {grouped}, rope});
  for (const char *inverse : {"", ", inverse"})
    out.push_back(
        {"nn.rope",
         {grouped, positions},
         {grouped},
         "{frequencies = array<f64: 1.0, 0.3>, interleaved" + std::string(inverse) + "}"});
  // The first 4 values of 12 are turned.
  std::string wide = "batch=2 sequence=5 kv_head=3 head_dim=12";
  for (const std::string &attributes : {rope, back})
    out.push_back({"nn.rope", {wide, positions}, {wide}, attributes});
  auto add = [&](const std::string &rows, const std::string &key,
                 const std::string &scale = "{scale = 0.5 : f64}") {
    std::string query = rows + " head_dim=4";
    out.push_back({"nn.attention", {query, key, key}, {query, rows}, scale});
    out.push_back({"nn.attention_grad",
                   {query, key, key, query, "positive " + rows, query},
                   {query, key, key},
                   scale});
  };
  add("batch=2 sequence=5 kv_head=3 group=3", "batch=2 sequence=5 kv_head=3 head_dim=4");
  add("batch=1 sequence=3 kv_head=1 group=5", "batch=1 sequence=3 kv_head=1 head_dim=4");
  add("batch=3 sequence=1 kv_head=2", "batch=3 sequence=1 kv_head=2 head_dim=4");
  for (const char *more : {"window = 3 : i64", "window = 1 : i64", "window = 9 : i64",
                           "cap = 0.8 : f64", "cap = 2.0 : f64, window = 2 : i64"})
    add("batch=2 sequence=5 kv_head=3 group=2", "batch=2 sequence=5 kv_head=3 head_dim=4",
        "{scale = 0.5 : f64, " + std::string(more) + "}");
  // By position: in any order, of other numbers, some queries before every key.
  auto addAt = [&](const std::string &rows, const std::string &key, const std::string &more = "") {
    std::string scale = "{scale = 0.5 : f64" + more + "}", query = rows + " head_dim=4";
    std::string atQueries = "int:0:9 " + rows.substr(0, rows.find(" kv_head")),
                atKeys = "int:0:9 " + key.substr(0, key.find(" kv_head"));
    out.push_back({"nn.attention", {query, key, key, atQueries, atKeys}, {query, rows}, scale});
    out.push_back({"nn.attention_grad",
                   {query, key, key, query, "positive " + rows, query, atQueries, atKeys},
                   {query, key, key},
                   scale});
  };
  addAt("batch=2 sequence=5 kv_head=3 group=2", "batch=2 sequence=5 kv_head=3 head_dim=4");
  addAt("batch=2 sequence=3 kv_head=1 group=2", "batch=2 sequence=7 kv_head=1 head_dim=4");
  addAt("batch=1 sequence=7 kv_head=2", "batch=1 sequence=4 kv_head=2 head_dim=4",
        ", window = 3 : i64, cap = 0.8 : f64");
}

/// Values of another width than keys, sinks, and both with positions.
static void addFurtherAttention(Cases &out) {
  auto add = [&](const std::string &rows, const std::string &keys, const std::string &heads,
                 std::vector<std::string> positions, bool sinks, const std::string &more = "") {
    const std::string scale = "{scale = 0.5 : f64" + more + "}", query = rows + " head_dim=4",
                      key = keys + " head_dim=4", value = keys + " value_dim=3",
                      result = rows + " value_dim=3";
    std::vector<std::string> operands = {query, key, value},
                             back = {query, key, value, result, "positive " + rows, result};
    operands.insert(operands.end(), positions.begin(), positions.end());
    back.insert(back.end(), positions.begin(), positions.end());
    if (sinks)
      operands.push_back(heads);
    out.push_back({"nn.attention", operands, {result, rows}, scale});
    out.push_back({"nn.attention_grad", back, {query, key, value}, scale});
    out.push_back({"nn.attention_sink_grad", {heads, "positive " + rows, rows}, {heads}});
  };
  const std::string tokens = "batch=2 sequence=5";
  add(tokens + " kv_head=3 group=2", tokens + " kv_head=3", "kv_head=3 group=2", {}, false);
  add(tokens + " kv_head=3 group=2", tokens + " kv_head=3", "kv_head=3 group=2", {}, true,
      ", window = 3 : i64");
  add(tokens + " kv_head=2", tokens + " kv_head=2", "kv_head=2", {}, true, ", cap = 0.8 : f64");
  const std::string at = "int:0:9 batch=2 sequence=";
  add("batch=2 sequence=3 kv_head=1 group=2", "batch=2 sequence=7 kv_head=1", "kv_head=1 group=2",
      {at + "3", at + "7"}, true);
  add(tokens + " kv_head=2 group=2", tokens + " kv_head=2", "kv_head=2 group=2",
      {at + "5", at + "5"}, true);
  out.push_back({"nn.attention",
                 {tokens + " kv_head=2 group=2 head_dim=4", tokens + " kv_head=2 head_dim=4",
                  tokens + " kv_head=2 head_dim=4", "kv_head=2 group=2"},
                 {tokens + " kv_head=2 group=2 head_dim=4", tokens + " kv_head=2 group=2"},
                 "{scale = 0.5 : f64}"});
}

static void addVocabulary(Cases &out) {
  const std::string tokens = "batch=2 sequence=5", ids = "int:0:8 " + tokens;
  const std::string targets = "int:-2:8 " + tokens, logits = tokens + " vocab=9";
  out.push_back({"nn.embedding", {"vocab=9 model=5", ids}, {tokens + " model=5"}});
  out.push_back({"nn.embedding", {"vocab=9 model=5", "int:0:8 batch=3"}, {"batch=3 model=5"}});
  out.push_back({"nn.embedding_grad", {ids, tokens + " model=5"}, {"vocab=9 model=5"}});
  out.push_back({"nn.cross_entropy", {logits, targets}, {tokens, tokens}});
  out.push_back(
      {"nn.cross_entropy", {"batch=3 vocab=4", "int:-1:3 batch=3"}, {"batch=3", "batch=3"}});
  out.push_back(
      {"nn.cross_entropy_grad", {logits, targets, "positive " + tokens, tokens}, {logits}});
  out.push_back(
      {"nn.cross_entropy_partial", {logits, targets, "int:0:0"}, {tokens, tokens, tokens}});
  out.push_back({"nn.cross_entropy_partial",
                 {logits, targets, "int:1:1", "int:2:2", tokens, "positive " + tokens, tokens},
                 {tokens, tokens, tokens}});
  out.push_back({"nn.cross_entropy_grad",
                 {logits, targets, "positive " + tokens, tokens, "int:3:3", "int:1:1"},
                 {logits}});
  out.push_back({"nn.rescale_sum", {"positive " + tokens, tokens, tokens}, {tokens}});
  out.push_back({"nn.cross_entropy_combine",
                 {tokens, "positive " + tokens, tokens, targets},
                 {tokens, tokens}});
  out.push_back({"nn.count_valid", {targets}, {""}});
}

static void addRouting(Cases &out) {
  const std::string tokens = "batch=2 sequence=5", experts = tokens + " expert=7";
  const std::string choices = tokens + " choice=3", index = "int:0:6 " + choices;
  for (const std::string &x : {experts, choices, std::string("expert=4"), tokens + " model=7"}) {
    out.push_back({"nn.softmax", {x}, {x}});
    out.push_back({"nn.softmax_grad", {"positive " + x, x}, {x}});
  }
  for (const std::string &x : {experts, std::string("batch=3 choice=2")}) {
    out.push_back({"nn.normalize", {"positive " + x}, {x}, "{eps = 1.0e-3 : f64}"});
    out.push_back({"nn.normalize_grad", {"positive " + x, x}, {x}, "{eps = 1.0e-3 : f64}"});
  }
  for (const char *groups : {"groups = 4 : i64, keep = 2 : i64, take = 2 : i64",
                             "groups = 3 : i64, keep = 1 : i64, take = 1 : i64",
                             "groups = 2 : i64, keep = 2 : i64, take = 3 : i64"})
    out.push_back({"nn.keep_groups",
                   {tokens + " expert=12"},
                   {tokens + " expert=12"},
                   "{" + std::string(groups) + "}"});
  out.push_back({"nn.top_k", {experts}, {"int:0:6 " + choices}});
  out.push_back({"nn.top_k", {"batch=3 expert=2"}, {"int:0:1 batch=3 choice=1"}});
  out.push_back({"nn.top_k", {"batch=3 expert=4"}, {"int:0:3 batch=3 choice=4"}});
  out.push_back({"nn.pick", {experts, index}, {choices}});
  out.push_back({"nn.pick", {"expert=7", "int:-1:8 choice=3"}, {"choice=3"}});
  out.push_back({"nn.place", {choices, index}, {experts}});
  out.push_back({"nn.count_picks", {"int:-1:7 " + choices}, {"expert=7"}});
  out.push_back({"nn.count_picks", {"int:0:2 batch=17"}, {"expert=3"}});
  out.push_back({"nn.place", {"choice=3", "int:-1:8 choice=3"}, {"expert=7"}});
}

static void addExperts(Cases &out) {
  const std::string tokens = "batch=2 sequence=5", choices = tokens + " choice=3";
  const std::string index = "int:0:3 " + choices;
  auto add = [&](const std::string &input, const std::string &k, const std::string &table,
                 const std::string &n,
                 const std::string &pick = "int:0:3 batch=2 sequence=5 choice=3",
                 std::vector<std::string> offset = {}) {
    std::string rows = pick.substr(pick.find(' ') + 1);
    std::vector<std::string> operands = {input + " " + k, "expert=4 " + table, pick};
    operands.insert(operands.end(), offset.begin(), offset.end());
    out.push_back({"nn.expert_contract", operands, {rows + " " + n}});
  };
  add(tokens, "model=5", "ffn=7 model=5", "ffn=7");
  add(choices, "ffn=7", "model=5 ffn=7", "model=5");
  add(choices, "ffn=7", "ffn=7 model=5", "model=5");
  add("batch=3", "model=5", "ffn=2 model=5", "ffn=2", "int:0:3 batch=3");
  // Some indices are of another rank's experts.
  add(tokens, "model=5", "ffn=7 model=5", "ffn=7", "int:0:9 " + choices, {"int:3:3"});
  out.push_back({"nn.expert_outer",
                 {choices + " ffn=7", tokens + " model=5", index},
                 {"expert=4 ffn=7 model=5"}});
  out.push_back({"nn.expert_outer",
                 {choices + " model=5", choices + " ffn=7", index},
                 {"expert=4 model=5 ffn=7"}});
  out.push_back({"nn.expert_outer",
                 {choices + " ffn=7", tokens + " model=5", "int:0:9 " + choices, "int:3:3"},
                 {"expert=4 ffn=7 model=5"}});
}

static void addOptimizer(Cases &out) {
  out.push_back({"nn.sum_squares", {"ffn=7 model=5"}, {""}});
  out.push_back({"nn.clip_scale", {"positive"}, {"", ""}, "{max_norm = 0.5 : f64}"});
  out.push_back({"nn.clip_scale", {"positive"}, {"", ""}});
  out.push_back({"nn.reciprocal", {"positive"}, {""}});
  std::string w = "ffn=7 model=5";
  out.push_back({"nn.adamw",
                 {w, w, w, "positive " + w, "positive", "positive", "positive", "positive"},
                 {w, w, w},
                 "{beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64,"
                 " weight_decay = 0.1 : f64}"});
}

const std::vector<OpCase> &allCases() {
  static const Cases cases = [] {
    Cases out;
    addContractions(out);
    addElementwise(out);
    addNorms(out);
    addAttention(out);
    addFurtherAttention(out);
    addVocabulary(out);
    addRouting(out);
    addExperts(out);
    addOptimizer(out);
    return out;
  }();
  return cases;
}

} // namespace cleave::test
