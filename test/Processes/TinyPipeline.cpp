// A training binary of the model of stages of the unit tests, on two ranks of a
// pipeline and two data ranks: what the tests in this folder run in several processes
// without the compiler. The first argument may be `die`: then the ranks of the last
// stage end without a word in their third backward.
#include "../Unit/Runtime/Train/TinyPipeline.h"

#include "runtime/Train/Main.h"

#include <cstring>
#include <vector>

#include <unistd.h>

using namespace cleave::rt;

namespace {

void die(void *const *, int64_t, int64_t) {
  thread_local int calls = 0;
  if (++calls == 3)
    ::_exit(9);
}

} // namespace

int main(int argc, char **argv) {
  Image image = tiny::pipeline({.dataRanks = 2});
  std::vector<KernelSymbol> kernels(tiny::pipelineKernels().begin(), tiny::pipelineKernels().end());
  kernels.push_back({"die", die});
  std::vector<const char *> arguments(argv, argv + argc);
  if (argc > 1 && std::strcmp(argv[1], "die") == 0) {
    auto &backward = image.programs[1].pipeline->stages[0].entry(StageEntry::Backward);
    backward.insert(backward.begin(), {KernelCommand{"die", {}, 1, 1}, "die", 0, 0});
    arguments.erase(arguments.begin() + 1);
  }
  const std::string text = toImageText(image);
  return trainMain(static_cast<int>(arguments.size()), arguments.data(),
                   {.image = text, .kernels = {kernels, {}}});
}
