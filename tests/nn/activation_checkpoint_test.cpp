// Activations that are made again in backward.
#include "wick/nn/activation_checkpoint.h"

#include <gtest/gtest.h>

#include "wick/core/core.h"
#include "wick/core/graph/compile.h"
#include "wick/nn/nn.h"
#include "wick/tests/harness/expect_error.h"

namespace {

using namespace wick;

template <class Action>
void expect_error(const char* text, const Action& action) {
  const std::string error = wick::testing::error_of(action);
  EXPECT_NE(error.find(text), std::string::npos) << error;
}

class CheckpointOn : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (!GetParam().is_cpu() && !cuda_is_available()) GTEST_SKIP() << why_no_cuda();
    manual_seed(7);
  }
  Device device() const { return GetParam(); }
};

std::vector<float> bits(const Tensor& tensor) { return tensor.to_vector<float>(); }

// Two convolutions with batch norm and dropout, twice.
nn::Sequential make_net() {
  nn::Sequential net;
  for (int i = 0; i < 2; ++i) {
    net.push_back(nn::Conv2d(i == 0 ? 3 : 8, 8, 3, {.padding = 1, .bias = false}));
    net.push_back(nn::BatchNorm2d(8));
    net.push_back(nn::ReLU());
    net.push_back(nn::Dropout(0.3));
  }
  return net;
}

struct Step {
  std::vector<std::vector<float>> tensors;  // output, gradients, buffers
  uint64_t draws;
  friend bool operator==(const Step&, const Step&) = default;
};

// What one step of a net from the same start gives: `run(net, x)` computes it.
template <class Run>
Step step_of(Device device, const Run& run) {
  manual_seed(1);
  nn::Sequential net = make_net();
  net.to(device);
  const Tensor x = randn({4, 3, 6, 6}).to(device);
  x.set_requires_grad();
  Step step;
  const Tensor y = run(net, x);
  step.tensors.push_back(bits(y));
  y.pow(2).sum().backward();
  step.tensors.push_back(bits(x.grad()));
  for (const Tensor& parameter : net.parameters()) step.tensors.push_back(bits(parameter.grad()));
  for (const auto& [name, buffer] : net.named_buffers()) {
    step.tensors.push_back(bits(buffer.to(kFloat32)));
  }
  step.draws = default_generator(device).get_state().offset;
  return step;
}

Tensor plain(nn::Sequential& net, const Tensor& x) { return net(x); }

TEST_P(CheckpointOn, GivesTheSameBitsWithOpsInPlace) {
  const Tensor x = randn({6, 6}).to(device()).set_requires_grad();
  const Tensor w = randn({6, 6}).to(device()).set_requires_grad();
  const auto in_place = [&w](const Tensor& in) {
    const Tensor y = matmul(in, w);
    y.relu_();
    const Tensor z = matmul(y, w);
    z.mul_(2);
    z.tanh_();
    return matmul(z, w);
  };
  const auto gradients = [&](const Tensor& y) { return grad({y.square().sum()}, {x, w}); };
  const std::vector<Tensor> want = gradients(in_place(x));
  const std::vector<Tensor> got = gradients(nn::checkpoint(in_place, x));
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(bits(got[i]), bits(want[i])) << i;
}

TEST_P(CheckpointOn, GivesTheSameBitsWithDropoutAndBatchNorm) {
  const Step expected = step_of(device(), plain);
  const Step whole = step_of(device(), [](nn::Sequential& net, const Tensor& x) {
    return nn::checkpoint([&net](const Tensor& in) { return net(in); }, x);
  });
  EXPECT_EQ(whole, expected);
  for (int64_t segments : {1, 2, 3, 8}) {
    const Step parts = step_of(device(), [&](nn::Sequential& net, const Tensor& x) {
      return nn::checkpoint_sequential(net, segments, x);
    });
    EXPECT_EQ(parts, expected) << segments << " segments";
  }
  const Step ranges = step_of(device(), [](nn::Sequential& net, const Tensor& x) {
    net.set_checkpointed({{5, 8}, {1, 3}});
    return net(x);
  });
  EXPECT_EQ(ranges, expected);
}

TEST_P(CheckpointOn, GivesTheSameBitsWhenNested) {
  const Step expected = step_of(device(), plain);
  const Step nested = step_of(device(), [](nn::Sequential& net, const Tensor& x) {
    net.set_checkpointed({{1, 3}, {4, 6}});
    return nn::checkpoint(
        [&net](const Tensor& in) {
          return nn::checkpoint([&net](const Tensor& inner) { return net(inner); }, in * 1.0);
        },
        x);
  });
  EXPECT_EQ(nested, expected);
}

