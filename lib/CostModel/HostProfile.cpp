//===- HostProfile.cpp - Reading share/hosts -------------------------------===//

#include "cleave/CostModel/HostProfile.h"
#include "lib/CostModel/Files.h"
#include "runtime/Base/ObjectReader.h"

namespace cleave::cost {

/// Orders separated by commas.
static rt::StatusOr<std::vector<AxisOrder>> ordersOf(const std::string &text,
                                                     const std::string &file) {
  std::vector<AxisOrder> orders;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::optional<AxisOrder> order = AxisOrder::of(text.substr(begin, end - begin));
    if (!order)
      return rt::userError("host.wrong_value", "'orders' has one that does not name each axis once")
          .at({file, 0, 0})
          .withGiven(text)
          .withRule("orders of tp, cp, dp and pp, the innermost first, separated by commas")
          .suggest(AxisOrder().text());
    orders.push_back(*order);
    begin = end + 1;
  }
  return orders;
}

rt::StatusOr<HostProfile> readHostProfile(const std::string &share, const std::string &name) {
  const std::string folder = share + "/hosts";
  CLEAVE_RT_ASSIGN_OR_RETURN(const rt::JsonValue json, readNamed(folder, name, "host.unknown"));
  rt::ObjectReader in(json, folder + "/" + name + ".json", "host");
  in.checkVersion(1);
  constexpr rt::NumberRange amount{.min = 0}, share1{.min = 0, .max = 1};
  HostProfile p;
  p.name = in.string("name").value_or(name);
  in.require("source");
  in.string("source");
  p.lacks = in.string("lacks").value_or("");
  CLEAVE_RT_ASSIGN_OR_RETURN(
      p.orders, ordersOf(in.string("orders").value_or(""), folder + "/" + name + ".json"));
  p.attention =
      in.oneOf("attention", {"unfused", "flash1", "flash2", "flash3"}).value_or(p.attention);
  p.mergesProducts = in.boolean("merges_products").value_or(p.mergesProducts);
  p.fusesElementwise = in.boolean("fuses_elementwise").value_or(p.fusesElementwise);
  p.memoryPasses = in.number("memory_passes", amount).value_or(p.memoryPasses);
  p.statisticBytes = Bytes(in.number("statistic_bytes", amount).value_or(p.statisticBytes.value));
  p.launch = Seconds(in.number("launch", amount).value_or(0));
  p.launchesPerPiece = in.number("launches_per_piece", amount).value_or(p.launchesPerPiece);
  p.launchesPerExpert16 = in.number("launches_per_expert", amount).value_or(p.launchesPerExpert16);
  p.launchesPerExpert8 =
      in.number("launches_per_expert_fp8", amount).value_or(p.launchesPerExpert8);
  p.launchesPerExpertScaled =
      in.number("launches_per_expert_scaled", amount).value_or(p.launchesPerExpertScaled);
  p.hiddenTensor = in.number("hidden_tensor", share1).value_or(p.hiddenTensor);
  p.hiddenExperts = in.number("hidden_experts", share1).value_or(p.hiddenExperts);
  p.overlapsData = in.boolean("overlaps_data").value_or(p.overlapsData);
  p.exchangesTensors = in.boolean("exchanges_tensors").value_or(p.exchangesTensors);
  p.gathersOnce = in.boolean("gathers_once").value_or(p.gathersOnce);
  p.overlapsContext = in.boolean("overlaps_context").value_or(p.overlapsContext);
  p.overlapsSends = in.boolean("overlaps_sends").value_or(p.overlapsSends);
  p.splitsWaves = in.boolean("splits_waves").value_or(p.splitsWaves);
  p.stopsRecompute = in.boolean("stops_recompute").value_or(p.stopsRecompute);
  p.balancesStages = in.boolean("balances_stages").value_or(p.balancesStages);
  p.gradient = Bytes(in.number("gradient_bytes", amount).value_or(p.gradient.value));
  p.gradientExchange =
      Bytes(in.number("gradient_exchange_bytes", amount).value_or(p.gradientExchange.value));
  p.ownedGradient =
      Bytes(in.number("owned_gradient_bytes", amount).value_or(p.ownedGradient.value));
  p.reducedGradient =
      Bytes(in.number("reduced_gradient_bytes", amount).value_or(p.reducedGradient.value));
  p.addedGradient =
      Bytes(in.number("added_gradient_bytes", amount).value_or(p.addedGradient.value));
  p.buckets = Bytes(in.number("buckets", amount).value_or(p.buckets.value));
  p.keepsOutputs = in.boolean("keeps_outputs").value_or(p.keepsOutputs);
  p.accumulate = Bytes(in.number("accumulate_bytes", amount).value_or(p.accumulate.value));
  p.statisticKept =
      Bytes(in.number("statistic_kept_bytes", amount).value_or(p.statisticKept.value));
  p.packs = in.boolean("packs").value_or(p.packs);
  p.gathersTokens = in.boolean("gathers_tokens").value_or(p.gathersTokens);
  p.keepsNarrowWeights = in.boolean("keeps_narrow_weights").value_or(p.keepsNarrowWeights);
  p.statisticPiece = Bytes(in.number("statistic_piece", amount).value_or(p.statisticPiece.value));
  p.dropoutMasks = in.number("dropout_masks", amount).value_or(p.dropoutMasks);
  p.update = Bytes(in.number("update_bytes", amount).value_or(p.update.value));
  p.step = Seconds(in.number("step", amount).value_or(p.step.value));
  if (rt::Status s = in.finish(); !s.ok())
    return s;
  return p;
}

} // namespace cleave::cost
