// Functions that make tensors, and random ones, of which shapes and dtypes are compared.
#include "wick/core/ops/random.h"
#include "wick/core/ops/range.h"
#include "wick/tests/golden/opinfo.h"

namespace wick::golden {
namespace {

using Size = const Shape&;
using MaybeDtype = std::optional<Dtype>;

Dtype chosen(const Tensor& like, const MaybeDtype& dtype) { return dtype.value_or(like.dtype()); }

template <class Start, class Stop>
Spelling linspaces() {
  return call(
      +[](const Start& start, const Stop& stop, int64_t steps, Dtype dtype) {
        return linspace(start, stop, steps, dtype);
      },
      "start end steps dtype={\"dtype\":\"float32\"}");
}

template <class Start, class Stop>
Spelling logspaces() {
  return call(
      +[](const Start& start, const Stop& stop, int64_t steps, double base, Dtype dtype) {
        return logspace(start, stop, steps, base, dtype);
      },
      "start end steps base=10.0 dtype={\"dtype\":\"float32\"}");
}

const Opinfo created({
    {"arange",
     {call(
          +[](Scalar stop, MaybeDtype dtype) { return arange(stop, dtype); }, "end dtype=null"),
      call(
          +[](Scalar start, Scalar stop, Scalar step, MaybeDtype dtype) {
            return arange(start, stop, step, dtype);
          },
          "start end step=1 dtype=null")}},
    {"linspace",
     {linspaces<double, double>(), linspaces<Tensor, Tensor>(), linspaces<Tensor, double>(),
      linspaces<double, Tensor>()}},
    {"logspace",
     {logspaces<double, double>(), logspaces<Tensor, Tensor>(), logspaces<Tensor, double>(),
      logspaces<double, Tensor>()}},
    {"eye",
     {call(
         +[](int64_t rows, std::optional<int64_t> columns, Dtype dtype) {
           return eye(rows, columns, dtype);
         },
         "n m=null dtype={\"dtype\":\"float32\"}")}},
    {"empty",
     {call(
         +[](Size size, Dtype dtype) { return empty(size, dtype); },
         "size dtype={\"dtype\":\"float32\"}")}},
    {"empty_permuted",
     {call(
         +[](Size size, Size order, Dtype dtype) {
           Shape inner, places = order;
           for (int i = 0; i < order.rank(); ++i) {
             inner.push_back(size[static_cast<int>(order[i])]);
             places[static_cast<int>(order[i])] = i;
           }
           return empty(inner, dtype).permute(places);
         },
         "size physical_layout dtype={\"dtype\":\"float32\"}")}},
    {"empty_strided",
     {call(
         +[](Size size, Size strides, Dtype dtype) {
           return empty_strided(size, strides, dtype, kCpu);
         },
         "size stride dtype={\"dtype\":\"float32\"}")}},
    {"zeros",
     {call(
         +[](Size size, Dtype dtype) { return zeros(size, dtype); },
         "size dtype={\"dtype\":\"float32\"}")}},
    {"ones",
     {call(
         +[](Size size, Dtype dtype) { return ones(size, dtype); },
         "size dtype={\"dtype\":\"float32\"}")}},
    {"full",
     {call(
         +[](Size size, Scalar value, Dtype dtype) { return full(size, value, dtype); },
         "size fill_value dtype={\"dtype\":\"float32\"}")}},
    {"scalar_tensor",
     {call(
         +[](Scalar value, Dtype dtype) { return scalar_tensor(value, dtype); },
         "s dtype={\"dtype\":\"float32\"}")}},
    {"tril_indices",
     {call(
         +[](int64_t rows, int64_t columns, int64_t diagonal, Dtype dtype) {
           return tril_indices(rows, columns, diagonal).to(dtype);
         },
         "row col offset=0 dtype={\"dtype\":\"int64\"}")}},
    {"triu_indices",
     {call(
         +[](int64_t rows, int64_t columns, int64_t diagonal, Dtype dtype) {
           return triu_indices(rows, columns, diagonal).to(dtype);
         },
         "row col offset=0 dtype={\"dtype\":\"int64\"}")}},
});

const Opinfo like_others({
    {"empty_like", {call(empty_like, "input dtype=null")}},
    {"zeros_like",
     {call(
         +[](const Tensor& x, MaybeDtype dtype) { return zeros(x.shape(), chosen(x, dtype)); },
         "input dtype=null")}},
    {"ones_like",
     {call(
         +[](const Tensor& x, MaybeDtype dtype) { return ones(x.shape(), chosen(x, dtype)); },
         "input dtype=null")}},
    {"full_like",
     {call(
         +[](const Tensor& x, Scalar value, MaybeDtype dtype) {
           return full(x.shape(), value, chosen(x, dtype));
         },
         "input fill_value dtype=null")}},
    {"new_empty",
     {call(
         +[](const Tensor& x, Size size, MaybeDtype dtype) {
           return empty(size, chosen(x, dtype));
         },
         "input size dtype=null")}},
    {"new_empty_strided",
     {call(
         +[](const Tensor& x, Size size, Size strides, MaybeDtype dtype) {
           return empty_strided(size, strides, chosen(x, dtype), x.device());
         },
         "input size stride dtype=null")}},
    {"new_zeros",
     {call(
         +[](const Tensor& x, Size size, MaybeDtype dtype) {
           return zeros(size, chosen(x, dtype));
         },
         "input size dtype=null")}},
    {"new_ones",
     {call(
         +[](const Tensor& x, Size size, MaybeDtype dtype) { return ones(size, chosen(x, dtype)); },
         "input size dtype=null")}},
    {"new_full",
     {call(
         +[](const Tensor& x, Size size, Scalar value, MaybeDtype dtype) {
           return full(size, value, chosen(x, dtype));
         },
         "input size fill_value dtype=null")}},
    {"zero_",
     {call(
         +[](const Tensor& x) { return zeros_like(x); }, "input")}},
});

const Opinfo drawn({
    {"bernoulli",
     {call(
         +[](const Tensor& p) { return bernoulli(p); }, "input")}},
    {"multinomial",
     {call(
         +[](const Tensor& x, int64_t count, bool replacement) {
           return multinomial(x, count, replacement);
         },
         "input num_samples replacement=false")}},
    {"randn",
     {call(
         +[](Size size, Dtype dtype) { return randn(size, dtype); },
         "size dtype={\"dtype\":\"float32\"}")}},
    {"randn_like",
     {call(
         +[](const Tensor& x, MaybeDtype dtype) { return randn(x.shape(), chosen(x, dtype)); },
         "input dtype=null")}},
    {"rand_like",
     {call(
         +[](const Tensor& x, MaybeDtype dtype) { return rand(x.shape(), chosen(x, dtype)); },
         "input dtype=null")}},
    {"randint",
     {call(
          +[](int64_t high, Size size, Dtype dtype) { return randint(0, high, size, dtype); },
          "high size dtype={\"dtype\":\"int64\"}"),
      call(
          +[](int64_t low, int64_t high, Size size, Dtype dtype) {
            return randint(low, high, size, dtype);
          },
          "low high size dtype={\"dtype\":\"int64\"}")}},
    {"randint_like",
     {call(
          +[](const Tensor& x, int64_t high, MaybeDtype dtype) {
            return randint(0, high, x.shape(), chosen(x, dtype));
          },
          "input high dtype=null"),
      call(
          +[](const Tensor& x, int64_t low, int64_t high, MaybeDtype dtype) {
            return randint(low, high, x.shape(), chosen(x, dtype));
          },
          "input low high dtype=null")}},
    {"normal",
     {call(
          +[](const Tensor& x, double mean, double deviation) {
            return x.normal_(mean, deviation);
          },
          "input mean=0 std=1"),
      call(
          +[](double mean, double deviation, Size size, Dtype dtype) {
            return empty(size, dtype).normal_(mean, deviation);
          },
          "mean std size dtype={\"dtype\":\"float32\"}")}},
    {"uniform",
     {call(
         +[](const Tensor& x, double low, double high) { return x.uniform_(low, high); },
         "input from=0 to=1")}},
});

using Drop = Tensor(const Tensor&, double, bool, Generator*);

Spelling dropped(Drop* function, const std::string& training) {
  return {"input p=0.5 training=" + training + " !inplace=false",
          [function](const std::vector<Argument>& a) {
            return results(function(read<Tensor>(a[0]), a[1].number(), read<bool>(a[2]), nullptr));
          }};
}

const Opinfo dropouts({
    {"nn.functional.dropout", {dropped(dropout, "true")}},
    {"nn.functional.dropout2d", {dropped(dropout2d, "true")}},
    {"nn.functional.dropout3d", {dropped(dropout3d, "true")}},
    {"nn.functional.alpha_dropout", {dropped(alpha_dropout, "false")}},
    {"nn.functional.feature_alpha_dropout", {dropped(feature_alpha_dropout, "false")}},
});

}  // namespace
}  // namespace wick::golden
