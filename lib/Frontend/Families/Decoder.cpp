//===- Decoder.cpp - What the layers of decoders have in common ---------------===//

#include "lib/Frontend/Families/Decoder.h"

using mlir::Value;

namespace cleave::frontend {

void Norm::declare(std::vector<Parameter> &parameters, const std::string &stem,
                   const std::vector<NamedDim> &dims) const {
  parameters.push_back(parameter(stem + ".weight", {dims}, constantInit(aroundOne ? 0 : 1)));
  if (bias)
    parameters.push_back(parameter(stem + ".bias", {dims}, constantInit(0)));
}

Value Norm::apply(LayerGraph &g, const std::string &path, Value x, const std::string &stem) const {
  return kind == Kind::Layer ? g.layerNorm(path, x, stem, eps)
                             : g.rmsNorm(path, x, stem, eps, aroundOne ? 1 : 0);
}

void declareLinear(std::vector<Parameter> &parameters, const std::string &stem,
                   std::vector<NamedDim> out, std::vector<NamedDim> in, bool bias, double std) {
  parameters.push_back(parameter(stem + ".weight", {out, std::move(in)}, normalInit(std)));
  if (bias)
    parameters.push_back(parameter(stem + ".bias", {std::move(out)}, constantInit(0)));
}

LayerKind Decoder::embed() const {
  LayerKind kind{"embed", LayerRole::Embed};
  kind.parameters = {parameter(embedding + ".weight", {{vocab()}, {embedded()}}, normalInit(std))};
  kind.parameters.insert(kind.parameters.end(), embedExtras.begin(), embedExtras.end());
  if (!embedExtras.empty())
    return kind;
  kind.graph = [table = embedding + ".weight", factor = embeddingFactor](LayerGraph &g) {
    Value rows = g.embedding("embed.tokens", table, g.tokens());
    if (factor != 1)
      rows = g.mul("embed.scaled", rows, g.fill("embed.factor", rows, factor));
    g.finish(g.fill("embed.zero", rows, 0.0), rows);
  };
  return kind;
}

LayerKind Decoder::block(const BlockKind &made) const {
  LayerKind kind{made.name, LayerRole::Block, /*usesPositions=*/true};
  auto normOf = [&](const std::string &stem) {
    if (!stem.empty())
      norm.declare(kind.parameters, stem, {model()});
  };
  auto append = [&](const std::vector<Parameter> &more) {
    kind.parameters.insert(kind.parameters.end(), more.begin(), more.end());
  };
  normOf(attentionNorm);
  append(made.attention.parameters);
  normOf(attentionPostNorm);
  normOf(feedForwardNorm);
  append(made.feedForward.parameters);
  normOf(feedForwardPostNorm);
  kind.balanced = made.feedForward.balanced;
  if (!made.attention.graph || !made.feedForward.graph)
    return kind;

  kind.graph = [d = *this, attention = made.attention.graph,
                feedForward = made.feedForward.graph](LayerGraph &g) {
    auto normed = [&](const char *path, Value x, const std::string &stem) {
      return stem.empty() ? x : d.norm.apply(g, path, x, stem);
    };
    Value x = g.add("attention.residual", g.residual(), g.pending());
    Value h = normed("attention.norm", x, d.attentionNorm);
    Value a = normed("attention.post_norm", attention(g, h), d.attentionPostNorm);
    if (d.parallel)
      h = d.feedForwardNorm.empty() ? h : normed("mlp.norm", x, d.feedForwardNorm);
    else {
      x = g.add("mlp.residual", x, a);
      h = normed("mlp.norm", x, d.feedForwardNorm);
    }
    Value m = normed("mlp.post_norm", feedForward(g, h), d.feedForwardPostNorm);
    g.finish(x, d.parallel ? g.add("mlp.branches", a, m) : m);
  };
  return kind;
}

LayerKind Decoder::head() const {
  LayerKind kind{"head", LayerRole::Head};
  if (!finalNorm.empty())
    norm.declare(kind.parameters, finalNorm, {model()});
  kind.parameters.insert(kind.parameters.end(), headExtras.begin(), headExtras.end());
  kind.parameters.push_back(outputParameter(tied, embedding + ".weight", vocab(), embedded(),
                                            normalInit(std), output + ".weight"));
  if (outputBias)
    kind.parameters.push_back(parameter(output + ".bias", {{vocab()}}, constantInit(0)));
  if (!headExtras.empty())
    return kind;
  kind.graph = [d = *this](LayerGraph &g) {
    Value x = g.add("head.residual", g.residual(), g.pending());
    Value h = d.finalNorm.empty() ? x : d.norm.apply(g, "head.norm", x, d.finalNorm);
    Value logits = g.linear("head.logits", h, d.tied ? d.embedding : d.output, {"vocab"});
    if (d.logitCap != 0)
      logits = g.softCap("head.logits.cap", logits, d.logitCap);
    g.finish(g.loss("head.loss", logits));
  };
  return kind;
}

/// factor · experts · Σ (share of the choices) · (mean score), both over all tokens of all
/// layers together: `active` choices for each of them.
LayerKind Decoder::balance(int64_t experts, int64_t active) const {
  LayerKind kind{"balance", LayerRole::Balance};
  kind.balanced = experts;
  const double factor =
      balanceFactor * static_cast<double>(experts) * static_cast<double>(active * active);
  kind.graph = [factor](LayerGraph &g) {
    Value each = g.reciprocal("balance.each", g.total("balance.choices", g.loads()));
    Value loads = g.mul("balance.loads", g.loads(), each);
    Value scores = g.mul("balance.scores", g.scores(), each);
    Value sum = g.total("balance.sum", g.mul("balance.products", scores, loads));
    g.finish(g.mul("balance.term", sum, g.fill("balance.factor", sum, factor)));
  };
  return kind;
}

FamilyModel Decoder::build(const std::vector<BlockKind> &kinds,
                           const std::function<size_t(int64_t)> &kindOf) const {
  FamilyModel model{sizes, {}};
  Architecture &architecture = model.architecture;
  architecture.call(architecture.addKind(embed()));
  std::vector<std::optional<size_t>> added(kinds.size());
  for (int64_t i = 0; i < sizes.layers; ++i) {
    std::optional<size_t> &kind = added[kindOf(i)];
    if (!kind)
      kind = architecture.addKind(block(kinds[kindOf(i)]));
    architecture.callBlock(*kind, prefix, i);
  }
  for (const BlockKind &made : kinds)
    if (made.feedForward.balanced > 0) {
      architecture.call(
          architecture.addKind(balance(made.feedForward.balanced, made.feedForward.active)));
      break;
    }
  architecture.call(architecture.addKind(head()));
  return model;
}

FamilyModel Decoder::build(BlockKind kind) const {
  return build({std::move(kind)}, [](int64_t) { return size_t(0); });
}

} // namespace cleave::frontend
