// Convolutions of random shapes by every algorithm and in every direction, on memory that is not
// aligned and has guards around it, against sums in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "wick/core/autograd.h"
#include "wick/core/base/check.h"
#include "wick/core/base/half.h"
#include "wick/core/base/parallel.h"
#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/random.h"
#include "wick/kernels/conv.h"
#include "wick/tests/harness/sanitized.h"

namespace wick::testing {
namespace {

constexpr size_t kGuard = 192;

using Values = std::vector<double>;  // in row-major order

Strides nhwc(const Shape& shape) { return channels_last_strides(shape); }

// Calls `visit(number, element)` for the elements of `shape` in row-major order: where they lie in
// a channels-last tensor.
template <class Visit>
void for_each_element(const Shape& shape, const Visit& visit) {
  const Strides at = nhwc(shape);
  size_t number = 0;
  for (int64_t a = 0; a < shape[0]; ++a) {
    for (int64_t b = 0; b < shape[1]; ++b) {
      for (int64_t c = 0; c < shape[2]; ++c) {
        for (int64_t d = 0; d < shape[3]; ++d) {
          visit(number++, a * at[0] + b * at[1] + c * at[2] + d * at[3]);
        }
      }
    }
  }
}

// A channels-last tensor from any element of memory on, between guards that are NaN in every dtype.
class Guarded {
 public:
  Guarded(const Shape& shape, Dtype dtype, size_t shift)
      : shape_(shape),
        dtype_(dtype),
        begin_(kGuard + shift * static_cast<size_t>(size_of(dtype))),
        bytes_(static_cast<size_t>(shape.numel() * size_of(dtype))),
        memory_(begin_ + bytes_ + kGuard, 0xff) {}
  Guarded(const Shape& shape, Dtype dtype, size_t shift, const Values& numbers)
      : Guarded(shape, dtype, shift) {
    for_each_element(shape, [&](size_t i, int64_t at) { set(at, numbers[i]); });
    before_ = memory_;
  }

  View view() {
    View view;
    view.data = memory_.data() + begin_;
    view.dtype = dtype_;
    view.shape = shape_;
    view.strides = nhwc(shape_);
    return view;
  }
  View vector() {  // of a bias [K, 1, 1, 1]
    View flat = view();
    flat.shape = {shape_[0]};
    flat.strides = {1};
    return flat;
  }
  Values numbers() const {
    Values all(static_cast<size_t>(shape_.numel()));
    for_each_element(shape_, [&](size_t i, int64_t at) { all[i] = get(at); });
    return all;
  }
  bool is_unchanged() const { return memory_ == before_; }
  bool guards_stay() const {
    const auto stays = [](unsigned char byte) { return byte == 0xff; };
    const auto first = memory_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return std::all_of(memory_.begin(), first, stays) &&
           std::all_of(first + static_cast<std::ptrdiff_t>(bytes_), memory_.end(), stays);
  }

 private:
  template <class T>
  T read_as(int64_t at) const {
    T value;
    std::memcpy(&value, memory_.data() + begin_ + static_cast<size_t>(at) * sizeof(T), sizeof(T));
    return value;
  }
  double get(int64_t at) const {
    if (dtype_ == kFloat64) return read_as<double>(at);
    return dtype_ == kFloat32 ? read_as<float>(at) : static_cast<float>(read_as<BFloat16>(at));
  }
  template <class T>
  void write_as(int64_t at, T value) {
    std::memcpy(memory_.data() + begin_ + static_cast<size_t>(at) * sizeof(T), &value, sizeof(T));
  }
  void set(int64_t at, double value) {
    if (dtype_ == kFloat64) return write_as(at, value);
    if (dtype_ == kFloat32) return write_as(at, static_cast<float>(value));
    write_as(at, BFloat16(static_cast<float>(value)));
  }

  Shape shape_;
  Dtype dtype_;
  size_t begin_, bytes_;
  std::vector<unsigned char> memory_, before_;
};

struct Convolution {
  Dtype dtype;
  Shape x, weight, y;
  Conv2dParams params;

  std::string text() const {
    const Conv2dParams& p = params;
    return concat(dtype, " x ", x, " weight ", weight, " stride ", Shape{p.stride[0], p.stride[1]},
                  " padding ", Shape{p.padding[0], p.padding[1]}, " dilation ",
                  Shape{p.dilation[0], p.dilation[1]}, " groups ", p.groups);
  }
  int64_t products() const { return y.numel() * weight[1] * weight[2] * weight[3]; }
  Conv2dProblem problem(ConvDirection direction) const {
    return {direction, dtype, x, weight, y, params};
  }
};

// What the three directions should give, and the sums of the sizes of their products, to which
// rounding is in proportion.
struct Expected {
  Values y, dx, dweight, y_size, dx_size, dweight_size;