TEST_P(CheckpointOn, GivesTheSameBitsUnderAutocast) {
  const auto under_autocast = [&](bool checkpointed) {
    return step_of(device(), [&](nn::Sequential& net, const Tensor& x) {
      const amp::Autocast guard(device(), kBFloat16);
      if (checkpointed) net.set_checkpointed({{0, 4}, {4, 8}});
      return net(x).to(kFloat32);
    });
  };
  const Step expected = under_autocast(false);
  EXPECT_EQ(under_autocast(true), expected);
  EXPECT_FALSE(expected == step_of(device(), plain));
}

TEST_P(CheckpointOn, WithoutTheRandomStateDropsOtherElements) {
  const Step expected = step_of(device(), plain);
  const Step other = step_of(device(), [](nn::Sequential& net, const Tensor& x) {
    return nn::checkpoint(
        {.preserve_rng_state = false}, [&net](const Tensor& in) { return net(in); }, x);
  });
  EXPECT_EQ(other.tensors[0], expected.tensors[0]);
  EXPECT_NE(other.tensors[1], expected.tensors[1]);
  EXPECT_GT(other.draws, expected.draws);
}

// What a graph from x holds until backward, in bytes.
template <class Forward>
int64_t held_by(Device device, const Forward& forward) {
  forward();  // caches of the convolution
  const int64_t before = memory_allocated(device);
  const Tensor y = forward();
  return memory_allocated(device) - before;
}

TEST_P(CheckpointOn, HoldsInputsAlone) {
  const Tensor x = randn({64, 256}).to(device());
  const Tensor w = randn({256, 256}).to(device());
  w.set_requires_grad();
  const auto layers = [w](const Tensor& in) {
    Tensor y = in;
    for (int i = 0; i < 8; ++i) y = matmul(y, w).tanh();
    return y;
  };
  const int64_t activation = x.numel() * 4;
  EXPECT_GE(held_by(device(), [&] { return layers(x); }), 8 * activation);
  EXPECT_LE(held_by(device(), [&] { return nn::checkpoint(layers, x); }), 2 * activation);
  // The outer region makes the inner ones' inputs again.
  const auto nested = [&] {
    return nn::checkpoint(
        [layers](const Tensor& in) {
          return nn::checkpoint(layers, nn::checkpoint(layers, in.exp()));
        },
        x);
  };
  EXPECT_LE(held_by(device(), nested), 2 * activation);
}

TEST_P(CheckpointOn, LetsGoOfItsMemoryInBackward) {
  const Tensor x = randn({64, 256}).to(device());
  const Tensor w = randn({256, 256}).to(device());
  w.set_requires_grad();
  for (const bool retain : {false, true}) {
    const Tensor y =
        nn::checkpoint([w](const Tensor& in) { return matmul(matmul(in, w).tanh(), w).exp(); }, x);
    const Tensor loss = y.sum();
    w.set_grad(zeros_like(w));
    const int64_t before = memory_allocated(device());
    loss.backward({}, retain);
    EXPECT_LE(memory_allocated(device()), before) << "retain " << retain;
    if (retain) {
      const std::vector<float> once = bits(w.grad());
      loss.backward();
      EXPECT_EQ(bits(w.grad()), bits(tensor<float>(once) * 2));
    }
  }
}

TEST_P(CheckpointOn, LetsGoOfInputsAsBackwardGoesOn) {
  const Tensor x = randn({64, 256}).to(device());
  x.set_requires_grad();
  const int64_t activation = x.numel() * 4;
  Tensor y = nn::checkpoint([](const Tensor& in) { return in.exp().sin().tanh(); }, x * 1.0);
  int64_t held = 0;
  y.register_hook([&](const Tensor&) {
    held = memory_allocated(device());
    return Tensor();
  });
  const int64_t before = memory_allocated(device());
  for (int i = 0; i < 8; ++i) {
    y = nn::checkpoint([](const Tensor& in) { return in.sin().tanh().sin(); }, y);
  }
  y = y.sum();
  y.backward();
  EXPECT_LE(held, before + 3 * activation);
}

