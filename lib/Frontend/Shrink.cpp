//===- Shrink.cpp - The same model with smaller sizes ------------------------===//

#include "cleave/Frontend/Shrink.h"

#include "cleave/Support/Sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace cleave::frontend {

using rt::JsonValue;

namespace {
/// What a size is of. The names are those of all families.
enum class Role {
  Layers,
  Width,
  Heads,
  KvHeads,
  HeadDim,
  /// Parts of a head, and ranks of the matrices that make it, of latent attention.
  LatentHead,
  LatentRank,
  Inner,
  Vocabulary,
  Window,
  Positions
};

struct SizeName {
  std::string_view key;
  Role role;
};

constexpr SizeName kNames[] = {
    {"num_hidden_layers", Role::Layers},
    {"n_layer", Role::Layers},
    {"n_layers", Role::Layers},
    {"num_layers", Role::Layers},
    {"hidden_size", Role::Width},
    {"n_embd", Role::Width},
    {"n_embed", Role::Width},
    {"d_model", Role::Width},
    {"num_attention_heads", Role::Heads},
    {"n_head", Role::Heads},
    {"n_heads", Role::Heads},
    {"num_key_value_heads", Role::KvHeads},
    {"num_kv_heads", Role::KvHeads},
    {"head_dim", Role::HeadDim},
    {"qk_nope_head_dim", Role::LatentHead},
    {"qk_rope_head_dim", Role::LatentHead},
    {"v_head_dim", Role::LatentHead},
    {"q_lora_rank", Role::LatentRank},
    {"kv_lora_rank", Role::LatentRank},
    {"intermediate_size", Role::Inner},
    {"n_inner", Role::Inner},
    {"ffn_dim", Role::Inner},
    {"ffn_hidden_size", Role::Inner},
    {"moe_intermediate_size", Role::Inner},
    {"shared_expert_intermediate_size", Role::Inner},
    {"vocab_size", Role::Vocabulary},
    {"sliding_window", Role::Window},
    {"n_positions", Role::Positions},
    {"n_ctx", Role::Positions},
};

/// Stands for the smallest size that is alike, of each key's own.
constexpr int64_t kAlike = -1;
constexpr int64_t kLeastWidth = 8;

/// New values of some roles.
using Sizes = std::vector<std::pair<Role, int64_t>>;
} // namespace

static const int64_t *find(const Sizes &sizes, Role role) {
  auto it = std::ranges::find(sizes, role, &std::pair<Role, int64_t>::first);
  return it == sizes.end() ? nullptr : &it->second;
}

/// The objects of a config that may have sizes: itself, and the part with the text.
static std::vector<JsonValue *> objectsOf(JsonValue &root) {
  std::vector<JsonValue *> objects = {&root};
  if (JsonValue *text = root.find("text_config"); text && text->isObject())
    objects.push_back(text);
  return objects;
}

/// Keeps the first `to` elements of lists that have one for each of `from` layers.
static void shortenLists(JsonValue &object, int64_t from, int64_t to) {
  for (rt::JsonMember &member : object.members())
    if (member.value.isArray() && static_cast<int64_t>(member.value.elements().size()) == from)
      member.value.elements().resize(static_cast<size_t>(to));
}

