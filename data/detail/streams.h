#pragma once

#include "wick/core/base/philox.h"

// How loading data shares out the random numbers of a seed.
namespace wick::data {

// The numbers of streams that belong to no sample of a map-style data set.
inline constexpr uint64_t kStreamsOfPlaces = uint64_t{1} << 62;  // + the place in the epoch
inline constexpr uint64_t kStreamsOfShards = uint64_t{1} << 63;  // + shard << 40 + place in it
inline constexpr uint64_t kStreamsOfOrders = uint64_t{3} << 62;  // + which part of an order
inline constexpr uint64_t kStreamsOfWorkers = ~uint64_t{0};      // for seeds of what they call

/// The random numbers of sample `number` (or of what has a number above) in one epoch: 2^34 words,
/// from word 4 * `offset` on.
inline PhiloxStream data_stream(uint64_t seed, int64_t epoch, uint64_t number,
                                uint64_t offset = 0) {
  // Keeps them apart from those that models draw from the same seed.
  constexpr uint64_t kSeedOfData = 0x6c6f61646572;  // "loader"
  return PhiloxStream(seed ^ kSeedOfData, number, (static_cast<uint64_t>(epoch) << 32) + offset);
}

}  // namespace wick::data
