#include "wick/kernels/conv.h"

#include <algorithm>

#include "wick/core/base/detail/per_thread.h"
#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/amx.h"
#include "wick/kernels/cpu/dnnl/execution.h"
#include "wick/kernels/cpu/products/im2col.h"
#include "wick/kernels/cpu/winograd.h"
#include "wick/kernels/library_version.h"

namespace wick::cpu {

namespace {

using dnnl::algorithm;
using dnnl::memory;
using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

// oneDNN's description of a problem, its tensors as the caller stores them.
struct Described {
  MemoryDesc x, weight, y, bias;
  memory::dims stride, dilation, padding;

  Described(const Conv2dProblem& problem, bool with_bias) {
    const DataType type = dnnl_type(problem.dtype);
    const Shape& w = problem.weight;
    const Conv2dParams& p = problem.params;
    x = channels_last(problem.x, type);
    y = channels_last(problem.y, type);
    if (p.groups == 1) {
      weight = channels_last(w, type);
    } else {
      const int64_t k = w[0] / p.groups;
      weight = MemoryDesc({p.groups, k, w[1], w[2], w[3]}, type,
                          {k * w[1] * w[2] * w[3], w[1] * w[2] * w[3], 1, w[1] * w[3], w[1]});
    }
    if (with_bias) bias = MemoryDesc({w[0]}, type, {1});
    stride = {p.stride[0], p.stride[1]};
    dilation = {p.dilation[0] - 1, p.dilation[1] - 1};
    padding = {p.padding[0], p.padding[1]};
  }

  static MemoryDesc channels_last(const Shape& s, DataType type) {
    return MemoryDesc({s[0], s[1], s[2], s[3]}, type, {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]});
  }
};

// Primitive descriptors of the library's direct algorithm: it takes activations as they are, and
// wants the weights in blocks of its own. (Its Winograd, in blocked layouts and for AVX-512 only,
// is slower than ours.)
struct Descriptors {
  static constexpr algorithm kind = algorithm::convolution_direct;
  Described d;
  MemoryDesc x, y, weight;

  Descriptors(const Conv2dProblem& problem, bool with_bias)
      : d(problem, with_bias),
        x(d.x),
        y(d.y),
        weight(d.weight.dims(), d.weight.data_type(), memory::format_tag::any) {
    set_library_threads();  // whose number a primitive keeps
  }

  Forward::primitive_desc forward() const {
    const auto make = [&](dnnl::prop_kind use) {
      if (d.bias.data.ndims == 0) {
        return Forward::desc(use, kind, x, weight, y, d.stride, d.dilation, d.padding, d.padding);
      }
      return Forward::desc(use, kind, x, weight, d.bias, y, d.stride, d.dilation, d.padding,
                           d.padding);
    };
    return Forward::primitive_desc(make(dnnl::prop_kind::forward_training), user_scratchpad(),
                                   dnnl_engine());
  }
  BackwardData::primitive_desc backward_data() const {
    const BackwardData::desc desc(kind, x, weight, y, d.stride, d.dilation, d.padding, d.padding);
    return BackwardData::primitive_desc(desc, user_scratchpad(), dnnl_engine(), forward());
  }
  BackwardWeights::primitive_desc backward_weights() const {
    const BackwardWeights::desc desc(kind, x, weight, y, d.stride, d.dilation, d.padding,
                                     d.padding);
    return BackwardWeights::primitive_desc(desc, user_scratchpad(), dnnl_engine(), forward());
  }
};

PrimitiveKey key_of(const Conv2dProblem& problem, int64_t variant) {
  const Conv2dParams& p = problem.params;
  PrimitiveKey key(problem.direction, problem.dtype, variant, num_threads(), p.stride[0],
                   p.stride[1], p.padding[0], p.padding[1], p.dilation[0], p.dilation[1], p.groups);
  key.add(problem.x);
  key.add(problem.weight);
  key.add(problem.y);
  return key;
}

// Whether oneDNN has fast code for `problem`.
bool library_has(const Conv2dProblem& problem) {
  try {
    const Descriptors descriptors(problem, false);
    switch (problem.direction) {
      case ConvDirection::kForward: return !is_reference(descriptors.forward());
      case ConvDirection::kBackwardData: return !is_reference(descriptors.backward_data());
      case ConvDirection::kBackwardWeights: return !is_reference(descriptors.backward_weights());
    }
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented && error.status != dnnl_invalid_arguments) throw;
  }
  return false;
}

