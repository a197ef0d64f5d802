// What stands for cuDNN's recurrent layers: how often it is called, what it refuses, and what
// layers by it do in streams and captures.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "wick/core/autograd.h"
#include "wick/core/cuda_graph.h"
#include "wick/core/memory/detail/workspace.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/core/ops/reduce.h"
#include "wick/core/ops/rnn.h"
#include "wick/core/profile/profiler.h"
#include "wick/core/stream.h"
#include "wick/kernels/cuda/recurrent.h"
#include "wick/kernels/sim/simulator.h"
#include "wick/nn/activation_checkpoint.h"
#include "wick/nn/rnn.h"
#include "wick/tests/harness/devices.h"
#include "wick/tests/harness/expect_error.h"

namespace wick::testing {
namespace {

constexpr int64_t kRnnInputs = 3, kRnnUnits = 4;

// How often each of the library's functions queues work.
std::map<std::string, int> library_calls(const std::function<void()>& work) {
  profile::Profiler profiler;
  profiler.start();
  work();
  profiler.stop();
  std::map<std::string, int> calls;
  for (const profile::Event& event : profiler.recording().events) {
    const std::string name(event.name);
    if (name.starts_with("cudnnRNN")) ++calls[name];
  }
  return calls;
}

TEST(SimulatedRnn, ComputesALayerInOneCall) {
  using Calls = std::map<std::string, int>;
  nn::LSTM lstm(kRnnInputs, kRnnUnits, {.num_layers = 2, .bidirectional = true});
  lstm.to(kGpu);
  const Tensor x = randn({5, 2, kRnnInputs}, kFloat32, kGpu);
  EXPECT_EQ(library_calls([&] {
              const NoGrad no_grad;
              lstm(x);
            }),
            (Calls{{"cudnnRNNForward", 2}}));
  EXPECT_EQ(library_calls([&] { lstm(x).sum().backward(); }),
            (Calls{{"cudnnRNNForward", 2},
                   {"cudnnRNNBackwardData_v8", 2},
                   {"cudnnRNNBackwardWeights_v8", 2}}));
  for (const Tensor& weight : lstm.parameters()) weight.set_requires_grad(false);
  EXPECT_EQ(library_calls([&] { lstm(x.detach().set_requires_grad()).sum().backward(); }),
            (Calls{{"cudnnRNNForward", 2}, {"cudnnRNNBackwardData_v8", 2}}));
  set_library_rnn(false);
  EXPECT_EQ(library_calls([&] { lstm(x); }), Calls());
  set_library_rnn(true);
}

// Calls of the library with arguments that a test may spoil.
struct RnnCalls {
  RnnLayerProblem problem;
  Tensor x = randn({5, kRnnInputs}, kFloat32, kGpu), y = zeros({5, 2 * kRnnUnits}, kFloat32, kGpu);
  Tensor h = zeros({2, 3, kRnnUnits}, kFloat32, kGpu), c = zeros({2, 3, kRnnUnits}, kFloat32, kGpu);
  Tensor h_n = zeros({2, 3, kRnnUnits}, kFloat32, kGpu),
         c_n = zeros({2, 3, kRnnUnits}, kFloat32, kGpu);
  Tensor dy = ones({5, 2 * kRnnUnits}, kFloat32, kGpu), dx = zeros({5, kRnnInputs}, kFloat32, kGpu);
  Tensor weights, work, reserve;

  RnnCalls() {
    problem.kind = RnnKind::kLstm;
    problem.device = kGpu;
    problem.inputs = kRnnInputs;
    problem.units = problem.width = kRnnUnits;
    problem.is_bidirectional = true;
    problem.batch_sizes = {3, 2};
    const cuda::RecurrentSizes sizes = cuda::recurrent_sizes(problem, true).value();
    const auto space = [](size_t bytes) {
      return zeros({static_cast<int64_t>(bytes)}, kUint8, kGpu);
    };
    weights = space(sizes.weights);
    work = space(sizes.work);
    reserve = space(sizes.reserve);
  }