TEST_P(CheckpointOn, WorksWithGradOfInputsAndSecondDerivatives) {
  const auto f = [](const Tensor& a, const Tensor& b) { return (a.exp() * b.sin()).tanh(); };
  const Tensor a = randn({5}).to(device()), b = randn({5}).to(device());
  a.set_requires_grad();
  b.set_requires_grad();
  const auto derivatives = [&](const Tensor& y) {
    const std::vector<Tensor> first = grad({y.sum()}, {a, b}, {}, false, /*create_graph=*/true);
    const std::vector<Tensor> second = grad({first[0].pow(2).sum()}, {a, b});
    return std::vector{bits(first[0]), bits(first[1]), bits(second[0]), bits(second[1])};
  };
  EXPECT_EQ(derivatives(nn::checkpoint(f, a, b)), derivatives(f(a, b)));
  const Tensor y = nn::checkpoint(f, a, b);
  EXPECT_EQ(bits(grad({y.sum()}, {b})[0]), bits(grad({f(a, b).sum()}, {b})[0]));
  EXPECT_FALSE(a.grad().defined());
}

INSTANTIATE_TEST_SUITE_P(Devices, CheckpointOn, ::testing::Values(kCpu, cuda_device(0)),
                         [](const auto& device) { return device.param.is_cpu() ? "cpu" : "cuda"; });

Tensor leaf(const Shape& shape) {
  const Tensor x = rand(shape) + 0.5;
  x.set_requires_grad();
  return x;
}

TEST(Checkpoint, TakesListsAndOtherArguments) {
  const Tensor a = leaf({3}), b = leaf({3}), c = leaf({3});
  const auto f = [](const std::vector<Tensor>& list, double scale, const Tensor& none,
                    const Tensor& last) {
    EXPECT_FALSE(none.defined());
    return std::vector<Tensor>{(list[0] * list[1]).exp() * scale, last.sin()};
  };
  const std::vector<Tensor> y = nn::checkpoint(f, std::vector<Tensor>{a, b}, 2.0, Tensor(), c);
  const auto found = grad({(y[0] + y[1]).sum()}, {a, b, c});
  const std::vector<Tensor> z = f({a, b}, 2.0, {}, c);
  const auto expected = grad({(z[0] + z[1]).sum()}, {a, b, c});
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(bits(found[i]), bits(expected[i]));
}

TEST(Checkpoint, GivesGradientsToWhatTheFunctionCaptures) {
  const Tensor x = leaf({3}), w = leaf({3});
  const Tensor scaled = w * 3;  // no leaf
  nn::checkpoint([scaled](const Tensor& in) { return (in * scaled).exp(); }, x).sum().backward();
  EXPECT_EQ(bits(w.grad()), bits(grad({(x * (w * 3)).exp().sum()}, {w})[0]));
}

TEST(Checkpoint, RunsTheFunctionAgainOnceAndNoFurtherThanNeeded) {
  const Tensor x = leaf({3});
  int starts = 0, ends = 0;
  const auto f = [&](const Tensor& in) {
    ++starts;
    const Tensor y = in.exp().sin() + 1;
    ++ends;
    return y;
  };
  nn::checkpoint(f, x * 1.0).sum().backward();
  EXPECT_EQ(starts, 2);
  EXPECT_EQ(ends, 1);  // the sum keeps nothing
  nn::checkpoint({.early_stop = false}, f, x * 1.0).sum().backward();
  EXPECT_EQ(starts, 4);
  EXPECT_EQ(ends, 3);
}

TEST(Checkpoint, IsAPlainCallWithoutGradients) {
  const Tensor x = leaf({3});
  const NoGrad no_grad;
  int calls = 0;
  const Tensor y = nn::checkpoint(
      [&](const Tensor& in) {
        ++calls;
        return in.exp();
      },
      x);
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(y.requires_grad());
}

TEST(Checkpoint, RefusesAFunctionThatDoesSomethingElse) {
  const Tensor x = leaf({4});
  int calls = 0;
  const auto f = [&](const Tensor& in) {
    return ++calls % 2 == 1 ? in.exp().sum() : in.narrow(0, 0, 2).exp().sum();
  };
  expect_error(
      "checkpoint: the function did something else when it was run again: got float32 [2] "
      "on cpu kept by exp, expected float32 [4] on cpu kept by exp",
      [&] { nn::checkpoint(f, x * 1.0).backward(); });
  const auto less = [&](const Tensor& in) { return ++calls % 2 == 1 ? in.exp().sin() : in * 2; };
  expect_error("got 0 tensors kept for backward, expected 2",
               [&] { nn::checkpoint(less, x * 1.0).sum().backward(); });
}

TEST(Checkpoint, RefusesChangedInputs) {
  const Tensor x = leaf({4}) * 1.0;
  const Tensor y = nn::checkpoint([](const Tensor& in) { return in.exp().sin(); }, x);
  {
    const NoGrad no_grad;
    x.add_(1);
  }
  expect_error("checkpoint: input 0 was changed in place since", [&] { y.sum().backward(); });
}

