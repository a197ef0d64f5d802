// The workloads of compare.py in Wick. Arguments: WORKLOAD THREADS [DEVICE]. Says `ready NAME`
// after a first iteration, then answers one line per command on standard input:
//   run N      the seconds of N iterations; on a GPU behind one more, for which it is taken over
//              from whoever had it
//   memory     the growth of peak memory since before the workload was set up: on a GPU of what the
//              allocator gave out in three more iterations, else of the resident set after them
//   requests   how often the GPU's driver was asked for memory
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <string>

#include "wick/wick.h"

namespace {

using namespace wick;
using Iterate = std::function<void()>;

Device device = kCpu;

int64_t peak_bytes() {
  if (device != kCpu) return max_memory_allocated(device);
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  throw Error("peer: /proc/self/status has no VmHWM");
}

double seconds_of(int64_t count, const Iterate& iterate) {
  const auto finish = [] {
    if (device != kCpu) synchronize(device);
  };
  finish();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) iterate();
  finish();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Tensor noise(const Shape& shape) { return randn(shape, kFloat32, device); }
Tensor labels(int64_t classes, int64_t count) {
  return randint(0, classes, {count}, kInt64, device);
}

using Step = std::function<Tensor()>;  // returns the loss

Step training_step(std::shared_ptr<nn::Module> model, const Tensor& x, const Tensor& target,
                   std::shared_ptr<optim::Optimizer> optimizer, bool mixed = false) {
  return [=] {
    optimizer->zero_grad();
    Tensor loss;
    {
      const amp::Autocast autocast(x.device(), kBFloat16, mixed);
      loss = cross_entropy((*model)(x), target);
    }
    loss.backward();
    optimizer->step();
    return loss.detach();
  };
}

// The step as a graph, after all passes.
Iterate compiled(const Step& step) {
  const auto function = std::make_shared<graph::CompiledFunction>(graph::compile_step(
      [step](const std::vector<Tensor>&) { return std::vector<Tensor>{step()}; }));
  for (int i = 0; i < 3; ++i) (*function)({});
  return [function] { (*function)({}); };
}

// What `step` queues on a GPU, by one call.
Iterate captured(const Iterate& step) {
  for (int i = 0; i < 3; ++i) step();
  const auto graph = std::make_shared<CudaGraph>(device, step);
  return [graph, step] { graph->replay(); };  // what the step uses is to live as long
}

Iterate resnet_step(int layers, int64_t batch, int64_t size, bool mixed, const std::string& how) {
  nn::ResNetOptions options;
  options.classes = size <= 64 ? 10 : 1000;
  options.small_input = size <= 64;
  auto model =
      std::make_shared<nn::ResNet>(layers == 18 ? nn::resnet18(options) : nn::resnet50(options));
  model->to(device);
  const Tensor x = noise({batch, 3, size, size}).contiguous(MemoryFormat::kChannelsLast);
  auto optimizer = std::make_shared<optim::SGD>(
      model->parameters(), optim::SGDOptions{.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4});
  if (how == "_graph") optimizer->make_capturable();
  const Step step = training_step(model, x, labels(10, batch), optimizer, mixed);
  return how == "_graph" ? captured(step) : how == "_compiled" ? compiled(step) : step;
}

// With frozen parameters.
Iterate resnet_inference(int layers, int64_t batch, int64_t size) {
  const auto model = std::make_shared<nn::ResNet>(layers == 18 ? nn::resnet18() : nn::resnet50());
  model->to(device);
  model->eval();
  const auto net =
      std::make_shared<graph::CompiledModule>(graph::compile(*model, {.freeze = true}));
  const Tensor x = noise({batch, 3, size, size}).contiguous(MemoryFormat::kChannelsLast);
  for (int i = 0; i < 3; ++i) (*net)(x);
  return [=, module = model] { (*net)(x); };  // the network is to live as long
}

// Article 001's training loop, whole: CIFAR-10 (here of noise) cropped and resized to 224, flipped
// and normalised by worker threads; ResNet-18, SGD.
Iterate article_001(bool mixed) {
  auto images = std::make_shared<data::ImageSet>();
  images->height = images->width = 32;
  images->channels = 3;
  images->pixels = randint(0, 256, {20000 * 32 * 32 * 3}).to(kUint8).to_vector<uint8_t>();
  images->labels = randint(0, 10, {20000}).to(kUint8).to_vector<uint8_t>();
  for (int i = 0; i < 10; ++i) images->class_names.push_back(std::to_string(i));
  data::Transforms transforms;
  transforms.push_back(std::make_shared<data::RandomResizedCrop>(data::ImageSize{224, 224}));
  transforms.push_back(std::make_shared<data::RandomHorizontalFlip>());
  const auto dataset = std::make_shared<data::ImageDataset>(
      std::shared_ptr<const data::ImageSet>(images), transforms, data::normalize_photographs());
  data::DataLoaderOptions loading;
  loading.batch_size = 128;
  loading.shuffle = true;
  loading.num_workers = data::kAuto;
  const auto loader =
      std::make_shared<data::Prefetcher>(data::load_ahead(dataset, loading, device));
  const auto model = std::make_shared<nn::ResNet>(nn::resnet18({.classes = 1000}));
  model->to(device);
  const auto optimizer = std::make_shared<optim::SGD>(
      model->parameters(), optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
  return [=] {
    std::optional<data::Batch> batch = loader->next();
    if (!batch) batch = loader->next();  // of the next epoch
    training_step(model, (*batch)[0], (*batch)[1], optimizer, mixed)();
  };
}

Step mlp_step() {
  auto model = std::make_shared<nn::Sequential>(
      nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 512), nn::ReLU(), nn::Linear(512, 10));
  model->to(device);
  auto optimizer =
      std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 1e-3});
  optimizer->make_capturable();
  return training_step(model, noise({64, 784}), labels(10, 64), optimizer);
}

