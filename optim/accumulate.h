#pragma once

#include <algorithm>
#include <cstdint>

#include "wick/core/base/check.h"

namespace wick::optim {

/// Gradient accumulation: one step's examples in `pieces` pieces, one after another, so that the
/// activations of one piece alone need memory. Calls run(begin, end, share) for each piece, where
/// `share` is its part of all examples: what the piece's mean loss is to be multiplied by before
/// its backward pass, so that the gradients add up to those of the mean over all, also where pieces
/// differ in size. Clip and step once, afterwards. Where there are fewer examples than pieces, each
/// piece is one example. What depends on a whole batch, such as batch normalisation, sees pieces.
///
///   optimizer.zero_grad();
///   optim::accumulate(x.size(0), 4, [&](int64_t begin, int64_t end, double share) {
///     (loss(model(x.slice(0, begin, end)), y.slice(0, begin, end)) * share).backward();
///   });
///   optimizer.step({.max_norm = 1.0});
template <class Run>
void accumulate(int64_t examples, int64_t pieces, const Run& run) {
  WICK_CHECK(examples >= 1, "accumulate: examples: got ", examples, ", expected 1 or more");
  WICK_CHECK(pieces >= 1, "accumulate: pieces: got ", pieces, ", expected 1 or more");
  const int64_t count = std::min(pieces, examples);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = examples * i / count, end = examples * (i + 1) / count;
    run(begin, end, static_cast<double>(end - begin) / static_cast<double>(examples));
  }
}

}  // namespace wick::optim
