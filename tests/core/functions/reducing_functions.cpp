#include "wick/tests/core/functions/functions.h"

// Sums, statistics, order and counts: count.h, covariance.h, difference.h, histogram.h, masked.h,
// reduce.h, softmax.h, sort.h, statistics.h.
namespace wick::testing {
namespace {

using T = const Tensor&;

std::vector<Function> reduced() {
  const Tensor x = ones({2, 3}, kFloat64);
  return {
      entry("sum", {x}, [](T in) { return sum(in); }),
      entry("sum", {x}, [](T in) { return sum(in, {}, false, kFloat64); }),
      entry("mean", {x}, [](T in) { return mean(in); }),
      entry("prod", {x}, [](T in) { return prod(in); }),
      entry("prod", {x}, [](T in) { return prod(in, {}, false, kFloat64); }),
      entry("amax", {x}, [](T in) { return amax(in); }),
      entry("amin", {x}, [](T in) { return amin(in); }),
      entry("max", {x}, [](T in) { return max(in); }),
      entry("min", {x}, [](T in) { return min(in); }),
      entry("var", {x}, [](T in) { return var(in); }),
      entry("stddev", {x}, [](T in) { return stddev(in); }),
      entry("logsumexp", {x}, [](T in) { return logsumexp(in); }),
      entry("norm", {x}, [](T in) { return norm(in); }),
      entry("norm", {x}, [](T in) { return norm(in, 3); }),
      entry("norm", {x}, [](T in) { return norm(in, 1); }),
      entry("cosine_similarity", {x, x}, [](T a, T b) { return cosine_similarity(a, b); }),
      entry("any", {x}, [](T in) { return any(in); }),
      entry("all", {x}, [](T in) { return all(in); }),
      entry("argmax", {x}, [](T in) { return argmax(in); }),
      entry("argmin", {x}, [](T in) { return argmin(in); }),
      entry("softmax", {x}, [](T in) { return softmax(in, 1); }),
      entry("softmin", {x}, [](T in) { return softmin(in, 1); }),
      entry("log_softmax", {x}, [](T in) { return log_softmax(in, 1); }),
      entry("sort", {x}, [](T in) { return sort(in).values; }),
      unary("msort", msort),
      entry("argsort", {x}, [](T in) { return argsort(in); }),
      entry("topk", {x}, [](T in) { return topk(in, 2).values; }),
      entry("max", {x}, [](T in) { return max(in, 1).values; }),
      entry("min", {x}, [](T in) { return min(in, 1).values; }),
      entry("cumsum", {x}, [](T in) { return cumsum(in, 1); }),
      entry("cumprod", {x}, [](T in) { return cumprod(in, 1); }),
  };
}

std::vector<Function> statistics() {
  const Tensor x = ones({2, 3}, kFloat64), share = full({1}, 0.5, kFloat64);
  return {
      entry("var_mean", {x}, [](T in) { return var_mean(in).first; }),
      entry("std_mean", {x}, [](T in) { return std_mean(in).first; }),
      entry("aminmax", {x}, [](T in) { return aminmax(in).first; }),
      entry("aminmax", {x}, [](T in) { return aminmax(in, 1).first; }),
      entry("nansum", {x}, [](T in) { return nansum(in); }),
      entry("nanmean", {x}, [](T in) { return nanmean(in); }),
      entry("count_nonzero", {x}, [](T in) { return count_nonzero(in); }),
      entry("kthvalue", {x}, [](T in) { return kthvalue(in, 1).values; }),
      entry("median", {x}, [](T in) { return median(in, 1).values; }),
      entry("median", {x}, [](T in) { return median(in); }),
      entry("nanmedian", {x}, [](T in) { return nanmedian(in, 1).values; }),
      entry("nanmedian", {x}, [](T in) { return nanmedian(in); }),
      entry("mode", {x}, [](T in) { return mode(in).values; }),
      entry("quantile", {x}, [](T in) { return quantile(in, 0.5); }),
      entry("quantile", {x, share}, [](T in, T q) { return quantile(in, q); }),
      entry("nanquantile", {x}, [](T in) { return nanquantile(in, 0.5); }),
      entry("nanquantile", {x, share}, [](T in, T q) { return nanquantile(in, q); }),
      entry("cummax", {x}, [](T in) { return cummax(in, 1).values; }),
      entry("cummin", {x}, [](T in) { return cummin(in, 1).values; }),
      entry("logcumsumexp", {x}, [](T in) { return logcumsumexp(in, 1); }),
      entry("cov", {x}, [](T in) { return cov(in); }),
      unary("corrcoef", corrcoef),
      entry("diff", {x}, [](T in) { return diff(in); }),
      entry("gradient", {x}, [](T in) { return gradient(in)[0]; }),
      entry("trapezoid", {x}, [](T y) { return trapezoid(y); }),
      entry("trapezoid", {x, x}, [](T y, T at) { return trapezoid(y, at); }),
      entry("cumulative_trapezoid", {x}, [](T y) { return cumulative_trapezoid(y); }),
      entry("cumulative_trapezoid", {x, x}, [](T y, T at) { return cumulative_trapezoid(y, at); }),
  };
}

std::vector<Function> counts() {
  const Tensor x = ones({2, 3}, kFloat64), vector = ones({3}, kFloat64);
  const Tensor edges = linspace(0, 3, 4, kFloat64), whole = ones({3}, kInt64);
  return {
      entry("unique", {x}, [](T in) { return unique(in).values; }),
      entry("unique", {x}, [](T in) { return unique(in, 0).values; }),
      entry("unique_consecutive", {x}, [](T in) { return unique_consecutive(in).values; }),
      entry("unique_consecutive", {x}, [](T in) { return unique_consecutive(in, 0).values; }),
      entry("isin", {x, vector}, [](T in, T values) { return isin(in, values); }),
      unary("argwhere", argwhere),
      entry("unravel_index", {whole},
            [](T places) {
              return unravel_index(places, {2, 3})[0];
            }),
      entry("bincount", {whole}, [](T in) { return bincount(in); }),
      entry("searchsorted", {edges, x}, [](T sorted, T in) { return searchsorted(sorted, in); }),
      entry("bucketize", {x, edges}, [](T in, T at) { return bucketize(in, at); }),
      entry("histc", {x}, [](T in) { return histc(in, 4, 0, 3); }),
      entry("histogram", {x}, [](T in) { return histogram(in, 3).counts; }),
      entry("histogram", {x, edges}, [](T in, T at) { return histogram(in, at).counts; }),
      entry("histogramdd", {x},
            [](T in) {
              return histogramdd(in, {2, 2, 2}).counts;
            }),
      entry("histogramdd", {x, edges},
            [](T in, T at) {
              const std::vector<Tensor> all{at, at, at};
              return histogramdd(in, all).counts;
            }),
  };
}

// The mask may be undefined.
std::vector<Function> masked_ones() {
  const Tensor x = ones({2, 3}, kFloat64), mask = ones({2, 3}, kBool);
  const auto masks = [mask](const Tensor& in) {
    return in.defined() ? mask.to(in.device()) : mask;
  };
  return {
      entry("masked::sum", {x}, [masks](T in) { return masked::sum(in, masks(in)); }),
      entry("masked::prod", {x}, [masks](T in) { return masked::prod(in, masks(in)); }),
      entry("masked::mean", {x}, [masks](T in) { return masked::mean(in, masks(in)); }),
      entry("masked::amax", {x}, [masks](T in) { return masked::amax(in, masks(in)); }),
      entry("masked::amin", {x}, [masks](T in) { return masked::amin(in, masks(in)); }),
      entry("masked::argmax", {x}, [masks](T in) { return masked::argmax(in, masks(in)); }),
      entry("masked::argmin", {x}, [masks](T in) { return masked::argmin(in, masks(in)); }),
      entry("masked::norm", {x}, [masks](T in) { return masked::norm(in, masks(in)); }),
      entry("masked::var", {x}, [masks](T in) { return masked::var(in, masks(in)); }),
      entry("masked::stddev", {x}, [masks](T in) { return masked::stddev(in, masks(in)); }),
      entry("masked::logsumexp", {x}, [masks](T in) { return masked::logsumexp(in, masks(in)); }),
      entry("masked::median", {x}, [masks](T in) { return masked::median(in, masks(in), 1); }),
      entry("masked::softmax", {x}, [masks](T in) { return masked::softmax(in, masks(in), 1); }),
      entry("masked::softmin", {x}, [masks](T in) { return masked::softmin(in, masks(in), 1); }),
      entry("masked::log_softmax", {x},
            [masks](T in) { return masked::log_softmax(in, masks(in), 1); }),
      entry("masked::normalize", {x},
            [masks](T in) { return masked::normalize(in, masks(in), 2, 1); }),
      entry("masked::cumsum", {x}, [masks](T in) { return masked::cumsum(in, masks(in), 1); }),
      entry("masked::cumprod", {x}, [masks](T in) { return masked::cumprod(in, masks(in), 1); }),
      entry("masked::logaddexp", {x, x},
            [masks](T a, T b) { return masked::logaddexp(a, b, masks(a), masks(b)); }),
  };
}

}  // namespace

std::vector<Function> reducing_functions() {
  std::vector<Function> all;
  for (const auto& part : {reduced(), statistics(), counts(), masked_ones()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace wick::testing
