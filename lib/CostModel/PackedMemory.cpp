//===- PackedMemory.cpp - Memory of a program that was packed ----------------===//

#include "lib/CostModel/PackedMemory.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

namespace cleave::cost {

/// What is never rounded: sums between layers, statistics, what products make of gradients, weights
/// and their gradients.
static constexpr double kWide = 4;

Bytes weightBytes(const HostProfile &host, const Layout &layout) {
  return host.keepsNarrowWeights ? layout.weightBytes() : Bytes(kWide);
}

namespace {

class PackedLayer {
public:
  PackedLayer(const KindWork &kind, const HostProfile &host, const Layout &layout)
      : kind(kind), layout(layout), cuts(cutsOf(kind, layout)), narrow(layout.valueBytes().value) {
    if (host.gathersTokens)
      gatherTokens();
  }

  LayerMemory run() {
    LayerMemory memory;
    const double read = readOf(), handed = handedOf();
    memory.handed = Bytes(kWide * handed);
    // Layers are given and give sums.
    const double given = kWide * handed * kind.outputs;
    const double rows = gatheredRows();
    const auto [chain, done] = chainOf();
    const double others = std::max(productOf(), scoresOf());
    memory.saved = Bytes(read);
    memory.working = Bytes(given + std::max(chain, others + rows));
    if (layout.recompute == Recompute::All && !isLast()) {
      memory.saved = Bytes(given);
      memory.working = Bytes(given + read + rows + std::max(chain - done, others));
    }
    if (layout.recompute == Recompute::Passes && !isLast()) {
      memory.saved = Bytes(bytesOf(kind.dear, kind.dearStatistics));
      memory.working = Bytes(given + againOf() + std::max(chain - done, others + rows));
    }
    memory.statistic = Bytes((kWide + narrow) * statistic());
    memory.apart = Bytes(narrow * apart());
    return memory;
  }

private:
  /// Of all ranks that experts are dealt out over; those of a tensor axis have the same ones,
  /// unless it cuts the sequence.
  void gatherTokens() {
    const bool isSame = !layout.expertWidth && layout.tensor > 1 && !layout.sequence;
    cuts.routed.open["batch"] *=
        static_cast<double>(layout.expert) / static_cast<double>(isSame ? layout.tensor : 1);
  }

  double elements(const Extents &extents) const {
    return isRouted(kind, extents) ? cuts.routed.gathered(extents) : cuts.plain.elements(extents);
  }

  double handedOf() const {
    return layout.sequence ? cuts.plain.elements(kind.output) : cuts.plain.gathered(kind.output);
  }

  double bytesOf(const Saved &saved) const {
    // What the statistic is made of is no part of it.
    return isOfStatistic(saved.extents)
               ? 0
               : elements(saved.extents) * (saved.isStream ? kWide : narrow);
  }

  double bytesOf(const std::vector<Saved> &values, const std::vector<Extents> &rows) const {
    double bytes = 0;
    for (const Saved &saved : values)
      bytes += bytesOf(saved);
    for (const Extents &row : rows)
      bytes += kWide * elements(row);
    return bytes;
  }

  double readOf() const { return bytesOf(kind.saved, kind.statistics); }

  /// What is made again of what is dear.
  double againOf() const {
    double bytes = 0;
    for (const Saved &saved : kind.saved)
      if (!saved.isDear)
        bytes += bytesOf(saved);
    return bytes;
  }

  /// Nothing goes on from here; it is not computed again.
  bool isLast() const { return kind.outputs == 0; }

  bool isOfStatistic(const Extents &extents) const {
    return isLast() && llvm::any_of(kind.passes, [&](const Pass &pass) {
             return pass.kind == PassKind::Statistic && pass.reads.front().extents == extents;
           });
  }

  double statistic() const {
    double most = 0;
    for (const Pass &pass : kind.passes)
      if (pass.kind == PassKind::Statistic)
        most = std::max(most, cuts.plain.elements(pass.reads.front().extents));
    return most;
  }

  /// Gradients of products' results; picked matrices get theirs at once.
  double apart() const {
    double sum = 0;
    for (const Product &p : kind.products)
      if (!p.isPicked)
        sum += cuts.plain.gathered(p.rows) * cuts.plain.gathered(p.columns);
    return sum;
  }

  /// Bytes of gradients that live while the largest chain goes back, and what is saved and not
  /// needed any more by then.
  std::pair<double, double> chainOf() const {
    std::pair<double, double> most;
    std::map<int, std::pair<double, double>> chains;
    for (const Pass &pass : kind.passes) {
      if (pass.kind == PassKind::Statistic)
        continue;
      auto &[bytes, done] = chains[pass.chain];
      auto inChain = [&](int maker) {
        return maker >= 0 && kind.passes[maker].chain == pass.chain;
      };
      for (const Pass::Operand &read : pass.reads)
        // Handed on within the chain.
        bytes +=
            inChain(read.maker) ? -kWide * elements(read.extents) : narrow * elements(read.extents);
      for (const Pass::Operand &write : pass.writes) {
        bytes += kWide * elements(write.extents);
        done = narrow * elements(write.extents);
      }
    }
    for (const auto &[chain, piece] : chains)
      most = std::max(most, piece);
    return most;
  }