  static cuda::RecurrentSpace space(const Tensor& x) {
    return {x.raw_data(), static_cast<size_t>(x.numel())};
  }
  RnnLayerPass pass() const {
    return {x.view_for_kernel(),      h.view_for_kernel(),   c.view_for_kernel(),
            y.view_for_kernel(),      h_n.view_for_kernel(), c_n.view_for_kernel(),
            reserve.view_for_kernel()};
  }
  void forward() const { cuda::recurrent_forward(problem, pass(), space(weights), space(work)); }
  void backward_data() const {
    const RnnLayerGradients gradients{dy.view_for_kernel(),  h.view_for_kernel(),
                                      c.view_for_kernel(),   dx.view_for_kernel(),
                                      h_n.view_for_kernel(), c_n.view_for_kernel()};
    cuda::recurrent_backward_data(problem, pass(), gradients, space(weights), space(work));
  }
  void backward_weights() const {
    cuda::recurrent_backward_weights(problem, pass(), space(weights), space(work));
  }
};

// What is wrong with a call, seen at once or when it runs.
std::string error_of_call(const std::function<void()>& call) {
  const std::string error = error_of([&] {
    call();
    synchronize(kGpu);
  });
  const std::string failure = sim::last_failure();
  sim::reset();
  return failure.empty() ? error : failure;
}

TEST(SimulatedRnn, ChecksWhatItIsHanded) {
  const RnnCalls right;
  EXPECT_EQ(error_of_call([&] {
              right.forward();
              right.backward_data();
              right.backward_weights();
            }),
            "no error");
  const auto error = [](const std::function<void(RnnCalls&)>& spoil) {
    RnnCalls calls;
    spoil(calls);
    return error_of_call([&] { calls.forward(); });
  };
  const std::string call = "cudnnRNNForward: ";
  EXPECT_EQ(error([](RnnCalls& c) { c.x = c.x.to(kCpu); }).rfind(call + "x is no dense", 0), 0u);
  EXPECT_EQ(error([](RnnCalls& c) { c.y = c.y.to(kFloat64); }).rfind(call + "y is no dense", 0),
            0u);
  EXPECT_EQ(error([](RnnCalls& c) {
              c.h = c.h.transpose(0, 1).contiguous();
            }).rfind(call + "h_0 is no dense", 0),
            0u);
  EXPECT_EQ(
      error([](RnnCalls& c) {
        c.x =
            zeros({5 * kRnnInputs + 1}, kFloat32, kGpu).narrow(0, 1, 5 * kRnnInputs).view({5, -1});
      }),
      call + "x is not aligned to 16 bytes");
  EXPECT_EQ(error([](RnnCalls& c) { c.work = c.work.narrow(0, 0, 64); }),
            call + "the work space: got 64 bytes, expected 4096");
  EXPECT_EQ(error([](RnnCalls& c) {
              c.reserve = c.reserve.narrow(0, 0, 64);
            }).rfind(call + "the reserve: got 64 bytes", 0),
            0u);
  EXPECT_EQ(error([](RnnCalls& c) {
              c.weights = c.weights.narrow(0, 0, 64);
            }).rfind(call + "the weight space: got 64 bytes", 0),
            0u);
  EXPECT_EQ(error([](RnnCalls& c) { c.problem.batch_sizes = {2, 3}; }), call + "not supported");
}

// The gradients need what the call before left, and the same data.
TEST(SimulatedRnn, SeesWhatChangedBetweenItsCalls) {
  const std::string data = "cudnnRNNBackwardData_v8: ", weights = "cudnnRNNBackwardWeights_v8: ";
  const std::string reserve = "the reserve is not what the call before left";
  const std::string inputs = "the problem or its data are not the forward call's";
  const auto backward = [](const std::function<void(RnnCalls&)>& change, bool has_data_first) {
    RnnCalls calls;
    calls.forward();
    if (has_data_first) calls.backward_data();
    change(calls);
    return error_of_call(
        [&] { has_data_first ? calls.backward_weights() : calls.backward_data(); });
  };
  const auto nothing = [](RnnCalls&) {};
  EXPECT_EQ(backward(nothing, false), "no error");
  EXPECT_EQ(backward(nothing, true), "no error");
  for (const bool has_data_first : {false, true}) {
    const std::string& call = has_data_first ? weights : data;
    EXPECT_EQ(backward([](RnnCalls& c) { c.reserve.narrow(0, 100, 1).fill_(77); }, has_data_first),
              call + reserve);
    EXPECT_EQ(backward([](RnnCalls& c) { c.x.fill_(7); }, has_data_first), call + inputs);
    EXPECT_EQ(backward([](RnnCalls& c) { c.y.fill_(7); }, has_data_first), call + inputs);
    EXPECT_EQ(backward([](RnnCalls& c) { c.problem.kind = RnnKind::kLstm, c.h.fill_(7); },
                       has_data_first),
              call + inputs);
  }
  RnnCalls calls;
  calls.forward();
  EXPECT_EQ(error_of_call([&] { calls.backward_weights(); }), weights + reserve);
  calls.forward();
  calls.backward_data();
  EXPECT_EQ(error_of_call([&] { calls.backward_data(); }), data + reserve);
}

// Its places are the library's to choose: no two overlap, and all lie within the space.
TEST(SimulatedRnn, HasAWeightSpaceWithGaps) {
  const RnnCalls calls;
  std::vector<std::pair<int64_t, int64_t>> pieces;
  const auto places = cuda::recurrent_places(calls.problem, RnnCalls::space(calls.weights));
  ASSERT_EQ(places.size(), 2u * 8);
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t columns = i % 8 < 4 ? kRnnInputs : kRnnUnits;
    pieces.emplace_back(places[i].matrix, 4 * kRnnUnits * columns);
    pieces.emplace_back(places[i].bias, 4 * kRnnUnits);
  }
  std::sort(pieces.begin(), pieces.end());
  bool has_gap = false;
  for (size_t i = 0; i + 1 < pieces.size(); ++i) {
    EXPECT_LE(pieces[i].first + pieces[i].second, pieces[i + 1].first);
    has_gap = has_gap || pieces[i].first + pieces[i].second < pieces[i + 1].first;
  }
  EXPECT_LE(pieces.back().first + pieces.back().second, calls.weights.numel());
  EXPECT_TRUE(has_gap);
}

// A step of training on a layer, with all that it leaves.
struct RnnTraining {
  nn::GRU gru{kRnnInputs, kRnnUnits, {.bidirectional = true}};
  Tensor x = zeros({4, 2, kRnnInputs}, kFloat32, kGpu), loss;

