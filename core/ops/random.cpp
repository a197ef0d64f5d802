#include "wick/core/ops/random.h"

#include <cmath>
#include <limits>

#include "wick/core/apply.h"
#include "wick/core/autograd.h"
#include "wick/core/detail/capture.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/detail/defined.h"
#include "wick/core/ops/detail/wide.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/sort.h"
#include "wick/kernels/random.h"

namespace wick {

namespace {

struct Draw {
  uint64_t seed, offset;
  Tensor base;  // in a capture: what is to be added to them
};

Draw draw(Generator* generator, Device device) {
  Generator& common = default_generator(device);
  const RandomKey key = (generator != nullptr ? *generator : common).next();
  Capture* const capture = capture_of(device);
  if (capture == nullptr) return {key.seed, key.offset, {}};
  WICK_CHECK(generator == nullptr || generator == &common,
             "cuda_graph: captured work must draw from the default generator of ", device,
             ": any other's numbers would be the same at each replay");
  const RandomKey counted = capture->from_base(key);
  capture->draws = true;
  return {counted.seed, counted.offset, capture->base};
}

void check_floating(const char* op, Dtype dtype) {
  WICK_CHECK(is_floating(dtype), op, ": needs a floating dtype: got ", to_string(dtype));
}

// Lets `fill` write the elements of x in row-major order, whatever its strides.
template <class Fill>
Tensor fill_in_order(const Tensor& x, const Fill& fill) {
  if (x.is_contiguous()) {
    fill(x.view_for_kernel());
  } else {
    const Tensor dense = empty(x.shape(), x.dtype(), x.device());
    fill(dense.view_for_kernel());
    x.copy_(dense);
  }
  return x;
}

struct Uniform {
  static constexpr OpInfo info{.name = "uniform_", .mutates = 1, .overwrites = true};
  double low, high;
  uint64_t seed, offset;
  Tensor base;  // as in Capture; else undefined
  static constexpr auto fields =
      std::tuple{field("low", &Uniform::low), field("high", &Uniform::high),
                 field("seed", &Uniform::seed), field("offset", &Uniform::offset)};

  Tensor forward(Saved&, const Tensor& x) const {
    return fill_in_order(x, [&](const View& y) {
      WICK_DISPATCH(y.device,
                    random_uniform(y, key_of_op(seed, offset, base, y.device), low, high));
    });
  }
  Gradients backward(const Saved&, const Tensor&) const { return {Tensor()}; }
};

struct Normal {
  static constexpr OpInfo info{.name = "normal_", .mutates = 1, .overwrites = true};
  double mean, stddev;
  uint64_t seed, offset;
  Tensor base;  // as in Capture; else undefined
  static constexpr auto fields =
      std::tuple{field("mean", &Normal::mean), field("stddev", &Normal::stddev),
                 field("seed", &Normal::seed), field("offset", &Normal::offset)};

  Tensor forward(Saved&, const Tensor& x) const {
    return fill_in_order(x, [&](const View& y) {
      WICK_DISPATCH(y.device,
                    random_normal(y, key_of_op(seed, offset, base, y.device), mean, stddev));
    });
  }
  Gradients backward(const Saved&, const Tensor&) const { return {Tensor()}; }
};

struct Integers {
  static constexpr OpInfo info{
      .name = "randint_", .mutates = 1, .differentiable = false, .overwrites = true};
  int64_t low;
  uint64_t range;  // 0 stands for 2^64
  uint64_t seed, offset;
  Tensor base;  // as in Capture; else undefined
  static constexpr auto fields =
      std::tuple{field("low", &Integers::low), field("range", &Integers::range),
                 field("seed", &Integers::seed), field("offset", &Integers::offset)};

  Tensor forward(Saved&, const Tensor& x) const {
    return fill_in_order(x, [&](const View& y) {
      WICK_DISPATCH(y.device,
                    random_integers(y, key_of_op(seed, offset, base, y.device), low, range));
    });
  }
};

struct Bernoulli {
  static constexpr OpInfo info{.name = "bernoulli", .differentiable = false};
  uint64_t seed, offset;
  static constexpr auto fields =
      std::tuple{field("seed", &Bernoulli::seed), field("offset", &Bernoulli::offset)};