TEST(Checkpoint, RefusesChangesWithinTheRegion) {
  const Tensor x = leaf({4});
  const Tensor y = nn::checkpoint(
      [](const Tensor& in) {
        const Tensor kept = in.exp();
        const Tensor z = kept.sin();
        kept.detach().add_(1);
        return z.exp();
      },
      x * 1.0);
  expect_error("a tensor needed by backward was changed in place", [&] { y.sum().backward(); });
}

TEST(Checkpoint, RefusesBackwardWithin) {
  const Tensor x = leaf({4});
  const auto f = [](const Tensor& in) {
    const Tensor y = in.exp().sin();
    return y * grad({y.sum()}, {in})[0];
  };
  expect_error("backward within a checkpointed function", [&] { nn::checkpoint(f, x * 1.0); });
}

TEST(Checkpoint, PassesErrorsOfTheSecondRunOn) {
  const Tensor x = leaf({4});
  int calls = 0;
  const auto f = [&](const Tensor& in) {
    const Tensor y = in.exp();
    WICK_CHECK(++calls != 2, "test: the second call fails");
    return y.sin();
  };
  const Tensor loss = nn::checkpoint(f, x * 1.0).sum();
  expect_error("test: the second call fails", [&] { loss.backward({}, /*retain_graph=*/true); });
  EXPECT_FALSE(is_recomputing());
  EXPECT_EQ(saved_tensor_hooks(), nullptr);
  loss.backward();
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(bits(x.grad()), bits(grad({x.exp().sin().sum()}, {x})[0]));
}

// A graph has the ops of the second run, the last one too: what it keeps is its own result.
TEST(Checkpoint, IsPartOfCompiledSteps) {
  const auto step_of = [](nn::Sequential& net, int levels) {
    return [&net, levels](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      net.zero_grad();
      std::function<Tensor(const Tensor&)> f = [&net](const Tensor& x) { return net(x); };
      for (int i = 0; i < levels; ++i) f = [f](const Tensor& x) { return nn::checkpoint(f, x); };
      const Tensor loss = f(in[0]).square().sum();
      loss.backward();
      return {loss.detach()};
    };
  };
  const std::vector<nn::Sequential (*)()> blocks = {
      [] {
        return nn::Sequential{nn::Linear(6, 6), nn::ReLU()};
      },
      [] {
        return nn::Sequential{nn::Linear(6, 6), nn::Tanh()};
      },
      [] {
        return nn::Sequential{nn::Linear(6, 6), nn::LayerNorm({6})};
      },
      [] {
        return nn::Sequential{nn::Linear(6, 6), nn::BatchNorm1d(6)};
      },
      [] {
        return nn::Sequential{nn::Tanh(), nn::Linear(6, 6), nn::Dropout(0.5), nn::Tanh()};
      }};
  for (size_t block = 0; block < blocks.size(); ++block) {
    for (const graph::CompileMode mode : {graph::CompileMode::kFuse, graph::CompileMode::kFull}) {
      for (const int levels : {1, 2}) {
        SCOPED_TRACE(::testing::Message() << "block " << block << ", levels " << levels);
        nn::Sequential eager = blocks[block](), traced = nn::clone(eager);
        graph::CompiledFunction step = graph::compile_step(step_of(traced, levels), {.mode = mode});
        for (int i = 0; i < 5; ++i) {
          const Tensor x = randn({4, 6});
          manual_seed(i);
          const Tensor want = step_of(eager, levels)({x})[0];
          manual_seed(i);
          EXPECT_TRUE(step({x})[0].equal(want));
          for (size_t p = 0; p < eager.parameters().size(); ++p) {
            EXPECT_TRUE(traced.parameters()[p].grad().equal(eager.parameters()[p].grad())) << p;
          }
        }
        EXPECT_EQ(step.num_graphs(), 1);
      }
    }
  }
}

TEST(Checkpoint, RefusesWrongRangesAndSegments) {
  nn::Sequential net = make_net();
  expect_error("do not overlap", [&] { net.set_checkpointed({{0, 3}, {2, 4}}); });
  expect_error("not empty", [&] { net.set_checkpointed({{3, 3}}); });
  expect_error("children 6 up to 9 of 8", [&] { net.set_checkpointed({{6, 9}}); });
  const Tensor x = randn({2, 3, 4, 4});
  expect_error("wrong number of segments: got 0", [&] { nn::checkpoint_sequential(net, 0, x); });
  expect_error("wrong number of segments: got 9", [&] { nn::checkpoint_sequential(net, 9, x); });
}

}  // namespace
