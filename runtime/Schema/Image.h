// All programs of a run as one text: the one that serves every rank, or, with a
// pipeline, one for each index over its axes. What they have in common (model,
// mesh, batch, recipe …) stands once in the text, and is the same in all of them.
#pragma once

#include "runtime/Schema/Program.h"

namespace cleave::rt {

struct Image {
  /// One program, or those of a pipeline in the order of their index.
  std::vector<Program> programs;

  Image() = default;
  /// The image of a program that serves all ranks.
  Image(Program program) { programs.push_back(std::move(program)); }

  /// What all programs have in common may be read of the first.
  const Program &first() const { return programs.front(); }
  const Program &of(int64_t rank) const;
  /// Number of stages of the model; 0 without a pipeline.
  int64_t stages() const;

  /// A tensor of the model, which several programs may hold.
  struct Tensor {
    /// Where it is counted.
    const StateEntry *entry;
    /// Index of that program.
    size_t program;
  };
  /// All tensors of a valid image, each once, in the order of the programs.
  std::vector<Tensor> tensors() const;
  int64_t parameterCount() const;
  /// Of the rank with the most; absent where a program has none.
  std::optional<int64_t> predictedBytesPerRank() const;
};

/// The image as JSON text, one command a line (those of a repeat indented behind
/// it), the same bytes for equal images.
std::string toImageText(const Image &image);

/// Reads and validates an image. Kinds: those of the JSON reader, of ObjectReader
/// with prefix `image`, and those of `validate`.
StatusOr<Image> imageFromText(std::string_view text, const std::string &file = "<image>");

/// Checks each program, and all that they must agree on: what they have in common
/// (`image.pipeline`), tensors of several programs (`image.state`), sizes at the
/// boundaries of stages, stages and actions complete, in order and in slots that
/// nothing else uses, both ends of a channel alike, no rank that waits for ever
/// (`image.pipeline`), and one order of collectives in groups whose members run
/// different programs (`image.group`). The compiler calls it too, where a failure
/// is a mistake of ours.
Status validate(const Image &image);

} // namespace cleave::rt
