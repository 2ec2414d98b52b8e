//===- Driver.h - What the subcommands of cleave share -----------------------===//
//
// `cleave SUBCOMMAND …`: one function per subcommand, each in a file of its
// own, listed in `subcommands()`. A subcommand parses its options, calls the
// libraries and returns a Status; how errors are shown and which exit code they
// give is decided in one place, `Main.cpp`. Nothing here compiles models.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Base/Status.h"

#include <cxxopts.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::tool {

/// A subcommand's words after its name.
using Words = std::vector<std::string>;

struct Subcommand {
  std::string_view name;
  std::string_view summary;
  rt::Status (*run)(const Words &words);
};

/// All subcommands, in the order of the help text.
std::span<const Subcommand> subcommands();

/// "4,558,592"
std::string grouped(int64_t number);

rt::Status runInspect(const Words &words);
rt::Status runPlan(const Words &words);
rt::Status runCompile(const Words &words);
rt::Status runExplain(const Words &words);
rt::Status runDiff(const Words &words);
rt::Status runVerify(const Words &words);
rt::Status runTokens(const Words &words);
rt::Status runValidate(const Words &words);
rt::Status runCalibrate(const Words &words);

/// A command line split into options and positional words. `options` must
/// declare what the subcommand takes; --help and --json are added. Each option is
/// given once, but for lists, and has a value that is not empty. Errors:
/// usage.option (unknown, or without its value), with the nearest known one;
/// usage.extra (twice); usage.bad_value (empty, or a value where none belongs).
class CommandLine {
public:
  /// `positional`: names of the words without a dash, in order ("MODEL"). The last
  /// may end in "…" and then stands for one word or more.
  CommandLine(std::string_view command, std::string_view summary,
              std::vector<std::string> positional);

  cxxopts::OptionAdder add() { return options.add_options(); }
  rt::Status parse(const Words &words);

  /// --help was given and has been printed: the subcommand is done.
  bool helped() const { return helpShown; }
  bool json() const { return has("json"); }
  bool has(const std::string &option) const { return result.count(option) > 0; }
  /// The value of a given option, or its declared default, or nothing.
  std::string text(const std::string &option) const {
    const cxxopts::OptionValue &value = result[option];
    return value.count() > 0 || value.has_default() ? value.as<std::string>() : "";
  }
  /// All values of an option that may be given several times.
  std::vector<std::string> list(const std::string &option) const {
    return result[option].as<std::vector<std::string>>();
  }
  /// A positional word; an error if it is absent (usage.missing).
  rt::StatusOr<std::string> required(const std::string &name) const;
  /// All words of a last positional that ends in "…", at least one (usage.missing).
  rt::StatusOr<std::vector<std::string>> requiredAll(const std::string &name) const;

private:
  bool takesMore() const;
  rt::Status checkWords(const Words &words) const;
  rt::Status unknownOption(const std::string &message) const;

  std::string command;
  std::vector<std::string> positional;
  cxxopts::Options options;
  cxxopts::ParseResult result;
  bool helpShown = false;
};

} // namespace cleave::tool
