//===- Hardware.h - What a device and its links do -------------------------===//
//
// The numbers of `share/hardware/*.json`: peaks from data sheets, and efficiency
// curves that were fitted to published measurements of single kernels and single
// collectives. Each has its source in the file. None was fitted to training runs.
//
// Rates are dense ones: data sheets often print twice as much, for matrices half of
// whose elements are zero.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/Curves.h"
#include "cleave/CostModel/Units.h"
#include "runtime/Base/Status.h"
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cleave::cost {

/// The width of what a matrix product reads, in bits: 16 (bf16, fp16), 8, 4.
using Width = int;

/// An output tile of a product's kernel: rows, columns, and its share of the best rate.
struct Tile {
  int64_t rows = 0, columns = 0;
  double share = 1;
};

/// Rates of products as measured, by size: of rows with weights, of the weights' gradients, and of
/// both where each row picks a matrix (m, of gradients k: the rows of one matrix).
struct ProductTables {
  ShapeTable plain, weights, picked, pickedWeights;

  bool hasSizesOf(const ProductTables &other) const {
    return plain.sizes == other.plain.sizes && weights.sizes == other.weights.sizes &&
           picked.sizes == other.picked.sizes && pickedWeights.sizes == other.pickedWeights.sizes;
  }
};

/// Matrix products: t = start + max(2mnk / rate(k) · waste, bytes / bandwidth), or 2mnk / rate(m,
/// n, k) where these were measured.
struct ProductCurve {
  std::map<Width, ProductTables> tables;
  /// The same with operands that lie nearer, since less is moved between two uses of one: so much
  /// was for `nearTables`, and `tablesAround` for `tables`. Empty: not measured.
  std::map<Width, ProductTables> nearTables;
  Bytes nearAround, tablesAround;
  /// Operations of a product up to which it is not cut into tiles, so that one core does it.
  double whole = 0;
  /// The best rate seen, by width.
  std::map<Width, OperationsPerSecond> rate;
  /// k at which half the rate is reached, by width: rate(k) = rate / (1 + depth/k).
  std::map<Width, double> depth;
  std::vector<Tile> tiles;
  /// Multiprocessors: tiles are done in waves of so many.
  int64_t units = 1;
  /// Waste is (multiprocessor time given / used) to this power; 1: no splitting of tiles.
  double waveExponent = 0.35;
  Seconds start;
  /// Turning an operand into 8 or 4 bits: a launch (of its own where one scale is for the whole
  /// operand), and how often it is read and written.
  Seconds castStart, blockCastStart;
  double castPasses = 1, blockCastPasses = 1;
};

/// Rates of attention with heads of one width by keys, as measured with a causal mask. Operations
/// are those of half of all pairs.
struct HeadRates {
  double width = 64;
  Curve forward, backward;
  /// Of a rank that has half of each sequence's queries, in zig-zag order, and all keys.
  Curve forwardSpread, backwardSpread;
};

/// An attention kernel: rate(s) = rate / (1 + ramp/s), with heads 128 wide.
struct AttentionCurve {
  OperationsPerSecond forward, backward;
  /// Of operands that were multiplied: wider ones are as much slower as in other products.
  Width width = 16;
  /// Ascending by width; where there are any, they hold.
  std::vector<HeadRates> heads = {};
  /// Times the rate with heads at most 64 wide.
  double narrow = 0.85;
  /// Keys at which half the rate is reached, without a mask.
  double ramp = 250;
};

/// `AllReduce` sends each byte twice, the others once.
enum class Exchange { AllGather, ReduceScatter, AllReduce, AllToAll };

/// What one kind of exchange reaches of a link's bandwidth, with two devices `pair` of that.
struct LinkShare {
  double share = 1, pair = 1;
};

/// Links of one domain: t = start + hop·(n−1) + x + √(x·ramp), x = bytes·(n−1)/n / bandwidth.
struct LinkCurve {
  /// Devices that the links join.
  int64_t domain = 1;
  Seconds start, hop, ramp;
  /// Bytes/s of one device and direction, as reached by large exchanges, and of the data sheet.
  BytesPerSecond bandwidth;
  std::optional<BytesPerSecond> peak;
  /// Times the bandwidth where the switch itself adds (6 devices or more).
  double inSwitch = 1;
  /// By `Exchange`: rings, trees and messages to everyone do not use the links alike.
  std::array<LinkShare, 4> kinds;
  /// Bytes/s by bytes as measured among so many ranks, by `Exchange`, and of one message. What is
  /// smaller than the smallest size takes as long as that.
  int64_t measuredRanks = 0;
  std::array<Curve, 4> measured;
  Curve sends;

  const LinkShare &of(Exchange kind) const { return kinds[static_cast<size_t>(kind)]; }
};

/// The network between domains, of one device.
struct NetworkCurve {
  BytesPerSecond bandwidth;
  /// The share of it that exchanges reach.
  double share = 0.75;
  Seconds start, hop;
};

/// What a core computes with what lies in its cache.
struct Arithmetic {
  /// Operations/s where rows are as long as a vector, `lanes`, and where they are shorter.
  OperationsPerSecond vectors, scalars;
  int64_t lanes = 8;
  /// What a function costs in plain operations, by MLIR's name ("math.exp"); others count as one.
  std::map<std::string, double> functions;
};

struct Device {
  std::string name;
  Bytes memory;
  BytesPerSecond bandwidth;
  /// Bytes/s of a kernel that moves so many bytes, and of the update: what is small stays in a
  /// cache.
  Curve streams, updates;
  std::optional<Arithmetic> arithmetic;
  /// A command of the executor, where it is not hidden behind the device.
  Seconds command;
  /// Cores of a rank, which share what is large enough to be cut.
  double cores = 1;
  /// W at full load.
  std::optional<double> power;
  /// Of the data sheet, dense, by width.
  std::map<Width, OperationsPerSecond> peak;
  ProductCurve product;
  /// By name: "flash1", "flash2", "flash3", "window" (short windows).
  std::map<std::string, AttentionCurve> attention;
  /// Share of the memory's bandwidth that a streaming kernel reaches.
  double streaming = 0.85;
  /// The clock of matrix products in a step, which heats, against the one of a short measurement.
  /// Attention does not fill the tensor units, and keeps the clock it was measured with.
  double sustainedClock = 1;
  /// The clock of a device with a lower limit of power, against the one that was measured.
  double powerClock = 1;
  LinkCurve link;
  NetworkCurve network;

  /// The rate for `width`, or that of the next wider one; of none as wide, as much less than that
  /// of the widest as their peaks differ.
  OperationsPerSecond rateOf(Width width) const;
  /// Whether something says how fast products of operands of `width` are.
  bool knowsRateOf(Width width) const {
    return product.rate.lower_bound(width) != product.rate.end() || peak.count(width) != 0;
  }
  double depthOf(Width width) const;
  /// Of matrix products in a step.
  double productClock() const { return sustainedClock * powerClock; }
  BytesPerSecond streamingBandwidth() const { return bandwidth * streaming; }
  /// The same device with everything as fast as it is at its best size, and nothing faster where it
  /// is larger: times of it are below those of any size.
  Device atBest() const;
};

/// `share`/hardware/`name`.json. Errors: `device.unknown` with the known ones, and those
/// of the reader (`device.*`).
rt::StatusOr<Device> readDevice(const std::string &share, const std::string &name);

/// The description in the file `path`. Errors: `device.*` of the reader, those of reading JSON.
rt::StatusOr<Device> readDeviceFile(const std::string &path);

/// The names of the devices in `share`, in alphabetical order.
std::vector<std::string> deviceNames(const std::string &share);

} // namespace cleave::cost
