// What a program compiles of the library for itself, and when it calls it: inline functions that
// hand closures on, static objects, threads, graphs. Built by each compiler, as a program and as a
// plugin.
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "wick/core/base/parallel.h"
#include "wick/wick.h"

using namespace wick;

namespace {

void check(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

struct Net : nn::Module {
  nn::Handle<nn::Conv2d> conv = add("conv", nn::Conv2d(1, 4, 3, {.padding = {1}}));
  nn::Handle<nn::Linear> fc = add("fc", nn::Linear(64, 2));
  Tensor forward(const Tensor& x) override { return fc(conv(x).flatten(1)); }
};

void train(nn::Module& model) {
  const Tensor x = randn({2, 1, 4, 4});
  const Tensor target = zeros({2}, kInt64);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  optimizer.zero_grad();
  nn::CrossEntropyLoss()(model(x), target).backward();
  optimizer.step();
  check(bool((model(x) == model(x)).all().item()), "one input, two results");
}

// The pieces wait for each other, so that each is on a thread of its own.
void use_threads() {
  set_num_threads(2);
  const auto latest = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  std::thread::id ids[2];
  std::atomic<int> there{0};
  parallel_for(2, 1, [&](int64_t begin, int64_t) {
    ids[begin] = std::this_thread::get_id();
    there.fetch_add(1);
    while (there.load() < 2 && std::chrono::steady_clock::now() < latest) std::this_thread::yield();
  });
  check(ids[0] != ids[1], "parallel_for: one thread");
  int64_t sums[2] = {};
  parallel_chunks(16, 8, [&](int64_t i, int64_t begin, int64_t end) { sums[i] = end - begin; });
  check(sums[0] == 8 && sums[1] == 8, "parallel_chunks");
}

// Made before main and gone after it, when other static objects are not there yet or any more.
struct EarlyAndLate {
  EarlyAndLate() : x(ones({3}) * 2) {
    use_threads();
    train(model);
  }
  ~EarlyAndLate() {
    try {
      train(model);
      const amp::Autocast autocast(kCpu);
      model(randn({1, 1, 4, 4}));
    } catch (const std::exception& error) {
      std::printf("seams: a static object's end: %s\n", error.what());
      std::_Exit(1);
    }
  }
  Tensor x;
  Net model;
};
EarlyAndLate lasting;
Tensor seven = scalar_tensor(7);
nn::Linear global_layer(2, 2);

struct Reverse {
  static constexpr OpInfo info{.name = "embedded_reverse"};
  double scale;
  static constexpr auto fields = std::tuple{field("scale", &Reverse::scale)};
  Tensor forward(Saved&, const Tensor& x) const { return x; }
  Gradients backward(const Saved&, const Tensor& dy) const { return {dy * -scale}; }
};

struct WrongSquare {
  static constexpr OpInfo info{.name = "embedded_wrong_square"};
  Tensor forward(Saved& saved, const Tensor& x) const {
    saved.save(x);
    return x * x;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const { return {dy * saved[0]}; }
};

struct Total {
  static constexpr OpInfo info{.name = "embedded_total", .differentiable = false};
  Tensor forward(Saved&, std::span<const Tensor> x) const {
    Tensor y = zeros_like(x[0]);
    for (const Tensor& part : x) y += part;
    return y;
  }
};

void use_modules() {
  nn::Sequential model(nn::Linear(2, 2), nn::ReLU(), nn::Linear(2, 2));
  check(model(ones({1, 2})).shape() == Shape({1, 2}), "Sequential");
  check(nn::MSELoss()(ones({2}), zeros({2})).item() == 1, "MSELoss");
  check(nn::summarize(model, ones({1, 2})).size() == 4, "summarize");
  check(global_layer(ones({1, 2})).shape() == Shape({1, 2}), "a global layer");
  const Tensor x = ones({1, 2}).set_requires_grad();
  nn::checkpoint([&model](const Tensor& given) { return model(given); }, x).sum().backward();
  check(x.grad().defined(), "checkpoint");
  const auto function = static_cast<Tensor (*)(const Tensor&)>(&relu);
  check(nn::checkpoint(function, x).sum().item() == 2, "checkpoint of a function");
}

void use_optimizers() {
  const Tensor w = ones({2}).set_requires_grad();
  optim::AdamW optimizer({w}, {.lr = 0.5});
  check(optimizer.hyperparameter(0, "lr") == 0.5, "hyperparameter");
  optimizer.set_hyperparameters({{{"lr", 0.25}}});
  check(optimizer.options().lr == 0.25, "set_hyperparameters");
}

void use_ops() {
  const Tensor w = ones({1}).set_requires_grad();
  const Tensor y = apply(Reverse{2}, w);
  check(y.grad_fn()->name() == "embedded_reverse(scale=2)", "an op's fields");
  y.backward();
  check(w.grad().item() == -2, "an op of the program's");
  const std::vector<Tensor> parts = {ones({2}), ones({2})};
  check(apply(Total{}, parts).sum().item() == 4, "an op on a list");
  check(lasting.x.sum().item() == 6 && seven.item() == 7, "static tensors");
}

void check_gradients() {
  const Tensor x = randn({3}, kFloat64).set_requires_grad();
  const auto right = [](const std::vector<Tensor>& in) { return std::vector{in[0] * in[0]}; };
  const auto wrong = [](const std::vector<Tensor>& in) {
    return std::vector{apply(WrongSquare{}, in[0])};
  };
  check(gradcheck(right, {x}) && gradgradcheck(right, {x}), "gradcheck of x * x");
  check(!gradcheck(wrong, {x}, {.raise_exception = false}), "gradcheck of a wrong gradient");
  try {
    gradcheck(wrong, {x});
    check(false, "gradcheck: no exception");
  } catch (const GradcheckError& error) {
    check(std::string(error.what()).find("Jacobian mismatch") != std::string::npos, error.what());
  }
}

// Adds the bytes of `values` to the FNV-1a digest `digest`.
void add_to(uint64_t& digest, const Tensor& values) {
  for (const float value : values.detach().to_vector<float>()) {
    digest = (digest ^ std::bit_cast<uint32_t>(value)) * 1099511628211U;
  }
}

// Trains with dropout by compiled steps, and runs the model's stored graph. Returns a digest of the
// weights and results.
uint64_t use_graphs(nn::Module& model, const std::string& folder) {
  const Tensor x = randn({8, 1, 4, 4});
  optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
  graph::CompiledFunction step = graph::compile_step([&](const std::vector<Tensor>& batch) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(dropout(gelu(model(batch[0])) * 2 + 1, 0.2), batch[1]);
    loss.backward();
    optimizer.step();
    return std::vector{loss.detach()};
  });
  uint64_t digest = 14695981039346656037U;
  for (int i = 0; i < 200; ++i) add_to(digest, step({x, zeros({8}, kInt64)})[0]);
  check(step.num_graphs() == 1 && step.why_eager().empty(), "a compiled step");
  const auto forward = [&](const std::vector<Tensor>& in) { return std::vector{model(in[0])}; };
  const std::string path = folder + "/model.json";
  save(graph::trace(forward, {x}), path);
  const Tensor y = run(graph::load(path), {x})[0];
  check(y.equal(model(x)), "a stored graph");
  add_to(digest, y);
  for (const Tensor& parameter : model.parameters()) add_to(digest, parameter);
  return digest;
}

}  // namespace

extern "C" int wick_seams();
int wick_seams() {
  try {
    use_modules();
    use_optimizers();
    use_ops();
    check_gradients();
    use_threads();
  } catch (const std::exception& error) {
    std::printf("seams: wrong: %s\n", error.what());
    return 1;
  }
  return 0;
}

// Trains model 0 or 1 and keeps its graph in `folder`. Returns a digest, or 0 after an error.
extern "C" uint64_t wick_train(int model, const char* folder);
uint64_t wick_train(int model, const char* folder) {
  try {
    manual_seed(static_cast<uint64_t>(model));
    set_num_threads(2);
    nn::Sequential layers{nn::Flatten(), nn::Linear(16, 600), nn::Tanh(), nn::Linear(600, 2)};
    Net net;
    return model == 0 ? use_graphs(layers, folder) : use_graphs(net, folder);
  } catch (const std::exception& error) {
    std::printf("seams: training: %s\n", error.what());
    return 0;
  }
}
