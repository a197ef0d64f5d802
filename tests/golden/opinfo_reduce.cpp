// Reductions, order statistics and running sums.
#include "wick/core/ops/covariance.h"
#include "wick/core/ops/difference.h"
#include "wick/core/ops/elementwise.h"
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
     {call(searchsorted,
           "sorted_sequence input right=false !out_int32=false !side=null "
           "!sorter=null")}},
    {"bucketize", {call(bucketize, "input boundaries right=false !out_int32=false")}},
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
    {"cov", {call(cov, "input correction=1 fweights=null aweights=null")}},
    {"corrcoef", {call(corrcoef, "input")}},
});

}  // namespace
}  // namespace wick::golden