  RnnTraining() { gru.to(kGpu); }
  void set_input(int i) {
    x.copy_(sin(arange(4 * 2 * kRnnInputs) * (i + 1)).view({4, 2, kRnnInputs}));
  }
  void step() {
    gru.zero_grad();
    loss = gru(x).square().sum();
    loss.backward();
  }
  std::vector<std::vector<float>> results() const {
    std::vector<std::vector<float>> all{loss.detach().flatten().to_vector<float>()};
    for (const Tensor& p : gru.parameters()) all.push_back(p.grad().flatten().to_vector<float>());
    return all;
  }
};

TEST(SimulatedRnn, IsCapturedAndReplayed) {
  RnnTraining training;
  std::vector<std::vector<std::vector<float>>> expected;
  for (int i = 0; i < 3; ++i) {
    training.set_input(i);
    training.step();
    expected.push_back(training.results());
  }
  EXPECT_NE(expected[0], expected[1]);
  CudaGraph graph(kGpu, [&] { training.step(); });
  for (int i = 0; i < 3; ++i) {
    training.set_input(i);
    graph.replay();
    EXPECT_EQ(training.results(), expected[static_cast<size_t>(i)]);
  }
}

TEST(SimulatedRnn, GivesTheSameInEveryOrderOfStreams) {
  RnnTraining training;
  training.set_input(1);
  training.step();
  const auto expected = training.results();
  for (const auto order :
       {sim::StreamOrder::kLazy, sim::StreamOrder::kRandom, sim::StreamOrder::kEager}) {
    const sim::ScopedSettings scope({.streams = order, .seed = 5});
    for (int i = 0; i < 5; ++i) {
      training.step();
      EXPECT_EQ(training.results(), expected);
    }
  }
}

TEST(SimulatedRnn, IsRecomputed) {
  RnnTraining training;
  training.set_input(2);
  training.step();
  const auto expected = training.results();
  training.gru.zero_grad();
  const auto calls = library_calls([&] {
    const Tensor x = training.x.detach().set_requires_grad();
    training.loss =
        nn::checkpoint([&](const Tensor& in) { return training.gru(in); }, x).square().sum();
    training.loss.backward();
  });
  EXPECT_EQ(calls.at("cudnnRNNForward"), 2);
  EXPECT_EQ(training.results(), expected);
}

// The library is promised addresses that are multiples of 16.
TEST(SimulatedRnn, TakesViewsThatAreNotAligned) {
  const RnnWeights w{randn({kRnnUnits, kRnnInputs}, kFloat32, kGpu),
                     randn({kRnnUnits, kRnnUnits}, kFloat32, kGpu),
                     {},
                     {},
                     {}};
  const Tensor values = randn({4 * kRnnInputs}, kFloat32, kGpu);
  const auto result = [&](int64_t offset) {
    const Tensor room = zeros({4 * kRnnInputs + 8}, kFloat32, kGpu);
    const Tensor x = room.narrow(0, offset, 4 * kRnnInputs).view({4, kRnnInputs});
    x.copy_(values.view({4, kRnnInputs}));
    return rnn_layer(RnnKind::kTanh, x, {2, 2}, false, {}, {}, w).y.flatten().to_vector<float>();
  };
  EXPECT_EQ(result(1), result(0));
}

TEST(SimulatedRnn, FailsWhenTold) {
  RnnTraining training;
  training.step();
  for (const char* call : {"cudnnRNNForward", "cudnnRNNBackwardData_v8",
                           "cudnnRNNBackwardWeights_v8", "cudnnSetRNNDescriptor_v8"}) {
    sim::fail_call(1, cudaErrorUnknown, call);
    const std::string error = error_of([&] { training.step(); });
    EXPECT_NE(error.find(std::string(call) + " failed: cudaErrorUnknown"), std::string::npos)
        << error;
    training.step();
  }
}

}  // namespace
}  // namespace wick::testing
