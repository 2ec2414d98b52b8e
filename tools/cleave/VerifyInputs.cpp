//===- VerifyInputs.cpp - Weights and tokens that verify runs on -----------===//

#include "VerifyInputs.h"

#include "dialects/Interfaces/LayerNames.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace cleave::tool {

/// Weights by chance are at least so large: a model that barely computes anything hides
/// mistakes.
static constexpr double kLeastDeviation = 0.1;

/// A number of 64 bits that looks like no other's (SplitMix64's step).
static uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// In (0, 1].
static double fraction(uint64_t bits) { return (static_cast<double>(bits >> 11) + 1) * 0x1p-53; }

static double normal(uint64_t key) {
  const double radius = std::sqrt(-2 * std::log(fraction(mixed(2 * key))));
  return radius * std::cos(2 * std::numbers::pi * fraction(mixed(2 * key + 1)));
}

rt::StatusOr<VerifyWeights> VerifyWeights::open(const std::string &path, uint64_t seed) {
  VerifyWeights weights;
  weights.seed = seed;
  if (!path.empty()) {
    CLEAVE_RT_ASSIGN_OR_RETURN(weights.files, rt::TensorCollection::open(path));
  }
  return weights;
}

/// Names under which files may hold the tensor.
static std::vector<std::string> spellings(nn::ParameterOp parameter, const std::string &name) {
  std::vector<std::string> names = {name};
  if (auto aliases = parameter->getAttrOfType<mlir::ArrayAttr>("aliases"))
    for (auto alias : aliases.getAsRange<mlir::StringAttr>())
      names.push_back(alias.str());
  for (size_t i = 0, own = names.size(); i < own; ++i)
    for (std::string_view prefix : {"model.", "transformer."}) {
      if (names[i].starts_with(prefix))
        names.push_back(names[i].substr(prefix.size()));
      else
        names.push_back(std::string(prefix) + names[i]);
    }
  return names;
}

/// The tensors in files that are the tensor `name`.
static std::vector<std::string> fileNames(nn::ParameterOp parameter, const std::string &name) {
  if (!parameter.getSlices())
    return {name};
  std::vector<std::string> names;
  for (int64_t i = 0; i < parameter.getTensorType().getDimSize(0); ++i)
    names.push_back(nameOfSlice(name, i));
  return names;
}

rt::Status VerifyWeights::readFile(nn::ParameterOp parameter, const std::string &name,
                                   HostTensor &whole, size_t &at) const {
  std::string found = name;
  for (const std::string &spelling : spellings(parameter, name))
    if (files->find(spelling)) {
      found = spelling;
      break;
    }
  auto source = files->find(found);
  if (!source)
    return rt::userError("import.missing_tensor", fmt::format("no weights for {}", name))
        .withRule("weight files have every tensor of the model")
        .suggest("leave out --init for weights by chance");
  std::vector<float> values(whole.data.size() / fileNames(parameter, name).size());
  if (source->entry->elements() != values.size())
    return rt::userError("import.shape_mismatch",
                         fmt::format("{} has another number of elements in the files", name))
        .withRule("weight files have the model's shapes")
        .suggest("the files of this model");
  CLEAVE_RT_RETURN_IF_ERROR(source->file->readFloats(*source->entry, 0, values));
  std::copy(values.begin(), values.end(), whole.data.begin() + static_cast<int64_t>(at));
  at += values.size();
  return rt::Status::success();
}

rt::StatusOr<HostTensor> VerifyWeights::read(nn::ParameterOp parameter,
                                             const std::string &name) const {
  HostTensor whole(parameter.getTensorType().getShape());
  if (files) {
    size_t at = 0;
    for (const std::string &file : fileNames(parameter, name))
      CLEAVE_RT_RETURN_IF_ERROR(readFile(parameter, file, whole, at));
    return whole;
  }
  uint64_t key = seed;
  for (unsigned char c : name)
    key = mixed(key ^ c);
  const double mean = parameter.getInitMean().convertToDouble(),
               deviation = std::max(parameter.getInitStd().convertToDouble(), kLeastDeviation);
  for (size_t i = 0; i < whole.data.size(); ++i)
    whole.data[i] = mean + deviation * normal(mixed(key + i));
  return whole;
}

rt::StatusOr<VerifyTokens> VerifyTokens::open(const std::string &path, uint64_t seed,
                                              int64_t vocabulary, int64_t length, int64_t batch,
                                              int64_t steps) {
  VerifyTokens source;
  source.seed = seed;
  source.vocabulary = vocabulary;
  source.length = length;
  source.batch = batch;
  if (path.empty())
    return source;
  CLEAVE_RT_ASSIGN_OR_RETURN(const rt::TokenFile file, rt::TokenFile::open(path));
  const uint64_t needed = static_cast<uint64_t>(steps * batch * length + 1);
  if (file.size() < needed)
    return rt::userError("data.too_short",
                         fmt::format("'{}' has {} tokens, {} steps of {} × {} tokens take {}", path,
                                     file.size(), steps, batch, length, needed))
        .withGiven("--data " + path)
        .withRule("there are tokens for all steps")
        .suggest("fewer --steps, or leave out --data for tokens by chance");
  source.tokens.resize(needed);
  CLEAVE_RT_RETURN_IF_ERROR(file.read(0, source.tokens, std::numeric_limits<int32_t>::max()));
  return source;
}

double VerifyTokens::token(int64_t step, int64_t sequence, int64_t at) const {
  if (!tokens.empty()) {
    const int64_t index = ((step - 1) * batch + sequence) * length + at;
    return static_cast<double>(tokens[static_cast<size_t>(index)] % vocabulary);
  }
  const uint64_t place =
      mixed(mixed(seed + static_cast<uint64_t>(step)) + static_cast<uint64_t>(sequence)) +
      static_cast<uint64_t>(at);
  return static_cast<double>(mixed(place) % static_cast<uint64_t>(vocabulary));
}

HostTensor VerifyTokens::read(llvm::StringRef name, int64_t step, int64_t first,
                              int64_t count) const {
  HostTensor out({count, length});
  for (int64_t i = 0; i < count; ++i)
    for (int64_t s = 0; s < length; ++s) {
      double &x = out.data[static_cast<size_t>(i * length + s)];
      if (name == "positions")
        x = static_cast<double>(s);
      else if (name == "tokens")
        x = token(step, first + i, s);
      else
        x = token(step, first + i, s + 1);
      const bool left = tokens.empty() && s > 0 &&
                        mixed(mixed(seed ^ static_cast<uint64_t>(step * batch + first + i)) ^
                              static_cast<uint64_t>(s)) %
                                8 ==
                            0;
      if (name == "targets" && left)
        x = -100;
    }
  return out;
}

} // namespace cleave::tool
