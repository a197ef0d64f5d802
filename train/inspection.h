#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/serialize.h"

namespace wick::train {

/// What a tensor holds, in figures.
struct TensorFigures {
  Dtype dtype = kFloat32;
  Shape shape = {};
  int64_t nan = 0, infinite = 0;  // elements
  double norm = 0;                // Euclidean, of the finite elements
  std::string sha256 = {};        // of its elements' bytes, 64 digits
};
TensorFigures figures_of(const Tensor& x);

/// Tensors by name, and where they come from.
struct Inspected {
  std::string path;  // of the file, or of the checkpoint's folder
  std::map<std::string, Tensor> tensors = {};
  /// SHA-256 of all names, dtypes, shapes and elements: the same for files of the same tensors.
  std::string sha256() const;
};

/// The tensors at `path`: a safetensors file; a checkpoint, with names such as
/// optimizer/exp_avg.0; or a run, whose final weights count, or where it has none those of its
/// newest good checkpoint. Error for anything else, and for a damaged checkpoint.
Inspected inspect(const std::string& path);

/// How the tensors of one name differ.
struct Difference {
  enum class Kind { kOnlyFirst, kOnlySecond, kDtype, kShape, kElements } kind = Kind::kElements;
  std::string name = {};
  int64_t elements = 0;      // that differ, of the same dtype and shape. NaN equals NaN
  double largest = 0;        // absolute difference, NaN where only one is NaN
  double relative_norm = 0;  // Euclidean norm of the difference over that of the first
};
/// By name. Empty if they are the same.
std::vector<Difference> differences(const Inspected& first, const Inspected& second);

}  // namespace wick::train