// Six layers on 8 sequences of 128 tokens, and the mean square of the last one's results.
Step encoder_step() {
  const auto model = std::make_shared<nn::TransformerEncoder>(
      256, 4, 6, nn::TransformerLayerOptions{.dim_feedforward = 1024, .batch_first = true});
  model->to(device);
  const auto optimizer =
      std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions{.lr = 1e-4});
  optimizer->make_capturable();
  const Tensor x = noise({8, 128, 256});
  return [=] {
    optimizer->zero_grad();
    const Tensor loss = (*model)(x).square().mean();
    loss.backward();
    optimizer->step();
    return loss.detach();
  };
}

// Forward and backward of two layers of 512 units, on 32 sequences of 64 steps.
template <class Network>
Iterate recurrent_step() {
  const auto network = std::make_shared<nn::Handle<Network>>(
      std::make_shared<Network>(Network(512, 512, {.num_layers = 2})));
  (*network)->to(device);
  const Tensor x = noise({64, 32, 512}), dy = noise({64, 32, 512});
  return [=] {
    (*network)->zero_grad();
    (*network)(x).backward(dy);
  };
}

// Vanished gradients: their squares are denormal numbers.
Iterate adamw_step(int tensors, int64_t size, bool vanished) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < tensors; ++i) {
    parameters.push_back(noise({size}).set_requires_grad());
    parameters.back().set_grad(noise({size}) * (vanished ? 1e-21 : 1.0));
  }
  auto optimizer = std::make_shared<optim::AdamW>(parameters);
  return [=] { optimizer->step(); };
}

// A step of Adam that looks 512 rows of a table of a million up, as a dense gradient or a sparse
// one.
Iterate embedding_step(bool sparse) {
  const auto table =
      std::make_shared<nn::Embedding>(1'000'000, 64, nn::EmbeddingOptions{.sparse = sparse});
  table->to(device);
  std::shared_ptr<optim::Optimizer> optimizer;
  if (sparse) {
    optimizer = std::make_shared<optim::SparseAdam>(table->parameters());
  } else {
    optimizer = std::make_shared<optim::Adam>(table->parameters());
  }
  const Tensor rows = labels(1'000'000, 512);
  return [=] {
    optimizer->zero_grad();
    (*table)(rows).square().mean().backward();
    optimizer->step();
  };
}

