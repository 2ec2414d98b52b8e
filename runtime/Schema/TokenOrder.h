// In which order the tokens of a sequence stand in the rows that ranks share. The
// compiler decides it, the reader of batches follows it; positions go with the tokens.
#pragma once

#include <cstdint>
#include <vector>

namespace cleave::rt {

/// The positions of a sequence of `length` tokens, row by row, so that each of `blocks`
/// blocks of ceil(length / blocks) rows has about as many (query, earlier key) pairs:
/// block r takes half of its rows from the front of what the blocks before left and half
/// from its end, both ascending. With 2 · blocks equal chunks it holds the chunks r and
/// 2 · blocks − 1 − r. One block: 0, 1, 2, …
std::vector<int64_t> zigzagOrder(int64_t length, int64_t blocks);

} // namespace cleave::rt
