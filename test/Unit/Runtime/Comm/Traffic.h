// Random messages over channels, known to all ranks beforehand: each knows what it is
// to send and what it must receive.
#pragma once

#include "Expected.h"

#include <string>
#include <thread>

struct Letter {
  cleave::rt::ChannelKey key;
  std::vector<size_t> pieces;
  unsigned seed = 0;

  /// What is in it, as one list.
  std::vector<float> contents() const {
    size_t count = 0;
    for (size_t piece : pieces)
      count += piece;
    return randomBuffers(1, count, seed)[0];
  }
};

/// Channels of both kinds from every rank to every other.
inline std::vector<cleave::rt::ChannelPlan> channelsOf(int ranks, int buffers) {
  using cleave::rt::TransferKind;
  std::vector<cleave::rt::ChannelPlan> channels;
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to)
      for (TransferKind kind : {TransferKind::Activation, TransferKind::Gradient})
        if (from != to)
          channels.push_back({{from, to, kind}, buffers});
  return channels;
}

inline std::vector<Letter> randomLetters(int ranks, size_t count, unsigned seed) {
  const auto channels = channelsOf(ranks, 1);
  constexpr size_t sizes[] = {0, 1, 17, 1000, 5003, 100003};
  std::mt19937 random(seed);
  std::vector<Letter> letters(count);
  for (Letter &letter : letters) {
    letter.key = channels[random() % channels.size()].key;
    for (size_t piece = 0, pieces = random() % 3; piece <= pieces; ++piece)
      letter.pieces.push_back(sizes[random() % 6]);
    letter.seed = static_cast<unsigned>(random());
  }
  return letters;
}

/// One rank's part, in the order of the list, so that it ends with any room. `wrong`
/// counts letters that arrive changed.
inline cleave::rt::Status carryOut(cleave::rt::World &world, const std::vector<Letter> &letters,
                                   int &wrong) {
  using namespace cleave::rt;
  std::mt19937 random(static_cast<unsigned>(world.rank()));
  for (size_t i = 0; i < letters.size(); ++i) {
    const Letter &letter = letters[i];
    if (letter.key.from != world.rank() && letter.key.to != world.rank())
      continue;
    CLEAVE_RT_ASSIGN_OR_RETURN(Channel * channel, world.channel(letter.key));
    if (random() % 4 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    const std::vector<float> contents = letter.contents();
    const std::string purpose = "letter " + std::to_string(i);
    if (channel->sends()) {
      // Overwritten as soon as it is sent.
      std::vector<float> mine = contents;
      std::vector<std::span<const float>> pieces;
      size_t at = 0;
      for (size_t piece : letter.pieces) {
        pieces.push_back(std::span<const float>(mine).subspan(at, piece));
        at += piece;
      }
      CLEAVE_RT_RETURN_IF_ERROR(channel->send(pieces, purpose));
      std::ranges::fill(mine, NAN);
      continue;
    }
    std::vector<float> mine(contents.size(), NAN);
    std::vector<std::span<float>> pieces;
    size_t at = 0;
    for (size_t piece : letter.pieces) {
      pieces.push_back(std::span(mine).subspan(at, piece));
      at += piece;
    }
    CLEAVE_RT_RETURN_IF_ERROR(channel->receive(pieces, purpose));
    wrong += !sameBits(mine, contents);
  }
  return {};
}
