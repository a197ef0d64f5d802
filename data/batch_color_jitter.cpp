#include "wick/data/batch_color_jitter.h"

#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/join.h"
#include "wick/core/ops/reduce.h"

namespace wick::data {

namespace {

// Keeps the streams of batches apart from those of others with the same seed.
constexpr uint64_t kSeedOfJitter = 0x6a6974746572;  // "jitter"

Tensor channel(const Tensor& x, int64_t c) { return x.narrow(1, c, 1); }

Tensor grey_of(const Tensor& x) {
  if (x.size(1) == 1) return x;
  return channel(x, 0) * 0.2989 + channel(x, 1) * 0.587 + channel(x, 2) * 0.114;
}

// Away from `other` by `factor`.
Tensor away(const Tensor& x, const Tensor& other, const Tensor& factor) {
  return (other + (x - other) * factor).clamp(0, 1);
}

// See adjust_hue.
Tensor turn_hue(const Tensor& x, const Tensor& turn) {
  if (x.size(1) == 1) return x;
  const Tensor r = channel(x, 0), g = channel(x, 1), b = channel(x, 2);
  const Tensor most = x.amax({1}, true), range = most - x.amin({1}, true);
  const Tensor slope = where(most.eq(r), g - b, where(most.eq(g), b - r, r - g));
  const Tensor start = where(most.eq(r), zeros_like(r), where(most.eq(g), full_like(r, 2), 4));
  // Without a range, no hue is of any effect.
  const Tensor sum = start + turn * 6 + slope / where(range.gt(0), range, 1);
  const auto below_six = [](const Tensor& h) { return where(h.ge(6), h - 6, h); };
  const Tensor h = below_six(where(sum.lt(0), sum + 6, sum));
  const auto value = [&](double offset) {
    const Tensor k = below_six(h + offset);
    return most - range * k.minimum(4 - k).clamp(0, 1);
  };
  return cat({value(5), value(3), value(1)}, 1);
}

}  // namespace

BatchColorJitter::BatchColorJitter(const ColorJitterOptions& options, uint64_t seed, int64_t part)
    : ranges_(jitter_ranges(options)), seed_(seed), part_(part) {}

BatchColorJitter::Draw BatchColorJitter::draw(int64_t count, int64_t epoch, int64_t batch) const {
  PhiloxStream random(seed_ ^ kSeedOfJitter, static_cast<uint64_t>(batch),
                      static_cast<uint64_t>(epoch) << 32);
  Draw draw{draw_order(random), empty({4, count, 1, 1, 1})};
  for (int64_t i = -count * part_; i < count; ++i) {
    const std::array<double, 4> factors = draw_factors(ranges_, random);
    for (size_t f = 0; i >= 0 && f < factors.size(); ++f) {
      draw.factors.data<float>()[static_cast<int64_t>(f) * count + i] =
          static_cast<float>(factors[f]);
    }
  }
  return draw;
}

Tensor BatchColorJitter::apply(const Tensor& images, int64_t epoch, int64_t batch) const {
  WICK_CHECK(images.rank() == 4 && is_floating(images.dtype()) &&
                 (images.size(1) == 1 || images.size(1) == 3),
             "batch color jitter: wrong images: got shape ", images.shape(), " of ",
             to_string(images.dtype()), ", expected [N, 1 or 3, H, W], floating");
  const Draw drawn = draw(images.size(0), epoch, batch);
  const Tensor factors =
      drawn.factors.to(images.device(), /*non_blocking=*/true).to(images.dtype());
  Tensor x = images;
  for (const size_t i : drawn.order) {
    if (!ranges_[i].changes) continue;
    const Tensor factor = factors.select(0, static_cast<int64_t>(i));
    if (i == 0) {
      x = (x * factor).clamp(0, 1);
    } else if (i == 1) {
      x = away(x, grey_of(x).mean({1, 2, 3}, true), factor);
    } else if (i == 2) {
      x = away(x, grey_of(x), factor);
    } else {
      x = turn_hue(x, factor);
    }
  }
  return x;
}

}  // namespace wick::data