  Expected(const Convolution& l, const Values& x, const Values& w, const Values& dy)
      : y(dy.size()),
        dx(x.size()),
        dweight(w.size()),
        y_size(dy.size()),
        dx_size(x.size()),
        dweight_size(w.size()) {
    size_t k = 0;
    for (int64_t n = 0; n < l.y[0]; ++n) {
      for (int64_t o = 0; o < l.y[1]; ++o) {
        for (int64_t p = 0; p < l.y[2]; ++p) {
          for (int64_t q = 0; q < l.y[3]; ++q, ++k) {
            add_window(l, x, w, dy[k], n, o, p, q, k);
          }
        }
      }
    }
  }

 private:
  void add_window(const Convolution& l, const Values& x, const Values& w, double dy_k, int64_t n,
                  int64_t o, int64_t p, int64_t q, size_t k) {
    const Conv2dParams& s = l.params;
    const int64_t first = o / (l.weight[0] / s.groups) * l.weight[1];
    for (int64_t c = 0; c < l.weight[1]; ++c) {
      for (int64_t r = 0; r < l.weight[2]; ++r) {
        const int64_t i = p * s.stride[0] - s.padding[0] + r * s.dilation[0];
        if (i < 0 || i >= l.x[2]) continue;
        for (int64_t t = 0; t < l.weight[3]; ++t) {
          const int64_t j = q * s.stride[1] - s.padding[1] + t * s.dilation[1];
          if (j < 0 || j >= l.x[3]) continue;
          const auto a = static_cast<size_t>(((n * l.x[1] + first + c) * l.x[2] + i) * l.x[3] + j);
          const auto b =
              static_cast<size_t>(((o * l.weight[1] + c) * l.weight[2] + r) * l.weight[3] + t);
          y[k] += x[a] * w[b];
          dx[a] += dy_k * w[b];
          dweight[b] += dy_k * x[a];
          y_size[k] += std::fabs(x[a] * w[b]);
          dx_size[a] += std::fabs(dy_k * w[b]);
          dweight_size[b] += std::fabs(dy_k * x[a]);
        }
      }
    }
  }
};

class Random {
 public:
  explicit Random(uint32_t seed) : random_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  int64_t one_of(const std::vector<int64_t>& all) {
    return all[static_cast<size_t>(below(static_cast<int64_t>(all.size())))];
  }
  // Multiples of 1/8 up to 1, which bfloat16 has exactly.
  Values numbers(const Shape& shape) {
    Values all(static_cast<size_t>(shape.numel()));
    for (double& x : all) x = static_cast<double>(below(17) - 8) / 8;
    return all;
  }

  Convolution layer(const std::vector<Dtype>& dtypes) {
    for (;;) {
      Convolution l{
          dtypes[static_cast<size_t>(below(static_cast<int64_t>(dtypes.size())))], {}, {}, {}, {}};
      const std::vector<int64_t> channels{1, 2, 3, 4, 5, 7, 8, 13, 16, 16, 17, 31, 32, 32, 37, 64};
      int64_t in = one_of(channels), out = one_of(channels);
      if (below(4) == 0) l.params.groups = one_of({2, 3, 4, 7, 16, 17, 32, 33});
      if (l.params.groups > 1 && below(2) == 0) in = 1, out = one_of({1, 1, 2});  // depthwise
      l.x = {one_of({1, 1, 2, 3, 5}), in * l.params.groups};
      l.weight = {out * l.params.groups, in};
      const bool is_usual = below(2) == 0;  // 3x3 without steps, which Winograd takes
      for (int axis = 0; axis < 2; ++axis) {
        const int64_t kernel = is_usual ? 3 : one_of({1, 1, 2, 3, 5, 7});
        l.params.stride[axis] = is_usual ? 1 : one_of({1, 1, 2, 3, 5});
        l.params.dilation[axis] = is_usual ? 1 : one_of({1, 1, 1, 2, 3});
        const int64_t reach = l.params.dilation[axis] * (kernel - 1) + 1;
        l.params.padding[axis] = is_usual ? below(3) : below(reach + 2);
        const int64_t least = std::max<int64_t>(reach - 2 * l.params.padding[axis], 1);
        l.x.push_back(least + one_of({0, 1, 2, 3, 4, 6, 7, 10, 12, 16}));
        l.weight.push_back(kernel);
      }
      l.y = {l.x[0], l.weight[0]};
      for (int axis = 0; axis < 2; ++axis) {
        const int64_t reach = l.params.dilation[axis] * (l.weight[axis + 2] - 1) + 1;
        l.y.push_back((l.x[axis + 2] + 2 * l.params.padding[axis] - reach) / l.params.stride[axis] +
                      1);
      }
      if (l.products() <= 400000) return l;
    }
  }

