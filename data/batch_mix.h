#pragma once

#include <cstdint>

#include "wick/core/base/philox.h"
#include "wick/core/options.h"
#include "wick/core/tensor.h"
#include "wick/data/transforms.h"

namespace wick::data {

/// Options of BatchMix. By default it changes nothing.
struct BatchMixOptions {
  double mixup = 0;   // both parameters of the Beta distribution that shares are drawn from; 0: off
  double cutmix = 0;  // the same
  uint64_t seed = 0;
};
/// `mixup` and `cutmix` as options of `wick train`.
OptionFields fields(BatchMixOptions& options);

/// How the images of one batch are mixed, each with the one before it, the first with the last.
struct BatchMixDraw {
  double share = 1;  // of each image's own label, and with mixup of its pixels
  bool cut = false;  // whether the other image's part is the rectangle that follows
  int64_t top = 0, left = 0;
  ImageSize size = {};
};

/// Mixes the images of a batch and their labels, by mixup or cutmix; with both, each with half the
/// batches. What is drawn depends on the seed, the epoch and the batch's number alone.
/// Zhang et al.: mixup: beyond empirical risk minimization (2017). Yun et al.: CutMix:
/// regularization strategy to train strong classifiers with localizable features (2019).
class BatchMix {
 public:
  /// Error for a parameter that is neither 0 nor between 0.0001 and 1000.
  BatchMix(int64_t num_classes, const BatchMixOptions& options);

  /// Whether batches are changed at all.
  bool enabled() const { return options_.mixup > 0 || options_.cutmix > 0; }

  /// What `mix` does with batch `batch` of `epoch`, of images of `size`.
  BatchMixDraw draw(int64_t epoch, int64_t batch, ImageSize size) const;

  /// A mixed batch.
  struct Mixed {
    Tensor images;   // as they came
    Tensor targets;  // float32 [N, num_classes]: probabilities, which cross_entropy takes
  };
  /// Mixes `images` (floating, [N, C, H, W]) with class indices `labels` (int64, [N]), both on one
  /// device, which is not waited for. Neither is changed.
  Mixed mix(const Tensor& images, const Tensor& labels, int64_t epoch, int64_t batch) const;

 private:
  int64_t num_classes_;
  BatchMixOptions options_;
};

/// A number in [0, 1] of the symmetric Beta distribution with both parameters `alpha`.
double draw_beta(PhiloxStream& random, double alpha);

}  // namespace wick::data
