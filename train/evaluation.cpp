#include "wick/train/evaluation.h"

#include "wick/core/autograd.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"

namespace wick::train {

namespace {

// Sums over batches stay on the device, in float64, so that the host waits once.
class Totals {
 public:
  Totals() = default;

  void add(const BatchLoss& batch, int64_t samples) {
    if (!loss_.defined()) begin(batch);
    WICK_CHECK(batch.sums.size() == sums_.size(), "evaluate: sums of a batch: got ",
               batch.sums.size(), ", expected ", sums_.size(), ", as of the first batch");
    loss_.add_(batch.loss.to(kFloat64), samples);
    for (size_t i = 0; i < sums_.size(); ++i) sums_[i].add_(batch.sums[i].second.to(kFloat64));
    samples_ += samples;
  }

  // Loss and sums, then the number of samples; empty if nothing was added.
  std::vector<double> read() const {
    if (!loss_.defined()) return {};
    std::vector<double> values{loss_.item()};
    for (const Tensor& sum : sums_) values.push_back(sum.item());
    values.push_back(static_cast<double>(samples_));
    return values;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  void begin(const BatchLoss& first) {
    const Device device = first.loss.device();
    loss_ = zeros({}, kFloat64, device);
    for (const auto& [name, value] : first.sums) {
      names_.push_back(name);
      sums_.push_back(zeros({}, kFloat64, value.device()));
    }
  }

  Tensor loss_;
  std::vector<std::string> names_;
  std::vector<Tensor> sums_;
  int64_t samples_ = 0;
};

// Keeps a model in evaluation mode while it lives.
class EvaluationMode {
 public:
  explicit EvaluationMode(nn::Module& model) : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~EvaluationMode() { model_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  nn::Module& model_;
  bool was_training_;
};

// The loss function as a graph of a batch's fields.
class CompiledLoss {
 public:
  CompiledLoss(const LossFunction& loss, const graph::CompileOptions& options)
      : function_(
            [this, &loss](const std::vector<Tensor>& fields) {
              const BatchLoss result = loss({fields});
              std::vector<Tensor> values{result.loss};
              names_.clear();
              for (const auto& [name, value] : result.sums) {
                names_.push_back(name);
                values.push_back(value);
              }
              return values;
            },
            options) {}
  CompiledLoss(const CompiledLoss&) = delete;
  CompiledLoss& operator=(const CompiledLoss&) = delete;

  BatchLoss operator()(const data::Batch& batch) {
    const std::vector<Tensor> values = function_(batch.fields);
    BatchLoss result{values[0], {}};
    for (size_t i = 0; i < names_.size(); ++i) result.sums.emplace_back(names_[i], values[i + 1]);
    return result;
  }
  const std::string& why_eager() const { return function_.why_eager(); }

 private:
  std::vector<std::string> names_;
  graph::CompiledFunction function_;
};

// The sums over ranks, of which some may have had no batch.
std::vector<double> sum_over_ranks(const Ranks& ranks, std::vector<double> own) {
  if (ranks.alone()) return own;
  own.resize(static_cast<size_t>(ranks.max(static_cast<int64_t>(own.size()))), 0.0);
  return ranks.sum(own);
}

}  // namespace

std::optional<double> find(const Means& means, const std::string& name) {
  for (const auto& [key, value] : means) {
    if (key == name) return value;
  }
  return {};
}

Tensor count_correct(const Tensor& logits, const Tensor& target) {
  const Tensor label = is_floating(target.dtype()) ? target.argmax(1) : target;
  return (logits.detach().argmax(1) == label).sum();
}

std::string no_samples(const data::Prefetcher& loader) {
  const std::string& last = loader.loader().last_skipped();
  return concat("data loader: no sample of an epoch could be read",
                last.empty() ? "" : concat(", the last: ", last));
}

Evaluation evaluate(nn::Module& model, data::Prefetcher& loader, const LossFunction& loss,
                    const EvaluationOptions& options) {
  const InferenceMode inference;
  const Device device = device_of(model);
  const amp::Autocast autocast = make_autocast(options.autocast, device);
  const EvaluationMode mode(model);
  std::optional<CompiledLoss> compiled;
  if (options.compile) {
    graph::CompileOptions compile;
    compile.mode = *options.compile;
    compile.freeze = options.freeze && compile.mode == graph::CompileMode::kFull;
    compiled.emplace(loss, compile);
  }
  Totals totals;
  int64_t done = 0;
  while (const std::optional<data::Batch> batch = loader.next()) {
    totals.add(compiled ? (*compiled)(*batch) : loss(*batch), batch->size());
    done += batch->size();
    if (options.on_batch) options.on_batch(done * options.ranks.size());
  }
  const std::vector<double> sums = sum_over_ranks(options.ranks, totals.read());
  if (sums.empty() || sums.back() == 0) throw Error(no_samples(loader));
  Evaluation result;
  result.samples = static_cast<int64_t>(sums.back());
  result.skipped = loader.loader().skipped();  // of one rank: several cannot skip
  result.last_skipped = loader.loader().last_skipped();
  if (compiled) result.why_eager = compiled->why_eager();
  result.loss = sums.front() / sums.back();
  for (size_t i = 0; i < totals.names().size(); ++i) {
    result.means.emplace_back(totals.names()[i], sums[i + 1] / sums.back());
  }
  return result;
}

}  // namespace wick::train