 private:
  std::mt19937 random_;
};

// How far a result may be from what it should be, in parts of the sum of its products' sizes, which
// may be below one product's.
double tolerance(Dtype dtype, ConvAlgorithm algorithm) {
  if (dtype == kBFloat16) return 0x1p-7;
  const double epsilon = dtype == kFloat64 ? 0x1p-52 : 0x1p-23;
  return (algorithm == ConvAlgorithm::kWinograd ? 64 : 8) * epsilon;
}

std::string difference_of(const Values& got, const Values& want, const Values& size, double most,
                          double least_size) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::fabs(got[i] - want[i]) <= most * std::max(size[i], least_size)) continue;
    return concat("element ", i, ": got ", got[i], ", expected ", want[i], " of products of ",
                  size[i], " in all");
  }
  return "";
}

// A layer with its numbers, and what they should give.
struct ConvolutionTrial {
  Convolution layer;
  Random random;
  Values x, weight, dy, bias, residual;
  Expected expected;
  size_t shifts[4];

  ConvolutionTrial(const Convolution& l, uint32_t seed)
      : layer(l),
        random(seed),
        x(random.numbers(l.x)),
        weight(random.numbers(l.weight)),
        dy(random.numbers(l.y)),
        bias(random.numbers({l.weight[0]})),
        residual(random.numbers(l.y)),
        expected(l, x, weight, dy) {
    for (size_t& shift : shifts) shift = static_cast<size_t>(random.below(16));
  }

  std::vector<ConvAlgorithm> algorithms(ConvDirection direction) const {
    ConvAlgorithm list[kConvAlgorithms];
    int count = 0;
    cpu::conv2d_algorithms(layer.problem(direction), kCpu, list, &count);
    return {list, list + count};
  }

  Guarded memory(const Shape& shape, int i, const Values& numbers) const {
    return {shape, layer.dtype, shifts[i], numbers};
  }

  void check(const Guarded& result, const Values& want, const Values& size, ConvAlgorithm algorithm,
             const char* name) const {
    const double least = algorithm == ConvAlgorithm::kWinograd ? largest(size) : 1;
    EXPECT_EQ(difference_of(result.numbers(), want, size, tolerance(layer.dtype, algorithm), least),
              "")
        << name << " by algorithm " << static_cast<int>(algorithm) << " of " << layer.text();
    EXPECT_TRUE(result.guards_stay()) << name << " by algorithm " << static_cast<int>(algorithm)
                                      << " of " << layer.text() << ": memory around it changed";
  }
  static double largest(const Values& all) {
    return all.empty() ? 1 : std::max(1.0, *std::max_element(all.begin(), all.end()));
  }

  // With and without what may follow a convolution, and with the weight packed before.
  int forward() {
    const std::vector<ConvAlgorithm> all = algorithms(ConvDirection::kForward);
    for (const ConvAlgorithm algorithm : all) {
      Guarded in = memory(layer.x, 0, x), w = memory(layer.weight, 1, weight);
      Guarded b = memory({layer.weight[0], 1, 1, 1}, 2, bias);
      Guarded r = memory(layer.y, 3, residual);
      ConvEpilogue epilogue;
      const bool has_bias = random.below(2) == 0, has_residual = random.below(2) == 0;
      if (has_bias) epilogue.bias = b.vector();
      if (has_residual) epilogue.residual = r.view();
      epilogue.relu = random.below(2) == 0;
      std::vector<float> packed(static_cast<size_t>(
          cpu::conv2d_packed_bytes(layer.problem(ConvDirection::kForward), algorithm) /
          size_of(kFloat32)));
      if (!packed.empty()) {
        cpu::conv2d_pack(layer.problem(ConvDirection::kForward), algorithm, w.view(),
                         packed.data());
      }
      Guarded y(layer.y, layer.dtype, shifts[2]);
      AllocatorWorkspace workspace(kCpu);
      const bool takes_packed = !packed.empty() && random.below(2) == 0;
      cpu::conv2d_fused(in.view(), w.view(), takes_packed ? packed.data() : nullptr, epilogue,
                        y.view(), layer.params, algorithm, workspace);
      Values want = expected.y, size = expected.y_size;
      const size_t image = static_cast<size_t>(layer.y[2] * layer.y[3]);
      for (size_t i = 0; i < want.size(); ++i) {
        const double added = has_bias ? bias[i / image % bias.size()] : 0;
        want[i] += added + (has_residual ? residual[i] : 0);
        size[i] += std::fabs(added) + (has_residual ? std::fabs(residual[i]) : 0);
        if (epilogue.relu) want[i] = std::max(want[i], 0.0);
      }
      check(y, want, size, algorithm, "y");
      EXPECT_TRUE(in.is_unchanged() && w.is_unchanged() && b.is_unchanged() && r.is_unchanged());
    }
    return static_cast<int>(all.size());
  }

