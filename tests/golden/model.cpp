#include "wick/core/autograd.h"
#include "wick/core/ops/loss.h"
#include "wick/nn/models/resnet.h"
#include "wick/tests/golden/golden.h"
#include "wick/tests/golden/training.h"

namespace wick::golden {
namespace {

nn::ResNet make_model(Args& a) {
  const std::string name = a.text("model");
  WICK_CHECK(name == "resnet18", "unknown model '", name, "'");
  nn::ResNetOptions options;
  options.width = a.integer("width", options.width);
  options.classes = a.integer("classes", options.classes);
  options.small_input = a.flag("small_input", options.small_input);
  return nn::resnet18(options);
}

// The tensors under `prefix`/.
TensorMap under(const TensorMap& tensors, const std::string& prefix) {
  TensorMap found;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), tensor);
  }
  return found;
}

void run_training(const Case& golden_case) {
  WICK_CHECK(golden_case.op == "train", "unknown op '", golden_case.op, "'");
  Args args = golden_case.args();
  nn::ResNet model = make_model(args);
  CrossEntropyOptions loss_options;
  loss_options.label_smoothing = args.number("label_smoothing", 0.0);
  model.to(golden_case.device);
  model.load_state_dict(under(golden_case.tensors, "init/"));
  Args optimizer_args = args.nested("optimizer_args");
  const auto optimizer = make_optimizer(args.text("optimizer"), model.parameters(), optimizer_args);
  optimizer_args.finish();
  args.finish();

  std::vector<float> losses;
  for (int64_t step = 0; step < golden_case.integer("steps"); ++step) {
    const Tensor x = golden_case.tensor(concat("x", step)).to(golden_case.device);
    const Tensor target = golden_case.tensor(concat("t", step)).to(golden_case.device);
    const Tensor loss = cross_entropy(model(x), target, loss_options);
    losses.push_back(loss.item<float>());
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
  }
  golden_case.expect("loss", as_tensor(losses), "loss");
  const TensorMap state = model.state_dict();
  WICK_CHECK(state.size() == under(golden_case.tensors, "final/").size(), "the model has ",
             state.size(), " tensors, expected ", under(golden_case.tensors, "final/").size());
  for (const auto& [name, tensor] : state) golden_case.expect(name, tensor, "final/" + name);
  model.eval();
  const NoGrad no_grad;
  golden_case.expect("eval_logits", model(golden_case.tensor("x0").to(golden_case.device)),
                     "eval_logits");
}

const Family model_family("model", run_training);

}  // namespace
}  // namespace wick::golden
