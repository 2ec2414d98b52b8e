// A table of flags and one loop over the arguments.
#include "runtime/Train/Flags.h"

#include "runtime/Base/Suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <functional>
#include <set>

namespace cleave::rt {
namespace {

/// What a flag takes, and a value that it would have taken.
struct Demand {
  std::string rule, example;
};
using Refusal = std::optional<Demand>;

struct Flag {
  std::string name;
  /// Empty for a switch.
  std::string value;
  std::string help;
  /// Takes the text, or says why it is no such value.
  std::function<Refusal(const std::string &)> set;
  /// Its values add up.
  bool mayRepeat = false;
};

Refusal parseCount(const std::string &text, uint64_t least, uint64_t most, uint64_t &out) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return Demand{fmt::format("a whole number from {} to {}", least, most),
                  std::to_string(std::max<uint64_t>(least, 1))};
  out = value;
  return std::nullopt;
}

template <typename T>
std::function<Refusal(const std::string &)> count(std::optional<T> &target, uint64_t least,
                                                  uint64_t most = uint64_t(1) << 40) {
  return [&target, least, most](const std::string &text) {
    uint64_t value = 0;
    const Refusal refused = parseCount(text, least, most, value);
    if (!refused)
      target = static_cast<T>(value);
    return refused;
  };
}

std::function<Refusal(const std::string &)> seconds(unsigned &target) {
  return [&target](const std::string &text) {
    uint64_t value = 0;
    const Refusal refused = parseCount(text, 1, 86400, value);
    if (!refused)
      target = static_cast<unsigned>(value);
    return refused;
  };
}

std::function<Refusal(const std::string &)> text(std::string &target) {
  return [&target](const std::string &given) -> Refusal {
    if (given.empty())
      return Demand{"a name that is not empty", "NAME"};
    target = given;
    return std::nullopt;
  };
}

std::function<Refusal(const std::string &)> files(std::vector<std::string> &target) {
  return [&target](const std::string &given) -> Refusal {
    for (size_t start = 0; start <= given.size();) {
      const size_t comma = std::min(given.find(',', start), given.size());
      if (comma == start)
        return Demand{"file names separated by commas", "FILE"};
      target.push_back(given.substr(start, comma - start));
      start = comma + 1;
    }
    return std::nullopt;
  };
}

std::function<Refusal(const std::string &)> toggle(bool &target) {
  return [&target](const std::string &) -> Refusal {
    target = true;
    return std::nullopt;
  };
}

std::function<Refusal(const std::string &)> transport(std::optional<TransportKind> &target) {
  return [&target](const std::string &given) -> Refusal {
    if (given != "mpi" && given != "tcp")
      return Demand{"mpi or tcp", "tcp"};
    target = given == "mpi" ? TransportKind::MPI : TransportKind::TCP;
    return std::nullopt;
  };
}

std::vector<Flag> flagTable(TrainFlags &flags) {
  auto tokenBits = [&flags](const std::string &given) -> Refusal {
    if (given != "8" && given != "16" && given != "32")
      return Demand{"8, 16 or 32", "16"};
    flags.tokenBits = static_cast<unsigned>(std::stoi(given));
    return std::nullopt;
  };
  auto exportType = [&flags](const std::string &given) -> Refusal {
    if (given != "fp32" && given != "bf16")
      return Demand{"fp32 or bf16", "fp32"};
    flags.exportType = given == "bf16" ? FloatType::BF16 : FloatType::F32;
    return std::nullopt;
  };
  return {
      {"--data", "FILE[,FILE…]", "token files to train on", files(flags.data), true},
      {"--token-bits", "N", "width of raw token files: 8, 16 (default) or 32", tokenBits},
      {"--steps", "N", "steps of the whole run, those before a resume included",
       count(flags.steps, 0)},
      {"--ranks", "N", "must be as compiled", count(flags.ranks, 1, 1 << 16)},
      {"--threads", "N", "threads of each rank (default: cores / ranks)",
       count(flags.threads, 1, 1 << 12)},
      {"--rank-timeout", "N",
       "with several processes: seconds after which one that does not answer is lost "
       "(default: 15)",
       seconds(flags.rankTimeout)},
      {"--transport", "mpi|tcp",
       "with several processes: how they talk (default: what the launcher brings)",
       transport(flags.transport)},
      {"--join-timeout", "N",
       "over TCP: seconds within which all processes must have met (default: 60)",
       seconds(flags.joinTimeout)},
      {"--device", "NAME", "cpu; of a binary for CUDA cuda, or emulated (default: as compiled)",
       text(flags.device)},
      {"--init", "FILE|DIR", "initial weights in safetensors (default: random, from the seed)",
       text(flags.init)},
      {"--export", "DIR", "write config.json and model.safetensors at the end",
       text(flags.exportFolder)},
      {"--export-dtype", "fp32|bf16", "type of exported weights (default: fp32)", exportType},
      {"--log", "FILE", "JSON lines: loss, norm, rate, speed of every step; evaluations",
       text(flags.log)},
      {"--checkpoint", "DIR", "save the state there at the end, or when interrupted",
       text(flags.checkpoint)},
      {"--save-every", "N", "save every N steps too", count(flags.saveEvery, 1)},
      {"--resume", "", "go on from the newest complete checkpoint", toggle(flags.resume)},
      {"--allow-schedule-change", "", "resume with another learning-rate schedule",
       toggle(flags.allowScheduleChange)},
      {"--allow-data-change", "", "resume on other data", toggle(flags.allowDataChange)},
      {"--eval-data", "FILE[,FILE…]", "token files to evaluate on at the end",
       files(flags.evalData), true},
      {"--eval-every", "N", "evaluate every N steps too", count(flags.evalEvery, 1)},
      {"--eval-sequences", "N", "sequences of an evaluation (default: all)",
       count(flags.evalSequences, 1)},
      {"--profile", "", "print per-command times at the end", toggle(flags.profile)},
      {"--info", "", "describe the program and stop", toggle(flags.info)},
      {"--json", "", "report an error as one line of JSON", toggle(flags.json)},
      {"--help", "", "this list", toggle(flags.help)},
  };
}

Error unknownFlag(const std::string &name, const std::vector<Flag> &table) {
  Error error = userError("flags.unknown", fmt::format("there is no flag \"{}\"", name))
                    .withGiven(name)
                    .withRule("--help lists all flags");
  std::vector<std::string> names;
  for (const Flag &flag : table)
    names.push_back(flag.name);
  error.suggestions.push_back(nearestName(name, names).value_or("--help"));
  return error;
}

Status needs(bool given, const char *flag, bool other, const char *otherFlag) {
  if (!given || other)
    return {};
  return userError("flags.missing", fmt::format("{} needs {}", flag, otherFlag))
      .withRule(fmt::format("{} and {} are given together", flag, otherFlag))
      .suggest(fmt::format("add {}", otherFlag));
}

/// What a run cannot be without; zero steps need no data.
Status checkRequired(const TrainFlags &flags) {
  std::vector<std::string> missing;
  if (flags.data.empty() && flags.steps.value_or(1) > 0)
    missing.push_back("--data FILE");
  if (!flags.steps)
    missing.push_back("--steps N");
  if (missing.empty())
    return {};
  return userError("flags.missing", fmt::format("training needs {}", fmt::join(missing, " and ")))
      .withRule("a run is given --data FILE and --steps N; --help lists all flags")
      .suggest(fmt::format("add {}", fmt::join(missing, " ")));
}

Status checkTogether(const TrainFlags &flags) {
  if (flags.help || flags.info)
    return {};
  CLEAVE_RT_RETURN_IF_ERROR(needs(flags.saveEvery.has_value(), "--save-every",
                                  !flags.checkpoint.empty(), "--checkpoint DIR"));
  CLEAVE_RT_RETURN_IF_ERROR(
      needs(flags.resume, "--resume", !flags.checkpoint.empty(), "--checkpoint DIR"));
  CLEAVE_RT_RETURN_IF_ERROR(needs(flags.evalEvery.has_value(), "--eval-every",
                                  !flags.evalData.empty(), "--eval-data FILE"));
  return checkRequired(flags);
}

} // namespace

