#include "wick/core/graph/passes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "wick/core/graph/compile.h"
#include "wick/core/graph/executor.h"
#include "wick/core/graph/trace.h"
#include "wick/core/ops/activation.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/conv.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/norm.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/random.h"
#include "wick/tests/core/graph/expect_equal.h"
#include "wick/tests/core/graph/ops_of.h"

namespace wick::testing {
namespace {

TEST(Passes, RemoveDeadNodes) {
  const Tensor count = zeros({3});
  const auto f = [&](const Tensors& x) -> Tensors {
    const Tensor unused = (x[0] * 3).exp();
    Tensor scratch = zeros({3});
    scratch.add_(unused);  // nobody reads it
    const NoGrad no_grad;
    count.add_(1);  // the program's own
    return {x[0] + 1, rand({3})};
  };
  graph::Graph graph = graph::trace(f, {ones({3})});
  EXPECT_EQ(ops_of(graph), "mul_scalar exp empty fill_ add_ add_scalar_ add_scalar empty uniform_");
  EXPECT_EQ(graph::remove_dead_nodes(graph), 5);
  EXPECT_EQ(ops_of(graph), "add_scalar_ add_scalar empty uniform_");
  EXPECT_EQ(graph::remove_dead_nodes(graph), 0);
  manual_seed(1);
  const Tensors got = run(graph, {ones({3})});
  manual_seed(1);
  expect_equal(got, f({ones({3})}));
  EXPECT_EQ(count.to_vector<float>(), std::vector<float>(3, 3));  // traced, run, called
}

TEST(Passes, MergeCommonNodes) {
  const auto f = [](const Tensors& x) -> Tensors {
    const Tensor a = x[0].exp() * 2, b = x[0].exp() * 2;
    const Tensor c = x[0] * 0.0, d = x[0] * -0.0;
    const Tensor changed = x[0].exp();
    changed.add_(1);
    return {a + b, c / d, dropout(x[0], 0.5) + dropout(x[0], 0.5), changed, x[0].sin(), x[0].sin()};
  };
  graph::Graph graph = graph::trace(f, {ones({64})});
  const size_t before = graph.nodes.size();
  // Not those of other zeros, of other random numbers, changed in place, or given to the caller.
  EXPECT_EQ(graph::merge_common_nodes(graph), 2);
  EXPECT_EQ(graph.nodes.size(), before - 2);
  check(graph);
  const Tensor x = rand({64});
  manual_seed(1);
  const Tensors got = run(graph, {x});
  manual_seed(1);
  expect_equal(got, f({x}));
  EXPECT_NE(got[4].raw_data(), got[5].raw_data());
}

TEST(Passes, FoldConstants) {
  const Tensor weight = rand({3, 2});
  const auto f = [&](const Tensors& x) -> Tensors {
    return {x[0].matmul(weight.transpose(0, 1) * 2 + tensor<float>({1, 2, 3})).neg()};
  };
  graph::Graph graph = graph::trace(f, {ones({4, 2})});
  EXPECT_EQ(ops_of(graph), "permute mul_scalar add matmul neg");
  EXPECT_EQ(graph::fold_constants(graph), 0) << "the weight is the program's, and may change";
  graph::freeze_constants(graph);
  EXPECT_EQ(graph::fold_constants(graph), 2);
  graph::remove_dead_nodes(graph);
  EXPECT_EQ(ops_of(graph), "matmul neg");
  const Tensor x = rand({4, 2});
  expect_equal(run(graph, {x}), f({x}));
}

TEST(Passes, FuseElementwise) {
  const auto f = [](const Tensors& x) -> Tensors {
    const Tensor a = (x[0] + x[1]).tanh(), b = x[0] * x[2];
    const Tensor sum = a.sum();
    return {(a * b - 0.5).sigmoid() * sum, b};
  };
  const Tensors x = {rand({40, 300}), rand({300}), rand({40, 1})};
  graph::Graph graph = graph::trace(f, x);
  EXPECT_EQ(ops_of(graph), "add tanh mul sum mul add_scalar sigmoid mul");
  EXPECT_EQ(graph::fuse_elementwise(graph), 5);
  EXPECT_EQ(ops_of(graph), "tanh{ add tanh } sum mul{ mul mul add_scalar sigmoid mul }");
  check(graph);
  graph::Executor executor(graph);
  for (int i = 0; i < 4; ++i) expect_equal(executor.run(x), f(x));
  EXPECT_EQ(executor.num_fused(), 2);
  EXPECT_NE(to_string(graph).find("fused("), std::string::npos);
}

// Chains, and ends of chains, that nothing reads.
TEST(Passes, FusedChainsWithoutReaders) {
  const auto f = [](const Tensors& x) -> Tensors {
    const Tensor y = x[0].exp();
    (y * 2).sin();
    (x[0].cos() * 2).tanh();
    return {x[0].sum(), y + 1};
  };
  const Tensors x = {randn({40, 30})};
  graph::Graph graph = graph::trace(f, x);
  graph::fuse_elementwise(graph);
  check(graph);
  EXPECT_EQ(ops_of(graph), "sum add_scalar{ exp mul_scalar sin add_scalar }");
  expect_equal(run(graph, x), f(x));
  graph::CompiledFunction compiled(f, {.mode = graph::CompileMode::kFuse});
  for (int i = 0; i < 3; ++i) expect_equal(compiled(x), f(x));
  EXPECT_EQ(ops_of(compiled.graph()), "sum add_scalar{ exp add_scalar }");
}

// Every dtype, rounding where the ops round, layouts and shapes that broadcast, short rows and
// long.
TEST(Passes, FusedChainsRoundAsTheirOps) {
  for (const Dtype dtype : {kFloat64, kFloat32, kFloat16, kBFloat16, kInt64, kInt32, kUint8}) {
    for (const int64_t columns : {1, 7, 100, 1025, 5000}) {
      SCOPED_TRACE(concat(dtype, " ", columns));
      const auto f = [](const Tensors& x) -> Tensors {
        const Tensor a = x[0] * x[1] + x[2];
        const Tensor b = maximum(a, x[3]) - x[1];
        return {b * a, (b + 1).to(kFloat32).square() * 0.5};
      };
      Tensors x = {rand({9, columns}) * 8, rand({columns}) * 8, rand({9, 1}) * 8, rand({}) * 8};
      for (Tensor& t : x) t = t.to(dtype);
      x[0] = x[0].transpose(0, 1).contiguous().transpose(0, 1);
      graph::Graph graph = graph::trace(f, x);
      EXPECT_GT(graph::fuse_elementwise(graph), 0);
      graph::Executor executor(graph);
      expect_equal(executor.run(x), f(x));
      EXPECT_GT(executor.num_fused(), 0);
    }
  }
}

// Comparisons, predicates, choices and casts are steps as any other; truth values are results too.
TEST(Passes, FusedChainsChoose) {
  for (const Dtype dtype : {kFloat64, kFloat32, kFloat16, kBFloat16, kInt64, kUint8}) {
    SCOPED_TRACE(dtype);
    const auto f = [](const Tensors& x) -> Tensors {
      const Tensor inside = logical_and(gt(x[0], 0.5), le(x[0], x[1]));
      const Tensor chosen = where(logical_or(inside, isnan(x[0])), x[0] * 2, x[1]);
      return {where(ne(chosen, 3), chosen.to(kFloat32) * 0.5, -1), inside, chosen};
    };
    Tensors x = {randn({9, 300}) * 4, randn({300}) * 4};
    if (is_floating(dtype)) x[0].slice(1, 3, 5).fill_(std::nan(""));
    for (Tensor& t : x) t = t.abs().to(dtype);
    graph::Graph graph = graph::trace(f, x);
    graph::fuse_elementwise(graph);
    EXPECT_EQ(graph.nodes.size(), 1u) << ops_of(graph);
    graph::Executor executor(graph);
    for (int i = 0; i < 2; ++i) expect_equal(executor.run(x), f(x));
    EXPECT_EQ(executor.num_fused(), 1);
  }
}

// A cast within a chain rounds as a copy does, from each dtype to each.
TEST(Passes, FusedCastsAreCopies) {
  const Dtype dtypes[] = {kFloat64, kFloat32, kFloat16, kBFloat16, kInt64, kInt32, kUint8, kBool};
  for (const Dtype from : dtypes) {
    for (const Dtype to : dtypes) {
      if (from == to) continue;
      SCOPED_TRACE(concat(from, " to ", to));
      const auto f = [&](const Tensors& x) -> Tensors {
        const Tensor y = x[0].to(to);
        return {y, logical_not(y)};
      };
      const Tensor x = (randn({1000}).abs() * 100).to(from);
      graph::Graph graph = graph::trace(f, {x});
      EXPECT_EQ(graph::fuse_elementwise(graph), 1);
      graph::Executor executor(graph);
      expect_equal(executor.run({x}), f({x}));
      EXPECT_EQ(executor.num_fused(), 1);
    }
  }
}

// Results of some MiB go past the caches, in pieces of several threads. Chains that are computed in
// float32 alone are linked by registers, others go loop by loop.
TEST(Passes, FusedChainsOfLargeTensors) {
  for (const bool is_linked : {true, false}) {
    const auto f = [&](const Tensors& x) -> Tensors {
      const Tensor a = x[0] * 2 + 1, b = a.square() - x[1];
      const Tensor c = x[0].exp().to(kBFloat16).mul(x[1].to(kBFloat16)).neg();
      const Tensor d = where(gt(b, 1), x[1], a * x[1]), e = where(gt(d, 0), d / a, a / b);
      return {a, b, c, b.abs(), b * a, is_linked ? e : (b - a).to(kFloat64)};
    };
    const Tensor x = randn({1100, 1023});
    for (const Tensor& other : {randn({1023}), randn({1100, 1023}), randn({1100, 1})}) {
      graph::Graph graph = graph::trace(f, {x, other});
      graph::optimize(graph);
      graph::Executor executor(graph);
      expect_equal(executor.run({x, other}), f({x, other}));
      EXPECT_GE(executor.num_fused(), 1);
    }
  }
}

// Parameters and running statistics of `channels` channels, far from the initial ones.
struct Norm {
  Tensor weight, bias, mean, var;