// [8192, columns]; forward alone, or with backward.
Iterate row_op(const std::string& name, int64_t columns, Dtype dtype, bool backward) {
  const Tensor x = noise({8192, columns}).to(dtype);
  const Tensor target = labels(columns, 8192);
  const Tensor weight = ones({columns}, dtype, device), bias = zeros({columns}, dtype, device);
  const double smoothing = columns > 4096 ? 0.1 : 0;
  const std::map<std::string, std::function<Tensor(const Tensor&)>> ops = {
      {"softmax", [](const Tensor& t) { return softmax(t, 1); }},
      {"layer_norm", [=](const Tensor& t) { return layer_norm(t, {columns}, weight, bias); }},
      {"gelu", [](const Tensor& t) { return gelu(t); }},
      {"cross_entropy",
       [=](const Tensor& t) { return cross_entropy(t, target, {.label_smoothing = smoothing}); }},
  };
  const auto op = ops.at(name);
  if (!backward) {
    return [=] {
      const NoGrad no_grad;
      op(x);
    };
  }
  x.set_requires_grad();
  const Tensor gradient = ones_like(op(x).detach());
  return [=] {
    x.set_grad({});
    op(x).backward(gradient);
  };
}

// 8 heads of 64 features, of as many sequences as make up 2048 tokens; forward alone, or with
// backward.
Iterate attention(int64_t length, Dtype dtype, bool backward) {
  const Shape shape{std::max<int64_t>(1, 2048 / length), 8, length, 64};
  std::vector<Tensor> operands;
  for (int i = 0; i < 3; ++i) operands.push_back(noise(shape).to(dtype));
  const auto attend = [=] {
    return scaled_dot_product_attention(operands[0], operands[1], operands[2]);
  };
  if (!backward) {
    return [=] {
      const NoGrad no_grad;
      attend();
    };
  }
  for (const Tensor& x : operands) x.set_requires_grad();
  const Tensor gradient = noise(shape).to(dtype);
  return [=] {
    for (const Tensor& x : operands) x.set_grad({});
    attend().backward(gradient);
  };
}

// [m, k] times [k, n]; 't' says which lies transposed.
Iterate product(int64_t m, int64_t n, int64_t k, const std::string& transposed, Dtype dtype) {
  const bool a_turned = transposed[0] == 't', b_turned = transposed[1] == 't';
  Tensor a = noise(a_turned ? Shape{k, m} : Shape{m, k}).to(dtype);
  Tensor b = noise(b_turned ? Shape{n, k} : Shape{k, n}).to(dtype);
  if (a_turned) a = a.t();
  if (b_turned) b = b.t();
  return [=] { matmul(a, b); };
}

// What an op costs that hardly computes anything.
Iterate small_add() {
  const Tensor x = noise({1000}), y = noise({1000});
  return [=] { x + y; };
}

// A request of 1 MiB that the cache serves, and its end, a thousand times.
Iterate allocator_pairs() {
  return [] {
    CachingAllocator& memory = allocator(device);
    const Stream stream = current_stream(device);
    for (int i = 0; i < 1000; ++i) memory.deallocate(memory.allocate(1 << 20, stream));
  };
}

// What the machine does at most, to see how far from it the rest is.
Iterate ceiling(const std::string& what) {
  if (what == "launch") {
    const Tensor x = noise({1000});
    const Iterate kernels = [=] {
      for (int i = 0; i < 1000; ++i) x.add_(1);
    };
    return device.is_cpu() ? kernels : captured(kernels);
  }
  if (what == "copy") {
    const Tensor from = noise({1 << 28}), to = empty_like(from);
    return [=] { to.copy_(from); };
  }
  const Tensor a = noise({8192, 8192}).to(kBFloat16), b = noise({8192, 8192}).to(kBFloat16);
  return [=] { matmul(a, b); };
}

