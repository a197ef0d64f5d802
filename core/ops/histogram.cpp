#include "wick/core/ops/histogram.h"

#include <cmath>

#include "wick/core/autograd.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/count.h"
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/core/ops/detail/reduce_axes.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/reduce.h"

namespace wick {

namespace {

using Range = std::pair<double, double>;

// The range of one coordinate; 1 wide around a single value.
Range histogram_range(const char* op, const Tensor& line, const std::optional<Range>& given) {
  Range range = given.value_or(Range{0, 1});
  if (!given && line.numel() > 0) range = {amin(line).item(), amax(line).item()};
  WICK_CHECK(std::isfinite(range.first) && std::isfinite(range.second), op,
             ": the range is not finite: got ", range.first, " to ", range.second,
             ", expected finite bounds");
  if (range.first == range.second) range = {range.first - 0.5, range.second + 0.5};
  return range;
}

// Counts of points [N, D] between edges.
HistogramOfPoints histogram_of(const char* op, const Tensor& points,
                               const std::vector<Tensor>& edges, const Tensor& weight,
                               bool density) {
  const Dtype dtype = points.dtype();
  Shape bins;
  Tensor place = zeros({points.size(0)}, kInt64, points.device());
  Tensor inside = ones({points.size(0)}, kBool, points.device());
  for (size_t d = 0; d < edges.size(); ++d) {
    const Tensor& e = edges[d];
    WICK_CHECK(e.rank(op) == 1 && e.dtype() == dtype && e.numel() > 1, op, ": edges: got shape ",
               e.shape(), " of ", e.dtype(), ", expected 2 or more of ", dtype);
    const int64_t n = e.numel() - 1;
    const Tensor line = points.select(1, static_cast<int64_t>(d)).contiguous();
    // The last bin has both its edges.
    const Tensor bin = clamp(searchsorted(e, line, true) - 1, 0, n - 1);
    inside = inside & (line >= e[0]) & (line <= e[n]);
    place = place * n + bin;
    bins.push_back(n);
  }
  Tensor counted = weight.defined() ? wide(weight.reshape({points.size(0)})) : inside;
  counted = masked_fill(counted.to(is_reduced(dtype) ? kFloat32 : dtype), logical_not(inside), 0);
  Tensor counts =
      scatter_add(zeros({bins.numel()}, counted.dtype(), points.device()), 0, place, counted)
          .reshape(bins);
  if (density) {
    counts = counts / sum(counts);
    for (int d = 0; d < bins.rank(); ++d) {
      const Tensor e = wide(edges[static_cast<size_t>(d)]);
      Shape along = Shape::filled(bins.rank(), 1);
      along[d] = bins[d];
      counts = counts / (e.narrow(0, 1, bins[d]) - e.narrow(0, 0, bins[d])).reshape(along);
    }
  }
  return {counts.to(dtype), edges};
}

Tensor histogram_points(const char* op, const Tensor& x, size_t coordinates, const Tensor& weight) {
  check_floating(op, x);
  WICK_CHECK(x.rank() > 0 && x.size(-1) == static_cast<int64_t>(coordinates), op,
             ": wrong number of coordinates: got shape ", x.shape(), " for ", coordinates,
             " kinds of bins");
  const int64_t n = coordinates > 0 ? x.numel() / static_cast<int64_t>(coordinates) : 0;
  WICK_CHECK(!weight.defined() || weight.numel() == n, op, ": weight: got shape ", weight.shape(),
             ", expected one for each of ", n, " elements");
  return x.reshape({n, x.size(-1)});
}

std::vector<Tensor> equal_edges(const char* op, const Tensor& points,
                                const std::vector<int64_t>& bins, const std::vector<Range>& range) {
  WICK_CHECK(range.empty() || range.size() == bins.size(), op, ": range: got ", range.size(),
             ", expected one for each of ", bins.size(), " coordinates");
  std::vector<Tensor> edges;
  for (size_t d = 0; d < bins.size(); ++d) {
    WICK_CHECK(bins[d] > 0, op, ": bins: got ", bins[d], ", expected 1 or more");
    std::optional<Range> given;
    if (!range.empty()) given = range[d];
    WICK_CHECK(!given || given->first <= given->second, op, ": range: got ", given->first, " to ",
               given->second, ", expected the lower bound first");
    const auto [low, high] = histogram_range(op, points.select(1, static_cast<int64_t>(d)), given);
    edges.push_back(linspace(low, high, bins[d] + 1, points.dtype(), points.device()));
  }
  return edges;
}

}  // namespace

Histogram histogram(const Tensor& x, int64_t bins, const HistogramOptions& options) {
  const NoGrad no_grad;
  const char* op = "histogram";
  const Tensor points = histogram_points(op, x.reshape({x.numel(op), 1}), 1, options.weight);
  std::vector<Range> range;
  if (options.range) range.push_back(*options.range);
  const HistogramOfPoints made = histogram_of(op, points, equal_edges(op, points, {bins}, range),
                                              options.weight, options.density);
  return {made.counts, made.edges[0]};
}

Histogram histogram(const Tensor& x, const Tensor& edges, const HistogramOptions& options) {
  const NoGrad no_grad;
  const char* op = "histogram";
  WICK_CHECK(!options.range, op, ": a range beside edges: expected one of them");
  const Tensor points = histogram_points(op, x.reshape({x.numel(op), 1}), 1, options.weight);
  const HistogramOfPoints made = histogram_of(op, points, {edges}, options.weight, options.density);
  return {made.counts, made.edges[0]};
}

HistogramOfPoints histogramdd(const Tensor& x, const std::vector<int64_t>& bins,
                              const HistogramOfPointsOptions& options) {
  const NoGrad no_grad;
  const char* op = "histogramdd";
  const Tensor points = histogram_points(op, x, bins.size(), options.weight);
  return histogram_of(op, points, equal_edges(op, points, bins, options.range), options.weight,
                      options.density);
}

HistogramOfPoints histogramdd(const Tensor& x, const std::vector<Tensor>& edges,
                              const HistogramOfPointsOptions& options) {
  const NoGrad no_grad;
  const char* op = "histogramdd";
  WICK_CHECK(options.range.empty(), op, ": a range beside edges: expected one of them");
  const Tensor points = histogram_points(op, x, edges.size(), options.weight);
  return histogram_of(op, points, edges, options.weight, options.density);
}

}  // namespace wick
