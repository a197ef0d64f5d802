#include "wick/dist/data_parallel.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "wick/core/autograd.h"
#include "wick/dist/all_reduce.h"
#include "wick/nn/norm.h"

namespace wick::dist {

namespace {

constexpr int64_t kAlignment = 64;  // bytes, of each gradient in its bucket

// The dense memory `part` in the shape and layout of `like`.
Tensor in_layout_of(const Tensor& part, const Tensor& like) {
  if (like.is_contiguous() || !like.is_contiguous(MemoryFormat::kChannelsLast)) {
    return part.view(like.shape());
  }
  const Shape& s = like.shape();
  return part.view({s[0], s[2], s[3], s[1]}).permute({0, 3, 1, 2});
}

// Names, dtypes and shapes, a line each.
std::string signature_of(const nn::NamedTensors& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    text += concat(name, " ", tensor.dtype(), " ", tensor.shape(), "\n");
  }
  return text;
}

std::string line_at(const std::string& text, size_t place) {
  if (place >= text.size()) return "nothing";
  const size_t before = place == 0 ? std::string::npos : text.rfind('\n', place - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, text.find('\n', place) - begin);
}

Tensor bytes_tensor(const std::string& text, size_t size, Device device) {
  std::vector<uint8_t> bytes(text.begin(), text.end());
  bytes.resize(size);
  return tensor<uint8_t>(bytes).to(device);
}

void check_same_modules(ProcessGroup& group, const nn::NamedTensors& tensors, Device device) {
  const std::string mine = signature_of(tensors);
  const auto ranks = static_cast<size_t>(group.size());
  const Tensor size = tensor<int64_t>({static_cast<int64_t>(mine.size())}).to(device);
  const Tensor sizes = empty({group.size(), 1}, kInt64, device);
  group.all_gather(size, sizes).wait();
  const std::vector<int64_t> all_sizes = sizes.to_vector<int64_t>();
  const auto most = static_cast<size_t>(*std::max_element(all_sizes.begin(), all_sizes.end()));
  const Tensor text = bytes_tensor(mine, most, device);
  const Tensor texts = empty({group.size(), static_cast<int64_t>(most)}, kUint8, device);
  group.all_gather(text, texts).wait();
  const std::vector<uint8_t> all = texts.to_vector<uint8_t>();
  const std::string first(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all_sizes[0]));
  for (size_t r = 1; r < ranks; ++r) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(r * most);
    const std::string other(begin, begin + static_cast<std::ptrdiff_t>(all_sizes[r]));
    if (other == first) continue;
    const auto place = static_cast<size_t>(
        std::mismatch(first.begin(), first.end(), other.begin(), other.end()).first -
        first.begin());
    throw Error(concat("DistributedDataParallel: ranks have different modules: rank 0 has ",
                       line_at(first, place), ", rank ", r, " has ", line_at(other, place)));
  }
}

}  // namespace