Iterate make(const std::string& workload) {
  std::smatch part;
  const auto is = [&](const char* form) {
    return std::regex_match(workload, part, std::regex(form));
  };
  if (is("resnet(18|50)_([0-9]+)_b([0-9]+)(_bf16)?(_graph|_compiled)?")) {
    return resnet_step(std::stoi(part[1]), std::stoll(part[3]), std::stoll(part[2]),
                       part[4].matched, part[5]);
  }
  if (is("resnet(18|50)_infer_([0-9]+)_b([0-9]+)")) {
    return resnet_inference(std::stoi(part[1]), std::stoll(part[3]), std::stoll(part[2]));
  }
  if (is("article_001(_.*)?")) return article_001(part[1].matched);
  if (workload == "mlp_b64") return mlp_step();
  if (workload == "mlp_b64_graph") return captured(mlp_step());
  if (workload == "mlp_b64_compiled") return compiled(mlp_step());
  if (workload == "encoder_6") return encoder_step();
  if (workload == "encoder_6_compiled") return compiled(encoder_step());
  if (workload == "lstm_2x512") return recurrent_step<nn::LSTM>();
  if (workload == "gru_2x512") return recurrent_step<nn::GRU>();
  if (is("embedding_1m(_sparse)?")) return embedding_step(part[1].matched);
  if (is("adamw_25m(_fused|_vanished)?")) return adamw_step(24, 1 << 20, part[1] == "_vanished");
  if (workload == "adamw_100m") return adamw_step(150, 700'000, false);
  if (workload == "adamw_1000_tensors") return adamw_step(1000, 1000, false);
  if (is("(softmax|layer_norm|gelu|cross_entropy)(_[0-9]+)?(_bf16)?(_backward)?")) {
    const int64_t columns = part[2].matched ? std::stoll(part[2].str().substr(1)) : 4096;
    return row_op(part[1], columns, part[3].matched ? kBFloat16 : kFloat32, part[4].matched);
  }
  if (is("product_([0-9]+)x([0-9]+)x([0-9]+)([nt]{2})(_bf16)?")) {
    return product(std::stoll(part[1]), std::stoll(part[2]), std::stoll(part[3]), part[4],
                   part[5].matched ? kBFloat16 : kFloat32);
  }
  if (is("attention_([0-9]+)(_bf16)?(_backward)?")) {
    return attention(std::stoll(part[1]), part[2].matched ? kBFloat16 : kFloat32, part[3].matched);
  }
  if (workload == "add_1k") return small_add();
  if (workload == "allocator_pair") return allocator_pairs();
  if (is("ceiling_(copy|matmul|launch)")) return ceiling(part[1]);
  throw Error(concat("peer: unknown workload: got \"", workload, "\""));
}

}  // namespace

int main(int argc, char** argv) try {
  WICK_CHECK(argc == 3 || argc == 4, "peer: expected WORKLOAD THREADS [DEVICE]");
  set_num_threads(std::stoi(argv[2]));
  if (argc == 4 && argv[3] != std::string("cpu")) {
    WICK_CHECK(argv[3] == std::string("cuda"), "peer: device: got \"", argv[3], "\"");
    device = cuda_device(0);
    set_benchmark(true);
    set_allow_tf32(true);
  }
  // A file of plans, which is read if it is there and keeps what is measured besides.
  const char* const plans = std::getenv("WICK_PEER_PLANS");
  if (plans != nullptr && std::filesystem::exists(plans)) plans_load(plans);
  manual_seed(0);
  const int64_t before = peak_bytes();
  const Iterate iterate = make(argv[1]);
  seconds_of(1, iterate);
  if (plans != nullptr) plans_save(plans);
  std::cout << "ready wick" << std::endl;
  std::string command;
  while (std::cin >> command) {
    if (command == "run") {
      int64_t count = 0;
      std::cin >> count;
      if (device != kCpu) seconds_of(1, iterate);
      std::cout << seconds_of(count, iterate) << std::endl;
    } else if (command == "memory") {
      if (device != kCpu) reset_peak_memory_stats(device);
      seconds_of(3, iterate);
      std::cout << peak_bytes() - before << std::endl;
    } else if (command == "requests") {
      std::cout << memory_stats(device).num_device_alloc << std::endl;
    } else {
      throw Error(concat("peer: unknown command: got \"", command, "\""));
    }
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
