//===- VerifyInputs.h - Weights and tokens that verify runs on -------------===//
//
// From files, or by chance: numbers that depend on a seed, a name and a place alone, so
// that a case is the same wherever it is run.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Interfaces/HostTensor.h"
#include "dialects/NN/NN.h"
#include "runtime/Base/Status.h"
#include "runtime/Checkpoint/SafeTensors.h"
#include "runtime/Data/TokenFile.h"

#include <optional>
#include <string>

namespace cleave::tool {

class VerifyWeights {
public:
  /// From the file or folder `path`, or by chance where that is empty.
  static rt::StatusOr<VerifyWeights> open(const std::string &path, uint64_t seed);

  /// The tensor `name` of `parameter`, whole. Errors: `safetensors.*`.
  rt::StatusOr<HostTensor> read(nn::ParameterOp parameter, const std::string &name) const;

private:
  /// Reads the tensor `name` of the files into `whole` from element `at` on, which is moved.
  rt::Status readFile(nn::ParameterOp parameter, const std::string &name, HostTensor &whole,
                      size_t &at) const;

  std::optional<rt::TensorCollection> files;
  uint64_t seed = 1;
};

class VerifyTokens {
public:
  /// Sequences of `length` tokens, `batch` of them a step, of a file or by chance.
  /// Errors: `data.*`; `data.too_short` where the file has not enough for `steps`.
  static rt::StatusOr<VerifyTokens> open(const std::string &path, uint64_t seed, int64_t vocabulary,
                                         int64_t length, int64_t batch, int64_t steps);

  /// Argument `name` ("tokens", "targets", "positions") of `count` sequences of a step.
  /// By chance, one target in eight does not count. Ids of a file that a shrunk vocabulary
  /// lacks are taken modulo its size.
  HostTensor read(llvm::StringRef name, int64_t step, int64_t first, int64_t count) const;

private:
  double token(int64_t step, int64_t sequence, int64_t at) const;

  /// All tokens that are needed, or none.
  std::vector<int32_t> tokens;
  uint64_t seed = 1;
  int64_t vocabulary = 1, length = 1, batch = 1;
};

} // namespace cleave::tool
