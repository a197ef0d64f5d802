#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "wick/core/core.h"
#include "wick/nn/models/registry.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/host_array.h"

// Gradients of a batch that ranks share, and how they compare.
namespace wick::dist {

using ModulePtr = std::shared_ptr<nn::Module>;

inline ModulePtr make_model(const std::string& name, Dtype dtype = kFloat32) {
  manual_seed(5);
  ModulePtr model = nn::find_model(name).make({3, 16, 16}, 10);
  model->to(dtype);
  return model;
}

struct Batch {
  Tensor images, labels;
};

inline Batch make_batch(int64_t size, Dtype dtype = kFloat32) {
  Generator generator(3);
  return {randn({size, 3, 16, 16}, kFloat64, kCpu, &generator).to(dtype),
          randint(0, 10, {size}, kInt64, kCpu, &generator)};
}

inline Batch part_of(const Batch& all, int rank, int size) {
  const int64_t n = all.images.size(0) / size;
  return {all.images.narrow(0, rank * n, n), all.labels.narrow(0, rank * n, n)};
}

inline Tensor loss_of(nn::Module& model, const Batch& batch, Device device = kCpu) {
  return cross_entropy(model(batch.images.to(device)), batch.labels.to(device));
}

inline std::vector<Tensor> gradients_of(nn::Module& model) {
  std::vector<Tensor> gradients;
  for (const Tensor& p : model.parameters()) {
    gradients.push_back(p.grad().defined() ? p.grad().cpu().clone() : Tensor());
  }
  return gradients;
}

inline double relative_difference(const Tensor& a, const Tensor& b) {
  const double size = b.to(kFloat64).norm().item();
  return (a.to(kFloat64) - b.to(kFloat64)).norm().item() / std::max(size, 1e-30);
}

inline void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted,
                         double most) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(relative_difference(got[i], wanted[i]), most) << "parameter " << i;
  }
}

inline void expect_same_bits(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(wick::testing::bit_equal(got[i], wanted[i])) << "parameter " << i;
  }
}

}  // namespace wick::dist
