// Helpers of the tests of trainMain.
#include "TrainRun.h"

#include "runtime/Base/Files.h"
#include "runtime/Checkpoint/SafeTensors.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

using namespace cleave::rt;

TrainRun::TrainRun(int64_t tokenCount, KernelTable kernels) : kernels(kernels) {
  std::string bytes;
  uint32_t state = 1;
  for (int64_t i = 0; i < tokenCount; ++i) {
    state = state * 1664525u + 1013904223u;
    // A slope to find: the next token follows the present one, roughly.
    const int previous = values.empty() ? 0 : values.back();
    const int value = (previous / 2 + static_cast<int>(state >> 27)) % tiny::vocabulary;
    values.push_back(value);
    bytes += static_cast<char>(value);
    bytes += '\0';
  }
  EXPECT_TRUE(writeFileAtomically(file("tokens.bin"), bytes).ok());
}

int TrainRun::operator()(const Image &image, std::vector<std::string> flags,
                         const TrainHooks &hooks) const {
  flags.insert(flags.begin(), {"train", "--data", file("tokens.bin")});
  std::vector<const char *> argv;
  for (const std::string &flag : flags)
    argv.push_back(flag.c_str());
  const std::string text = toImageText(image);
  return trainMain(static_cast<int>(argv.size()), argv.data(),
                   {.image = text, .kernels = {kernels, {}}, .hooks = hooks});
}

int TrainRun::inChild(const Image &image, std::vector<std::string> flags,
                      const TrainHooks &hooks) const {
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit((*this)(image, std::move(flags), hooks));
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

std::map<int64_t, std::map<std::string, double>> TrainRun::log(const std::string &name) const {
  std::map<int64_t, std::map<std::string, double>> steps;
  auto text = readWholeFile(file(name));
  if (!text.ok())
    return steps;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    auto json = parseJson(line);
    EXPECT_TRUE(json.ok()) << line;
    const JsonValue *step = json.ok() ? json->find("step") : nullptr;
    if (!step)
      continue;
    for (const JsonMember &member : json->members())
      if (member.value.isNumber())
        steps[step->integer()][member.key] = member.value.number();
  }
  return steps;
}

std::vector<float> TrainRun::tensor(const std::string &exportFolder,
                                    const std::string &name) const {
  auto file = SafeTensorsFile::open(this->file(exportFolder) + "/model.safetensors");
  EXPECT_TRUE(file.ok());
  const TensorEntry *entry = file.ok() ? file->find(name) : nullptr;
  EXPECT_TRUE(entry) << name;
  if (!entry)
    return {};
  std::vector<float> values(entry->elements());
  EXPECT_TRUE(file->readFloats(*entry, 0, values).ok());
  return values;
}
