// Backward of what was computed on several streams.
#include <gtest/gtest.h>

#include <vector>

#include "wick/core/core.h"
#include "wick/core/stream.h"
#include "wick/kernels/sim/simulator.h"
#include "wick/tests/harness/devices.h"

namespace wick::testing {
namespace {

using sim::StreamOrder;

constexpr int64_t kElements = 1000;

// Makes `to` wait for what is queued on `from` so far.
void order(Stream from, Stream to) {
  Event event(from.device);
  event.record(from);
  event.block(to);
}

// A product of two branches, each on a stream of its own when `first` and `second` are, which a
// leaf goes into twice.
struct Branches {
  explicit Branches(Device device) : x(linspace(1, 2, kElements, kFloat32).to(device)) {
    x.set_requires_grad();
  }
  Tensor forward(Stream first, Stream second) {
    const Stream here = current_stream(x.device());
    order(here, first);
    order(here, second);
    {
      const StreamGuard guard(first);
      a = x.exp().sin();
    }
    {
      const StreamGuard guard(second);
      b = (x * x).cos();
    }
    order(first, here);
    order(second, here);
    for (const Tensor& branch : {a, b}) branch.record_stream(here);
    return (a * b).sum();
  }
  Tensor x, a, b;
};

template <class Function>
void in_all_orders(Function function) {
  for (const StreamOrder streams :
       {StreamOrder::kLazy, StreamOrder::kRandom, StreamOrder::kEager}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const sim::ScopedSettings scope({.streams = streams, .seed = seed});
      function();
    }
  }
}

void expect_near(const Tensor& got, const Tensor& expected) {
  const std::vector<float> values = got.to_vector<float>(), wanted = expected.to_vector<float>();
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], wanted[i], 1e-5f) << i;
}

TEST(AutogradStreams, GradientsOfLeavesAreTheCallers) {
  Branches expected(kCpu);
  expected.forward({}, {}).backward();
  in_all_orders([&] {
    for (const Stream caller : {current_stream(kGpu), stream_from_pool(kGpu)}) {
      Branches branches(kGpu);
      const Tensor loss = branches.forward(stream_from_pool(kGpu), stream_from_pool(kGpu));
      order(current_stream(kGpu), caller);
      const StreamGuard guard(caller);
      loss.backward();
      // Whatever is freed while backward is still queued may be given out, and written, again.
      branches.a = branches.b = Tensor();
      const Tensor other = full({kElements}, 7, kFloat32, kGpu);
      expect_near(branches.x.grad() * 2, expected.x.grad() * 2);
    }
  });
}

TEST(AutogradStreams, GradsResultsAreTheCallers) {
  const auto gradient_of_a = [](Branches branches, Stream first, Stream second) {
    const Tensor loss = branches.forward(first, second);
    return grad({loss * 3}, {branches.a})[0] * 2;
  };
  const Tensor expected = gradient_of_a(Branches(kCpu), {}, {});
  in_all_orders([&] {
    expect_near(gradient_of_a(Branches(kGpu), stream_from_pool(kGpu), stream_from_pool(kGpu)),
                expected);
  });
}

TEST(AutogradStreams, EachOpsBackwardRunsOnTheStreamOfItsForward) {
  const Stream first = stream_from_pool(kGpu), second = stream_from_pool(kGpu);
  const Stream caller = stream_from_pool(kGpu), before = current_stream(kGpu);
  Branches branches(kGpu);
  const Tensor loss = branches.forward(first, second);
  std::vector<Stream> seen;
  const auto note = [&](const Tensor&) {
    seen.push_back(current_stream(kGpu));
    return Tensor();
  };
  branches.b.register_hook(note);
  branches.a.register_hook(note);
  branches.x.register_post_accumulate_grad_hook([&](const Tensor& grad) { note(grad); });
  order(before, caller);
  {
    const StreamGuard guard(caller);
    loss.backward();
    EXPECT_EQ(current_stream(kGpu), caller);
  }
  EXPECT_EQ(seen, (std::vector<Stream>{second, first, caller}));
  EXPECT_EQ(current_stream(kGpu), before);
  synchronize(caller);
}

}  // namespace
}  // namespace wick::testing