/// `model` with other sizes, or nothing where its family does not take them.
static std::optional<ShrunkModel> tried(const ModelDescription &model, const Sizes &sizes,
                                        int64_t ways) {
  auto parsed = rt::parseJson(model.configText, {.file = model.file});
  if (!parsed.ok())
    return std::nullopt;
  std::vector<ShrunkModel::Change> changes;
  std::vector<JsonValue *> objects = objectsOf(*parsed);
  // A size that the file leaves to its family's default.
  auto given = [](const JsonValue *object) { return object->find("vocab_size") != nullptr; };
  if (const int64_t *vocabulary = find(sizes, Role::Vocabulary);
      vocabulary && std::ranges::none_of(objects, given)) {
    changes.push_back({"vocab_size", model.sizes.vocabSize, *vocabulary});
    objects.back()->set("vocab_size", JsonValue(*vocabulary));
  }
  for (JsonValue *object : objects) {
    for (const SizeName &name : kNames) {
      JsonValue *value = object->find(name.key);
      const int64_t *to = find(sizes, name.role);
      if (!to || !value || !value->isInteger() || value->integer() < 1)
        continue;
      const int64_t from = value->integer();
      const int64_t small = *to == kAlike ? smallerAlike(from, ways, kLeastWidth) : *to;
      if (from <= small)
        continue;
      changes.push_back({std::string(name.key), from, small});
      *value = JsonValue(small);
    }
    if (const int64_t *layers = find(sizes, Role::Layers))
      shortenLists(*object, model.sizes.layers, *layers);
    if (const int64_t *width = find(sizes, Role::HeadDim);
        width && object->find("hidden_size") && !object->find("head_dim")) {
      changes.push_back({"head_dim", model.sizes.headDim, *width});
      object->set("head_dim", JsonValue(*width));
    }
  }
  auto read = readModelText(rt::toString(*parsed), model.file);
  if (!read.ok() || read->untrained.size() != model.untrained.size())
    return std::nullopt;
  const ModelSizes &s = read->sizes;
  for (auto [role, has] : {std::pair(Role::Layers, s.layers), std::pair(Role::Width, s.hiddenSize),
                           std::pair(Role::Heads, s.heads), std::pair(Role::KvHeads, s.kvHeads),
                           std::pair(Role::HeadDim, s.headDim)})
    if (const int64_t *want = find(sizes, role); want && *want != has)
      return std::nullopt;
  // A head is turned by pairs of its elements: what has none is another model.
  if (s.headDim % 2 != 0 && model.sizes.headDim % 2 == 0)
    return std::nullopt;
  auto sameKind = [](const LayerSummary &a, const LayerSummary &b) { return a.kind == b.kind; };
  if (!std::ranges::equal(read->layers, model.layers, sameKind))
    return std::nullopt;
  return ShrunkModel{std::move(*read), std::move(changes)};
}

static Sizes joined(Sizes sizes, const Sizes &others) {
  sizes.insert(sizes.end(), others.begin(), others.end());
  return sizes;
}

/// Widths and heads to try, the smallest first.
static std::vector<Sizes> widthsOf(const ModelDescription &model, int64_t ways) {
  const ModelSizes &s = model.sizes;
  if (s.heads < 1 || s.headDim < 1 || s.hiddenSize < 1)
    return {};
  const int64_t keys = s.kvHeads > 0 ? s.kvHeads : s.heads;
  const int64_t kvHeads = smallerAlike(keys, ways, 2);
  const int64_t heads = kvHeads * (s.heads / keys);
  Sizes counts = {{Role::Heads, heads}};
  if (s.kvHeads > 0)
    counts.emplace_back(Role::KvHeads, kvHeads);
  std::vector<Sizes> all;
  for (int64_t headDim : {4, 8, 16, 32, 64})
    if (headDim < s.headDim)
      all.push_back(joined(counts, {{Role::HeadDim, headDim},
                                    {Role::Width, smallerAlike(s.hiddenSize, ways, kLeastWidth)}}));
  // A family whose heads share the width.
  for (int64_t headDim : {4, 8, 16, 32, 64})
    if (headDim < s.headDim && s.heads * s.headDim == s.hiddenSize)
      all.push_back(joined(counts, {{Role::Width, heads * headDim}}));
  // One whose heads are put together in a way of their own.
  all.push_back(joined(counts, {{Role::Width, smallerAlike(s.hiddenSize, ways, kLeastWidth)}}));
  return all;
}

ShrunkModel shrinkModel(const ModelDescription &model, const SmallSizes &sizes) {
  const ModelSizes &s = model.sizes;
  ShrunkModel best{model, {}};
  Sizes taken;
  auto take = [&](const Sizes &more) {
    auto shrunk = tried(model, joined(taken, more), sizes.ways);
    if (!shrunk)
      return false;
    best = std::move(*shrunk);
    taken = joined(taken, more);
    return true;
  };
  // As few layers as have all kinds.
  for (int64_t layers = sizes.layers; layers > 0 && layers < s.layers; ++layers)
    if (take({{Role::Layers, layers}}))
      break;
  for (const Sizes &widths : widthsOf(model, sizes.ways))
    if (take(widths))
      break;
  take({{Role::LatentHead, 4}, {Role::LatentRank, kAlike}});
  take({{Role::Inner, kAlike}});
  take({{Role::Vocabulary, smallerAlike(s.vocabSize, sizes.vocabularyWays, 16)}});
  take({{Role::Window, std::max<int64_t>(sizes.sequence / 2, 2)}});
  take({{Role::Positions, sizes.sequence}});
  return best;
}

} // namespace cleave::frontend