  Tensor forward(Saved&, const Tensor& p) const {
    const Tensor chance = p.contiguous();
    Tensor y = empty(p.shape(), p.dtype(), p.device());
    WICK_DISPATCH(p.device(), random_bernoulli(chance.view_for_kernel(), y.view_for_kernel(),
                                               key_of_op(seed, offset, {}, p.device())));
    return y;
  }
};

// A linear map that is its own transpose: backward applies the same op.
struct Dropout {
  static constexpr OpInfo info{.name = "dropout"};
  double p;
  uint64_t seed, offset;
  Tensor base;         // as in Capture; else undefined
  bool channels_last;  // the order in memory, in which elements take their random numbers
  static constexpr auto fields = std::tuple{field("p", &Dropout::p), field("seed", &Dropout::seed),
                                            field("offset", &Dropout::offset),
                                            field("channels_last", &Dropout::channels_last)};

  Tensor forward(Saved&, const Tensor& x) const {
    const RandomKey key = key_of_op(seed, offset, base, x.device());
    const auto format = channels_last ? MemoryFormat::kChannelsLast : MemoryFormat::kContiguous;
    Tensor y = empty(x.shape(), x.dtype(), x.device(), format);
    if (p == 1) {
      y.zero_();
    } else {
      const Tensor from = x.contiguous(format);
      WICK_DISPATCH(x.device(), dropout(from.view_for_kernel(), y.view_for_kernel(), key, p));
    }
    return y;
  }
  Gradients backward(const Saved&, const Tensor& dy) const { return {apply(*this, dy)}; }
};

Tensor uniform(const Tensor& x, double low, double high, Generator* generator) {
  check_floating("uniform", x.dtype());
  WICK_CHECK(low <= high, "uniform: empty range: got low ", low, " and high ", high,
             ", expected low at most high");
  const Draw key = draw(generator, x.device());
  return apply(Uniform{low, high, key.seed, key.offset, key.base}, x);
}

Tensor normal(const Tensor& x, double mean, double stddev, Generator* generator) {
  check_floating("normal", x.dtype());
  WICK_CHECK(stddev >= 0, "normal: negative standard deviation: got ", stddev,
             ", expected 0 or more");
  const Draw key = draw(generator, x.device());
  return apply(Normal{mean, stddev, key.seed, key.offset, key.base}, x);
}

Tensor integers(int64_t low, uint64_t range, const Shape& shape, Device device,
                Generator* generator) {
  const Draw key = draw(generator, device);
  return apply(Integers{low, range, key.seed, key.offset, key.base}, empty(shape, kInt64, device));
}

// Error unless `dtype` tells all integers from `low` to `high` apart.
void check_holds(const char* op, int64_t low, int64_t high, Dtype dtype) {
  visit_dtype(dtype, [&]<class T>(Type<T>) {
    int64_t least = std::numeric_limits<int64_t>::min(), most = 0;
    if constexpr (std::is_same_v<T, bool>) {
      least = 0, most = 1;
    } else if constexpr (std::is_integral_v<T>) {
      least = static_cast<int64_t>(std::numeric_limits<T>::min());
      most = static_cast<int64_t>(std::numeric_limits<T>::max());
    } else {
      constexpr int kBits = std::is_same_v<T, BFloat16> ? 8
                            : std::is_same_v<T, Half>   ? 11
                            : std::is_same_v<T, float>  ? 24
                                                        : 53;
      most = int64_t{1} << kBits;
      least = -most;
    }
    WICK_CHECK(low >= least && high <= most, op, ": ", dtype, " does not hold all integers from ",
               low, " to ", high);
  });
}

void check_dropout(const char* op, const Tensor& x, double p) {
  check_floating(op, x.dtype(op));
  WICK_CHECK(p >= 0 && p <= 1, op, ": probability out of range: got ", p, ", expected 0 to 1");
}

// Where in each row of `sums`, which rise, the first number above that of `wanted` is.
Tensor first_above(const Tensor& sums, const Tensor& wanted) {
  Tensor low = zeros(wanted.shape(), kInt64, wanted.device());
  Tensor high = full(wanted.shape(), sums.size(1) - 1, kInt64, wanted.device());
  for (int64_t left = sums.size(1); left > 1; left = (left + 1) / 2) {
    const Tensor middle = ((low + high).to(kFloat64) * 0.5).to(kInt64);
    const Tensor is_above = gt(gather(sums, 1, middle), wanted);
    low = where(is_above, low, minimum(middle + 1, high));
    high = where(is_above, middle, high);
  }
  return low;
}

}  // namespace

const Tensor& Tensor::uniform_(double low, double high, Generator* generator) const {
  uniform(*this, low, high, generator);
  return *this;
}

const Tensor& Tensor::normal_(double mean, double stddev, Generator* generator) const {
  normal(*this, mean, stddev, generator);
  return *this;
}

Tensor rand(const Shape& shape, Dtype dtype, Device device, Generator* generator) {
  return uniform(empty(shape, dtype, device), 0, 1, generator);
}

Tensor randn(const Shape& shape, Dtype dtype, Device device, Generator* generator) {
  return normal(empty(shape, dtype, device), 0, 1, generator);
}

Tensor rand_like(const Tensor& like, Generator* generator) {
  check_defined("rand_like", like);
  return uniform(empty_like(like), 0, 1, generator);
}

Tensor randn_like(const Tensor& like, Generator* generator) {
  check_defined("randn_like", like);
  return normal(empty_like(like), 0, 1, generator);
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, Dtype dtype, Device device,
               Generator* generator) {
  WICK_CHECK(low < high, "randint: empty range: got low ", low, " and high ", high,
             ", expected low below high");
  check_holds("randint", low, high - 1, dtype);
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return integers(low, range, shape, device, generator).to(dtype);
}

Tensor randperm(int64_t n, Dtype dtype, Device device, Generator* generator) {
  WICK_CHECK(n >= 0, "randperm: negative number: got ", n, ", expected 0 or more");
  check_holds("randperm", 0, n - 1, dtype);
  return argsort(integers(0, 0, {n}, device, generator), 0).to(dtype);
}

Tensor bernoulli(const Tensor& p, Generator* generator) {
  check_floating("bernoulli", p.dtype());
  const bool valid =
      p.numel() == 0 || (p.detach().amin().item() >= 0 && p.detach().amax().item() <= 1);
  WICK_CHECK(valid, "bernoulli: a probability is out of range: expected 0 to 1");
  const Draw key = draw(generator, p.device());
  return apply(Bernoulli{key.seed, key.offset}, p);
}

Tensor multinomial(const Tensor& weights, int64_t num_samples, bool replacement,
                   Generator* generator) {
  check_floating("multinomial", weights.dtype());
  const int rank = weights.rank();
  WICK_CHECK((rank == 1 || rank == 2) && weights.size(-1) > 0,
             "multinomial: wrong shape of weights: got ", weights.shape(),
             ", expected [C] or [N, C]");
  WICK_CHECK(num_samples > 0, "multinomial: wrong num_samples: got ", num_samples,
             ", expected 1 or more");
  const NoGrad no_grad;
  if (weights.numel() == 0) return zeros({0, num_samples}, kInt64, weights.device());
  const Tensor w = weights.detach().to(kFloat64).reshape({-1, weights.size(-1)});
  WICK_CHECK(w.amin().item() >= 0 && std::isfinite(w.sum().item()),
             "multinomial: a weight is not finite, or below 0");
  const auto least = static_cast<int64_t>(gt(w, 0).sum(Shape{1}).amin().item<int64_t>());
  const int64_t needed = replacement ? 1 : num_samples;
  WICK_CHECK(least >= needed, "multinomial: too few weights above 0: got ", least, ", expected ",
             needed, " or more");
  Tensor places;
  if (replacement) {
    const Tensor sums = cumsum(w, 1);
    const Tensor drawn = rand({w.size(0), num_samples}, kFloat64, w.device(), generator);
    places = first_above(sums, drawn * sums.narrow(1, sums.size(1) - 1, 1));
  } else {
    // Exponential numbers of the weights' rates: the first to come are drawn.
    constexpr double kLeast = 1e-300;
    const Tensor u = rand(w.shape(), kFloat64, w.device(), generator);
    places = topk(w / clamp(-log(1 - u), kLeast), num_samples, 1).indices;
  }
  return rank == 1 ? places.squeeze(0) : places;
}

Tensor dropout(const Tensor& x, double p, bool training, Generator* generator) {
  check_dropout("dropout", x, p);
  if (!training || p == 0) return x;
  const Draw key = draw(generator, x.device());
  const bool channels_last = !x.is_contiguous() && x.is_contiguous(MemoryFormat::kChannelsLast);
  return apply(Dropout{p, key.seed, key.offset, key.base, channels_last}, x);
}

Tensor dropout2d(const Tensor& x, double p, bool training, Generator* generator) {
  check_dropout("dropout2d", x, p);
  WICK_CHECK(x.rank() >= 2, "dropout2d: needs [N, C, ...]: got shape ", x.shape());
  if (!training || p == 0) return x;
  Shape channels = Shape::filled(x.rank(), 1);
  channels[0] = x.shape()[0];
  channels[1] = x.shape()[1];
  return mul(x, dropout(ones(channels, x.dtype(), x.device()), p, true, generator));
}

namespace {

// Of x without N, `rank` axes in all, as well.
Tensor dropout_channels(const char* op, int rank, const Tensor& x, double p, bool training,
                        Generator* generator) {
  WICK_CHECK(x.rank(op) == rank || x.rank() == rank - 1, op, ": x needs ", rank, " axes or ",
             rank - 1, ": got shape ", x.shape());
  if (x.rank() == rank) return dropout2d(x, p, training, generator);
  return dropout2d(x.unsqueeze(0), p, training, generator).squeeze(0);
}

// kept: where x stays, of a shape that broadcasts to x's.
Tensor alpha_dropped(const Tensor& x, const Tensor& kept, double p) {
  if (p == 1) return x * 0;
  constexpr double kLeast = -1.7580993408473766;  // of selu
  const double scale = 1 / std::sqrt((1 - p) * (1 + p * kLeast * kLeast));
  return computed_wide({x}, [&](const std::vector<Tensor>& in) {
    const Tensor least = scalar_tensor(kLeast, in[0].dtype(), x.device());
    return (where(kept, in[0], least) - p * kLeast) * scale;
  });
}

}  // namespace

Tensor dropout1d(const Tensor& x, double p, bool training, Generator* generator) {
  return dropout_channels("dropout1d", 3, x, p, training, generator);
}

Tensor dropout3d(const Tensor& x, double p, bool training, Generator* generator) {
  return dropout_channels("dropout3d", 5, x, p, training, generator);
}

Tensor alpha_dropout(const Tensor& x, double p, bool training, Generator* generator) {
  check_dropout("alpha_dropout", x, p);
  if (!training || p == 0) return x;
  return alpha_dropped(x, ne(dropout(ones_like(x.detach()), p, true, generator), 0), p);
}

Tensor feature_alpha_dropout(const Tensor& x, double p, bool training, Generator* generator) {
  check_dropout("feature_alpha_dropout", x, p);
  WICK_CHECK(x.rank() >= 2, "feature_alpha_dropout: needs [N, C, ...]: got shape ", x.shape());
  if (!training || p == 0) return x;
  Shape channels = Shape::filled(x.rank(), 1);
  channels[0] = x.shape()[0];
  channels[1] = x.shape()[1];
  const Tensor drawn = dropout(ones(channels, x.dtype(), x.device()), p, true, generator);
  return alpha_dropped(x, ne(drawn, 0), p);
}

}  // namespace wick
