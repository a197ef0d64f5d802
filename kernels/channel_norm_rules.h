#pragma once

#include "wick/kernels/axis_split.h"

// What both devices know of batch, group and instance norm, which are one computation. Statistics
// belong to a group of neighbouring channels of an image. Group norm has some groups per image,
// instance norm one per channel. Batch norm has one per channel, and its one image is the batch.
//
// Forward: y = (x - mean) * invstd * weight + bias. Backward, of the sums over a group of n
// elements with normalised elements x^ = (x - mean) * invstd:
//   dx = invstd * (weight * dy - sum(weight * dy) / n - x^ * sum(weight * dy * x^) / n)
// Either is a line per channel, so a second pass over x needs a few coefficients per channel.
namespace wick {

/// Images of channels. With inner size 1 an image is `outer` rows of all channels, else it is
/// `outer` times a run of `inner` elements of each channel.
struct ChannelLayout {
  int64_t images = 1, outer = 1, channels = 1, inner = 1;
  int64_t groups = 1;  // per image

  /// Rows of an image, and their elements: all channels of one position, or one channel's run.
  WICK_HOST_DEVICE int64_t rows() const { return inner == 1 ? outer : outer * channels; }
  WICK_HOST_DEVICE int64_t row_size() const { return inner == 1 ? channels : inner; }
  /// Elements of a channel of an image.
  WICK_HOST_DEVICE int64_t samples() const { return outer * inner; }
  WICK_HOST_DEVICE int64_t image_size() const { return samples() * channels; }
  /// Channels of a group.
  WICK_HOST_DEVICE int64_t per_group() const { return channels / groups; }
  /// The group of a channel, counted over all images.
  WICK_HOST_DEVICE int64_t group(int64_t image, int64_t channel) const {
    return image * groups + channel / per_group();
  }
  /// Where the first element of a channel is.
  WICK_HOST_DEVICE int64_t first(int64_t image, int64_t channel) const {
    return image * image_size() + channel * inner;
  }
};

/// x as batch norm (no groups) or group norm works on it. x: dense, [N, C, ...].
WICK_INLINE ChannelLayout channel_layout(const View& x, int64_t groups) {
  const int64_t images = x.shape[0], channels = x.shape[1];
  if (groups == 0) {
    if (channels == 1) return {1, 1, 1, x.numel(), 1};
    const AxisSplit s = split_at(x, 1);
    return {1, s.outer, s.size, s.inner, channels};
  }
  const int64_t positions = x.numel() / (images * channels);
  const bool by_position = positions == 1 || (channels > 1 && split_at(x, 1).inner == 1);
  if (by_position) return {images, positions, channels, 1, groups};
  return {images, 1, channels, positions, groups};
}

/// A mean in two parts: what elements are counted from, in the type that they are computed in, and
/// the rest.
template <class L>
struct Center {
  L center;
  double low;
  WICK_HOST_DEVICE explicit Center(double mean)
      : center(static_cast<L>(mean)), low(mean - static_cast<double>(center)) {}
};

/// y = (x - center) * a + b.
template <class L>
struct ForwardCoefficients {
  L center, a, b;
  WICK_HOST_DEVICE ForwardCoefficients(double mean, double invstd, double weight, double bias) {
    const Center<L> from(mean);
    const double scale = weight * invstd;
    center = from.center;
    a = static_cast<L>(scale);
    b = static_cast<L>(bias - from.low * scale);
  }
};

/// The sum of dy * (x - mean) * invstd over a channel, from the sums of dy and of dy * (x -
/// center).
template <class L>
WICK_HOST_DEVICE double normalised_dot(double sum, double dot, double mean, double invstd) {
  return (dot - Center<L>(mean).low * sum) * invstd;
}

/// dx = a * dy + b * (x - center) + c.
template <class L>
struct BackwardCoefficients {
  L center, a, b, c;
  /// `sum` and `dot`: of weight * dy, and of that times the normalised x, over the channel's group;
  /// `inverse`: 1 / the elements of the group, or 0 where the statistics are constants.
  WICK_HOST_DEVICE BackwardCoefficients(double mean, double invstd, double weight, double sum,
                                        double dot, double inverse) {
    const Center<L> from(mean);
    const double slope = -invstd * invstd * dot * inverse;
    center = from.center;
    a = static_cast<L>(weight * invstd);
    b = static_cast<L>(slope);
    c = static_cast<L>(-invstd * sum * inverse - slope * from.low);
  }
};

}  // namespace wick
