#include "wick/tests/core/functions/functions.h"

// Functions of networks: attention.h, conv.h, crop_images.h, grid_sample.h, interpolate.h,
// linear_cross_entropy.h, loss.h, margin_loss.h, norm.h, pool.h, random.h, range.h, rnn.h.
namespace wick::testing {
namespace {

using T = const Tensor&;
constexpr ConvPadding kSame = ConvPadding::kSame;

std::vector<Function> convolutions() {
  const Tensor line = ones({1, 2, 5}, kFloat64), image = ones({1, 2, 5, 5}, kFloat64);
  const Tensor volume = ones({1, 2, 5, 5, 5}, kFloat64);
  const Tensor w1 = ones({2, 2, 3}, kFloat64), w2 = ones({2, 2, 3, 3}, kFloat64);
  const Tensor w3 = ones({2, 2, 3, 3, 3}, kFloat64);
  return {
      entry("conv1d", {line, w1}, [](T x, T w) { return conv1d(x, w); }),
      entry("conv1d", {line, w1}, [](T x, T w) { return conv1d(x, w, {}, 1, kSame); }),
      entry("conv2d", {image, w2}, [](T x, T w) { return conv2d(x, w); }),
      entry("conv2d", {image, w2}, [](T x, T w) { return conv2d(x, w, {}, {1}, kSame); }),
      entry("conv3d", {volume, w3}, [](T x, T w) { return conv3d(x, w); }),
      entry("conv3d", {volume, w3}, [](T x, T w) { return conv3d(x, w, {}, {1}, kSame); }),
      entry("conv_transpose1d", {line, w1}, [](T x, T w) { return conv_transpose1d(x, w); }),
      entry("conv_transpose2d", {image, w2}, [](T x, T w) { return conv_transpose2d(x, w); }),
      entry("conv_transpose3d", {volume, w3}, [](T x, T w) { return conv_transpose3d(x, w); }),
      entry("grid_sample", {image, ones({1, 3, 3, 2}, kFloat64)},
            [](T x, T grid) { return grid_sample(x, grid); }),
      entry("affine_grid", {ones({1, 2, 3}, kFloat64)},
            [](T theta) {
              return affine_grid(theta, {1, 1, 3, 3});
            }),
      entry("interpolate", {image},
            [](T x) {
              return interpolate(x, {3, 3});
            }),
      entry("interpolate", {image}, [](T x) { return interpolate(x, 2); }),
      entry("interpolate_by", {image},
            [](T x) {
              return interpolate_by(x, {2, 2});
            }),
      entry("crop_images",
            {ones({1, 3, 4, 4}, kUint8), ones({1, kCropImagesNumbers}, kInt32),
             ones({3, 3}, kFloat32)},
            [](T images, T places, T c) {
              return crop_images(images, places, c, {2, 2});
            }),
  };
}

std::vector<Function> pools() {
  const Tensor x = ones({1, 2, 4}, kFloat64), image = ones({1, 2, 4, 4}, kFloat64);
  const Tensor volume = ones({1, 2, 4, 4, 4}, kFloat64);
  const Tensor at1 = zeros({1, 2, 1}, kInt64), at2 = zeros({1, 2, 1, 1}, kInt64);
  const Tensor at3 = zeros({1, 2, 1, 1, 1}, kInt64);
  const Tensor y1 = at1.to(kFloat64), y2 = at2.to(kFloat64), y3 = at3.to(kFloat64);
  return {
      entry("max_pool1d", {x}, [](T in) { return max_pool1d(in, 2); }),
      entry("max_pool2d", {image}, [](T in) { return max_pool2d(in, 2); }),
      entry("max_pool3d", {volume}, [](T in) { return max_pool3d(in, 2); }),
      entry("max_pool1d_with_indices", {x},
            [](T in) { return max_pool1d_with_indices(in, 2).values; }),
      entry("max_pool2d_with_indices", {image},
            [](T in) { return max_pool2d_with_indices(in, 2).values; }),
      entry("max_pool3d_with_indices", {volume},
            [](T in) { return max_pool3d_with_indices(in, 2).values; }),
      entry("max_unpool1d", {y1, at1}, [](T in, T at) { return max_unpool1d(in, at, 2); }),
      entry("max_unpool2d", {y2, at2}, [](T in, T at) { return max_unpool2d(in, at, 2); }),
      entry("max_unpool3d", {y3, at3}, [](T in, T at) { return max_unpool3d(in, at, 2); }),
      entry("avg_pool1d", {x}, [](T in) { return avg_pool1d(in, 2); }),
      entry("avg_pool2d", {image}, [](T in) { return avg_pool2d(in, 2); }),
      entry("avg_pool3d", {volume}, [](T in) { return avg_pool3d(in, 2); }),
      entry("lp_pool1d", {x}, [](T in) { return lp_pool1d(in, 2, 2); }),
      entry("lp_pool2d", {image}, [](T in) { return lp_pool2d(in, 2, 2); }),
      entry("lp_pool3d", {volume}, [](T in) { return lp_pool3d(in, 2, 2); }),
      entry("adaptive_avg_pool1d", {x}, [](T in) { return adaptive_avg_pool1d(in, 2); }),
      entry("adaptive_avg_pool2d", {image}, [](T in) { return adaptive_avg_pool2d(in, 2); }),
      entry("adaptive_avg_pool3d", {volume}, [](T in) { return adaptive_avg_pool3d(in, 2); }),
      entry("adaptive_max_pool1d", {x}, [](T in) { return adaptive_max_pool1d(in, 2); }),
      entry("adaptive_max_pool2d", {image}, [](T in) { return adaptive_max_pool2d(in, 2); }),
      entry("adaptive_max_pool3d", {volume}, [](T in) { return adaptive_max_pool3d(in, 2); }),
      entry("adaptive_max_pool1d_with_indices", {x},
            [](T in) { return adaptive_max_pool1d_with_indices(in, 2).values; }),
      entry("adaptive_max_pool2d_with_indices", {image},
            [](T in) { return adaptive_max_pool2d_with_indices(in, 2).values; }),
      entry("adaptive_max_pool3d_with_indices", {volume},
            [](T in) { return adaptive_max_pool3d_with_indices(in, 2).values; }),
  };
}

std::vector<Function> losses() {
  const Tensor x = full({2, 3}, 0.5, kFloat64), classes = zeros({2}, kInt64);
  const Tensor row = ones({2}, kFloat64), steps = full({4, 1, 3}, -1, kFloat64);
  const Tensor labels = ones({1, 2}, kInt64), length = full({1}, 4, kInt64);
  const Tensor two = full({1}, 2, kInt64);
  return {
      entry("cross_entropy", {x, classes}, [](T in, T t) { return cross_entropy(in, t); }),
      entry("nll_loss", {x, classes}, [](T in, T t) { return nll_loss(in, t); }),
      entry("mse_loss", {x, x}, [](T in, T t) { return mse_loss(in, t); }),
      entry("l1_loss", {x, x}, [](T in, T t) { return l1_loss(in, t); }),
      entry("smooth_l1_loss", {x, x}, [](T in, T t) { return smooth_l1_loss(in, t); }),
      entry("huber_loss", {x, x}, [](T in, T t) { return huber_loss(in, t); }),
      entry("binary_cross_entropy", {x, x}, [](T in, T t) { return binary_cross_entropy(in, t); }),
      entry("binary_cross_entropy_with_logits", {x, x},
            [](T in, T t) { return binary_cross_entropy_with_logits(in, t); }),
      entry("kl_div", {x, x}, [](T in, T t) { return kl_div(in, t); }),
      entry("ctc_loss", {steps, labels}, [](T in, T t) { return ctc_loss(in, t, {4}, {2}); }),
      entry("ctc_loss", {steps, labels, length, two},
            [](T in, T t, T a, T b) { return ctc_loss(in, t, a, b); }),
      entry("linear_cross_entropy", {x, ones({4, 3}, kFloat64), classes},
            [](T in, T weight, T t) { return linear_cross_entropy(in, weight, t); }),
      entry("poisson_nll_loss", {x, x}, [](T in, T t) { return poisson_nll_loss(in, t); }),
      entry("gaussian_nll_loss", {x, x, x},
            [](T in, T t, T v) { return gaussian_nll_loss(in, t, v); }),
      entry("margin_ranking_loss", {x, x, x},
            [](T a, T b, T t) { return margin_ranking_loss(a, b, t); }),
      entry("hinge_embedding_loss", {x, x}, [](T in, T t) { return hinge_embedding_loss(in, t); }),
      entry("cosine_embedding_loss", {x, x, row},
            [](T a, T b, T t) { return cosine_embedding_loss(a, b, t); }),
      entry("triplet_margin_loss", {x, x, x},
            [](T a, T p, T n) { return triplet_margin_loss(a, p, n); }),
      entry("triplet_margin_with_distance_loss", {x, x, x},
            [](T a, T p, T n) {
              const auto distance = [](T u, T v) { return pairwise_distance(u, v); };
              return triplet_margin_with_distance_loss(a, p, n, distance);
            }),
      entry("pairwise_distance", {x, x}, [](T a, T b) { return pairwise_distance(a, b); }),
      entry("soft_margin_loss", {x, x}, [](T in, T t) { return soft_margin_loss(in, t); }),
      entry("multilabel_soft_margin_loss", {x, x},
            [](T in, T t) { return multilabel_soft_margin_loss(in, t); }),
      entry("multi_margin_loss", {x, classes}, [](T in, T t) { return multi_margin_loss(in, t); }),
      entry("multilabel_margin_loss", {x, zeros({2, 3}, kInt64)},
            [](T in, T t) { return multilabel_margin_loss(in, t); }),
  };
}

std::vector<Function> norms() {
  const Tensor x = ones({2, 4, 3}, kFloat64), none;
  return {
      entry("batch_norm", {x}, [none](T in) { return batch_norm(in, none, none, none, none); }),
      entry("batch_norm_relu", {x},
            [none](T in) { return batch_norm_relu(in, none, none, none, none); }),
      entry("batch_norm_add_relu", {x, x},
            [none](T in, T r) { return batch_norm_add_relu(in, r, none, none, none, none); }),
      entry("layer_norm", {x}, [](T in) { return layer_norm(in, {3}); }),
      entry("add_layer_norm", {x, x}, [](T in, T r) { return add_layer_norm(in, r, {3}).y; }),
      entry("rms_norm", {x}, [](T in) { return rms_norm(in, {3}); }),
      entry("add_rms_norm", {x, x}, [](T in, T r) { return add_rms_norm(in, r, {3}).y; }),
      entry("group_norm", {x}, [](T in) { return group_norm(in, 2); }),
      entry("group_norm_relu", {x}, [](T in) { return group_norm_relu(in, 2); }),
      entry("group_norm_add_relu", {x, x}, [](T in, T r) { return group_norm_add_relu(in, r, 2); }),
      entry("local_response_norm", {x}, [](T in) { return local_response_norm(in, 2); }),
  };
}

std::vector<Function> others() {
  const Tensor x = full({2, 4, 3}, 0.5, kFloat64), number = ones({}, kFloat64);
  const Tensor rows = ones({4, 3}, kFloat64);
  return {
      entry("scaled_dot_product_attention", {x, x, x},
            [](T q, T k, T v) { return scaled_dot_product_attention(q, k, v); }),
      entry("rand_like", {x}, [](T in) { return rand_like(in); }),
      entry("randn_like", {x}, [](T in) { return randn_like(in); }),
      entry("bernoulli", {x}, [](T p) { return bernoulli(p); }),
      entry("multinomial", {rows}, [](T weights) { return multinomial(weights, 2); }),
      entry("dropout", {x}, [](T in) { return dropout(in); }),
      entry("dropout1d", {x}, [](T in) { return dropout1d(in); }),
      entry("dropout2d", {x.unsqueeze(0)}, [](T in) { return dropout2d(in); }),
      entry("dropout3d", {x.unsqueeze(0).unsqueeze(0)}, [](T in) { return dropout3d(in); }),
      entry("alpha_dropout", {x}, [](T in) { return alpha_dropout(in); }),
      entry("feature_alpha_dropout", {x}, [](T in) { return feature_alpha_dropout(in); }),
      entry("linspace", {number, number}, [](T a, T b) { return linspace(a, b, 3); }),
      entry("logspace", {number, number}, [](T a, T b) { return logspace(a, b, 3); }),
      entry(
          "rnn_layer", {rows, ones({8, 3}, kFloat64), ones({8, 2}, kFloat64)},
          [](T in, T w_ih, T w_hh) {
            return rnn_layer(RnnKind::kLstm, in, {2, 2}, false, {}, {}, {w_ih, w_hh, {}, {}, {}}).y;
          }),
      entry("bidirectional_rnn_layer", {rows, ones({8, 3}, kFloat64), ones({8, 2}, kFloat64)},
            [](T in, T w_ih, T w_hh) {
              const RnnWeights w{w_ih, w_hh, {}, {}, {}};
              return bidirectional_rnn_layer(RnnKind::kLstm, in, {2, 2}, {}, {}, w, w).y;
            }),
  };
}

}  // namespace

std::vector<Function> network_functions() {
  std::vector<Function> all;
  for (const auto& part : {convolutions(), pools(), losses(), norms(), others()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace wick::testing