// Gathers gradients in buckets and reduces them.
class DistributedDataParallel::Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  Reducer(nn::Module& module, std::shared_ptr<ProcessGroup> group, const Options& options)
      : group_(std::move(group)), options_(options), buffers_(module.named_buffers()) {
    for (const auto& [name, parameter] : module.named_parameters()) {
      if (parameter.requires_grad()) parameters_.push_back({name, parameter});
    }
    check_options();
    if (alone() || parameters_.empty()) return;
    nn::NamedTensors all = module.named_parameters();
    all.insert(all.end(), buffers_.begin(), buffers_.end());
    check_same_modules(*group_, all, all[0].second.device());
    broadcast_all(all);
    std::vector<size_t> order(parameters_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
    build(order);
  }

  void add_hooks() {
    if (alone()) return;
    for (size_t p = 0; p < parameters_.size(); ++p) {
      parameters_[p].tensor.register_post_accumulate_grad_hook(
          [reducer = weak_from_this(), p](const Tensor&) {
            if (const auto r = reducer.lock()) r->on_gradient(p);
          });
    }
  }

  void before_forward(bool training) {
    if (alone() || !sync || !training || !grad_enabled()) return;
    check_finished();
    if (!order_.empty() && !rebuilt_) rebuild();
    if (options_.broadcast_buffers) broadcast_all(buffers_);
  }

  void after_forward(const Tensor& y) {
    if (alone() || !grad_enabled()) return;
    expecting_ = sync;
    finished_ = false;
    if (!sync) return;
    for (Parameter& p : parameters_) p.ready = false;
    for (Bucket& b : buckets_) b.pending = b.parameters.size();
    next_ = 0;
    if (options_.find_unused_parameters || (options_.static_graph && !searched_)) {
      unused_ = find_unused(y);
      searched_ = true;
    }
  }

  bool sync = true;

 private:
  struct Parameter {
    std::string name;
    Tensor tensor;
    size_t bucket = 0;
    Tensor place = {};  // in its bucket, as the parameter is laid out
    bool ready = false;
  };
  struct Bucket {
    Tensor memory;
    std::vector<size_t> parameters;
    size_t pending = 0;
    std::optional<Work> work = {};
  };

  bool alone() const { return group_->size() == 1; }

  void check_options() const {
    WICK_CHECK(options_.bucket_bytes > 0 && options_.first_bucket_bytes > 0,
               "DistributedDataParallel: buckets must have a positive size: got ",
               options_.bucket_bytes, " and ", options_.first_bucket_bytes, " bytes");
    if (!options_.communication_dtype) return;
    const Dtype dtype = *options_.communication_dtype;
    WICK_CHECK(dtype == kFloat16 || dtype == kBFloat16,
               "DistributedDataParallel: communication_dtype must be float16 or bfloat16: got ",
               dtype);
  }

  Dtype travel_dtype(const Tensor& parameter) const {
    return options_.communication_dtype.value_or(parameter.dtype());
  }

  void broadcast_all(const nn::NamedTensors& tensors) {
    const NoGrad no_grad;
    std::vector<Work> works;
    for (const auto& [name, tensor] : tensors) works.push_back(group_->broadcast(tensor));
    for (const Work& work : works) work.wait();
  }

  // Fills buckets with the parameters in this order; each is of one dtype and device.
  void build(const std::vector<size_t>& order) {
    buckets_.clear();
    std::map<std::pair<Dtype, int>, Bucket> open;
    std::map<std::pair<Dtype, int>, int64_t> bytes;
    const auto close = [&](Bucket& bucket) { buckets_.push_back(std::exchange(bucket, {})); };
    for (const size_t p : order) {
      const Tensor& x = parameters_[p].tensor;
      const std::pair key(travel_dtype(x), x.device().is_cpu() ? -1 : int{x.device().index});
      open[key].parameters.push_back(p);
      bytes[key] += padded(x) * size_of(key.first);
      const int64_t limit = buckets_.empty() ? options_.first_bucket_bytes : options_.bucket_bytes;
      if (bytes[key] < limit) continue;
      close(open[key]);
      bytes[key] = 0;
    }
    for (auto& [key, bucket] : open) {
      if (!bucket.parameters.empty()) close(bucket);
    }
    for (size_t b = 0; b < buckets_.size(); ++b) lay_out(b);
  }

  // Elements of a parameter in its bucket.
  int64_t padded(const Tensor& x) const {
    const int64_t step = kAlignment / size_of(travel_dtype(x));
    return (x.numel() + step - 1) / step * step;
  }

  void lay_out(size_t b) {
    Bucket& bucket = buckets_[b];
    int64_t size = 0;
    for (const size_t p : bucket.parameters) size += padded(parameters_[p].tensor);
    const Tensor& first = parameters_[bucket.parameters[0]].tensor;
    bucket.memory = zeros({size}, travel_dtype(first), first.device());
    int64_t begin = 0;
    for (const size_t p : bucket.parameters) {
      Parameter& parameter = parameters_[p];
      const Tensor& x = parameter.tensor;
      parameter.bucket = b;
      parameter.place = in_layout_of(bucket.memory.narrow(0, begin, x.numel()), x);
      begin += padded(x);
    }
    bucket.pending = bucket.parameters.size();
  }

  // Once, in the order in which rank 0 saw the gradients become ready.
  void rebuild() {
    rebuilt_ = true;
    std::vector<int64_t> order(order_.begin(), order_.end());
    const Tensor agreed = tensor<int64_t>(order).to(parameters_[0].tensor.device());
    group_->broadcast(agreed).wait();
    order = agreed.to_vector<int64_t>();
    build({order.begin(), order.end()});
  }

  void check_finished() const {
    if (!started_) return;
    std::string missing;
    for (const Parameter& p : parameters_) {
      if (!p.ready) missing += (missing.empty() ? "" : ", ") + p.name;
    }
    throw Error(concat(
        "DistributedDataParallel: the last backward did not reduce all gradients: none came for ",
        missing, "; does the loss depend on them? If not, set find_unused_parameters"));
  }

  std::vector<size_t> find_unused(const Tensor& y) const {
    std::set<const Node*> seen;
    std::vector<const Node*> open;
    if (const Edge edge = gradient_edge(y); edge.node) open.push_back(edge.node.get());
    while (!open.empty()) {
      const Node* node = open.back();
      open.pop_back();
      if (!seen.insert(node).second) continue;
      for (const Edge& edge : node->next()) {
        if (edge.node) open.push_back(edge.node.get());
      }
    }
    std::vector<size_t> unused;
    for (size_t p = 0; p < parameters_.size(); ++p) {
      if (seen.count(gradient_edge(parameters_[p].tensor).node.get()) == 0) unused.push_back(p);
    }
    return unused;
  }

  void on_gradient(size_t p) {
    if (!expecting_ && !finished_) return;
    const NoGrad no_grad;
    Parameter& parameter = parameters_[p];
    WICK_CHECK(!parameter.ready, "DistributedDataParallel: ", parameter.name,
               " got a second gradient since the last forward: backward twice needs a forward "
               "each, or NoSync around all but the last");
    if (!started_) {
      started_ = true;
      for (const size_t u : unused_) {
        parameters_[u].place.zero_();
        mark_ready(u);
      }
    }
    const Tensor grad = parameter.tensor.grad();
    if (grad.raw_data() != parameter.place.raw_data()) {
      parameter.place.copy_(grad);
      if (grad.dtype() == parameter.place.dtype()) parameter.tensor.set_grad(parameter.place);
    }
    if (!rebuilt_) order_.push_back(p);
    mark_ready(p);
    if (next_ == buckets_.size()) finish();
  }

  // Buckets are reduced in their order, which is the same on all ranks.
  void mark_ready(size_t p) {
    parameters_[p].ready = true;
    --buckets_[parameters_[p].bucket].pending;
    for (; next_ < buckets_.size() && buckets_[next_].pending == 0; ++next_) {
      buckets_[next_].work = group_->all_reduce(buckets_[next_].memory, ReduceOp::kAverage);
    }
  }

  void finish() {
    const std::vector<size_t> used_elsewhere = settle_unused();
    for (Bucket& bucket : buckets_) {
      bucket.work->wait();
      bucket.work.reset();
    }
    for (Parameter& p : parameters_) {
      const Tensor grad = p.tensor.grad();
      if (grad.defined() && grad.dtype() != p.place.dtype()) grad.copy_(p.place);
    }
    for (const size_t u : used_elsewhere) {
      Parameter& p = parameters_[u];
      p.tensor.set_grad(p.place.to(p.tensor.dtype()));
    }
    expecting_ = started_ = false;
    finished_ = true;
    if (options_.find_unused_parameters || options_.static_graph) rebuilt_ = true;
    if (order_.size() != parameters_.size()) order_.clear();
  }

  // Parameters that got no gradient here, but did on another rank. Those that no rank used keep
  // whatever grad() they have.
  std::vector<size_t> settle_unused() {
    if (!options_.find_unused_parameters && !options_.static_graph) return {};
    std::vector<int32_t> used(parameters_.size(), 1);
    for (const size_t u : unused_) used[u] = 0;
    const Tensor map = tensor<int32_t>(used).to(parameters_[0].tensor.device());
    group_->all_reduce(map, ReduceOp::kMax).wait();
    used = map.to_vector<int32_t>();
    std::vector<size_t> elsewhere;
    for (const size_t u : unused_) {
      if (used[u] != 0) elsewhere.push_back(u);
    }
    return elsewhere;
  }

  std::shared_ptr<ProcessGroup> group_;
  Options options_;
  std::vector<Parameter> parameters_;
  nn::NamedTensors buffers_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> unused_;
  std::vector<size_t> order_;  // in which gradients became ready, until buckets follow it
  size_t next_ = 0;            // bucket to be reduced
  bool expecting_ = false;     // the last forward wants its backward to be reduced
  bool started_ = false;       // a gradient has come since
  bool finished_ = false;      // and they have all been reduced
  bool rebuilt_ = false;
  bool searched_ = false;
};

