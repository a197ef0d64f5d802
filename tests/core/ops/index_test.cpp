#include "wick/core/index.h"

#include <gtest/gtest.h>

#include "wick/core/base/parallel.h"
#include "wick/core/ops/index.h"
#include "wick/core/ops/random.h"
#include "wick/core/sparse_rows.h"
#include "wick/core/stream.h"
#include "wick/tests/core/ops/remap.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/op_case.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/simulator.h"
#endif

namespace wick::testing {
namespace {

using Integers = std::vector<int64_t>;
Integers values(const Tensor& x) { return x.to(kInt64).to_vector<int64_t>(); }

int64_t integer(const HostArray& x, const Shape& c) { return static_cast<int64_t>(at(x, c)); }

WICK_OP_CASE(
    index_select,
    .samples = {{normal({3, 4}), index({6}, 0, 4)},
                {normal({2, 5, 33}), index({3}, 0, 5)},
                {normal({2, 5, 32}), index({3}, 0, 5)},
                {normal({2, 3, 2}), index({0}, 0, 3)},
                {normal({0, 3}), index({4}, 0, 3)},
                {normal({4, 7, 1000}), index({9}, 0, 7)},
                {normal({40, 50}), index({1000}, 0, 50)}},
    .call = [](const Tensors& x) -> Tensors { return {index_select(x[0], 1, x[1])}; },
    .reference = [](const Arrays& x) -> Arrays {
      return {remap(x[0], with(x[0].shape, 1, x[1].shape[0]), [&](Shape c) {
        c[1] = integer(x[1], {c[1]});
        return c;
      })};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    index_add,
    .samples = {{normal({3, 4}), index({6}, 0, 4), normal({3, 6})},
                {normal({2, 5, 3}), index({1}, 0, 5), normal({2, 1, 3})},
                {normal({2, 3}), index({0}, 0, 3), normal({2, 0})},
                {normal({1, 3}), index({2500}, 0, 3), normal({1, 2500})},
                {normal({2, 600, 3}), index({100}, 0, 600), normal({2, 100, 3})},
                {normal({1, 9, 300}), index({33}, 0, 9), normal({1, 33, 300})},
                {normal({4, 7, 1000}), index({9}, 0, 7), normal({4, 9, 1000})}},
    .call = [](const Tensors& x) -> Tensors {
      return {index_add(x[0], -x[0].rank() + 1, x[1], x[2])};
    },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = x[0];
      for_each_coordinate(x[2].shape, [&](Shape c) {
        const double value = at(x[2], c);
        c[1] = integer(x[1], {c[1]});
        at(y, c) += value;
      });
      return {y};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    gather,
    .samples = {{normal({3, 4}), index({3, 5}, 0, 4)},
                {normal({3, 4, 5}), index({2, 6, 4}, 0, 4)},
                {normal({4, 3, 2, 2}), index({4, 1, 2, 1}, 0, 3)},
                {normal({2, 3}), index({2, 0}, 0, 3)},
                {normal({3, 20, 600}), index({3, 15, 600}, 0, 20)}},
    .call = [](const Tensors& x) -> Tensors { return {gather(x[0], 1, x[1])}; },
    .reference = [](const Arrays& x) -> Arrays {
      return {remap(x[0], x[1].shape, [&](Shape c) {
        c[1] = integer(x[1], c);
        return c;
      })};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    gather_first_axis,
    .samples = {{normal({3}), index({7}, 0, 3)}, {normal({5, 33}), index({31, 32}, 0, 5)}},
    .call = [](const Tensors& x) -> Tensors { return {gather(x[0], 0, x[1])}; },
    .reference = [](const Arrays& x) -> Arrays {
      return {remap(x[0], x[1].shape, [&](Shape c) {
        c[0] = integer(x[1], c);
        return c;
      })};
    },
    .tolerance = Tolerance::reduction());

WICK_OP_CASE(
    scatter_add,
    .samples = {{normal({3, 4}), index({2, 7}, 0, 4), normal({3, 7})},
                {normal({3, 4, 5}), index({3, 6, 4}, 0, 4), normal({3, 6, 5})},
                {normal({2, 3}), index({2, 0}, 0, 3), normal({2, 1})},
                {normal({2, 900}), index({2, 40}, 0, 900), normal({2, 41})},
                {normal({3, 20, 600}), index({3, 15, 600}, 0, 20), normal({3, 15, 600})}},
    .call = [](const Tensors& x) -> Tensors { return {scatter_add(x[0], 1, x[1], x[2])}; },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = x[0];
      for_each_coordinate(x[1].shape, [&](Shape c) {
        const double value = at(x[2], c);
        c[1] = integer(x[1], c);
        at(y, c) += value;
      });
      return {y};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

// Along an axis of at most two places per row, so that no two indices can be asked to agree: the
// gradient of scatter is only defined where each place is named once.
WICK_OP_CASE(
    scatter,
    .samples = {{normal({5, 4}), index({5, 1}, 0, 4), normal({5, 1})},
                {normal({3, 4, 5}), index({2, 1, 5}, 0, 4), normal({3, 2, 5})},
                {normal({2, 3}), index({2, 0}, 0, 3), normal({2, 1})}},
    .call = [](const Tensors& x) -> Tensors { return {scatter(x[0], 1, x[1], x[2])}; },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y = x[0];
      for_each_coordinate(x[1].shape, [&](Shape c) {
        const double value = at(x[2], c);
        c[1] = integer(x[1], c);
        at(y, c) = value;
      });
      return {y};
    },
    .tolerance = Tolerance::exact(), .second_order = true);

WICK_OP_CASE(
    take_along_axis,
    .samples = {{normal({3, 4}), index({1, 2}, 0, 4)}, {normal({1, 4}), index({3, 2}, -4, 4)}},
    .call = [](const Tensors& x) -> Tensors { return {take_along_axis(x[0], x[1], -1)}; },
    .reference = [](const Arrays& x) -> Arrays {
      return {remap(x[0], {3, 2}, [&](const Shape& c) {
        const int64_t from = integer(x[1], {x[1].shape[0] == 1 ? 0 : c[0], c[1]});
        return Shape{x[0].shape[0] == 1 ? 0 : c[0], from < 0 ? from + 4 : from};
      })};
    },
    .tolerance = Tolerance::reduction());

WICK_OP_CASE(
    embedding,
    .samples = {{normal({5, 3}), index({2, 4}, 0, 5)},
                {normal({7, 33}), index({11}, 0, 7)},
                {normal({3, 2}), index({0, 2}, 0, 3)},
                {normal({2, 1}), index({}, 0, 2, kInt32)},
                {normal({50, 700}), index({90}, 0, 50)}},
    .call = [](const Tensors& x) -> Tensors { return {embedding(x[0], x[1])}; },
    .reference = [](const Arrays& x) -> Arrays {
      Shape shape = x[1].shape;
      shape.push_back(x[0].shape[1]);
      return {remap(x[0], shape, [&](Shape c) {
        const int64_t column = c.back();
        c.erase(c.rank() - 1);
        return Shape{integer(x[1], c), column};
      })};
    },
    .tolerance = Tolerance::reduction(), .second_order = true);

WICK_OP_CASE(
    sparse_rows, .covers = {"coalesce_rows"},
    .samples = {{index({9}, 0, 7), normal({9, 3}).constant()},
                {index({1}, 0, 7), normal({1, 33}).constant()},
                {index({0}, 0, 7), normal({0, 2}).constant()},
                {index({900}, 0, 7), normal({900, 127}).constant()}},
    .call = [](const Tensors& x) -> Tensors {
      return {sparse_tensor(x[0], x[1], {7, x[1].size(1)}).to_dense()};
    },
    .reference = [](const Arrays& x) -> Arrays {
      const Shape shape{7, x[1].shape[1]};
      HostArray y{shape, std::vector<double>(static_cast<size_t>(shape.numel()))};
      for_each_coordinate(x[1].shape, [&](Shape c) {
        const double value = at(x[1], c);
        c[0] = integer(x[0], {c[0]});
        at(y, c) += value;
      });
      return {y};
    },
    .tolerance = Tolerance::reduction(), .differentiable = false, .traceable = false);

WICK_OP_CASE(
    masked_select, .covers = {"nonzero"},
    .samples = {{normal({3, 4}), mask({3, 4})},
                {normal({33}), mask({33})},
                {normal({9001}), mask({9001})},
                {normal({0, 2}), mask({0, 2})}},
    .call = [](const Tensors& x) -> Tensors { return {masked_select(x[0], x[1])}; },
    .reference = [](const Arrays& x) -> Arrays {
      HostArray y{{0}, {}};
      for (size_t i = 0; i < x[0].values.size(); ++i) {
        if (x[1].values[i] != 0) y.values.push_back(x[0].values[i]);
      }
      y.shape[0] = static_cast<int64_t>(y.values.size());
      return {y};
    },
    .tolerance = Tolerance::exact(), .second_order = true, .traceable = false);

TEST(Embedding, PaddingRowGetsNoGradient) {
  const Tensor weight = counting({3, 2}).to(kFloat64).set_requires_grad();
  const Tensor index = tensor<int64_t>({1, 0, 2, 1});
  for (const int64_t padding : {1, -2}) {
    const Tensor y = embedding(weight, index, padding);
    EXPECT_EQ(values(y), (Integers{2, 3, 0, 1, 4, 5, 2, 3}));
    const std::vector<Tensor> gradients = grad({y.sum()}, {weight});
    EXPECT_EQ(values(gradients[0]), (Integers{1, 1, 0, 0, 1, 1}));
  }
  EXPECT_TRUE(gradgradcheck(
      [&](const Tensors& x) -> Tensors { return {embedding(x[0], index, 1)}; }, {weight}));
}

TEST(Index, ResultsOfRepeatedIndicesDoNotDependOnThreads) {
  const Tensor source = arange(0, 200 * 512, 1, kFloat32).reshape({200, 512});
  const Tensor thirds = source.to(kFloat32);
  const Tensor index = arange(0, 200);
  Tensor repeated = empty({200}, kInt64);
  for (int64_t i = 0; i < 200; ++i) repeated.data<int64_t>()[i] = i * i % 7;
  const int before = num_threads();
  std::vector<float> first;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    const auto sums = index_add(zeros({7, 512}), 0, repeated, thirds).to_vector<float>();
    if (first.empty()) first = sums;
    EXPECT_EQ(sums, first);
  }
  set_num_threads(before);
}

TEST(Index, NonzeroListsCoordinates) {
  const Tensor x = tensor<float>({0, 2, 0, -1, NAN, 0}, Shape{2, 3});
  EXPECT_EQ(values(nonzero(x)), (Integers{0, 1, 1, 0, 1, 1}));
  EXPECT_EQ(nonzero(zeros({4, 2})).shape(), (Shape{0, 2}));
  EXPECT_EQ(nonzero(ones({})).shape(), (Shape{1, 0}));
  EXPECT_EQ(nonzero(zeros({})).shape(), (Shape{0, 0}));
}

TEST(Index, OneHot) {
  EXPECT_EQ(values(one_hot(tensor<int64_t>({2, 0}))), (Integers{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(one_hot(tensor<int64_t>({2, 0}, Shape{1, 2}), 5).shape(), (Shape{1, 2, 5}));
  EXPECT_EQ(one_hot(empty({0}, kInt64), 3).shape(), (Shape{0, 3}));
  EXPECT_THROW(one_hot(tensor<int64_t>({3}), 3), Error);
  EXPECT_THROW(one_hot(empty({0}, kInt64)), Error);
}

// Enough elements, and equal indices, for every way in which kernels share the work.
TEST(Index, OrderDecidesOnEveryDevice) {
  if (!cuda_is_available()) GTEST_SKIP() << "no second device: " << why_no_cuda();
  Generator generator(31);
  const Device gpu = cuda_device(0);
  const Shape shapes[] = {{5000}, {3, 100}, {100, 3}, {40, 2, 7}};
  for (const Shape& shape : shapes) {
    for (int64_t axis = 0; axis < shape.rank(); ++axis) {
      const Tensor at = randint(0, 17, shape, kInt64, kCpu, &generator);
      Shape places = shape;
      places[static_cast<int>(axis)] = 17;
      const Tensor y = zeros(places), x = randn(shape, kFloat32, kCpu, &generator);
      const Tensor gpu_y = y.to(gpu), gpu_at = at.to(gpu), gpu_x = x.to(gpu);
      EXPECT_TRUE(bit_equal(scatter(y, axis, at, x), scatter(gpu_y, axis, gpu_at, gpu_x).cpu()));
      EXPECT_TRUE(
          bit_equal(scatter_add(y, axis, at, x), scatter_add(gpu_y, axis, gpu_at, gpu_x).cpu()));
      const Tensor list = at.flatten().narrow(0, 0, shape[static_cast<int>(axis)]);
      EXPECT_TRUE(bit_equal(index_add(y, axis, list, x),
                            index_add(gpu_y, axis, list.to(gpu), gpu_x).cpu()));
    }
  }
}

TEST(Index, NonzeroListsCoordinatesOnEveryDevice) {
  if (!cuda_is_available()) GTEST_SKIP() << "no second device: " << why_no_cuda();
  Generator generator(32);
  for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{1}, Shape{5, 1025, 3}, Shape{8193}}) {
    const Tensor x = randint(0, 2, shape, kInt64, kCpu, &generator);
    EXPECT_EQ(values(nonzero(x.to(cuda_device(0)))), values(nonzero(x)));
  }
}

#ifdef WICK_SIM
TEST(Index, KernelsNameAnIndexOutOfRange) {
  const Device gpu = cuda_device(0);
  const Tensor x = counting({3, 2}).to(gpu);
  for (const int64_t wrong : {int64_t{-1}, int64_t{3}, INT64_MIN, INT64_MAX}) {
    const Tensor bad = full({20}, wrong, kInt64, gpu), square = bad.unsqueeze(1).expand({20, 2});
    const std::function<Tensor()> calls[] = {
        [&] { return index_select(x, 0, bad); },
        [&] { return embedding(x, bad, 1); },
        [&] { return gather(x, 0, square); },
        [&] { return scatter(x, 0, square, square); },
        [&] { return scatter_add(x, 0, square.narrow(0, 0, 2), square); },
        [&] { return index_add(x, 0, bad, square); },
    };
    for (const auto& call : calls) {
      std::string what = "no error";
      try {
        call().cpu();
      } catch (const DeviceError& error) {
        what = error.what();
      }
      EXPECT_NE(what.find("index out of range"), std::string::npos) << what;
      sim::reset();
    }
  }
}
#endif

TEST(Index, RankZero) {
  const Tensor x = scalar_tensor(5), index = zeros({}, kInt64);
  EXPECT_EQ(gather(x, 0, index).item(), 5);
  EXPECT_EQ(values(gather(x, 0, zeros({2}, kInt64))), (Integers{5, 5}));
  EXPECT_EQ(gather(counting({3}), 0, full({}, 2, kInt64)).shape(), (Shape{}));
  EXPECT_EQ(gather(counting({3}), 0, full({}, 2, kInt64)).item<int64_t>(), 2);
  EXPECT_EQ(scatter(x, 0, index, scalar_tensor(7)).item(), 7);
  EXPECT_EQ(scatter_add(x, -1, index, scalar_tensor(7)).item(), 12);
  EXPECT_EQ(index_select(x, 0, zeros({1}, kInt64)).item(), 5);
}

TEST(Index, LaterOfTwoEqualIndicesWins) {
  const Tensor y = scatter(zeros({2}), 0, tensor<int64_t>({1, 1}), tensor<float>({3, 4}));
  EXPECT_EQ(values(y), (Integers{0, 4}));
}

TEST(Index, WorksOnEveryDtype) {
  const Tensor index = tensor<int32_t>({2, 0});
  for (const Dtype dtype : {kFloat64, kFloat32, kFloat16, kBFloat16, kInt64, kInt32, kUint8}) {
    const Tensor x = counting({3}).to(dtype);
    EXPECT_EQ(values(index_select(x, 0, index)), (Integers{2, 0})) << to_string(dtype);
    EXPECT_EQ(values(gather(x, 0, index)), (Integers{2, 0})) << to_string(dtype);
    EXPECT_EQ(values(scatter(x, 0, index, x.narrow(0, 1, 2))), (Integers{2, 1, 1}));
    EXPECT_EQ(values(scatter_add(x, 0, index, x.narrow(0, 1, 2))), (Integers{2, 1, 3}));
  }
  EXPECT_EQ(values(index_select(ones({2}, kBool), 0, index.narrow(0, 1, 1))), (Integers{1}));
  EXPECT_THROW(scatter_add(ones({1}, kBool), 0, zeros({1}, kInt64), ones({1}, kBool)), Error);
}

TEST(Index, ErrorsNameTheIndexAndTheRange) {
  const Tensor x = counting({3, 2});
  const Tensor bad = tensor<int64_t>({0, 3, -1});
  EXPECT_EQ(error_of([&] { index_select(x, 0, bad); }),
            "index_select: index out of range: got 3, expected one in [0, 2]");
  EXPECT_EQ(error_of([&] { embedding(x, tensor<int64_t>({7})); }),
            "embedding: index out of range: got 7, expected one in [0, 2]");
  EXPECT_EQ(error_of([&] {
              gather(x, 0, tensor<int64_t>({5, 0}, Shape{1, 2}));
            }),
            "gather: index out of range: got 5, expected one in [0, 2]");
  EXPECT_EQ(error_of([&] { x[tensor<int64_t>({-4})]; }),
            "index: index out of range: got -4, expected one in [-3, 2]");
  EXPECT_EQ(error_of([&] { index_select(x, 0, ones({1})); }),
            "index_select: indices must be int64 or int32: got float32");
  for (const int64_t far : {INT64_MIN, INT64_MIN + 2, INT64_MAX, INT64_MAX - 2}) {
    EXPECT_THROW(index_select(x, 0, tensor<int64_t>({far})), Error);
    EXPECT_THROW(x[tensor<int64_t>({far})], Error);
  }
  EXPECT_THROW(gather(x, 0, zeros({1, 3}, kInt64)), Error);
  EXPECT_THROW(gather(x, 0, zeros({2}, kInt64)), Error);
  EXPECT_THROW(scatter(x, 0, zeros({1, 2}, kInt64), counting({1, 1})), Error);
  EXPECT_THROW(scatter(x, 0, zeros({1, 2}, kInt64), ones({1, 2})), Error);
  EXPECT_THROW(index_add(x, 0, tensor<int64_t>({0}), counting({2, 2})), Error);
  EXPECT_THROW(index_select(x, 0, zeros({1, 1}, kInt64)), Error);
  EXPECT_THROW(embedding(counting({3}), zeros({1}, kInt64)), Error);
  EXPECT_THROW(embedding(x, zeros({1}, kInt64), 3), Error);
  EXPECT_THROW(masked_select(x, zeros({3, 2})), Error);
}

TEST(Brackets, IntegersAndSlices) {
  const Tensor x = counting({3, 4});
  EXPECT_EQ(values(x[1]), (Integers{4, 5, 6, 7}));
  EXPECT_EQ(values(x[-1][0]), (Integers{8}));
  EXPECT_EQ(values(x[{Slice(), 0}]), (Integers{0, 4, 8}));
  EXPECT_EQ(values(x[{Slice(1), Slice(None, 2)}]), (Integers{4, 5, 8, 9}));
  EXPECT_EQ(values(x[{Slice(None, None, 2), -1}]), (Integers{3, 11}));
  EXPECT_EQ(values(x[{Slice(0, -1), Slice(1, -1, 2)}]), (Integers{1, 5}));
  EXPECT_EQ(values(x[{2, 3}]), (Integers{11}));
  EXPECT_EQ((x[{2, 3}].rank()), 0);
}

TEST(Brackets, NoneAndEllipsis) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ((x[{Ellipsis, 0}].shape()), (Shape{2, 3}));
  EXPECT_EQ((x[{0, Ellipsis, Slice(1, -1)}].shape()), (Shape{3, 2}));
  EXPECT_EQ((x[{None, Slice(), None, Ellipsis}].shape()), (Shape{1, 2, 1, 3, 4}));
  EXPECT_EQ((x[{Ellipsis, None}].shape()), (Shape{2, 3, 4, 1}));
  EXPECT_EQ((x[{0, 1, 2, Ellipsis}].shape()), Shape{});
  EXPECT_EQ(values(x[{1, Ellipsis, 3}]), (Integers{15, 19, 23}));
}

TEST(Brackets, AreViewsToWriteTo) {
  const Tensor x = zeros({2, 3});
  x[{Slice(), 1}].fill_(5);
  x[0].copy_(tensor<float>({1, 2, 3}));
  EXPECT_EQ(values(x), (Integers{1, 2, 3, 0, 5, 0}));
}

TEST(Brackets, TensorsOfIndicesAndMasks) {
  const Tensor x = counting({3, 2});
  EXPECT_EQ(values(x[tensor<int64_t>({-1, 0, 0})]), (Integers{4, 5, 0, 1, 0, 1}));
  EXPECT_EQ(x[zeros({2, 5}, kInt64)].shape(), (Shape{2, 5, 2}));
  EXPECT_EQ(values(x[tensor<bool>({true, false, true})]), (Integers{0, 1, 4, 5}));
  EXPECT_EQ(values(x[tensor<bool>({true, false, false, true, false, true}, Shape{3, 2})]),
            (Integers{0, 3, 5}));
  const Tensor w = x.to(kFloat32).set_requires_grad();
  w[tensor<int64_t>({-1, 0, 2})].sum().backward();
  EXPECT_EQ(values(w.grad()), (Integers{1, 1, 0, 0, 2, 2}));
}

TEST(Brackets, ErrorsAreClear) {
  const Tensor x = counting({3, 2});
  EXPECT_EQ(
      error_of([&] { x[3]; }),
      "select: index out of range: got 3 for axis 0 of shape [3, 2], expected one in [-3, 2]");
  EXPECT_EQ(error_of([&] {
              x[{0, 0, 0}];
            }),
            "index: too many indices: got 3 for shape [3, 2], expected at most 2");
  EXPECT_EQ(error_of([&] { x[{Ellipsis, Ellipsis}]; }), "index: at most one Ellipsis is allowed");
  EXPECT_EQ(
      error_of([&] { x[ones({2}, kBool)]; }),
      "index: the indices do not fit: got bool [2] for a tensor of shape [3, 2], expected its "
      "first axes");
}

}  // namespace
}  // namespace wick::testing
