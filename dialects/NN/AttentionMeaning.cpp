//===- AttentionMeaning.cpp - Attention in float64 -------------------------===//

#include "dialects/NN/NN.h"
#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

namespace {
/// The sizes of an attention, where its rows lie, row-major, and what sees what.
struct AttentionShape {
  int64_t batch, queries, keys, heads, group, width, valueWidth;
  std::optional<uint64_t> window;
  const HostTensor *queryPositions = nullptr, *keyPositions = nullptr;

  /// `positions`: none, or two.
  AttentionShape(const HostTensor &query, const HostTensor &key, const HostTensor &value,
                 ArrayRef<const HostTensor *> positions, std::optional<uint64_t> window)
      : batch(key.shape[0]), queries(query.shape[1]), keys(key.shape[1]), heads(key.shape[2]),
        group(query.rank() == 5 ? query.shape[3] : 1), width(key.shape[3]),
        valueWidth(value.shape[3]), window(window) {
    if (!positions.empty()) {
      queryPositions = positions[0];
      keyPositions = positions[1];
    }
  }

  int64_t queryRow(int64_t b, int64_t s, int64_t h, int64_t g) const {
    return ((b * queries + s) * heads + h) * group + g;
  }
  int64_t keyRow(int64_t b, int64_t s, int64_t h) const { return (b * keys + s) * heads + h; }

  /// The keys that query `i` sees, in the order of rows.
  std::vector<int64_t> seenBy(int64_t b, int64_t i) const {
    std::vector<int64_t> seen;
    double at = queryPositions ? queryPositions->data[b * queries + i] : double(i);
    for (int64_t j = 0; j < keys; ++j) {
      double other = keyPositions ? keyPositions->data[b * keys + j] : double(j);
      if (other <= at && (!window || other > at - double(*window)))
        seen.push_back(j);
    }
    return seen;
  }

  /// Calls `fn(b, h, g)` for every query head.
  template <typename Fn> void forEachHead(Fn fn) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t g = 0; g < group; ++g)
          fn(b, h, g);
  }
};
} // namespace

static double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

static const double *rowOf(const HostTensor &t, int64_t row, int64_t width) {
  return t.data.data() + row * width;
}
static double *rowOf(HostTensor &t, int64_t row, int64_t width) {
  return t.data.data() + row * width;
}

LogicalResult AttentionOp::interpret(ArrayRef<const HostTensor *> in,
                                     MutableArrayRef<HostTensor> out) {
  AttentionShape shape(*in[0], *in[1], *in[2], in.slice(3, getPositions().size()), getWindow());
  const HostTensor *sinks = getSinks() ? in.back() : nullptr;
  double scale = getScale().convertToDouble();
  double cap = getCap() ? getCap()->convertToDouble() : 0;
  int64_t w = shape.width, vw = shape.valueWidth;
  shape.forEachHead([&](int64_t b, int64_t h, int64_t g) {
    const double sink = sinks ? sinks->data[h * shape.group + g] : -INFINITY;
    for (int64_t i = 0; i < shape.queries; ++i) {
      int64_t row = shape.queryRow(b, i, h, g);
      std::vector<int64_t> seen = shape.seenBy(b, i);
      std::vector<double> score;
      double max = sink, sum = 0;
      for (int64_t j : seen) {
        double s = scale * dot(rowOf(*in[0], row, w), rowOf(*in[1], shape.keyRow(b, j, h), w), w);
        score.push_back(cap > 0 ? cap * std::tanh(s / cap) : s);
        max = std::max(max, score.back());
      }
      for (double s : score)
        sum += std::exp(s - max);
      if (sinks)
        sum += std::exp(sink - max);
      double lse = sum == 0 ? 0.0 : max + std::log(sum), *y = rowOf(out[0], row, vw);
      out[1].data[row] = lse;
      std::fill_n(y, vw, 0.0);
      for (auto [j, s] : llvm::zip(seen, score)) {
        const double *v = rowOf(*in[2], shape.keyRow(b, j, h), vw);
        for (int64_t k = 0; k < vw; ++k)
          y[k] += std::exp(s - lse) * v[k];
      }
    }
  });
  return success();
}

LogicalResult AttentionGradOp::interpret(ArrayRef<const HostTensor *> in,
                                         MutableArrayRef<HostTensor> out) {
  AttentionShape shape(*in[0], *in[1], *in[2], in.drop_front(6), getWindow());
  double scale = getScale().convertToDouble();
  double cap = getCap() ? getCap()->convertToDouble() : 0;
  int64_t w = shape.width, vw = shape.valueWidth;
  for (HostTensor &t : out)
    std::fill(t.data.begin(), t.data.end(), 0.0);
  shape.forEachHead([&](int64_t b, int64_t h, int64_t g) {
    for (int64_t i = 0; i < shape.queries; ++i) {
      int64_t row = shape.queryRow(b, i, h, g);
      const double *q = rowOf(*in[0], row, w), *dy = rowOf(*in[5], row, vw);
      double delta = dot(rowOf(*in[3], row, vw), dy, vw), *dq = rowOf(out[0], row, w);
      for (int64_t j : shape.seenBy(b, i)) {
        int64_t kv = shape.keyRow(b, j, h);
        const double *k = rowOf(*in[1], kv, w), *v = rowOf(*in[2], kv, vw);
        double *dk = rowOf(out[1], kv, w), *dv = rowOf(out[2], kv, vw);
        double score = scale * dot(q, k, w), slope = scale;
        if (cap > 0) {
          double t = std::tanh(score / cap);
          score = cap * t;
          slope *= 1 - t * t;
        }
        double p = std::exp(score - in[4]->data[row]);
        double ds = slope * p * (dot(dy, v, vw) - delta);
        for (int64_t c = 0; c < w; ++c) {
          dq[c] += ds * k[c];
          dk[c] += ds * q[c];
        }
        for (int64_t c = 0; c < vw; ++c)
          dv[c] += p * dy[c];
      }
    }
  });
  return success();
}

LogicalResult AttentionSinkGradOp::interpret(ArrayRef<const HostTensor *> in,
                                             MutableArrayRef<HostTensor> out) {
  int64_t heads = in[0]->size();
  std::fill(out[0].data.begin(), out[0].data.end(), 0.0);
  for (int64_t row = 0; row < in[1]->size(); ++row)
    out[0].data[row % heads] -=
        std::exp(in[0]->data[row % heads] - in[1]->data[row]) * in[2]->data[row];
  return success();
}
