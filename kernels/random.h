#pragma once

#include <cstdint>

#include "wick/kernels/declare.h"

// Random numbers are a function of key and element alone: word i % 4 of Philox block i / 4 is what
// element i is made from (double and 64-bit elements take two words each). So they are the same on
// every device and for any number of threads. Outputs are contiguous and filled in memory's order.

namespace wick {

/// Names one draw of random numbers: the generator's seed, and how many draws came before.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t offset = 0;
  /// For kernels that a GPU runs again and again: null, or two numbers in its memory that are to be
  /// added to seed and offset, since they say where the generator is by then.
  const uint64_t* base = nullptr;
};

/// y = uniform in [low, high), floating.
WICK_KERNEL(random_uniform, (const View& y, RandomKey key, double low, double high));

/// y = normal, floating, by Box and Muller's transform.
WICK_KERNEL(random_normal, (const View& y, RandomKey key, double mean, double stddev));

/// y (int64) = low + uniform in [0, range); a range of 0 stands for 2^64.
WICK_KERNEL(random_integers, (const View& y, RandomKey key, int64_t low, uint64_t range));

/// y = 1 with probability p, else 0, element by element; both of one floating dtype.
WICK_KERNEL(random_bernoulli, (const View& p, const View& y, RandomKey key));

/// y = 0 with probability p, else x / (1 - p); p < 1. x and y lie in memory in the same order.
WICK_KERNEL(dropout, (const View& x, const View& y, RandomKey key, double p));

}  // namespace wick
