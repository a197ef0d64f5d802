#pragma once

#include "wick/core/ops/detail/image_format.h"

// Volumes [N, C, D, H, W] as the images that ops on them are made of. Results of ops on images lie
// channels-last, so that each of these is a view of them.
namespace wick {

/// The planes of a volume as images: [N, C, D, H, W] -> [N D, C, H, W], channels-last.
inline Tensor planes_of(const Tensor& x) {
  const Tensor rows = x.permute({0, 2, 3, 4, 1}).contiguous();
  return rows.reshape({x.size(0) * x.size(2), x.size(3), x.size(4), x.size(1)})
      .permute({0, 3, 1, 2});
}

/// The reverse, with the planes of `n` volumes of `depth` each.
inline Tensor volumes_of(const Tensor& planes, int64_t n, int64_t depth) {
  const Tensor rows = planes.permute({0, 2, 3, 1}).contiguous();
  return rows.reshape({n, depth, planes.size(2), planes.size(3), planes.size(1)})
      .permute({0, 4, 1, 2, 3});
}

/// Such planes, `depth` to a volume, as images whose rows are planes: [N D, C, H, W] ->
/// [N, C, D, H W].
inline Tensor planes_as_rows(const Tensor& planes, int64_t n, int64_t depth) {
  const Tensor rows = planes.permute({0, 2, 3, 1}).contiguous();
  return rows.reshape({n, depth, planes.size(2) * planes.size(3), planes.size(1)})
      .permute({0, 3, 1, 2});
}

/// Those images as volumes with planes of `height` x `width`.
inline Tensor rows_as_planes(const Tensor& x, int64_t height, int64_t width) {
  return x.reshape({x.size(0), x.size(1), x.size(2), height, width});
}

}  // namespace wick
