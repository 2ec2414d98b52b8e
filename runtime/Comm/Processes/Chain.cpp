// The chain's two directions, interleaved.
#include "runtime/Comm/Processes/Chain.h"

#include <algorithm>
#include <cstring>

namespace cleave::rt {

static void deliver(const SumChunk &chunk, const float *sum, const std::vector<float *> &places) {
  for (float *to : places)
    if (to != sum)
      std::memcpy(to, sum, chunk.count * sizeof(float));
}

// At its step s a process handles the sum of chunk s, and the result of the chunk
// that has come back by then. With the process i places before the end of the
// chain, that is chunk s − 2i. So what step s waits for are sums of chunk s, which
// come from processes before it, and otherwise what its neighbours do in steps
// before s: nobody waits in a circle.
Status Chain::run(const std::vector<SumChunk> &chunks, AddHere add, PlacesHere places) {
  stage.resize(std::max(stage.size(), 2 * depth * chunkFloats));
  sums.assign(depth, MessagePort::Batch(port));
  results.assign(depth, MessagePort::Batch(port));
  const size_t lag = 2 * (length - 1 - place), count = chunks.size();
  for (size_t step = 0; step < count + lag; ++step) {
    if (step < count)
      CLEAVE_RT_RETURN_IF_ERROR(passSum(chunks, step, add, places));
    if (step >= lag && !isLast())
      CLEAVE_RT_RETURN_IF_ERROR(passResult(chunks, step - lag, places));
  }
  for (Slots *slots : {&sums, &results})
    for (MessagePort::Batch &slot : *slots)
      CLEAVE_RT_RETURN_IF_ERROR(slot.wait());
  return {};
}

/// Frees the chunk's slot and asks for the sum of the processes before.
Status Chain::awaitSum(const std::vector<SumChunk> &chunks, size_t chunk) {
  MessagePort::Batch &slot = sums[chunk % depth];
  CLEAVE_RT_RETURN_IF_ERROR(slot.wait());
  if (before < 0)
    return {};
  return slot.receive({stageOf(chunk, false), chunks[chunk].count}, before, tag);
}

Status Chain::passSum(const std::vector<SumChunk> &chunks, size_t chunk, AddHere add,
                      PlacesHere places) {
  if (chunk == 0)
    CLEAVE_RT_RETURN_IF_ERROR(awaitSum(chunks, 0));
  if (chunk + 1 < chunks.size())
    CLEAVE_RT_RETURN_IF_ERROR(awaitSum(chunks, chunk + 1));
  MessagePort::Batch &slot = sums[chunk % depth];
  CLEAVE_RT_RETURN_IF_ERROR(slot.wait());
  float *sum = stageOf(chunk, false);
  const size_t floats = chunks[chunk].count;
  add(chunks[chunk], sum, before >= 0);
  if (!isLast())
    return slot.send({sum, floats}, after, tag);
  deliver(chunks[chunk], sum, places(chunks[chunk]));
  return chunks[chunk].wantedFrom < place ? slot.send({sum, floats}, before, tag) : Status();
}

/// Asks for a result: where it goes here, or in a stage if it only passes through.
Status Chain::awaitResult(const std::vector<SumChunk> &chunks, size_t chunk, PlacesHere places) {
  MessagePort::Batch &slot = results[chunk % depth];
  CLEAVE_RT_RETURN_IF_ERROR(slot.wait());
  if (chunks[chunk].wantedFrom > place)
    return {};
  const std::vector<float *> here = places(chunks[chunk]);
  float *to = here.empty() ? stageOf(chunk, true) : here.front();
  return slot.receive({to, chunks[chunk].count}, after, tag);
}

Status Chain::passResult(const std::vector<SumChunk> &chunks, size_t chunk, PlacesHere places) {
  if (chunk == 0)
    CLEAVE_RT_RETURN_IF_ERROR(awaitResult(chunks, 0, places));
  // What lies at its place has been added, a step ago at least.
  if (chunk + 1 < chunks.size())
    CLEAVE_RT_RETURN_IF_ERROR(awaitResult(chunks, chunk + 1, places));
  if (chunks[chunk].wantedFrom > place)
    return {};
  MessagePort::Batch &slot = results[chunk % depth];
  CLEAVE_RT_RETURN_IF_ERROR(slot.wait());
  const std::vector<float *> here = places(chunks[chunk]);
  const float *sum = here.empty() ? stageOf(chunk, true) : here.front();
  deliver(chunks[chunk], sum, here);
  return chunks[chunk].wantedFrom < place ? slot.send({sum, chunks[chunk].count}, before, tag)
                                          : Status();
}

} // namespace cleave::rt