bool is_pointwise(const Conv2dProblem& problem) {
  return problem.weight[2] == 1 && problem.weight[3] == 1;
}
bool has_stride(const Conv2dProblem& problem) {
  return problem.params.stride[0] > 1 || problem.params.stride[1] > 1;
}

// oneDNN 2.6's weight gradients are silently wrong in some of these cases: in float32 where AVX2 is
// all there is, for pointwise kernels with strides.
bool wrong_in_library(const Conv2dProblem& problem) {
  if (problem.direction != ConvDirection::kBackwardWeights) return false;
  const Conv2dParams& p = problem.params;
  const Shape& w = problem.weight;
  if (problem.dtype == kFloat32) {
    return is_pointwise(problem) && has_stride(problem) && !dnnl_has(dnnl::cpu_isa::avx512_core);
  }
  const bool dilated = p.dilation[0] > 1 || p.dilation[1] > 1;
  const bool narrow =
      problem.x[3] == 1 && (p.stride[0] > 1 || p.stride[1] > 1) && (w[2] >= 3 || w[3] >= 3);
  return (dilated && w[1] > 32 && w[1] % 16 != 0) || narrow;
}

bool winograd_shape(const Conv2dProblem& problem) {
  const Conv2dParams& p = problem.params;
  const Shape& w = problem.weight;
  return (problem.dtype == kFloat32 || problem.dtype == kBFloat16) && p.groups == 1 && w[2] == 3 &&
         w[3] == 3 && p.stride[0] == 1 && p.stride[1] == 1 && p.dilation[0] == 1 &&
         p.dilation[1] == 1 && p.padding[0] <= 2 && p.padding[1] <= 2 && w[0] % 16 == 0 &&
         w[1] % 16 == 0;
}

// Whether bfloat16's products run in matrix units, some ten times as fast as float32's; without,
// they are at most twice as fast.
bool has_matrix_units() {
  static const bool has = dnnl_has(dnnl::cpu_isa::avx512_core_amx);
  return has;
}

bool amx_shape(const Conv2dProblem& problem) {
  const Shape& w = problem.weight;
  return problem.dtype == kBFloat16 && problem.params.groups == 1 && w[0] % 32 == 0 &&
         w[1] % 32 == 0 && w[2] * w[3] <= cpu_avx512::kMostTaps && has_matrix_units() &&
         cpu_isa() == CpuIsa::kAvx512;
}

// Below so many products a convolution takes a millisecond at most, and float32 takes the direct
// way, whose error is half of Winograd's.
constexpr int64_t kWinogradProducts = int64_t{32} << 20;

// Winograd wins (1.1 to 2.8 times, bfloat16 1.3 to 1.7 times, measured on Zen 4) unless the
// transform of the weights weighs more than few pixels' products, or most of its tiles' elements
// lie over the image's edge.
bool prefers_winograd(const Conv2dProblem& problem) {
  const int64_t rows = problem.y[2], columns = problem.y[3];
  const int64_t covered = (rows + 3) / 4 * 4 * ((columns + 3) / 4) * 4;
  const int64_t weights = problem.weight[0] * problem.weight[1];
  const int64_t pixels = problem.y[0] * rows * columns;
  if (2 * rows * columns < covered) return false;
  if (problem.dtype == kBFloat16) return !has_matrix_units() && 160 * pixels >= weights;
  return pixels >= std::clamp<int64_t>(weights / 1024, 64, 256) &&
         9 * weights * pixels >= kWinogradProducts;
}

