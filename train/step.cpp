#include "wick/train/step.h"

#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/view.h"
#include "wick/nn/activation_offload.h"
#include "wick/nn/compile.h"

namespace wick::train {

namespace {

data::Batch slice(const data::Batch& batch, int64_t begin, int64_t end) {
  data::Batch piece;
  for (const Tensor& field : batch.fields) piece.fields.push_back(field.slice(0, begin, end));
  return piece;
}

void add(Sums& sums, const Sums& more) {
  if (sums.empty()) {
    for (const auto& [name, value] : more) sums.emplace_back(name, value.detach());
    return;
  }
  WICK_CHECK(sums.size() == more.size(), "train: sums of a piece of a batch: got ", more.size(),
             ", expected ", sums.size(), ", as of the piece before");
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i].second = sums[i].second + more[i].second.detach();
}

std::unique_ptr<optim::Ema> make_ema(const StepOptions& options, const nn::Module& model) {
  if (!options.ema) return nullptr;
  std::vector<Tensor> tensors = model.parameters();
  for (const Tensor& buffer : buffers_of(model)) {
    if (is_floating(buffer.dtype())) tensors.push_back(buffer);
  }
  return std::make_unique<optim::Ema>(std::move(tensors), *options.ema);
}

}  // namespace

OptionFields fields(StepOptions& options) {
  return {
      OptionField("clip_norm", &options.clip_norm, "norm that gradients are clipped to")
          .between(0, 1e15)
          .lasting(),
      OptionField("clip_value", &options.clip_value,
                  "most that an element of a gradient is, before the norm is clipped")
          .between(0, 1e15)
          .lasting(),
      OptionField("max_skips", &options.max_skips,
                  "steps skipped in a row by fp16 that end the run (0: none do)")
          .between(0, 1e9),
      OptionField("allow_non_finite", &options.allow_non_finite,
                  "go on with weights that are infinite or NaN"),
      OptionField("accumulate", &options.accumulate,
                  "pieces that a step's samples are taken in, to need as much less memory")
          .between(1, 1e6)
          .lasting(),
      OptionField("ema", &options.ema, "decay of averaged weights, which are evaluated and saved")
          .between(0, 0.9999999)
          .alone("0.999")
          .lasting(),
      OptionField("offload_activations", &options.offload_activations,
                  "keep activations of a GPU in pinned host memory until backward"),
      OptionField("cuda_graph", &options.cuda_graph,
                  "capture a step on a GPU once and replay it, so that the host queues it by one "
                  "call"),
      OptionField("compile", &options.compile,
                  "trace a step and run it as a graph: with elementwise ops fused, or after all "
                  "passes")
          .one_of({"off", "fuse", "full"}),
  };
}

void check(const StepOptions& options) {
  StepOptions checked = options;
  check(fields(checked));
  require(!options.autocast || options.autocast == kFloat16 || options.autocast == kBFloat16, "amp",
          "got ", options.autocast.value_or(kFloat32), ", expected float16 or bfloat16");
  require(!options.cuda_graph || !options.offload_activations, "cuda_graph",
          "not with offload_activations");
  require(options.compile == "off" || !options.offload_activations, "compile",
          "not with offload_activations");
}

std::optional<graph::CompileMode> compile_mode(const std::string& word) {
  require(word == "off" || word == "fuse" || word == "full", "compile", "got ", word,
          ", expected off, fuse or full");
  if (word == "off") return {};
  return word == "full" ? graph::CompileMode::kFull : graph::CompileMode::kFuse;
}

Device device_of(const nn::Module& model) {
  std::optional<Device> device;
  const auto see = [&](const std::string& name, const Tensor& tensor) {
    if (!tensor.defined()) return;
    WICK_CHECK(!device || *device == tensor.device(), "train: ", name, " is on ", tensor.device(),
               ", expected ", *device, ", as what comes before it");
    device = tensor.device();
  };
  for (const auto& [name, tensor] : model.named_parameters()) see(name, tensor);
  for (const auto& [name, tensor] : model.named_buffers()) see(name, tensor);
  return device.value_or(kCpu);
}

std::vector<Tensor> buffers_of(const nn::Module& model) {
  std::vector<Tensor> buffers;
  for (const auto& [name, buffer] : model.named_buffers()) {
    if (buffer.defined()) buffers.push_back(buffer);
  }
  return buffers;
}

amp::Autocast make_autocast(std::optional<Dtype> dtype, Device device) {
  return amp::Autocast(device, dtype.value_or(kBFloat16), dtype.has_value());
}

