#include "wick/nn/member.h"

#include <gtest/gtest.h>

#include "wick/core/autograd.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/random.h"
#include "wick/nn/nn.h"
#include "wick/optim/ema.h"
#include "wick/optim/sgd.h"
#include "wick/tests/harness/expect_error.h"
#include "wick/tests/harness/host_array.h"

namespace wick::testing {
namespace {

using namespace nn;

// A language model's two ends: a table and a head that can share their weight.
struct Lm : Module {
  Handle<Embedding> wte = add("wte", Embedding(5, 3));
  Handle<Linear> head = add("head", Linear(3, 5, {.bias = false}));
  Parameter scale = add_parameter("scale", full({5}, 2));
  Buffer offset = add_buffer("offset", zeros({5}));
  Tensor forward(const Tensor& tokens) override { return head(wte(tokens)) * scale + offset; }
};

std::vector<std::string> names(const NamedTensors& tensors) {
  std::vector<std::string> all;
  for (const auto& entry : tensors) all.push_back(entry.first);
  return all;
}

Tensor tokens() { return tensor<int64_t>({0, 3, 4}); }

// What forward, state, list and gradients have is one tensor.
void expect_head_is(Lm& net, const Tensor& weight) {
  EXPECT_TRUE(net.head->weight.is_same(weight));
  EXPECT_TRUE(net.head->named_parameters()[0].second.is_same(weight));
  EXPECT_EQ(net.state_dict().at("head.weight").raw_data(), weight.raw_data());
  const auto value = [&] { return net(tokens()).detach().sum().item(); };
  const double before = value();
  net.zero_grad();
  net(tokens()).square().sum().backward();
  EXPECT_TRUE(weight.grad().defined());
  const Tensor kept = weight.detach().clone();
  const NoGrad no_grad;
  weight.add_(1);
  EXPECT_NE(value(), before);
  weight.copy_(kept);
}

TEST(Parameter, IsTiedByAssignment) {
  Lm net;
  net.head->weight = net.wte->weight;
  EXPECT_EQ(names(net.named_parameters()), (std::vector<std::string>{"scale", "wte.weight"}));
  EXPECT_EQ(net.state_dict().size(), 4u);
  expect_head_is(net, net.wte->weight);
  TensorMap state;
  for (const auto& [name, value] : net.state_dict()) state[name] = full(value.shape(), 0.5);
  net.load_state_dict(state);
  EXPECT_TRUE(bit_equal(net.head->weight.detach(), full({5, 3}, 0.5)));
  net.to(kFloat64);
  EXPECT_EQ(net.head->weight.dtype(), kFloat64);
  expect_head_is(net, net.wte->weight);
  // Untied again.
  net.head->weight = Parameter(net.wte->weight.detach().clone());
  EXPECT_EQ(net.parameters().size(), 3u);
  EXPECT_FALSE(net.head->weight.is_same(net.wte->weight));
  expect_head_is(net, net.head->weight);
}

TEST(Parameter, IsTrainedByOptimizersMadeBeforeItWasTied) {
  Lm net;
  optim::SGD sgd(net.parameters(), {.lr = 0.5});
  optim::Ema ema(net.parameters(), 0.5);
  net.head->weight = net.wte->weight;
  const Tensor before = net.wte->weight.detach().clone();
  net(tokens()).sum().backward();
  const Tensor expected = before - net.wte->weight.grad() * 0.5;
  sgd.step();
  ema.update();
  EXPECT_TRUE(bit_equal(net.head->weight.detach(), expected));
  const optim::Ema::Swap averaged(ema);
  const Tensor average = before * 0.5 + expected * 0.5;
  EXPECT_TRUE(net.head->weight.detach().allclose(average));
  EXPECT_TRUE(net.state_dict().at("head.weight").allclose(average));
}

TEST(Parameter, IsReplacedByAssignmentAlsoAfterAMove) {
  Lm first;
  Lm net = std::move(first);
  Lm other;
  other = std::move(net);
  const Parameter weight(randn({5, 3}));
  EXPECT_TRUE(weight.requires_grad());
  other.head->weight = weight;
  expect_head_is(other, weight);
  other.scale = Parameter(full({5}, 7));
  other.offset = full({5}, 9);
  EXPECT_TRUE(bit_equal(other.state_dict().at("scale"), full({5}, 7)));
  EXPECT_TRUE(bit_equal(other.state_dict().at("offset"), full({5}, 9)));
  EXPECT_TRUE(other.parameters()[0].is_same(other.scale));
  other.scale = Parameter(other.scale * 2, false);
  EXPECT_FALSE(other.scale.requires_grad());
  EXPECT_TRUE(bit_equal(other.scale, full({5}, 14)));
  Linear layer(2, 2);
  layer.bias = {};
  EXPECT_EQ(layer.parameters().size(), 1u);
  EXPECT_FALSE(layer(ones({1, 2})).detach().equal(zeros({1, 2})));
  // A plain tensor is no parameter and an integer cannot be trained.
  static_assert(!std::is_assignable_v<Parameter&, Tensor>);
  static_assert(!std::is_convertible_v<Registered<Parameter, Tensor>, Tensor>);
  EXPECT_NE(error_of([] { Parameter{tensor<int64_t>({1})}; }), "no error");
}

TEST(Parameter, KeepsThatItIsFrozenWhenTied) {
  Lm net;
  net.wte->requires_grad_(false);
  net.head->weight = net.wte->weight;
  EXPECT_FALSE(net.head->weight.requires_grad());
}

TEST(Parameter, IsSwappedAsAValue) {
  Lm a, b;
  const Tensor of_a = a.scale, of_b = b.scale;
  std::swap(a.scale, b.scale);
  EXPECT_TRUE(a.scale.is_same(of_b) && b.scale.is_same(of_a));
  EXPECT_TRUE(a.parameters()[0].is_same(of_b));
  EXPECT_TRUE(b.parameters()[0].is_same(of_a));
  const Parameter mine = std::move(a.scale);
  EXPECT_TRUE(a.parameters()[0].is_same(of_b));
  a.scale = Parameter(ones({5}));
  EXPECT_TRUE(mine.is_same(of_b));
  EXPECT_TRUE(a.parameters()[0].is_same(a.scale));
}

TEST(Parameter, StaysTheModulesOwnInAGrowingVector) {
  struct Weights : Module {
    std::vector<Parameter> all;
    std::vector<Handle<Linear>> layers;
    Weights() {
      for (int i = 0; i < 5; ++i) {
        all.push_back(add_parameter("w" + std::to_string(i), full({1}, i)));
        layers.push_back(add("layer" + std::to_string(i), Linear(1, 1)));
      }
    }
  };
  Weights first;
  Weights net = std::move(first);
  for (int i = 0; i < 5; ++i) {
    net.all[i] = Parameter(full({1}, 10 + i));
    net.layers[i] = Linear(i + 1, 1);
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(net.parameters(false)[i].is_same(net.all[i]));
    EXPECT_EQ(net.children()[i].second, net.layers[i].shared());
  }
}

TEST(Parameter, ThatIsACopyOfWhatWasRegisteredIsAnError) {
  struct Copied : Module {
    Parameter weight;
    Copied() {
      const Parameter made = add_parameter("weight", ones({1}));
      weight = made;
    }
  };
  EXPECT_EQ(error_of([] { Copied().parameters(); }),
            "module: Copied: \"weight\" has lost its member: got copies of what registering it "
            "gave, expected that itself to be the member");
}

TEST(Handle, IsReplacedByAssignment) {
  Lm net;
  const Handle<Linear> before = net.head;
  net.head = Linear(3, 5);
  EXPECT_EQ(names(net.named_parameters()),
            (std::vector<std::string>{"scale", "wte.weight", "head.weight", "head.bias"}));
  expect_head_is(net, net.head->weight);
  EXPECT_FALSE(before->bias.defined());  // a copy is the child that was there
  net.head = before;
  EXPECT_EQ(net.parameters().size(), 3u);
  expect_head_is(net, before->weight);
  Handle<Linear> none;
  EXPECT_NE(error_of([&] { none = Linear(1, 1); }), "no error");
}

TEST(Handle, SeesWhatReplacePutsThere) {
  struct Outer : Module {
    Handle<Lm> lm = add("lm", Lm());
    Handle<Sequential> tail = add("tail", Sequential(ReLU(), Identity()));
    Tensor forward(const Tensor& x) override { return tail(lm(x)); }
  };
  Outer net;
  const Tensor weight = net.lm->head->weight;
  const Handle<Module> before = net.replace("lm.head", Linear(3, 5));
  EXPECT_TRUE(before->parameters()[0].is_same(weight));
  EXPECT_TRUE(net.lm->head->bias.defined());
  expect_head_is(*net.lm, net.lm->head->weight);
  net.replace("tail.1", Softplus());
  const Tensor x = net.lm(tokens()).detach();
  EXPECT_TRUE(bit_equal(net(tokens()).detach(), softplus(x.relu())));
  net.replace("tail", Sequential(Tanh()));
  EXPECT_TRUE(bit_equal(net(tokens()).detach(), x.tanh()));
  EXPECT_EQ(error_of([&] { net.replace("lm.head", ReLU()); }),
            "replace: child \"head\": got ReLU, expected a Linear, which its Handle is of");
  EXPECT_EQ(error_of([&] { net.replace("lm.tail", ReLU()); }),
            "replace: Lm: no such child: got \"tail\", expected one of wte, head");
  EXPECT_EQ(error_of([&] { net.replace("lm", Handle<Module>()); }),
            "replace: child \"lm\": got a null module");
}

TEST(ModuleDict, HoldsModulesByName) {
  ModuleDict<> heads;
  heads.insert("b", Linear(2, 3));
  heads.insert("a", ReLU());
  ModuleDict<> dict = std::move(heads);
  EXPECT_EQ(dict.size(), 2);
  EXPECT_TRUE(dict.contains("a") && !dict.contains("c"));
  EXPECT_EQ(names(dict.named_parameters()), (std::vector<std::string>{"b.weight", "b.bias"}));
  EXPECT_EQ(dict["b"](ones({1, 2})).shape(), (Shape{1, 3}));
  EXPECT_EQ(dict.begin()->first, "b");
  dict["b"] = Linear(2, 7);
  EXPECT_EQ(dict.parameters()[0].shape(), (Shape{7, 2}));
  EXPECT_EQ(error_of([&] { dict["c"]; }), "ModuleDict: no module of that name: got \"c\"");
  EXPECT_EQ(error_of([&] { dict.insert("a", ReLU()); }), "module: name used twice: got \"a\"");
}

TEST(Clone, HasItsOwnMemoryAndTheSameTies) {
  Lm net;
  net.head->weight = net.wte->weight;
  net.scale.set_requires_grad(false);
  net.eval();
  int calls = 0;
  net.wte->weight.register_hook([&](const Tensor& g) {
    ++calls;
    return g;
  });
  net(tokens()).sum().backward();
  Lm copy = clone(net);
  EXPECT_EQ(calls, 1);
  for (const auto& [name, value] : net.state_dict()) {
    EXPECT_TRUE(bit_equal(copy.state_dict().at(name), value)) << name;
    EXPECT_NE(copy.state_dict().at(name).raw_data(), value.raw_data()) << name;
  }
  EXPECT_TRUE(copy.head->weight.is_same(copy.wte->weight));
  EXPECT_FALSE(copy.scale.requires_grad() || copy.is_training() || copy.head->is_training());
  EXPECT_FALSE(copy.wte->weight.grad().defined());
  expect_head_is(copy, copy.wte->weight);
  EXPECT_EQ(calls, 1);  // hooks stay behind
  copy.head->weight = Parameter(zeros({5, 3}));
  expect_head_is(copy, copy.head->weight);
  EXPECT_TRUE(net.head->weight.is_same(net.wte->weight));
}

TEST(Clone, CopiesTheClassThatAHandleHides) {
  manual_seed(1);
  const Handle<Module> net(find_model("resnet20").make({3, 16, 16}, 10));
  const Handle<Module> copy = clone(net);
  EXPECT_EQ(copy->description(), net->description());
  EXPECT_EQ(copy->parameters().size(), net->parameters().size());
  const Tensor x = randn({2, 3, 16, 16});
  EXPECT_TRUE(bit_equal(copy(x).detach(), net(x).detach()));
  net->replace("fc", Linear(64, 4));
  EXPECT_EQ(net(x).size(1), 4);
  EXPECT_EQ(copy(x).size(1), 10);
  EXPECT_EQ(clone(net)(x).size(1), 4);
  const Handle<CrossEntropyLoss> loss(
      std::make_shared<CrossEntropyLoss>(CrossEntropyOptions{.weight = ones({2})}));
  const Handle<CrossEntropyLoss> other = clone(loss);
  other->to(kFloat64);
  EXPECT_EQ(loss->named_buffers()[0].second.dtype(), kFloat32);
  EXPECT_EQ((*other)(ones({1, 2}, kFloat64), tensor<int64_t>({0})).dtype(), kFloat64);
}

TEST(Clone, IsTheOnlyWayToCopy) {
  struct Unique : Module {
    std::unique_ptr<int> value;
  };
  Linear layer(1, 1);
  EXPECT_EQ(error_of([&] { const Linear copy = layer; }),
            "module: copied: got a copy of a whole module, expected one that is moved, cloned by "
            "nn::clone() or shared by an nn::Handle");
  BatchNorm2d norm(3);
  const BatchNorm& base = norm;
  EXPECT_EQ(
      error_of([&] { clone(base); }),
      "clone: BatchNorm2d(3): got a reference to a base class, expected a Handle or the class "
      "itself");
  EXPECT_NE(error_of([] { clone(Sequential(Unique())); }).find("Unique: the module cannot be"),
            std::string::npos);
}

}  // namespace
}  // namespace wick::testing