// Our own code for matrix units wins over the library's (1.1 to 8 times, measured on Sapphire
// Rapids) wherever that has strides to go back through, or many channels on small images, and for
// all weight gradients but those of single elements.
bool prefers_amx(const Conv2dProblem& problem) {
  if (!amx_shape(problem)) return false;
  const int64_t channels = std::max(problem.weight[0], problem.weight[1]);
  const bool small = problem.y[2] * problem.y[3] <= 64;
  switch (problem.direction) {
    case ConvDirection::kForward: return small && channels >= 512 && !is_pointwise(problem);
    case ConvDirection::kBackwardData: return has_stride(problem) || (small && channels >= 256);
    case ConvDirection::kBackwardWeights: return !is_pointwise(problem);
  }
  return false;
}

// bfloat16's weight gradients: the library is slow with strides, and its blocking for matrix units
// has too little to do with many channels on small images.
bool prefers_im2col(const Conv2dProblem& problem) {
  if (problem.dtype != kBFloat16 || problem.params.groups != 1 ||
      problem.direction == ConvDirection::kBackwardData) {
    return false;
  }
  const bool weights = problem.direction == ConvDirection::kBackwardWeights;
  const int64_t channels = problem.weight[1], pixels = problem.y[2] * problem.y[3];
  if (!has_matrix_units()) {
    return weights && has_stride(problem) && problem.weight[2] > 1 && channels >= 128;
  }
  if (weights && has_stride(problem) && is_pointwise(problem)) return channels >= 32;
  return pixels <= 64 && channels >= 256 && (weights || pixels <= 16);
}

struct AlgorithmList {
  ConvAlgorithm algorithms[kConvAlgorithms];
  int count = 0;
  void add(ConvAlgorithm algorithm) { algorithms[count++] = algorithm; }
};

AlgorithmList list_algorithms(const Conv2dProblem& problem) {
  AlgorithmList list;
  const bool library =
      (problem.dtype == kFloat32 || problem.dtype == kBFloat16) && !wrong_in_library(problem);
  const bool direct = library && library_has(problem);
  const bool winograd = winograd_shape(problem);
  const bool amx = amx_shape(problem), amx_first = prefers_amx(problem);
  const bool im2col_first = !amx_first && prefers_im2col(problem);
  const bool winograd_first = winograd && prefers_winograd(problem);
  if (amx_first) list.add(ConvAlgorithm::kAmx);
  if (im2col_first) list.add(ConvAlgorithm::kIm2col);
  if (winograd_first) list.add(ConvAlgorithm::kWinograd);
  if (direct) list.add(ConvAlgorithm::kDirect);
  if (amx && !amx_first) list.add(ConvAlgorithm::kAmx);
  if (winograd && !winograd_first) list.add(ConvAlgorithm::kWinograd);
  if (!im2col_first) list.add(ConvAlgorithm::kIm2col);
  return list;
}

struct ConvCache : PrimitiveCache<Execution> {};
PrimitiveCache<Execution>& conv_cache() { return per_thread<ConvCache>(); }

// The direct primitive of `problem`, made when first used.
Execution& direct(const Conv2dProblem& problem, bool with_bias) {
  return conv_cache().get(key_of(problem, with_bias ? 1 : 0), [&] {
    const Descriptors make(problem, with_bias);
    const Described& user = make.d;
    if (problem.direction == ConvDirection::kForward) {
      const auto pd = make.forward();
      Execution execution(Forward(pd), pd.scratchpad_desc());
      execution.input(DNNL_ARG_SRC, user.x, pd.src_desc());
      execution.input(DNNL_ARG_WEIGHTS, user.weight, pd.weights_desc());
      if (with_bias) execution.input(DNNL_ARG_BIAS, user.bias, user.bias);
      execution.output(DNNL_ARG_DST, user.y, pd.dst_desc());
      return execution;
    }
    if (problem.direction == ConvDirection::kBackwardData) {
      const auto pd = make.backward_data();
      Execution execution(BackwardData(pd), pd.scratchpad_desc());
      execution.input(DNNL_ARG_DIFF_DST, user.y, pd.diff_dst_desc());
      execution.input(DNNL_ARG_WEIGHTS, user.weight, pd.weights_desc());
      execution.output(DNNL_ARG_DIFF_SRC, user.x, pd.diff_src_desc());
      return execution;
    }
    const auto pd = make.backward_weights();
    Execution execution(BackwardWeights(pd), pd.scratchpad_desc());
    execution.input(DNNL_ARG_SRC, user.x, pd.src_desc());
    execution.input(DNNL_ARG_DIFF_DST, user.y, pd.diff_dst_desc());
    execution.output(DNNL_ARG_DIFF_WEIGHTS, user.weight, pd.diff_weights_desc());
    return execution;
  });
}

}  // namespace

