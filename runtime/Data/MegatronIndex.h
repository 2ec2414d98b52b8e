// Reader of Megatron-LM's `.idx` file: where each sequence lies in the `.bin`
// beside it. Document and multimodal tables are skipped over, not interpreted.
//
//   "MMIDIDX\0\0"  u64 version = 1  u8 dtype  u64 sequences  u64 documents
//   i32 length[sequences]  i64 byte offset[sequences]  i64 document[documents]
//   [i8 mode[sequences]]
#pragma once

#include "runtime/Data/TokenFile.h"

namespace cleave::rt {

struct MegatronSequence {
  uint64_t byteOffset;
  uint64_t tokens;
};

struct MegatronIndex {
  TokenWidth width;
  std::vector<MegatronSequence> sequences;
};

/// `dataBytes` is the size of the `.bin`; a sequence beyond it, or data that no
/// sequence reaches, is `data.index_mismatch`.
StatusOr<MegatronIndex> readMegatronIndex(const std::string &path, uint64_t dataBytes);

} // namespace cleave::rt
