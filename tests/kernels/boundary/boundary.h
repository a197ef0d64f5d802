#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

#include "wick/core/core.h"
#include "wick/kernels/clip.h"
#include "wick/kernels/optim.h"
#include "wick/kernels/sim/simulator.h"
#include "wick/tests/harness/deterministic.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/scoped_blocks.h"

// Tensors of more than 2^31 elements on the simulated GPU, of which only touched pages exist, and
// the blocks at both ends of each kernel's grid.
namespace wick::testing {

inline constexpr int64_t kColumns = 1024;
inline constexpr int64_t kProbed = 3;  // rows behind 2^31 elements: those that are compared

/// The first blocks, and the one that has the last of `items`, whatever a block takes at a time and
/// however often a grid of the usual sizes goes round.
inline void add_blocks_with_last(int64_t items, std::set<uint64_t>& blocks) {
  for (const int64_t most : {int64_t{132 * 2}, int64_t{132 * 32}, int64_t{1 << 20}, items}) {
    for (int64_t per_block = 1; per_block <= 8192; per_block *= 2) {
      blocks.insert(static_cast<uint64_t>((items - 1) / per_block % most));
    }
  }
}

inline std::vector<uint64_t> blocks_at_ends(const Tensor& x) {
  std::set<uint64_t> blocks = {0};
  add_blocks_with_last(x.numel(), blocks);
  add_blocks_with_last(x.numel() / x.size(0), blocks);
  for (const int64_t per_row : {1, 4, 7}) add_blocks_with_last(x.size(0) * per_row, blocks);
  return {blocks.begin(), blocks.end()};
}

using Function = std::function<Tensor(const Tensor&)>;
struct Case {
  const char* name;
  Function run;  // rows of a result that is compared depend on the same rows of x only
  Shape row = {kColumns};
  Dtype dtype = kFloat16;
  MemoryFormat format = MemoryFormat::kContiguous;
  Function expected = {};  // of the rows alone, where that is not `run` itself
  double filled = 0;       // what else is where the blocks that were not run would have written
};

/// `rows` random rows.
inline Tensor random_rows(const Case& c, int64_t rows) {
  Shape shape = {rows};
  for (const int64_t size : c.row) shape.push_back(size);
  Generator generator(7);
  if (c.dtype == kUint8) return randint(0, 255, shape, kUint8, kCpu, &generator).to(kGpu);
  return randn(shape, kFloat32, kCpu, &generator).to(c.dtype).to(kGpu).contiguous(c.format);
}

inline Tensor last_rows(const Tensor& x) { return x.narrow(0, x.size(0) - kProbed, kProbed); }

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Boundary : public ::testing::TestWithParam<Case> {
 protected:
  void TearDown() override {
    synchronize(kGpu);
    empty_cache(kGpu);
  }
};

/// More than 2^31 elements, of which the last rows are `alone`.
inline Tensor ending_in(const Tensor& alone, const Case& c) {
  Shape shape = alone.shape();
  shape[0] = (int64_t{1} << 31) / (alone.numel() / kProbed) + kProbed;
  const Tensor x = empty(shape, c.dtype, kGpu, c.format);
  WICK_CHECK(x.numel() > int64_t{1} << 31, "boundary: too few elements: got ", x.numel());
  last_rows(x).copy_(alone);
  synchronize(kGpu);
  return x;
}

/// The gradient of x, where dy = y's own values.
inline Function gradient(Function function) {
  return [function = std::move(function)](const Tensor& x) {
    const Tensor input = x.detach().set_requires_grad(true);
    const Tensor y = function(input);
    return grad({y}, {input}, {y.detach()}).at(0);
  };
}

/// The same where dy is x, whose last rows are whole: for gradients that need all of a row.
inline Function gradient_by_x(Function function) {
  return [function = std::move(function)](const Tensor& x) {
    const Tensor input = x.detach().set_requires_grad(true);
    return grad({function(input)}, {input}, {x}).at(0);
  };
}
/// With Wick's own kernels for convolutions that the library has no plan for.
inline Function without_library(Function function) {
  return [function = std::move(function)](const Tensor& x) {
    sim::set_engines({{.name = "random", .deterministic = false}});
    const Deterministic only;
    const Tensor y = function(x);
    sim::set_engines({});
    return y;
  };
}

inline Tensor of_columns(int64_t n, Dtype dtype = kFloat16) {
  return (arange(n, kFloat32) / static_cast<double>(n) + 0.5).to(dtype).to(kGpu);
}
/// `kernel` on x in place.
inline Function in_place(std::function<void(const View&)> kernel) {
  return [kernel = std::move(kernel)](const Tensor& x) {
    kernel(x.view_for_kernel());
    return x;
  };
}
/// One step of an optimizer whose tensors all lie in the same memory, since more takes its time
/// even where it is not touched. `step` takes an OptimTensor and an OptimStep.
template <class Step>
Function stepped(const Step& step) {
  return in_place([step](const View& x) {
    const Tensor numbers = zeros({2}, kFloat64, kGpu);
    const OptimTensor tensor{x, x, {x, x, x}, {}, numbers.data<double>()};
    const Tensor scratch = empty({optim_scratch_bytes(&tensor, 1)}, kUint8, kGpu);
    OptimStep how;
    how.scratch = scratch.raw_data();
    step(tensor, how);
  });
}
inline int64_t chunks_of(const View& x) {
  return (x.numel() + kGradNormChunk - 1) / kGradNormChunk;
}
inline const Shape kImage = {64, 32, 32};

}  // namespace wick::testing
