//===- Options.cpp - A subcommand's command line -----------------------------===//

#include "Driver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>

#include "runtime/Base/Suggest.h"

namespace cleave::tool {

std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (int64_t i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

static std::string lowered(std::string text) {
  for (char &c : text)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

static constexpr std::string_view kMore = "…";

/// The option that a positional word is kept in: "FILE…" in "file".
static std::string optionOf(std::string_view word) {
  if (word.ends_with(kMore))
    word.remove_suffix(kMore.size());
  return lowered(std::string(word));
}

bool CommandLine::takesMore() const {
  return !positional.empty() && positional.back().ends_with(kMore);
}

CommandLine::CommandLine(std::string_view command, std::string_view summary,
                         std::vector<std::string> positional)
    : command(command), positional(std::move(positional)),
      options(fmt::format("cleave {}", command), std::string(summary)) {
  options.add_options()("h,help", "show this text")("json", "one JSON document on standard output");
  std::vector<std::string> names;
  for (const std::string &word : this->positional) {
    options.add_options("positional")(optionOf(word), word, cxxopts::value<std::string>());
    names.push_back(optionOf(word));
  }
  options.parse_positional(names);
  options.custom_help("[options]").set_width(100);
  options.positional_help(fmt::format("{}", fmt::join(this->positional, " ")));
}

namespace {
/// "--name=value", "--name", "-nvalue" or "-n", taken apart.
struct OptionWord {
  std::string name;
  std::optional<std::string> value;
};
} // namespace

static std::optional<OptionWord> readOptionWord(const std::string &word) {
  if (word.size() < 2 || word[0] != '-')
    return std::nullopt;
  if (word[1] != '-') {
    OptionWord read{word.substr(1, 1), std::nullopt};
    if (word.size() > 2)
      read.value = word.substr(2);
    return read;
  }
  const size_t equals = word.find('=');
  OptionWord read{word.substr(2, equals == std::string::npos ? equals : equals - 2), std::nullopt};
  if (equals != std::string::npos)
    read.value = word.substr(equals + 1);
  return read;
}

/// What the library lets pass: an option given twice, of which it takes the last;
/// an empty value; the next option taken for a value; a value of a switch.
rt::Status CommandLine::checkWords(const Words &words) const {
  const std::vector<cxxopts::HelpOptionDetails> known = options.group_help("").options;
  std::set<std::string> seen;
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    std::optional<OptionWord> word = readOptionWord(words[i]);
    if (!word)
      continue;
    const auto option = std::ranges::find_if(known, [&](const auto &o) {
      return o.s == word->name || (!o.l.empty() && o.l.front() == word->name);
    });
    if (option == known.end())
      continue;
    const std::string name = "--" + option->l.front();
    const std::string example = option->is_boolean ? name : fmt::format("{} VALUE", name);
    if (option->is_boolean && word->value)
      return rt::userError("usage.bad_value", fmt::format("{} takes no value", name))
          .withGiven(words[i])
          .withRule(fmt::format("{} stands alone", name))
          .suggest(name);
    if (!option->is_boolean && !word->value && i + 1 < words.size())
      word->value = words[++i];
    if (!option->is_boolean && !option->is_container &&
        (!word->value || word->value->empty() || word->value->starts_with("--")))
      return rt::userError(word->value && word->value->empty() ? "usage.bad_value" : "usage.option",
                           fmt::format("{} needs a value", name))
          .withGiven(fmt::format("{} {}", name, word->value.value_or("")))
          .withRule(fmt::format("{}: {}", example, option->desc))
          .suggest(fmt::format("{}, or leave it out", example));
    if (!seen.insert(name).second && !option->is_container)
      return rt::userError("usage.extra", fmt::format("{} is given twice", name))
          .withGiven(words[i])
          .withRule("each option is given once, but for --set")
          .suggest(fmt::format("leave out one {}", name));
  }
  return rt::Status::success();
}

rt::Status CommandLine::parse(const Words &words) {
  CLEAVE_RT_RETURN_IF_ERROR(checkWords(words));
  std::vector<const char *> arguments = {"cleave"};
  for (const std::string &word : words)
    arguments.push_back(word.c_str());
  try {
    result = options.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const cxxopts::exceptions::exception &e) {
    return unknownOption(e.what());
  }
  if (!result.unmatched().empty() && !takesMore())
    return rt::userError("usage.extra",
                         fmt::format("\"{}\" is one word too many", result.unmatched().front()))
        .withGiven(result.unmatched().front())
        .withRule(fmt::format("cleave {} {}", command, fmt::join(positional, " ")))
        .suggest("remove it");
  if (has("help")) {
    std::fputs(options.help({""}).c_str(), stdout);
    helpShown = true;
  }
  return rt::Status::success();
}

rt::Status CommandLine::unknownOption(const std::string &message) const {
  rt::Error error = rt::userError("usage.option", message)
                        .withRule(fmt::format("cleave {} --help lists the options", command));
  // cxxopts quotes the option in ‘…’ (three bytes each).
  const size_t open = message.find("\u2018"), close = message.find("\u2019");
  if (open != std::string::npos && close != std::string::npos && close > open) {
    const std::string given = message.substr(open + 3, close - open - 3);
    std::vector<std::string> names;
    for (const auto &option : options.group_help("").options)
      names.push_back(option.l.empty() ? "" : option.l.front());
    error.given = given;
    if (auto near = rt::nearestName(given, names))
      error.suggestions.push_back("--" + *near);
  }
  if (error.suggestions.empty())
    error.suggestions.push_back(fmt::format("cleave {} --help", command));
  return error;
}

rt::StatusOr<std::string> CommandLine::required(const std::string &name) const {
  const std::string option = optionOf(name);
  if (result.count(option) > 0)
    return result[option].as<std::string>();
  return rt::userError("usage.missing", fmt::format("{} is missing", name))
      .withRule(fmt::format("cleave {} {} [options]", command, fmt::join(positional, " ")))
      .suggest(fmt::format("cleave {} --help", command));
}

rt::StatusOr<std::vector<std::string>> CommandLine::requiredAll(const std::string &name) const {
  CLEAVE_RT_ASSIGN_OR_RETURN(std::string first, required(name));
  std::vector<std::string> all = {std::move(first)};
  // Words beyond the declared ones, in the order of the command line.
  const std::vector<std::string> &more = result.unmatched();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

} // namespace cleave::tool