  explicit Norm(int64_t channels, bool affine = true)
      : weight(affine ? rand({channels}) + 0.5 : Tensor()),
        bias(affine ? randn({channels}) : Tensor()),
        mean(randn({channels})),
        var(rand({channels}) * 4 + 0.1) {}

  Tensor operator()(const Tensor& x) const {
    return batch_norm(x, weight, bias, mean, var, {.training = false, .eps = 1e-3});
  }
  Tensor relu(const Tensor& x) const {
    return batch_norm_relu(x, weight, bias, mean, var, {.training = false});
  }
  Tensor add_relu(const Tensor& x, const Tensor& residual) const {
    return batch_norm_add_relu(x, residual, weight, bias, mean, var, {.training = false});
  }
};

graph::Graph frozen(const graph::Function& f, const Tensor& x) {
  graph::Graph graph = graph::trace(f, {x});
  graph::freeze_constants(graph);
  graph::fold_constants(graph);
  return graph;
}

// Whether a graph gives what `f` gives, but for rounding.
bool is_close(const graph::Graph& graph, const graph::Function& f, const Tensor& x,
              double tolerance = 1e-5) {
  graph::Executor executor(graph);
  for (int i = 0; i < 3; ++i) {
    const Tensors got = executor.run({x}), want = f({x});
    for (size_t k = 0; k < want.size(); ++k) {
      if (!allclose(got[k], want[k], tolerance, tolerance)) return false;
    }
  }
  return true;
}

struct FoldCase {
  const char* name;
  Tensor x;
  graph::Function f;
  const char* before;
  const char* after;
};

std::vector<FoldCase> fold_cases() {
  const Tensor w1 = randn({6, 4, 3}), w2 = randn({6, 4, 3, 3}), w3 = randn({6, 4, 2, 3, 3});
  const Tensor grouped = randn({6, 2, 3, 3}), bias = randn({6});
  const Tensor back1 = randn({4, 6, 3}), back2 = randn({4, 3, 3, 3}),
               back3 = randn({4, 6, 2, 3, 3});
  const Norm norm(6), plain(6, false);
  const Tensor line = randn({2, 4, 9}), image = randn({2, 4, 7, 9});
  const Tensor volume = randn({2, 4, 5, 6, 7});
  return {
      {"1-D", line, [=](const Tensors& x) -> Tensors { return {norm(conv1d(x[0], w1, bias))}; },
       "reshape reshape conv2d reshape batch_norm_eval", "reshape conv2d reshape"},
      {"2-D", image, [=](const Tensors& x) -> Tensors { return {norm(conv2d(x[0], w2))}; },
       "conv2d batch_norm_eval", "conv2d"},
      {"3-D", volume, [=](const Tensors& x) -> Tensors { return {norm(conv3d(x[0], w3, bias))}; },
       "conv3d batch_norm_eval", "conv3d"},
      {"groups", image,
       [=](const Tensors& x) -> Tensors {
         return {plain(conv2d(x[0], grouped, bias, 2, 1, 1, 2))};
       },
       "conv2d batch_norm_eval", "conv2d"},
      {"ReLU", image, [=](const Tensors& x) -> Tensors { return {norm.relu(conv2d(x[0], w2))}; },
       "conv2d batch_norm_eval", "conv2d relu"},
      {"residual", image,
       [=](const Tensors& x) -> Tensors {
         const Tensor y = norm(conv2d(x[0], w2, bias, 1, 1));
         return {plain.add_relu(conv2d(x[0], w2, {}, 1, 1), y), y * 2};
       },
       "conv2d batch_norm_eval conv2d batch_norm_eval mul_scalar",
       "conv2d conv2d add relu mul_scalar"},
      {"two norms", image,
       [=](const Tensors& x) -> Tensors { return {plain(norm(conv2d(x[0], w2)))}; },
       "conv2d batch_norm_eval batch_norm_eval", "conv2d"},
      {"transposed 1-D", line,
       [=](const Tensors& x) -> Tensors { return {norm(conv_transpose1d(x[0], back1, bias, 2))}; },
       "reshape reshape conv2d_backward_input reshape add reshape batch_norm_eval",
       "reshape conv2d_backward_input add reshape"},
      {"transposed groups", image,
       [=](const Tensors& x) -> Tensors {
         return {norm.relu(conv_transpose2d(x[0], back2, {}, 2, 1, 1, 2))};
       },
       "conv2d_backward_input batch_norm_eval", "conv2d_backward_input add relu"},
      {"transposed 3-D", volume,
       [=](const Tensors& x) -> Tensors { return {norm(conv_transpose3d(x[0], back3, bias))}; },
       "conv3d_backward_input reshape add batch_norm_eval", "conv3d_backward_input add"},
      {"changed in place after", line,
       [=](const Tensors& x) -> Tensors {
         const Tensor y = norm(conv1d(x[0], w1));
         y.mul_(2);
         return {y};
       },
       "reshape reshape conv2d reshape batch_norm_eval mul_scalar_",
       "reshape conv2d reshape mul_scalar_"},
  };
}

TEST(Passes, FoldBatchNorms) {
  manual_seed(1);
  for (const FoldCase& each : fold_cases()) {
    SCOPED_TRACE(each.name);
    graph::Graph graph = graph::trace(each.f, {each.x});
    EXPECT_EQ(ops_of(graph), each.before);
    EXPECT_EQ(graph::fold_batch_norms(graph), 0) << "the weight is the program's, and may change";
    graph = frozen(each.f, each.x);
    EXPECT_GT(graph::fold_batch_norms(graph), 0);
    graph::remove_dead_nodes(graph);
    EXPECT_EQ(ops_of(graph), each.after);
    check(graph);
    EXPECT_TRUE(is_close(graph, each.f, each.x));
    graph::optimize(graph);
    check(graph);
    EXPECT_TRUE(is_close(graph, each.f, each.x));
  }
}

TEST(Passes, FoldBatchNormsInEveryDtype) {
  manual_seed(1);
  for (const Dtype dtype : {kFloat64, kFloat32, kBFloat16, kFloat16}) {
    SCOPED_TRACE(dtype);
    const Tensor weight = randn({16, 16, 3, 3}).to(dtype), x = randn({2, 16, 8, 8}).to(dtype);
    const Norm norm(16);
    const auto f = [&](const Tensors& in) -> Tensors { return {norm.relu(conv2d(in[0], weight))}; };
    graph::Graph graph = frozen(f, x);
    EXPECT_EQ(graph::fold_batch_norms(graph), 1);
    const double tolerance = dtype == kFloat64 ? 1e-12 : dtype == kFloat32 ? 1e-5 : 0.1;
    EXPECT_TRUE(is_close(graph, f, x, tolerance));
  }
}

// Norms that stay: whose input has another reader, or is changed; that compute statistics; after
// another op, or whose channels are not the convolution's; whose gradients flow; and whose fold
// would overflow.
TEST(Passes, FoldBatchNormsLeavesOthers) {
  manual_seed(1);
  const Tensor weight = randn({6, 4, 3, 3}), x = randn({2, 4, 8, 8});
  const Norm norm(6);
  const std::vector<graph::Function> functions = {
      [&](const Tensors& in) -> Tensors {
        const Tensor y = conv2d(in[0], weight);
        return {norm(y), y.sum()};
      },
      [&](const Tensors& in) -> Tensors {
        const Tensor y = conv2d(in[0], weight);
        return {norm(y), y};
      },
      [&](const Tensors& in) -> Tensors {
        const Tensor y = conv2d(in[0], weight);
        y.mul_(2);
        return {norm(y)};
      },
      [&](const Tensors& in) -> Tensors {
        const Tensor y = conv2d(in[0], weight), pixels = y.permute({0, 2, 3, 1});
        pixels.mul_(2);
        return {norm(y)};
      },
      [&](const Tensors& in) -> Tensors {
        return {batch_norm(conv2d(in[0], weight), norm.weight, norm.bias, {}, {})};
      },
      [&](const Tensors& in) -> Tensors {
        const Tensor mean = zeros({6}), var = ones({6});
        return {batch_norm(conv2d(in[0], weight), norm.weight, norm.bias, mean, var)};
      },
      [&](const Tensors& in) -> Tensors { return {norm(conv2d(in[0], weight).relu())}; },
      [&](const Tensors& in) -> Tensors { return {norm(conv2d(in[0].select(0, 0), weight))}; },
      [&](const Tensors& in) -> Tensors {
        const EnableGrad recorded;
        const Tensor leaf = in[0].detach().clone().set_requires_grad();
        return {grad({norm(conv2d(leaf, weight)).square().sum()}, {leaf})[0]};
      },
      [&](const Tensors& in) -> Tensors {
        return {batch_norm(conv2d(in[0], weight), {}, {}, norm.mean, zeros({6}),
                           {.training = false, .eps = 1e-80})};
      },
  };
  for (size_t i = 0; i < functions.size(); ++i) {
    SCOPED_TRACE(i);
    graph::Graph graph = frozen(functions[i], x);
    const std::string before = ops_of(graph);
    EXPECT_EQ(graph::fold_batch_norms(graph), 0);
    EXPECT_EQ(ops_of(graph), before);
  }
}

// Folds with a fault each: the test above sees them.
TEST(Passes, WrongFoldsAreCaught) {
  manual_seed(1);
  const std::vector<FoldCase> cases = fold_cases();
  for (const size_t input : {size_t{1}, size_t{2}}) {
    graph::Graph graph = frozen(cases[1].f, cases[1].x);
    graph::fold_batch_norms(graph);
    for (graph::Constant& constant : graph.constants) {
      if (constant.value != graph.nodes[0].inputs[input]) continue;
      constant.tensor = constant.tensor.clone();
      constant.tensor.select(0, 3).mul_(1.01);  // one channel's weight, or its bias
    }
    EXPECT_FALSE(is_close(graph, cases[1].f, cases[1].x));
  }
}

}  // namespace
}  // namespace wick::testing
