#include "wick/train/inspection.h"

#include <cmath>
#include <filesystem>
#include <set>

#include "wick/core/base/sha256.h"
#include "wick/core/checkpoint.h"
#include "wick/train/run_folder.h"

namespace wick::train {

namespace fs = std::filesystem;

namespace {

size_t bytes_of(const Tensor& x) {
  return static_cast<size_t>(x.numel()) * static_cast<size_t>(size_of(x.dtype()));
}

std::vector<double> values_of(const Tensor& x) { return x.to(kFloat64).to_vector<double>(); }

void add_parts(const Checkpoint& checkpoint, Inspected& found) {
  for (const auto& [part, tensors] : checkpoint.parts) {
    for (const auto& [name, x] : tensors) found.tensors.emplace(concat(part, "/", name), x);
  }
}

Difference difference_of(const std::string& name, const Tensor& first, const Tensor& second) {
  Difference result{.name = name};
  if (first.dtype() != second.dtype()) {
    result.kind = Difference::Kind::kDtype;
    return result;
  }
  if (first.shape() != second.shape()) {
    result.kind = Difference::Kind::kShape;
    return result;
  }
  const std::vector<double> a = values_of(first), b = values_of(second);
  // Doubles do not tell all whole numbers apart.
  const bool is_whole = !is_floating(first.dtype());
  const auto wholes = [&](const Tensor& x) {
    return is_whole ? x.to(kInt64).to_vector<int64_t>() : std::vector<int64_t>();
  };
  const std::vector<int64_t> whole_a = wholes(first), whole_b = wholes(second);
  double squares = 0, squares_of_first = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i])) squares_of_first += a[i] * a[i];
    if ((is_whole ? whole_a[i] == whole_b[i] : a[i] == b[i]) ||
        (std::isnan(a[i]) && std::isnan(b[i])))
      continue;
    ++result.elements;
    const double apart = std::abs(a[i] - b[i]);
    if (std::isnan(apart) || apart > result.largest) result.largest = apart;
    squares += apart * apart;
  }
  result.relative_norm = std::sqrt(squares) / std::sqrt(squares_of_first);
  return result;
}

}  // namespace

TensorFigures figures_of(const Tensor& x) {
  TensorFigures figures{.dtype = x.dtype(), .shape = x.shape()};
  double squares = 0;
  for (const double value : values_of(x)) {
    figures.nan += std::isnan(value) ? 1 : 0;
    figures.infinite += std::isinf(value) ? 1 : 0;
    if (std::isfinite(value)) squares += value * value;
  }
  figures.norm = std::sqrt(squares);
  const Tensor dense = x.contiguous();
  Sha256 sha;
  sha.update(dense.raw_data(), bytes_of(dense));
  figures.sha256 = to_hex(sha.digest());
  return figures;
}

std::string Inspected::sha256() const {
  Sha256 sha;
  for (const auto& [name, x] : tensors) {
    const std::string head = concat(name, " ", x.dtype(), " ", x.shape(), "\n");
    const Tensor dense = x.contiguous();
    sha.update(head.data(), head.size());
    sha.update(dense.raw_data(), bytes_of(dense));
  }
  return to_hex(sha.digest());
}

Inspected inspect(const std::string& path) {
  Inspected found{.path = path};
  if (!fs::is_directory(path)) {
    for (auto& [name, x] : load_safetensors(path)) found.tensors.emplace(name, x);
    return found;
  }
  if (fs::exists(path + "/manifest.json")) {
    add_parts(CheckpointStore::load(path), found);
    return found;
  }
  const RunFolder run = RunFolder::open(path);
  if (fs::exists(run.weights_file())) return inspect(run.weights_file());
  std::string rejected;
  const auto newest = CheckpointStore(run.checkpoints()).load_newest(&rejected);
  WICK_CHECK(newest, "inspect: ", path, " has neither weights nor a good checkpoint", rejected);
  found.path = concat(run.checkpoints(), "/step-", newest->step);
  for (const auto& [name, x] : newest->parts.at("weights")) found.tensors.emplace(name, x);
  return found;
}

std::vector<Difference> differences(const Inspected& first, const Inspected& second) {
  std::set<std::string> names;
  for (const Inspected* all : {&first, &second}) {
    for (const auto& [name, x] : all->tensors) names.insert(name);
  }
  std::vector<Difference> found;
  for (const std::string& name : names) {
    const auto a = first.tensors.find(name), b = second.tensors.find(name);
    if (a == first.tensors.end()) {
      found.push_back({.kind = Difference::Kind::kOnlySecond, .name = name});
    } else if (b == second.tensors.end()) {
      found.push_back({.kind = Difference::Kind::kOnlyFirst, .name = name});
    } else {
      Difference difference = difference_of(name, a->second, b->second);
      const bool is_same =
          difference.kind == Difference::Kind::kElements && difference.elements == 0;
      if (!is_same) found.push_back(std::move(difference));
    }
  }
  return found;
}

}  // namespace wick::train
