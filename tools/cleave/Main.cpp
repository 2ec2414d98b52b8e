//===- Main.cpp - Dispatch, error output and exit codes ----------------------===//

#include "Driver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <unistd.h>

#include "runtime/Base/Files.h"
#include "runtime/Base/Suggest.h"

namespace cleave::tool {

std::span<const Subcommand> subcommands() {
  static constexpr Subcommand all[] = {
      {"inspect", "say what a model is: sizes, exact parameter count, what was assumed",
       runInspect},
      {"plan", "find the best layout of a model on a cluster, and say why", runPlan},
      {"compile", "compile a model into a training binary, or print a phase of it", runCompile},
      {"explain", "say why a plan is as it is, and what others would take", runExplain},
      {"diff", "say what two plans decide differently", runDiff},
      {"verify", "run two layouts of a model step by step and name where they differ", runVerify},
      {"validate", "compare the cost model with a table of published measurements", runValidate},
      {"calibrate", "measure this machine's processor, for --hardware", runCalibrate},
      {"tokens", "write the bytes of text files as a token file to train on", runTokens},
  };
  return all;
}

static void printHelp(std::FILE *out) {
  fmt::print(out, "cleave: compiles a Hugging Face config.json into a distributed training "
                  "binary\n\nusage: cleave SUBCOMMAND [--help] …\n       cleave --version\n\n");
  for (const Subcommand &command : subcommands())
    fmt::print(out, "  {:<10} {}\n", command.name, command.summary);
  fmt::print(out, "\nWith --json, standard output holds one JSON document and nothing else.\n");
}

static rt::Status dispatch(const Words &words) {
  if (words.empty()) {
    printHelp(stderr);
    return rt::userError("usage.subcommand", "a subcommand is missing")
        .withRule("cleave SUBCOMMAND …")
        .suggest("cleave --help");
  }
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    printHelp(stdout);
    return rt::Status::success();
  }
  if (words[0] == "--version") {
    fmt::print("cleave {}\n", CLEAVE_VERSION);
    return rt::Status::success();
  }
  std::vector<std::string> names;
  for (const Subcommand &command : subcommands()) {
    if (command.name == words[0])
      return command.run(Words(words.begin() + 1, words.end()));
    names.emplace_back(command.name);
  }
  rt::Error error =
      rt::userError("usage.subcommand", fmt::format("\"{}\" is no subcommand", words[0]))
          .withGiven(words[0])
          .withRule(fmt::format("subcommands: {}", fmt::join(names, ", ")));
  error.suggestions.push_back("cleave " + rt::nearestName(words[0], names).value_or("--help"));
  return error;
}

/// Exceptions of libraries end here; each becomes one of our errors.
static rt::Status dispatchGuarded(const Words &words) {
  try {
    return dispatch(words);
  } catch (const std::bad_alloc &) {
    return rt::runError("memory.exhausted", "out of memory");
  } catch (const std::exception &e) {
    return rt::internalError(fmt::format("unexpected: {}", e.what()));
  }
}

} // namespace cleave::tool

int main(int argc, char **argv) {
  using namespace cleave;
  rt::keepStandardStreamsOpen();
  const tool::Words words(argv + 1, argv + argc);
  rt::Status status = tool::dispatchGuarded(words);
  if (status.ok() && (std::fflush(stdout) != 0 || std::ferror(stdout)))
    status = rt::Error(rt::runError("file.write_failed", "standard output can't be written"))
                 .withRule("what is printed has somewhere to go")
                 .suggest("-o FILE, where the subcommand has it");
  if (status.ok())
    return static_cast<int>(rt::ExitCode::Done);
  const rt::Error &error = status.error();
  if (std::ranges::find(words, "--json") != words.end())
    std::fputs(rt::renderJson(error).c_str(), stdout);
  else
    std::fputs(rt::renderText(error, isatty(STDERR_FILENO)).c_str(), stderr);
  return static_cast<int>(error.exitCode);
}
