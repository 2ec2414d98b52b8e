// The flags of a training binary, and nothing but flags: what they mean together
// with the image is checked where it is used.
//
//   --data FILE[,FILE…]    token files; may be given several times
//   --token-bits N         width of raw token files: 8, 16 (default) or 32
//   --steps N              steps of the whole run, those before a resume included
//   --ranks N              ranks of all processes together (default: as compiled)
//   --threads N            threads of each rank (default: usable cores / ranks)
//   --rank-timeout N       seconds after which a silent process is lost
//   --transport NAME       mpi or tcp: how several processes talk
//   --join-timeout N       seconds within which all processes meet over TCP
//   --device NAME          cpu, cuda or emulated (left out: as compiled)
//   --init FILE|DIR        initial weights, safetensors; else normal numbers
//   --export DIR           config.json and model.safetensors at the end
//   --export-dtype T       fp32 (default) or bf16
//   --log FILE             JSON lines
//   --checkpoint DIR       where checkpoints go
//   --save-every N         steps between checkpoints (default: only at the end)
//   --resume               go on from the newest complete checkpoint there, if any
//   --allow-schedule-change, --allow-data-change   accept such a difference then
//   --eval-data FILE[,…]   token files to evaluate on
//   --eval-every N         steps between evaluations (default: only at the end)
//   --eval-sequences N     how many of their sequences (default: all)
//   --profile              per-command times at the end
//   --info                 describe the program and stop
//   --json                 report an error as one line of JSON
//   --help
#pragma once

#include "runtime/Base/Status.h"
#include "runtime/Checkpoint/SafeTensors.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cleave::rt {

/// What carries messages between processes.
enum class TransportKind { MPI, TCP };

struct TrainFlags {
  std::vector<std::string> data;
  unsigned tokenBits = 16;
  std::optional<uint64_t> steps;
  std::optional<int64_t> ranks;
  std::optional<unsigned> threads;
  /// Seconds.
  unsigned rankTimeout = 15;
  /// Where it is not given, what the launcher brings.
  std::optional<TransportKind> transport;
  /// Seconds.
  unsigned joinTimeout = 60;
  /// Empty: the program's own.
  std::string device;
  std::string init;
  std::string exportFolder;
  FloatType exportType = FloatType::F32;
  std::string log;
  std::string checkpoint;
  std::optional<uint64_t> saveEvery;
  bool resume = false;
  bool allowScheduleChange = false;
  bool allowDataChange = false;
  std::vector<std::string> evalData;
  std::optional<uint64_t> evalEvery;
  std::optional<uint64_t> evalSequences;
  bool profile = false;
  bool info = false;
  bool json = false;
  bool help = false;
};

/// Reads `--flag value`, `--flag=value` and switches; `arguments` without the
/// program's name. Kinds: `flags.unknown` with the nearest flag,
/// `flags.missing_value`, `flags.bad_value`, `flags.unexpected` (an argument that
/// is no flag), `flags.missing` (a flag that another one needs).
StatusOr<TrainFlags> parseTrainFlags(std::span<const std::string> arguments);

/// One line a flag.
std::string trainFlagsHelp();

} // namespace cleave::rt