StatusOr<TrainFlags> parseTrainFlags(std::span<const std::string> arguments) {
  TrainFlags flags;
  const std::vector<Flag> table = flagTable(flags);
  std::set<std::string> given;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &argument = arguments[i];
    if (!argument.starts_with("-"))
      return userError(
                 "flags.unexpected",
                 fmt::format("\"{}\" is no flag, and the one before it takes no value", argument))
          .withGiven(argument)
          .withRule("all arguments are flags, that begin with --, and their values")
          .suggest("--data " + argument);
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const Flag *flag = nullptr;
    for (const Flag &known : table)
      if (known.name == name)
        flag = &known;
    if (!flag)
      return unknownFlag(name, table);
    std::string value;
    if (equals != std::string::npos) {
      if (flag->value.empty())
        return userError("flags.bad_value", fmt::format("{} takes no value", name))
            .withGiven(argument)
            .withRule(fmt::format("{} stands alone", name))
            .suggest(name);
      value = argument.substr(equals + 1);
    } else if (!flag->value.empty()) {
      if (i + 1 == arguments.size() || arguments[i + 1].starts_with("--"))
        return userError("flags.missing_value", fmt::format("{} needs a value", name))
            .withRule(fmt::format("{} {}: {}", name, flag->value, flag->help))
            .suggest(fmt::format("{} {}", name, flag->value));
      value = arguments[++i];
    }
    const bool isFirst = given.insert(name).second;
    if (const Refusal refused = flag->set(value))
      return userError("flags.bad_value", fmt::format("\"{}\" is no value for {}", value, name))
          .withGiven(fmt::format("{} {}", name, value))
          .withRule(fmt::format("{} takes {}", name, refused->rule))
          .suggest(fmt::format("{} {}", name, refused->example));
    if (!isFirst && !flag->value.empty() && !flag->mayRepeat)
      return userError("flags.unexpected", fmt::format("{} is given twice", name))
          .withGiven(fmt::format("{} {}", name, value))
          .withRule("each flag is given once, but for the lists of files")
          .suggest(fmt::format("leave out one {}", name));
  }
  CLEAVE_RT_RETURN_IF_ERROR(checkTogether(flags));
  return flags;
}

std::string trainFlagsHelp() {
  TrainFlags flags;
  std::string help;
  for (const Flag &flag : flagTable(flags))
    help += fmt::format("  {:<34} {}\n", flag.name + (flag.value.empty() ? "" : " ") + flag.value,
                        flag.help);
  return help;
}

} // namespace cleave::rt
