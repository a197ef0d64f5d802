// Reductions, order statistics and running sums.
#include "wick/core/ops/covariance.h"
#include "wick/core/ops/difference.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/histogram.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/softmax.h"
#include "wick/core/ops/special.h"
#include "wick/tests/golden/opinfo.h"

namespace wick::golden {
namespace {

using OfAxes = Tensor(const Tensor&, const Shape&, bool);
using OfAxis = Sorted(const Tensor&, int64_t, bool);

constexpr const char* kOfAxes = "input dim=null keepdim=false !dtype=null";

template <auto kFunction>
Tensor scan_as(const Tensor& x, int64_t axis, Dtype dtype) {
  return kFunction(x.to(dtype), axis);
}

std::vector<Spelling> by_axes(OfAxes* function) { return {call(function, kOfAxes)}; }

// Variances, whose divisor is told in two ways.
template <class R>
std::vector<Spelling> corrected(R (*of)(const Tensor&, const Shape&, int64_t, bool)) {
  return {
      {"input dim=null correction=1 keepdim=false",
       [of](const std::vector<Argument>& a) {
         const int64_t correction = a[2].value->is_null() ? 1 : a[2].integer();
         return results(of(read<Tensor>(a[0]), read<Shape>(a[1]), correction, read<bool>(a[3])));
       }},
      {"input dim unbiased keepdim=false",
       [of](const std::vector<Argument>& a) {
         return results(
             of(read<Tensor>(a[0]), read<Shape>(a[1]), read<bool>(a[2]) ? 1 : 0, read<bool>(a[3])));
       }},
      {"input unbiased",
       [of](const std::vector<Argument>& a) {
         return results(of(read<Tensor>(a[0]), {}, read<bool>(a[1]) ? 1 : 0, false));
       }},
  };
}

Tensor norm_of(const Tensor& x, const Argument& p, const Shape& axes, bool keepdim) {
  if (p.value->is_string() && p.text("fro") != "fro") p.unfit("a number or 'fro'");
  const double order = p.is_number() ? p.number() : 2;
  return norm(x, order, axes, keepdim);
}

const Opinfo reductions({
    {"sum",
     {call<OfAxes>(sum, kOfAxes), call<Tensor(const Tensor&, const Shape&, bool, Dtype)>(
                                      sum, "input dim=null keepdim=false dtype")}},
    {"mean", by_axes(mean)},
    {"amax", by_axes(amax)},
    {"amin", by_axes(amin)},
    {"any", by_axes(any)},
    {"all", by_axes(all)},
    {"logsumexp", by_axes(logsumexp)},
    {"nansum", by_axes(nansum)},
    {"nanmean", by_axes(nanmean)},
    {"prod",
     {call<OfAxes>(prod, kOfAxes), call<Tensor(const Tensor&, const Shape&, bool, Dtype)>(
                                       prod, "input dim=null keepdim=false dtype")}},
    {"count_nonzero", {call(count_nonzero, "input dim=null")}},
    {"norm", {call(norm_of, "input p=2.0 dim=null keepdim=false !dtype=null")}},
    {"linalg.vector_norm", {call(norm_of, "input ord=2.0 dim=null keepdim=false !dtype=null")}},
    {"dist",
     {call(
         +[](const Tensor& x, const Tensor& y, double p) { return norm(x - y, p); },
         "input other p=2.0")}},
    {"argmax",
     {call<Tensor(const Tensor&, std::optional<int64_t>, bool)>(argmax,
                                                                "input dim=null keepdim=false")}},
    {"argmin",
     {call<Tensor(const Tensor&, std::optional<int64_t>, bool)>(argmin,
                                                                "input dim=null keepdim=false")}},
    {"aminmax", {call(aminmax, "input dim=null keepdim=false")}},
    {"max", {call<Unary>(max, "input"), call<OfAxis>(max, "input dim keepdim=false")}},
    {"min", {call<Unary>(min, "input"), call<OfAxis>(min, "input dim keepdim=false")}},
    {"median", {call<Unary>(median, "input"), call<OfAxis>(median, "input dim keepdim=false")}},
    {"nanmedian",
     {call<Unary>(nanmedian, "input"), call<OfAxis>(nanmedian, "input dim keepdim=false")}},
    {"mode", {call(mode, "input dim=-1 keepdim=false")}},
    {"kthvalue", {call(kthvalue, "input k dim=-1 keepdim=false")}},
    {"nn.functional.cosine_similarity", {call(cosine_similarity, "x1 x2 dim=1 eps=1e-8")}},
});

const Opinfo variances({
    {"var", corrected<Tensor>(var)},
    {"std", corrected<Tensor>(stddev)},
    {"var_mean", corrected(var_mean)},
    {"std_mean", corrected(std_mean)},
});

template <class Q>
Spelling quantile_of(Tensor (*function)(const Tensor&, Q, std::optional<int64_t>, bool,
                                        QuantileMode)) {
  return call(function, "input q dim=null keepdim=false interpolation=\"linear\"");
}

Tensor as_index(const Tensor& places, bool int32) { return int32 ? places.to(kInt32) : places; }

// The order and the dtype are calls of their own here.
Tensor placed_in_order(const Tensor& sorted, const Argument& values, bool int32, bool right,
                       const std::optional<std::string>& side, const Tensor& sorter) {
  const Tensor line = sorter.defined() ? sorted.gather(-1, sorter) : sorted;
  const Tensor wanted =
      values.is_number() ? scalar_tensor(values.number(), sorted.dtype()) : read<Tensor>(values);
  return as_index(searchsorted(line, wanted, right || side == "right"), int32);
}

template <class Bins>
Spelling counted(Histogram (*function)(const Tensor&, Bins, const HistogramOptions&)) {
  return {"input bins range=null weight=null density=false",
          [function](const std::vector<Argument>& a) -> Tensors {
            HistogramOptions options;
            if (!a[2].value->is_null()) {
              const auto range = read<std::vector<double>>(a[2]);
              options.range = {range.at(0), range.at(1)};
            }
            options.weight = read<Tensor>(a[3]);
            options.density = read<bool>(a[4]);
            const Histogram made =
                function(read<Tensor>(a[0]), read<std::decay_t<Bins>>(a[1]), options);
            return {made.counts, made.edges};
          }};
}

template <class Bins>
Spelling counted_points(HistogramOfPoints (*function)(const Tensor&, const std::vector<Bins>&,
                                                      const HistogramOfPointsOptions&)) {
  return {"input bins range=null weight=null density=false",
          [function](const std::vector<Argument>& a) -> Tensors {
            HistogramOfPointsOptions options;
            if (!a[2].value->is_null()) {
              const auto ends = read<std::vector<double>>(a[2]);
              for (size_t i = 0; i + 1 < ends.size(); i += 2) {
                options.range.emplace_back(ends[i], ends[i + 1]);
              }
            }
            options.weight = read<Tensor>(a[3]);
            options.density = read<bool>(a[4]);
            const HistogramOfPoints made =
                function(read<Tensor>(a[0]), read<std::vector<Bins>>(a[1]), options);
            Tensors all = {made.counts};
            all.insert(all.end(), made.edges.begin(), made.edges.end());
            return all;
          }};
}

const Opinfo orders({
    {"quantile", {quantile_of<double>(quantile), quantile_of<const Tensor&>(quantile)}},
    {"nanquantile", {quantile_of<double>(nanquantile), quantile_of<const Tensor&>(nanquantile)}},
    {"sort",
     {call(
         +[](const Tensor& x, int64_t axis, bool descending, std::optional<bool>) {
           return sort(x, axis, descending);
         },
         "input dim=-1 descending=false stable=null")}},
    {"argsort",
     {call(
         +[](const Tensor& x, int64_t axis, bool descending, std::optional<bool>) {
           return argsort(x, axis, descending);
         },
         "input dim=-1 descending=false stable=null")}},
    {"msort", {call(msort, "input")}},
    {"topk",
     {call(
         +[](const Tensor& x, int64_t k, int64_t axis, bool largest, bool) {
           return topk(x, k, axis, largest);
         },
         "input k dim=-1 largest=true sorted=true")}},
    {"searchsorted",
     {call(placed_in_order,
           "sorted_sequence input out_int32=false right=false side=null sorter=null")}},
    {"bucketize",
     {call(
         +[](const Tensor& x, const Tensor& boundaries, bool int32, bool right) {
           return as_index(bucketize(x, boundaries, right), int32);
         },
         "input boundaries out_int32=false right=false")}},
    {"histogram", {counted<int64_t>(histogram), counted<const Tensor&>(histogram)}},
    {"histogramdd", {counted_points<int64_t>(histogramdd), counted_points<Tensor>(histogramdd)}},
    {"histc", {call(histc, "input bins=100 min=0 max=0")}},
    {"bincount", {call(bincount, "input weights=null minlength=0")}},
    {"isin",
     {call(
         +[](const Tensor& x, const Tensor& values, bool, bool invert) {
           return isin(x, values, invert);
         },
         "elements test_elements assume_unique=false invert=false")}},
});

constexpr const char* kSoftmax = "input dim !dtype=null";
constexpr const char* kSoftmaxAs = "input dim dtype";

const Opinfo scans({
    {"cumsum",
     {call<Tensor(const Tensor&, int64_t)>(cumsum, kSoftmax),
      call(scan_as<static_cast<Tensor (*)(const Tensor&, int64_t)>(cumsum)>, kSoftmaxAs)}},
    {"cumprod",
     {call<Tensor(const Tensor&, int64_t)>(cumprod, kSoftmax),
      call(scan_as<static_cast<Tensor (*)(const Tensor&, int64_t)>(cumprod)>, kSoftmaxAs)}},
    {"cummax", {call(cummax, "input dim")}},
    {"cummin", {call(cummin, "input dim")}},
    {"logcumsumexp", {call(logcumsumexp, "input dim")}},
    {"softmax", {call(softmax, kSoftmax), call(scan_as<softmax>, kSoftmaxAs)}},
    {"log_softmax", {call(log_softmax, kSoftmax), call(scan_as<log_softmax>, kSoftmaxAs)}},
    {"nn.functional.softmin", {call(softmin, kSoftmax), call(scan_as<softmin>, kSoftmaxAs)}},
    {"diff", {call(diff, "input n=1 dim=-1 prepend=null append=null")}},
    {"trapezoid",
     {call<Tensor(const Tensor&, double, int64_t)>(trapezoid, "y dx=1 dim=-1"),
      call<Tensor(const Tensor&, const Tensor&, int64_t)>(trapezoid, "y x dim=-1")}},
    {"trapz",
     {call<Tensor(const Tensor&, double, int64_t)>(trapezoid, "y dx=1 dim=-1"),
      call<Tensor(const Tensor&, const Tensor&, int64_t)>(trapezoid, "y x dim=-1")}},
    {"cumulative_trapezoid",
     {call<Tensor(const Tensor&, double, int64_t)>(cumulative_trapezoid, "y dx=1 dim=-1"),
      call<Tensor(const Tensor&, const Tensor&, int64_t)>(cumulative_trapezoid, "y x dim=-1")}},
    {"gradient",
     {call(
         +[](const Tensor& x, const Argument& spacing, const Shape& axes, int64_t edge_order) {
           GradientOptions options{{1}, axes, static_cast<int>(edge_order)};
           if (spacing.is_number()) options.spacing = {spacing.number()};
           if (spacing.value->is_array()) options.spacing = read<std::vector<double>>(spacing);
           return gradient(x, options);
         },
         "input spacing=null dim=null edge_order=1")}},
    {"polygamma",
     {call(
         +[](const Tensor& x, int64_t order) {
           if (order > 1) throw Missing("no polygamma of order 2 and above");
           return order == 0 ? digamma(x) : trigamma(x);
         },
         "input n")}},
    {"cov", {call(cov, "input correction=1 fweights=null aweights=null")}},
    {"corrcoef", {call(corrcoef, "input")}},
});

}  // namespace
}  // namespace wick::golden