DistributedDataParallel::~DistributedDataParallel() = default;

std::shared_ptr<DistributedDataParallel::Reducer> DistributedDataParallel::make(
    std::shared_ptr<ProcessGroup> group, const Options& options) {
  WICK_CHECK(group != nullptr, "DistributedDataParallel: expected a process group, got null");
  auto reducer = std::make_shared<Reducer>(*module_, std::move(group), options);
  reducer->add_hooks();
  return reducer;
}

Tensor DistributedDataParallel::forward(const Tensor& x) {
  reducer_->before_forward(is_training());
  const Tensor y = module_(x);
  reducer_->after_forward(y);
  return y;
}

DistributedDataParallel::NoSync::NoSync(DistributedDataParallel& model)
    : model_(model), before_(std::exchange(model.reducer_->sync, false)) {}

DistributedDataParallel::NoSync::~NoSync() { model_.reducer_->sync = before_; }

void synchronize_batch_norms(nn::Module& module, const std::shared_ptr<ProcessGroup>& group) {
  WICK_CHECK(group != nullptr, "synchronize_batch_norms: expected a process group, got null");
  module.apply([&](const std::string&, nn::Module& part) {
    if (auto* norm = dynamic_cast<nn::BatchNorm*>(&part)) {
      norm->sum_over_ranks = [group](const Tensor& x) { return all_reduce_sum(x, group); };
    }
  });
}

}  // namespace wick::dist
