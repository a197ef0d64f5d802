#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "wick/core/tensor.h"

// Histograms with the edges of their bins. They wait for the device where they look for a range.

namespace wick {

/// How often elements lie in each bin, and the edges between bins.
struct Histogram {
  Tensor counts;  // of x's dtype
  Tensor edges;   // one more than bins
};

/// Options of histogram(). A range is an error where edges are given.
struct HistogramOptions {
  std::optional<std::pair<double, double>> range = {};  // default: from the least to the greatest
  Tensor weight = {};    // of x's shape: what an element counts; 1 if undefined
  bool density = false;  // counts over their sum and the width of the bin
};

/// Counts of floating x in `bins` equal parts, each with its lower edge; the last has both.
Histogram histogram(const Tensor& x, int64_t bins, const HistogramOptions& options = {});
/// The same between `edges`, an ordered vector of x's dtype.
Histogram histogram(const Tensor& x, const Tensor& edges, const HistogramOptions& options = {});

/// The same of points with several coordinates.
struct HistogramOfPoints {
  Tensor counts;              // [bins...]
  std::vector<Tensor> edges;  // of each coordinate
};

/// Options of histogramdd(). A range is an error where edges are given. Without one, each
/// coordinate spans its least to its greatest value.
struct HistogramOfPointsOptions {
  std::vector<std::pair<double, double>> range = {};  // of each coordinate, or none
  Tensor weight = {};                                 // of each point
  bool density = false;
};

/// Counts of points x [..., D] in bins[d] parts along coordinate d.
HistogramOfPoints histogramdd(const Tensor& x, const std::vector<int64_t>& bins,
                              const HistogramOfPointsOptions& options = {});
/// The same between edges[d] along coordinate d.
HistogramOfPoints histogramdd(const Tensor& x, const std::vector<Tensor>& edges,
                              const HistogramOfPointsOptions& options = {});

}  // namespace wick