void conv2d_algorithms(const Conv2dProblem& problem, Device, ConvAlgorithm* algorithms,
                       int* count) {
  with_dnnl_errors("conv2d", [&] {
    const AlgorithmList& list = per_thread<PrimitiveCache<AlgorithmList>>().get(
        key_of(problem, 0), [&] { return list_algorithms(problem); });
    for (int i = 0; i < list.count; ++i) algorithms[i] = list.algorithms[i];
    *count = list.count;
  });
}

void conv2d_engines(const Conv2dProblem&, Device, std::vector<std::string>* engines) {
  engines->clear();
}

void conv2d_forward(const View& x, const View& weight, const View& bias, const View& y,
                    const Conv2dParams& params, const ConvPlan& plan, Workspace& workspace) {
  if (plan.algorithm == ConvAlgorithm::kIm2col) {
    return im2col_forward(x, weight, bias, y, params, workspace);
  }
  if (plan.algorithm == ConvAlgorithm::kWinograd) {
    return WICK_CALL_CPU(winograd_forward(x, weight, bias, y, params.padding, workspace));
  }
  if (plan.algorithm == ConvAlgorithm::kAmx) {
    return cpu_avx512::amx_forward(x, weight, bias, y, params, workspace);
  }
  with_dnnl_errors("conv2d", [&] {
    Execution& execution = direct(
        {ConvDirection::kForward, x.dtype, x.shape, weight.shape, y.shape, params}, bias.defined());
    if (bias.defined()) return execution.run({x.data, weight.data, bias.data, y.data}, workspace);
    execution.run({x.data, weight.data, y.data}, workspace);
  });
}

void conv2d_backward_data(const View& dy, const View& weight, const View& dx,
                          const Conv2dParams& params, const ConvPlan& plan, Workspace& workspace) {
  if (plan.algorithm == ConvAlgorithm::kIm2col) {
    return im2col_backward_data(dy, weight, dx, params, workspace);
  }
  if (plan.algorithm == ConvAlgorithm::kWinograd) {
    return WICK_CALL_CPU(winograd_backward_data(dy, weight, dx, params.padding, workspace));
  }
  if (plan.algorithm == ConvAlgorithm::kAmx) {
    return cpu_avx512::amx_backward_data(dy, weight, dx, params, workspace);
  }
  with_dnnl_errors("conv2d_backward_input", [&] {
    direct({ConvDirection::kBackwardData, dy.dtype, dx.shape, weight.shape, dy.shape, params},
           false)
        .run({dy.data, weight.data, dx.data}, workspace);
  });
}

void conv2d_backward_weights(const View& x, const View& dy, const View& dweight,
                             const Conv2dParams& params, const ConvPlan& plan,
                             Workspace& workspace) {
  if (plan.algorithm == ConvAlgorithm::kIm2col) {
    return im2col_backward_weights(x, dy, dweight, params, workspace);
  }
  if (plan.algorithm == ConvAlgorithm::kWinograd) {
    return WICK_CALL_CPU(winograd_backward_weights(x, dy, dweight, params.padding, workspace));
  }
  if (plan.algorithm == ConvAlgorithm::kAmx) {
    return cpu_avx512::amx_backward_weights(x, dy, dweight, params, workspace);
  }
  with_dnnl_errors("conv2d_backward_weight", [&] {
    direct({ConvDirection::kBackwardWeights, x.dtype, x.shape, dweight.shape, dy.shape, params},
           false)
        .run({x.data, dy.data, dweight.data}, workspace);
  });
}

}  // namespace wick::cpu
