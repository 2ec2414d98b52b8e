// Runs trainMain as a user would, in a folder of its own, and reads what it left.
#pragma once

#include "../TemporaryFolder.h"
#include "TinyProgram.h"

#include "runtime/Schema/Image.h"
#include "runtime/Train/Main.h"

#include <map>
#include <string>
#include <vector>

class TrainRun {
public:
  /// Tokens of a fixed pseudo-random sequence, as the data file `tokens.bin`.
  explicit TrainRun(int64_t tokenCount = 6 * 40 + 1,
                    cleave::rt::KernelTable kernels = tiny::kernels());

  std::string file(const std::string &name) const { return folder.file(name); }
  const std::vector<int> &tokens() const { return values; }

  /// Exit code of trainMain with `--data` and the flags given.
  int operator()(const cleave::rt::Image &image, std::vector<std::string> flags,
                 const cleave::rt::TrainHooks &hooks = {}) const;
  /// The same in a process of its own; −n if signal n ended it.
  int inChild(const cleave::rt::Image &image, std::vector<std::string> flags,
              const cleave::rt::TrainHooks &hooks = {}) const;

  /// The steps of a log by number (the last line of a step counts): key → value.
  std::map<int64_t, std::map<std::string, double>> log(const std::string &name = "log") const;
  std::vector<float> tensor(const std::string &exportFolder, const std::string &name) const;

private:
  TemporaryFolder folder;
  cleave::rt::KernelTable kernels;
  std::vector<int> values;
};
