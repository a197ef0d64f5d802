#pragma once

#include "wick/core/random.h"
#include "wick/core/tensor.h"

// Each function draws once from `generator`, by default the device's own. The numbers are the same
// on every device and for any number of threads.

namespace wick {

/// Uniform in [0, 1), floating.
Tensor rand(const Shape& shape, Dtype dtype = kFloat32, Device device = kCpu,
            Generator* generator = nullptr);

/// Standard normal, floating.
Tensor randn(const Shape& shape, Dtype dtype = kFloat32, Device device = kCpu,
             Generator* generator = nullptr);

/// rand and randn with `like`'s shape, dtype and device.
Tensor rand_like(const Tensor& like, Generator* generator = nullptr);
Tensor randn_like(const Tensor& like, Generator* generator = nullptr);

/// Uniform integers in [low, high). Error unless low < high.
Tensor randint(int64_t low, int64_t high, const Shape& shape, Dtype dtype = kInt64,
               Device device = kCpu, Generator* generator = nullptr);

/// The integers 0 to n - 1 in random order.
Tensor randperm(int64_t n, Dtype dtype = kInt64, Device device = kCpu,
                Generator* generator = nullptr);

/// One with the probability that the floating tensor `p` gives for each element, else zero.
Tensor bernoulli(const Tensor& p, Generator* generator = nullptr);

/// Places drawn with chances in proportion to `weights` [C] or [N, C] (floating, finite, 0 or more;
/// not all 0 in a row): int64 [num_samples] or [N, num_samples]. Without `replacement` each place
/// at most once, of which there must be enough with a weight above 0 (Efraimidis and Spirakis:
/// Weighted random sampling with a reservoir, 2006).
Tensor multinomial(const Tensor& weights, int64_t num_samples, bool replacement = false,
                   Generator* generator = nullptr);

/// In training, zero with probability `p`, else x / (1 - p); otherwise `x` itself. Any shape,
/// floating. Nothing is kept for backward, which draws the same numbers again.
/// Srivastava et al.: Dropout: a simple way to prevent neural networks from overfitting (2014).
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
               Generator* generator = nullptr);

/// Dropout of whole channels of x [N, C, ...].
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true,
                 Generator* generator = nullptr);

/// The same of signals [N, C, L] or [C, L], and of volumes [N, C, D, H, W] or [C, D, H, W].
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true,
                 Generator* generator = nullptr);
Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true,
                 Generator* generator = nullptr);

/// In training, what selu makes of -infinity with probability `p`, else x, scaled and moved so that
/// means of 0 and variances of 1 are kept. Klambauer et al.: Self-normalizing neural networks
/// (2017).
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = true,
                     Generator* generator = nullptr);
/// The same of whole channels of x [N, C, ...].
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = true,
                             Generator* generator = nullptr);

}  // namespace wick
