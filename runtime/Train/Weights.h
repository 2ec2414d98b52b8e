// Where parameters start: from safetensors files by Hugging Face names, or from
// normal numbers. Each rank fills only its own blocks, whatever cuts them.
//
// Names: a tensor is looked up by its name and its aliases, then by the same with
// or without a leading "model." or "transformer.", since files of a bare model
// leave it out. Of a tied tensor a file may hold one name or several; several
// must be equal.
#pragma once

#include "runtime/Base/Status.h"
#include "runtime/Base/ThreadPool.h"
#include "runtime/Checkpoint/SafeTensors.h"
#include "runtime/Exec/RankMemory.h"
#include "runtime/Schema/Image.h"

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace cleave::rt {

/// Weights whose names, shapes and ties were checked against all programs of an image.
class InitialWeights {
public:
  /// Opens `path` (see TensorCollection). `import.missing_tensor` names what the
  /// files lack, with the nearest name they have; `import.shape_mismatch` gives
  /// both shapes; `import.tied_conflict` says that two names of one tied tensor
  /// differ and where first; `import.quantized_unsupported` names one that is stored as fp8 or
  /// in a block format.
  static StatusOr<InitialWeights> open(const std::string &path, const Image &image);

  /// Fills the rank's values, `program` being its program. Kinds of SafeTensorsFile.
  Status load(const Program &program, int64_t rank, const RankMemory &memory,
              ThreadPool &pool) const;

  /// Names in the files that the model has no use for.
  const std::vector<std::string> &unused() const { return unusedNames; }

private:
  explicit InitialWeights(TensorCollection files) : files(std::move(files)) {}
  Status resolve(const Image &image, const std::string &path);
  StatusOr<std::string> resolveTensor(const StateEntry &entry, int64_t index,
                                      const std::string &path, std::set<std::string> &used) const;
  Status loadRun(const StateEntry &entry, int64_t first, std::span<float> out) const;

  TensorCollection files;
  /// The name in the files of each tensor of the model.
  std::map<std::string, std::string> names;
  std::vector<std::string> unusedNames;
};

/// Fills the rank's values with the program's initial numbers for `seed`.
Status generateWeights(const Program &program, int64_t rank, uint64_t seed,
                       const RankMemory &memory, ThreadPool &pool);

} // namespace cleave::rt
