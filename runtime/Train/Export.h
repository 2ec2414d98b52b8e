// Writes a trained model as Hugging Face tools read it: the config as it was
// given and one model.safetensors with Hugging Face names, file shapes and
// exactly the real elements; padding never leaves the ranks. Tied tensors are
// written once, under their own name.
#pragma once

#include "runtime/Base/Status.h"
#include "runtime/Checkpoint/SafeTensors.h"
#include "runtime/Comm/Communicator.h"
#include "runtime/Exec/RankMemory.h"
#include "runtime/Schema/Image.h"

#include <string>
#include <vector>

namespace cleave::rt {

/// `ranks` holds the memory of every rank, in order, none of them running. The
/// files appear complete or not at all; `export.write_failed` otherwise. Needs a
/// few MiB beside the ranks' memory, whatever the model's size.
Status exportModel(const Image &image, const std::vector<const RankMemory *> &ranks,
                   const std::string &folder, FloatType type);

/// The same for ranks in several processes: called by all of them together, each with
/// its own memory; rank 0 writes.
Status exportTogether(const Image &image, int64_t rank, const RankMemory &memory,
                      Communicator &everyone, const std::string &folder, FloatType type);

} // namespace cleave::rt
