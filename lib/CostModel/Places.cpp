//===- Places.cpp - Where the ranks of an exchange stand --------------------===//

#include "cleave/CostModel/Places.h"
#include <algorithm>
#include <numeric>

namespace cleave::cost {

Places::Places(const Layout &layout, int64_t domain)
    : sizes{layout.tensor, layout.context, layout.data, layout.pipeline}, order(layout.order),
      devices(layout.devices), domain(domain), expert(layout.expert),
      expertWidth(layout.expertWidth), dealt(layout.experts) {}

Places::Line Places::along(MeshAxis axis, int64_t ranks, int64_t inside) const {
  return {order.strideOf(axis, sizes) * inside, ranks};
}

int64_t Places::nearOf(Line line) const {
  if (line.stride >= domain)
    return 1;
  const int64_t most = domain / line.stride;
  if (line.ranks > most)
    return most;
  // Groups that do not fill a domain evenly: one of them stands on two. Where domains are not full
  // (64 devices of each 72, say) whoever gave them out is taken to have kept groups together.
  if (devices > domain && devices % domain == 0 && domain % (line.stride * line.ranks) != 0)
    return (line.ranks + 1) / 2;
  return line.ranks;
}

Group Places::groupOf(std::array<Line, 3> lines) const {
  std::sort(lines.begin(), lines.end(),
            [](const Line &a, const Line &b) { return a.stride < b.stride; });
  Group group;
  Line line{1, 1};
  for (const Line &next : lines) {
    if (next.ranks == 1)
      continue;
    group.ranks *= next.ranks;
    // What goes on where the last one ends is one with it.
    if (line.ranks > 1 && line.stride * line.ranks == next.stride) {
      line.ranks *= next.ranks;
      continue;
    }
    group.perDomain *= nearOf(line);
    line = next;
  }
  group.perDomain *= nearOf(line);
  return group;
}

Group Places::tensor() const { return groupOf({along(MeshAxis::Tensor, size(MeshAxis::Tensor))}); }

Group Places::context() const {
  return groupOf({along(MeshAxis::Context, size(MeshAxis::Context))});
}

Group Places::replicas() const {
  return groupOf({along(MeshAxis::Context, size(MeshAxis::Context)),
                  along(MeshAxis::Data, size(MeshAxis::Data))});
}

std::pair<int64_t, int64_t> Places::partsOf(int64_t ranks) const {
  const int64_t context = std::gcd(ranks, size(MeshAxis::Context));
  return {context, std::gcd(ranks / context, size(MeshAxis::Data))};
}

Group Places::sharing(int64_t ranks) const {
  const auto [context, data] = partsOf(ranks);
  Group group = groupOf({along(MeshAxis::Context, context), along(MeshAxis::Data, data)});
  group.ranks = ranks;
  return group;
}

Group Places::acrossSharing(int64_t ranks) const {
  const auto [context, data] = partsOf(ranks);
  Group group = groupOf({along(MeshAxis::Context, size(MeshAxis::Context) / context, context),
                         along(MeshAxis::Data, size(MeshAxis::Data) / data, data)});
  group.ranks = size(MeshAxis::Context) * size(MeshAxis::Data) / ranks;
  return group;
}

Group Places::experts() const {
  if (dealt)
    return groupOf({along(MeshAxis::Tensor, dealt->tensor),
                    along(MeshAxis::Context, dealt->context), along(MeshAxis::Data, dealt->data)});
  return {expert, std::min(expert, std::max<int64_t>(1, domain / size(MeshAxis::Tensor)))};
}

Group Places::expertReplicas() const {
  const int64_t ranks =
      size(MeshAxis::Data) * size(MeshAxis::Context) * (expertWidth ? 1 : size(MeshAxis::Tensor));
  if (dealt) {
    Group group =
        groupOf({along(MeshAxis::Context, size(MeshAxis::Context) / dealt->context, dealt->context),
                 along(MeshAxis::Data, size(MeshAxis::Data) / dealt->data, dealt->data)});
    group.ranks = std::max<int64_t>(1, ranks / expert);
    return group;
  }
  // Behind the ranks of experts, and of the pipeline where it is further in than data.
  const bool isPipelineInside =
      order.strideOf(MeshAxis::Pipeline, sizes) < order.strideOf(MeshAxis::Data, sizes);
  const int64_t stride = expert * (isPipelineInside ? size(MeshAxis::Pipeline) : 1);
  const int64_t replicas = std::max<int64_t>(1, ranks / expert);
  return {replicas, std::min(replicas, std::max<int64_t>(1, domain / stride))};
}

bool Places::pipelineIsNear() const {
  const Line line = along(MeshAxis::Pipeline, size(MeshAxis::Pipeline));
  return nearOf(line) == line.ranks;
}

std::array<int64_t, 3> Places::ofLayers() const {
  return {tensor().perDomain, context().perDomain, experts().perDomain};
}

std::array<int64_t, 6> Places::all() const {
  return {tensor().perDomain,   context().perDomain,        experts().perDomain,
          replicas().perDomain, expertReplicas().perDomain, pipelineIsNear()};
}

} // namespace cleave::cost