  int backward_data() {
    const std::vector<ConvAlgorithm> all = algorithms(ConvDirection::kBackwardData);
    for (const ConvAlgorithm algorithm : all) {
      Guarded g = memory(layer.y, 0, dy), w = memory(layer.weight, 1, weight);
      Guarded dx(layer.x, layer.dtype, shifts[2]);
      AllocatorWorkspace workspace(kCpu);
      cpu::conv2d_backward_data(g.view(), w.view(), dx.view(), layer.params, algorithm, workspace);
      check(dx, expected.dx, expected.dx_size, algorithm, "dx");
      EXPECT_TRUE(g.is_unchanged() && w.is_unchanged());
    }
    return static_cast<int>(all.size());
  }

  int backward_weights() {
    const std::vector<ConvAlgorithm> all = algorithms(ConvDirection::kBackwardWeights);
    for (const ConvAlgorithm algorithm : all) {
      Guarded g = memory(layer.y, 0, dy), in = memory(layer.x, 1, x);
      Guarded dw(layer.weight, layer.dtype, shifts[2]);
      AllocatorWorkspace workspace(kCpu);
      cpu::conv2d_backward_weights(in.view(), g.view(), dw.view(), layer.params, algorithm,
                                   workspace);
      check(dw, expected.dweight, expected.dweight_size, algorithm, "dweight");
      EXPECT_TRUE(g.is_unchanged() && in.is_unchanged());
    }
    return static_cast<int>(all.size());
  }
};

TEST(Convolution, IsRightForRandomShapes) {
  std::vector<Dtype> dtypes{kFloat32, kFloat32, kFloat32, kFloat64};
  if (cpu::convolves(kBFloat16)) dtypes.insert(dtypes.end(), {kBFloat16, kBFloat16, kBFloat16});
  const int before = num_threads();
  const uint32_t trials = kSanitized ? 100 : 2000;
  Random random(1);
  int runs = 0;
  for (uint32_t seed = 0; seed < trials && !::testing::Test::HasFailure(); ++seed) {
    set_num_threads(static_cast<int>(1 + random.below(3)));
    ConvolutionTrial trial(random.layer(dtypes), seed);
    runs += trial.forward() + trial.backward_data() + trial.backward_weights();
  }
  set_num_threads(before);
  EXPECT_GT(runs, 6 * static_cast<int>(trials));
}

// The kernels take no empty tensors: the op leaves them out.
TEST(Convolution, IsRightWithoutImagesOrChannels) {
  Random random(2);
  for (int trial = 0; trial < 50; ++trial) {
    const Convolution l = random.layer({kFloat32});
    Shape x = l.x, weight = l.weight;
    x[trial % 2] = 0;
    if (trial % 2 == 1) weight[1] = 0;
    const Conv2dParams& p = l.params;
    const Tensor in = zeros(x).set_requires_grad(), w = randn(weight).set_requires_grad();
    const Tensor bias = randn({weight[0]});
    const Tensor y = conv2d(in, w, bias, {p.stride[0], p.stride[1]}, {p.padding[0], p.padding[1]},
                            {p.dilation[0], p.dilation[1]}, p.groups);
    Shape shape = l.y;
    shape[0] = x[0];
    ASSERT_EQ(y.shape(), shape) << l.text();
    EXPECT_TRUE(equal(y, bias.reshape({1, weight[0], 1, 1}).expand(shape))) << l.text();
    const std::vector<Tensor> gradients = grad({y}, {in, w}, {ones_like(y)});
    EXPECT_EQ(gradients[0].shape(), x);
    EXPECT_TRUE(equal(gradients[1], zeros(weight))) << l.text();
  }
}

}  // namespace
}  // namespace wick::testing
