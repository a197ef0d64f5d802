#include "wick/nn/rnn.h"

#include <type_traits>

#include "wick/core/autograd.h"
#include "wick/tests/golden/golden.h"

namespace wick::golden {
namespace {

using nn::LSTMState;

// Output, h_n and, of an LSTM, c_n.
template <class Network>
Tensors run(Network& network, const Tensor& x, const Tensor& h_0, const Tensor& c_0) {
  if constexpr (std::is_same_v<Network, nn::LSTM>) {
    const nn::LSTMOutput all = network.forward_with_state(x, {h_0, c_0});
    return {all.output, all.state.h, all.state.c};
  } else {
    const nn::RNNOutput all = network.forward_with_state(x, h_0);
    return {all.output, all.h_n};
  }
}
template <class Network>
Tensors run_packed(Network& network, const nn::PackedSequence& x, const Tensor& h_0,
                   const Tensor& c_0, bool batch_first) {
  if constexpr (std::is_same_v<Network, nn::LSTM>) {
    const nn::PackedLSTMOutput all = network.forward_with_state(x, {h_0, c_0});
    return {pad_packed_sequence(all.output, batch_first).data, all.state.h, all.state.c};
  } else {
    const nn::PackedRNNOutput all = network.forward_with_state(x, h_0);
    return {pad_packed_sequence(all.output, batch_first).data, all.h_n};
  }
}

template <class Network>
void run_network(const Case& golden_case, Network network, Args& args, bool batch_first) {
  const std::string prefix = "weights/";
  TensorMap weights;
  for (const auto& entry : golden_case.tensors) {
    if (!entry.first.starts_with(prefix)) continue;
    weights.emplace(entry.first.substr(prefix.size()), entry.second);
  }
  network.load_state_dict(weights);
  network.to(golden_case.device);
  const auto leaf = [&](const char* name) {
    const auto found = golden_case.tensors.find(name);
    if (found == golden_case.tensors.end()) return Tensor();
    return found->second.to(golden_case.device).detach().set_requires_grad();
  };
  const Tensor x = leaf("x"), h_0 = leaf("h_0"), c_0 = leaf("c_0");
  args.ignore({"unbatched"});
  Tensors outputs;
  if (args.has("lengths")) {
    const nn::PackedSequence packed =
        nn::pack_padded_sequence(x, args.integers("lengths"), batch_first, false);
    outputs = run_packed(network, packed, h_0, c_0, batch_first);
  } else {
    outputs = run(network, x, h_0, c_0);
  }
  args.finish();
  Tensors incoming;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string name = i == 0 ? "y" : i == 1 ? "h_n" : "c_n";
    golden_case.expect("output " + name, outputs[i], name);
    incoming.push_back(golden_case.tensor("g" + name).to(golden_case.device));
  }
  backward(outputs, incoming);
  golden_case.expect("gradient of x", x.grad(), "grad_x");
  golden_case.expect("gradient of h_0", h_0.grad(), "grad_h_0");
  if (c_0.defined()) golden_case.expect("gradient of c_0", c_0.grad(), "grad_c_0");
  for (const auto& entry : network.named_parameters()) {
    golden_case.expect("gradient of " + entry.first, entry.second.grad(), "grad/" + entry.first);
  }
}

// RNN's options; LSTM's and GRU's have the same names.
template <class Options>
Options common_options(Args& args) {
  Options options;
  options.num_layers = args.integer("num_layers", 1);
  options.bias = args.flag("bias", true);
  options.batch_first = args.flag("batch_first", false);
  options.bidirectional = args.flag("bidirectional", false);
  return options;
}

void run_rnn(const Case& golden_case) {
  Args args = golden_case.args();
  const int64_t input = args.integer("input_size"), hidden = args.integer("hidden_size");
  const bool first = args.flag("batch_first", false);
  if (golden_case.op == "LSTM") {
    auto options = common_options<nn::LSTMOptions>(args);
    options.proj_size = args.integer("proj_size", 0);
    return run_network(golden_case, nn::LSTM(input, hidden, options), args, first);
  }
  if (golden_case.op == "GRU") {
    const auto options = common_options<nn::GRUOptions>(args);
    return run_network(golden_case, nn::GRU(input, hidden, options), args, first);
  }
  WICK_CHECK(golden_case.op == "RNN", "unknown op '", golden_case.op, "'");
  auto options = common_options<nn::RNNOptions>(args);
  const bool is_relu = args.text("nonlinearity", "tanh") == "relu";
  options.nonlinearity = is_relu ? nn::Nonlinearity::kRelu : nn::Nonlinearity::kTanh;
  run_network(golden_case, nn::RNN(input, hidden, options), args, first);
}

const Family rnn_family("rnn", run_rnn);

}  // namespace
}  // namespace wick::golden
