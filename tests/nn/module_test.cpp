#include "wick/nn/module.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "wick/core/autograd.h"
#include "wick/core/ops/random.h"
#include "wick/core/serialize.h"
#include "wick/core/stream.h"
#include "wick/nn/nn.h"
#include "wick/optim/clip.h"
#include "wick/optim/sgd.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"
#include "wick/tests/harness/temporary_folder.h"

namespace wick::testing {
namespace {

using namespace nn;

// Two children, a parameter and a buffer of its own.
struct Net : Module {
  Handle<Linear> fc = add("fc", Linear(3, 2));
  Handle<Sequential> tail = add("tail", Sequential(ReLU(), Linear(2, 2, {.bias = false})));
  Parameter scale = add_parameter("scale", full({2}, 2));
  Buffer count = add_buffer("count", zeros({}, kInt64));
  Tensor forward(const Tensor& x) override { return tail(fc(x)); }
};

template <class Entries>
std::vector<std::string> names(const Entries& tensors) {
  std::vector<std::string> all;
  for (const auto& entry : tensors) all.push_back(entry.first);
  return all;
}

TensorMap copy_of(const TensorMap& tensors) {
  TensorMap all;
  for (const auto& [name, tensor] : tensors) all[name] = tensor.clone();
  return all;
}

TEST(Module, NamesParametersAndBuffersInOrderOfRegistration) {
  Net net;
  EXPECT_EQ(names(net.named_parameters()),
            (std::vector<std::string>{"scale", "fc.weight", "fc.bias", "tail.1.weight"}));
  EXPECT_EQ(names(net.named_parameters("net."))[1], "net.fc.weight");
  EXPECT_EQ(names(net.named_buffers()), std::vector<std::string>{"count"});
  EXPECT_EQ(names(net.state_dict()),
            (std::vector<std::string>{"count", "fc.bias", "fc.weight", "scale", "tail.1.weight"}));
  EXPECT_EQ(net.parameters().size(), 4u);
  EXPECT_EQ(net.parameters(false).size(), 1u);
  EXPECT_TRUE(net.parameters()[1].is_same(net.fc->weight));
  EXPECT_EQ(net.children()[1].first, "tail");
}

TEST(Module, OwnsSharedChildrenAfterAMove) {
  Net net;
  const Tensor weight = net.fc->weight;
  const Net moved = std::move(net);
  EXPECT_TRUE(moved.fc->weight.is_same(weight));
  EXPECT_EQ(moved.parameters().size(), 4u);
}

TEST(Module, RefusesBadNames) {
  struct Twice : Module {
    Twice() {
      add_buffer("x", zeros({1}));
      add_parameter("x", zeros({1}));
    }
  };
  struct Dotted : Module {
    Dotted() { add("a.b", Identity()); }
  };
  struct Nothing : Module {
    Nothing() { add("child", Handle<Linear>()); }
  };
  EXPECT_EQ(error_of([] { Twice(); }), "module: name used twice: got \"x\"");
  EXPECT_EQ(error_of([] { Dotted(); }),
            "module: a name must not be empty or contain a dot: got \"a.b\"");
  EXPECT_EQ(error_of([] { Nothing(); }), "module: child \"child\" is null");
}

TEST(Module, RefusesToContainItself) {
  const Handle<Sequential> outer(std::make_shared<Sequential>());
  const Handle<Sequential> inner(std::make_shared<Sequential>(ReLU()));
  EXPECT_EQ(error_of([&] { outer->push_back(outer); }),
            "module: child \"0\" would contain itself: got the module itself, expected one without "
            "the parent");
  outer->push_back(inner);
  const std::string in_a_cycle =
      "\" would contain itself: got a module that contains the parent, expected one without the "
      "parent";
  EXPECT_EQ(error_of([&] { inner->push_back(outer); }), "module: child \"1" + in_a_cycle);
  EXPECT_EQ(error_of([&] { outer->replace("0.0", outer); }), "module: child \"0" + in_a_cycle);
  EXPECT_EQ(error_of([&] { inner->replace("0", outer); }), "module: child \"0" + in_a_cycle);
  outer->push_back(inner);  // which may come twice
  EXPECT_EQ(outer->size(), 2);
  EXPECT_TRUE(outer->parameters().empty());
}

TEST(Module, AppliesToItselfAndAllBelow) {
  Net net;
  std::vector<std::string> visited;
  net.apply([&](const std::string& path, Module& module) {
    visited.push_back(path + ":" + module.description());
  });
  EXPECT_EQ(visited, (std::vector<std::string>{":Net", "fc:Linear(3, 2)", "tail:Sequential",
                                               "tail.0:ReLU", "tail.1:Linear(2, 2, bias=false)"}));
}

TEST(Module, SwitchesTrainingEverywhere) {
  Net net;
  const auto all_training = [&](bool on) {
    bool same = true;
    net.apply([&](const std::string&, Module& part) { same = same && part.is_training() == on; });
    return same;
  };
  EXPECT_TRUE(all_training(true));
  net.eval();
  EXPECT_TRUE(all_training(false));
  net.train();
  EXPECT_TRUE(all_training(true));
}

TEST(Module, ZeroGradForgetsOrZeroes) {
  Net net;
  net(ones({1, 3})).sum().backward();
  EXPECT_TRUE(net.fc->bias.grad().defined());
  EXPECT_FALSE(net.scale.grad().defined());
  net.zero_grad(false);
  EXPECT_TRUE(bit_equal(net.fc->bias.grad(), zeros({2})));
  net.zero_grad();
  EXPECT_FALSE(net.fc->bias.grad().defined());
}

TEST(Module, FreezesParameters) {
  Net net;
  net.requires_grad_(false);
  EXPECT_FALSE(net(ones({1, 3})).requires_grad());
  net.requires_grad_();
  EXPECT_TRUE(net(ones({1, 3})).requires_grad());
}

TEST(Module, ChangesTheDtypeOfFrozenParameters) {
  Net net;
  net.requires_grad_(false);
  net.to(kFloat64);
  net.requires_grad_();
  net(ones({1, 3}, kFloat64)).sum().backward();
  EXPECT_EQ(net.fc->weight.grad().dtype(), kFloat64);
}

TEST(Module, ChangesDtypeInPlace) {
  Net net;
  const Tensor weight = net.fc->weight;
  const Tensor before = weight.detach().clone();
  net(ones({1, 3})).sum().backward();
  net.to(kFloat64);
  EXPECT_EQ(weight.dtype(), kFloat64);  // every handle sees it
  EXPECT_EQ(weight.grad().dtype(), kFloat64);
  EXPECT_TRUE(weight.requires_grad() && weight.is_leaf());
  EXPECT_TRUE(bit_equal(weight.detach(), before.to(kFloat64)));
  EXPECT_EQ(net.count.dtype(), kInt64);
  net.zero_grad();
  net(ones({1, 3}, kFloat64)).sum().backward();
  EXPECT_EQ(weight.grad().dtype(), kFloat64);
  EXPECT_EQ(error_of([&] { net.to(kInt32); }), "module: to: needs a floating dtype: got int32");
}

TEST(Module, MovesToAnotherDeviceInPlace) {
  if (!cuda_is_available()) GTEST_SKIP() << why_no_cuda();
  Net net;
  const Tensor weight = net.fc->weight;
  const Tensor before = weight.detach().clone();
  weight.set_grad(full(weight.shape(), 3));
  net.to(cuda_device(0));
  for (const Tensor& parameter : net.parameters()) EXPECT_EQ(parameter.device(), cuda_device(0));
  EXPECT_EQ(net.count.device(), cuda_device(0));
  EXPECT_TRUE(weight.requires_grad() && weight.is_leaf());
  EXPECT_TRUE(bit_equal(weight.detach().cpu(), before));
  EXPECT_EQ(weight.grad().device(), cuda_device(0));  // gradients come along
  EXPECT_TRUE(bit_equal(weight.grad().cpu(), full(weight.shape(), 3)));
  net.to(kCpu);
  EXPECT_TRUE(bit_equal(weight.detach(), before));
}

TEST(Module, KeepsChannelsLastWeightsWhenItsDtypeChanges) {
  Conv2d conv(3, 4, 3);
  conv.to(kFloat64);
  EXPECT_TRUE(conv.weight.is_contiguous(MemoryFormat::kChannelsLast));
}

TEST(Module, StateGoesThroughAFileIntoAnotherModule) {
  const TemporaryFolder folder;
  const std::string path = folder.path("net.safetensors");
  manual_seed(1);
  Net first;
  first.count.fill_(7);
  save_safetensors(path, first.state_dict());
  Net second;
  EXPECT_FALSE(bit_equal(second.fc->weight.detach(), first.fc->weight.detach()));
  second.load_state_dict(load_safetensors(path));
  for (const auto& [name, tensor] : second.state_dict()) {
    EXPECT_TRUE(bit_equal(tensor, first.state_dict().at(name))) << name;
  }
  Net third;
  third.load_state_dict(first.state_dict());
  EXPECT_TRUE(bit_equal(third.fc->weight.detach(), first.fc->weight.detach()));
  EXPECT_TRUE(second.fc->weight.requires_grad());
  EXPECT_TRUE(bit_equal(second(ones({1, 3})).detach(), first(ones({1, 3})).detach()));
}

TEST(Module, StateSharesMemory) {
  Net net;
  for (const auto& [name, tensor] : net.state_dict()) {
    EXPECT_FALSE(tensor.requires_grad()) << name;
    tensor.fill_(3);
  }
  EXPECT_TRUE(bit_equal(net.scale.detach(), full({2}, 3)));
  EXPECT_EQ(net.count.item<int64_t>(), 3);
}

TEST(Module, NamesTheFirstOfManyThatDoNotFit) {
  TensorMap state = Net().state_dict();
  for (int i = 10; i < 35; ++i) state["x" + std::to_string(i)] = zeros({1});
  const std::string error = error_of([&] { Net().load_state_dict(state); });
  EXPECT_NE(error.find("\n  25 unexpected: x10, x11,"), std::string::npos) << error;
  EXPECT_TRUE(error.ends_with(", x29, and 5 more")) << error;
}

TEST(Module, LoadsNothingThatDoesNotFit) {
  Net net;
  const TensorMap good = copy_of(net.state_dict());
  TensorMap changed;
  for (const auto& [name, tensor] : good) changed[name] = full(tensor.shape(), 9, tensor.dtype());
  const auto refused = [&](const TensorMap& state, bool strict) {
    const std::string error = error_of([&] { net.load_state_dict(state, strict); });
    for (const auto& [name, tensor] : net.state_dict()) {
      EXPECT_TRUE(bit_equal(tensor, good.at(name))) << name;
    }
    return error;
  };
  TensorMap state = changed;
  state.erase("tail.1.weight");
  EXPECT_EQ(refused(state, true),
            "load_state_dict: the state does not fit Net:\n  1 missing: tail.1.weight");
  state = changed;
  state["extra"] = zeros({1});
  state.erase("scale");
  state.erase("count");
  EXPECT_EQ(refused(state, true),
            "load_state_dict: the state does not fit Net:\n  2 missing: count, scale\n"
            "  1 unexpected: extra");
  for (const bool strict : {true, false}) {
    state = changed;
    state["tail.1.weight"] = zeros({2, 3});
    EXPECT_EQ(refused(state, strict),
              "load_state_dict: the state does not fit Net:\n"
              "  1 of another shape: tail.1.weight (got [2, 3], expected [2, 2])");
  }
  state = {{"scale", full({2}, 5)}, {"extra", zeros({1})}};
  const IncompatibleKeys keys = net.load_state_dict(state, false);
  EXPECT_EQ(keys.missing_keys,
            (std::vector<std::string>{"count", "fc.bias", "fc.weight", "tail.1.weight"}));
  EXPECT_EQ(keys.unexpected_keys, std::vector<std::string>{"extra"});
  EXPECT_TRUE(bit_equal(net.scale.detach(), full({2}, 5)));
  EXPECT_TRUE(bit_equal(net.fc->weight.detach(), good.at("fc.weight")));
}

// Tied weights: a module and tensors that have two names each.
struct Tied : Module {
  Handle<Linear> in = add("in", Linear(2, 2));
  Handle<Linear> out = add("out", in);
  Parameter scale = add_parameter("scale", full({2}, 3));
  Parameter gain = add_parameter("gain", scale);
  Buffer count = add_buffer("count", zeros({2}));
  Handle<BatchNorm1d> norm = add("norm", BatchNorm1d(2));
  Handle<BatchNorm1d> last = add("last", norm);
  Buffer total = add_buffer("total", count);
  Tensor forward(const Tensor& x) override { return out(in(x)*scale) * gain; }
};

TEST(Module, ListsATensorOfTwoNamesOnceUnderTheFirst) {
  Tied net;
  EXPECT_EQ(
      names(net.named_parameters()),
      (std::vector<std::string>{"scale", "in.weight", "in.bias", "norm.weight", "norm.bias"}));
  EXPECT_EQ(net.parameters().size(), 5u);
  EXPECT_EQ(net.parameters(false).size(), 1u);
  EXPECT_EQ(names(net.named_buffers())[0], "count");
  EXPECT_EQ(net.named_buffers().size(), 1 + net.norm->named_buffers().size());
  EXPECT_NE(summary(net, ones({1, 2})).find("\n12 parameters"), std::string::npos);
}

TEST(Module, TrainsATensorOfTwoNamesOnce) {
  Tied net;
  optim::SGD sgd(net.parameters(), {.lr = 0.5});
  net(ones({1, 2})).sum().backward();
  net.norm->requires_grad_(false);
  double squares = 0;
  for (const Tensor& tensor : {net.scale, net.in->weight, net.in->bias}) {
    squares += tensor.grad().square().sum().item();
  }
  const Tensor norm = optim::clip_grad_norm_(net.parameters(), 1e9);
  EXPECT_NEAR(norm.item(), std::sqrt(squares), 1e-4 * std::sqrt(squares));
  const Tensor expected = net.scale.detach() - net.scale.grad() * 0.5;
  sgd.step();
  EXPECT_TRUE(bit_equal(net.gain.detach(), expected));
}

TEST(Module, SavesATensorOfTwoNamesUnderBoth) {
  const TemporaryFolder folder;
  Tied net, other;
  EXPECT_EQ(net.state_dict().size(), 2 * (net.parameters().size() + net.named_buffers().size()));
  net.count.fill_(7);
  save_safetensors(folder.path("tied.safetensors"), net.state_dict());
  other.load_state_dict(load_safetensors(folder.path("tied.safetensors")));
  for (const auto& [name, tensor] : other.state_dict()) {
    EXPECT_TRUE(bit_equal(tensor, net.state_dict().at(name))) << name;
  }
  TensorMap state = copy_of(net.state_dict());
  state.erase("out.weight");
  EXPECT_EQ(error_of([&] { other.load_state_dict(state); }),
            "load_state_dict: the state does not fit Tied:\n  1 missing: out.weight");
}

TEST(Module, KeepsTensorsOfTwoNamesTiedWhereItMoves) {
  Tied net;
  net.to(kFloat64);
  if (cuda_is_available()) net.to(cuda_device(0));
  EXPECT_EQ(net.gain.dtype(), kFloat64);
  const auto states = [&] { return copy_of(net.state_dict()); };
  const NoGrad no_grad;
  net.gain.fill_(5);
  net.total.fill_(6);
  net.out->weight.fill_(7);
  for (const auto& [one, two] : {std::pair("scale", "gain"),
                                 {"count", "total"},
                                 {"in.weight", "out.weight"},
                                 {"norm.bias", "last.bias"}}) {
    EXPECT_TRUE(bit_equal(states().at(one).cpu(), states().at(two).cpu())) << one;
  }
  EXPECT_EQ(net.parameters().size(), 5u);
  EXPECT_TRUE(net.gain.is_same(net.scale));
}

TEST(ModuleList, HoldsModulesByNumber) {
  struct Stack : Module {
    Handle<ModuleList<Linear>> layers = add("layers", ModuleList<Linear>());
    Stack() {
      for (int64_t i = 1; i <= 3; ++i) layers->push_back(Linear(i, i + 1));
    }
    Tensor forward(const Tensor& x) override {
      Tensor y = x;
      for (const auto& layer : *layers) y = layer(y);
      return y;
    }
  };
  Stack stack;
  EXPECT_EQ(stack(ones({2, 1})).shape(), (Shape{2, 4}));
  EXPECT_EQ(stack.layers->size(), 3);
  EXPECT_EQ((*stack.layers)[1]->weight.shape(), (Shape{3, 2}));
  EXPECT_EQ(names(stack.named_parameters())[2], "layers.1.weight");
  EXPECT_EQ(error_of([&] { (*stack.layers)[3]; }),
            "ModuleList: index out of range: got 3, expected less than 3");
  ModuleList<> any;
  any.push_back(ReLU());
  any.push_back(Handle<Linear>(stack.layers->begin()->shared()));
  EXPECT_EQ(any[1](ones({1, 1})).shape(), (Shape{1, 2}));
}

TEST(Module, ForwardOfOneTensorMustExist) {
  struct Nothing : Module {};
  Nothing nothing;
  EXPECT_EQ(error_of([&] { nothing(zeros({1})); }),
            "Nothing: there is no forward of one tensor: got one, expected a class that overrides "
            "forward(const Tensor&), or a call of another forward");
}

TEST(Sequential, AppliesModulesInOrder) {
  Sequential net(Linear(3, 4), ReLU());
  net.push_back(Linear(4, 2));
  const auto shared = Handle<Linear>(std::make_shared<Linear>(2, 2));
  net.push_back(shared);
  EXPECT_EQ(
      names(net.named_parameters()),
      (std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias", "3.weight", "3.bias"}));
  const Tensor x = randn({5, 3});
  Tensor y = x;
  for (const auto& child : net.children()) y = child.second->forward(y);
  EXPECT_TRUE(bit_equal(net(x).detach(), y.detach()));
  EXPECT_TRUE(net.parameters().back().is_same(shared->bias));
}

}  // namespace
}  // namespace wick::testing