  /// The same of products of one input: gradients of their results, which go one by one, and what
  /// each adds to the input's.
  double productOf() const {
    struct Sum {
      double results = 0, last = 0, inputs = 0, input = 0, gathered = 0;
    };
    std::map<int, Sum> sums;
    for (const Product &p : kind.products) {
      const Cut &cut = p.isPicked ? cuts.routed : cuts.plain;
      const double rows = cut.gathered(p.rows);
      Sum &sum = sums[p.input];
      const double result = narrow * rows * cut.gathered(p.columns);
      sum.results += result;
      sum.last = sum.last > 0 ? std::min(sum.last, result) : result;
      sum.input = rows * cut.gathered(p.summed);
      sum.inputs += kWide * sum.input;
      // What comes in is gathered again for the gradient of the weight.
      if (layout.sequence && layout.tensor > 1 && !p.isPicked)
        sum.gathered = narrow * sum.input;
    }
    double most = 0;
    for (const auto &[input, sum] : sums)
      most = std::max(most, sum.gathered +
                                std::max(sum.results + kWide * sum.input, sum.inputs + sum.last));
    return most;
  }

  /// Gradients of what attention makes and of what it reads, keys and values of all context ranks.
  double scoresOf() const {
    double most = 0;
    for (const Scores &s : kind.scores)
      most = std::max(most, (narrow + kWide) * cuts.plain.gathered(s.queries) + kWide * rowsOf(s));
    return most;
  }

  double rowsOf(const Scores &s) const {
    return static_cast<double>(layout.context) *
           (cuts.plain.gathered(s.keys) + cuts.plain.gathered(s.values));
  }

  /// Keys and values of all context ranks.
  double gatheredRows() const {
    double bytes = 0;
    if (layout.context > 1)
      for (const Scores &s : kind.scores)
        bytes = std::max(bytes, narrow * rowsOf(s));
    return bytes;
  }

  const KindWork &kind;
  const Layout &layout;
  Cuts cuts;
  const double narrow;
};

} // namespace

LayerMemory packedLayer(const KindWork &kind, const HostProfile &host, const Layout &layout) {
  return PackedLayer(kind, host, layout).run();
}

/// Of `bytes` as much as a piece of the statistic has.
static Bytes pieceOf(const HostProfile &host, Bytes bytes, double width) {
  if (host.statisticPiece == Bytes())
    return bytes;
  // The piece is given in what is wide.
  return std::min(bytes, host.statisticPiece * (width / kWide));
}

/// A matrix that is made narrow.
static Bytes narrowCopy(const HostProfile &host, const Layout &layout, double elements) {
  const bool isMade = !host.keepsNarrowWeights && layout.width <= 16;
  return Bytes(isMade ? layout.valueBytes().value * elements : 0);
}

Bytes packedBeside(const Device &device, const HostProfile &host, const Layout &layout,
                   const RankLoad &load, Bytes working) {
  Bytes beside = narrowCopy(host, layout, load.innerWeight);
  // What nobody shares is where it is kept.
  if (layout.sharing >= Sharing::Gradients)
    beside += Bytes(
        kWide *
        ((Places(layout, device.link.domain).replicas().ranks > 1 ? load.innerPlain : 0) +
         (Places(layout, device.link.domain).expertReplicas().ranks > 1 ? load.innerExperts : 0)));
  // Products of weights come later, alone.
  if (layout.pipeline > 1 && layout.schedule.starts_with("zb"))
    return std::max(working, beside);
  return working + beside;
}

PackedStatistic packedStatistic(const StepInput &in, const LayerMemory &memory) {
  const double narrow = in.layout.valueBytes().value;
  const Bytes both = pieceOf(in.host, memory.statistic, kWide + narrow);
  const Bytes forward = both * (kWide / (kWide + narrow));
  const Bytes copy = narrowCopy(in.host, in.layout, memory.largestWeight);
  // Pieces go back as soon as they are made.
  if (in.layout.pipeline == 1 || both < memory.statistic)
    return {memory.saved + both + copy, Bytes()};
  const bool isApart = in.layout.schedule.starts_with("zb");
  return {both - forward + copy, memory.saved + forward + (isApart ? memory.apart : Bytes())};
}

Bytes packedStage(const StepInput &in, const std::vector<int64_t> &stageBegins, int64_t stage) {
  const auto stages = static_cast<int64_t>(stageBegins.size()) - 1;
  Bytes kept;
  // What comes in and goes on, and the gradients of both.
  if (stage > 0)
    kept += 2 * in.memoryOf(stageBegins[stage] - 1).handed;
  if (stage + 1 < stages)
    kept += 2 * in.memoryOf(stageBegins[stage + 1] - 1).handed;
  const bool isApart = in.layout.schedule.starts_with("zb");
  for (int64_t i = stageBegins[stage]; i < stageBegins[stage + 1]; ++i)
    if (i + 1 == in.layers())
      kept += packedStatistic(in, in.memoryOf(i)).kept;
    else if (i > 0 && isApart)
      kept += in.memoryOf(i).apart;
  return kept;
}

void packEnds(const StepInput &in, bool hasFirst, int64_t stages, RankLoad &load) {
  if (!hasFirst)
    return;
  const Bytes table(kWide * in.memoryOf(0).largestWeight);
  // Without a pipeline what layers kept is gone by then.
  load.working = std::max(load.working, stages > 1 ? table : above(table, load.saved));
}

} // namespace cleave::cost