Step::Step(std::shared_ptr<nn::Module> model, optim::Optimizer& optimizer, LossFunction loss,
           const StepOptions& options)
    : options_((check(options), options)),
      model_(std::move(model)),
      optimizer_(optimizer),
      loss_(std::move(loss)),
      device_(device_of(*model_)),
      scaler_({.enabled = options.autocast == kFloat16, .max_skips = options.max_skips}),
      rollback_(scaler_.enabled() ? buffers_of(*model_) : std::vector<Tensor>()),
      ema_(make_ema(options, *model_)) {
  require(device_.is_cuda() || !options_.offload_activations, "offload_activations",
          "expected a GPU, got the CPU");
  require(device_.is_cuda() || !options_.cuda_graph, "cuda_graph", "expected a GPU, got the CPU");
  optimizer_.set_check_finite(!options_.allow_non_finite);
  scaler_.name_parameters(model_->named_parameters());
  const auto whole = [this](const std::vector<Tensor>& fields) {
    return values_of(take({fields}, parallel_.value_or(nullptr)));
  };
  if (const auto mode = compile_mode(options_.compile)) {
    compiled_.emplace(graph::compile_step(*model_, whole, {.mode = *mode}));
  }
  if (!options_.cuda_graph) return;
  optimizer_.make_capturable();
  if (!compiled_) {
    captured_.emplace(device_, whole);
    return;
  }
  captured_.emplace(
      device_, [this](const std::vector<Tensor>& fields) { return (*compiled_)(fields); },
      /*warm_ups=*/3,
      [this](const std::vector<Tensor>& fields) { return compiled_->identity(fields); });
}

std::vector<Tensor> Step::values_of(const Result& result) {
  std::vector<Tensor> values{result.skipped, result.loss, result.grad_norm, result.non_finite};
  sum_names_.clear();
  for (const auto& [name, value] : result.sums) {
    sum_names_.push_back(name);
    values.push_back(value);
  }
  return values;
}

Step::Result Step::result_of(const std::vector<Tensor>& values) const {
  Result result{values[1], {}, values[0], values[2], values[3]};
  for (size_t i = 0; i < sum_names_.size(); ++i) {
    result.sums.emplace_back(sum_names_[i], values[i + 4]);
  }
  return result;
}

BatchLoss Step::forward(const data::Batch& batch, dist::DistributedDataParallel* parallel) {
  const amp::Autocast autocast = make_autocast(options_.autocast, device_);
  std::optional<nn::OffloadActivations> offload;
  if (options_.offload_activations) offload.emplace();
  const auto compute = [&] { return loss_(batch); };
  BatchLoss result = parallel == nullptr ? compute() : parallel->pass(compute);
  WICK_CHECK(result.loss.defined() && result.loss.numel() == 1,
             "train: the loss function's result: got ",
             result.loss.defined() ? concat("shape ", result.loss.shape()) : "no tensor",
             ", expected a tensor of one element, the mean over the batch");
  return result;
}

Step::Result Step::backpropagate(const data::Batch& batch,
                                 dist::DistributedDataParallel* parallel) {
  Result result;
  const auto pass = [&](int64_t begin, int64_t end, double share) {
    const bool is_whole = share == 1;
    std::optional<dist::DistributedDataParallel::NoSync> gathering;
    if (parallel != nullptr && end < batch.size()) gathering.emplace(*parallel);
    BatchLoss piece = forward(is_whole ? batch : slice(batch, begin, end), parallel);
    if (!is_whole) piece.loss = piece.loss * share;
    scaler_.scale(piece.loss).backward();
    const Tensor loss = piece.loss.detach();
    result.loss = result.loss.defined() ? result.loss + loss : loss;
    add(result.sums, piece.sums);
  };
  optim::accumulate(batch.size(), options_.accumulate, pass);
  return result;
}

Step::Result Step::take(const data::Batch& batch, dist::DistributedDataParallel* parallel) {
  optimizer_.zero_grad();
  if (scaler_.enabled()) rollback_.remember();
  Result result = backpropagate(batch, parallel);
  if (options_.clip_value) {
    if (scaler_.enabled()) scaler_.unscale_(optimizer_);
    optim::clip_grad_value_(model_->parameters(), *options_.clip_value);
  }
  result.grad_norm = scaler_.step(optimizer_, options_.clip_norm);
  if (!options_.allow_non_finite) result.non_finite = optimizer_.non_finite();
  if (scaler_.enabled()) {
    result.skipped = scaler_.found_inf(optimizer_);
    rollback_.restore(result.skipped);
  }
  if (ema_) ema_->update(result.skipped);
  scaler_.update();
  return result;
}

Step::Result Step::take_or_replay(const data::Batch& batch,
                                  dist::DistributedDataParallel* parallel) {
  if (compiled_ && !captured_) {
    WICK_CHECK(parallel_.value_or(parallel) == parallel,
               "train: a compiled step: got another model around the ranks than in the first step");
    parallel_ = parallel;
    return result_of((*compiled_)(batch.fields));
  }
  if (!captured_) return take(batch, parallel);
  // Figures are read some steps later, when other replays have overwritten them.
  std::vector<Tensor> values = (*captured_)(batch.fields);
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i].defined()) values[i] = values[i].clone();
  }
  return result_of(values);
}

}  // namespace wick::train
