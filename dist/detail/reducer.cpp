#include "wick/dist/detail/reducer.h"

#include <algorithm>
#include <map>
#include <set>

#include "wick/core/autograd.h"
#include "wick/core/graph/host_call.h"
#include "wick/core/graph/trace.h"
#include "wick/core/sparse_rows.h"
#include "wick/dist/detail/reduction.h"

namespace wick::dist {

namespace {

constexpr int64_t kAlignment = 64;            // bytes, of each gradient in its bucket
constexpr int64_t kLargeBroadcast = 1 << 20;  // bytes, of a tensor that travels alone

int64_t round_up(int64_t x, int64_t step) { return (x + step - 1) / step * step; }

// Elements of that many bytes.
int64_t alignment_of(Dtype dtype) { return kAlignment / size_of(dtype); }

}  // namespace

Reducer::Reducer(nn::Module& module, std::shared_ptr<ProcessGroup> group,
                 const DataParallelOptions& options)
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

void Reducer::check_options() const {
  WICK_CHECK(options_.bucket_bytes > 0 && options_.first_bucket_bytes > 0,
             "DistributedDataParallel: buckets must have a positive size: got ",
             options_.bucket_bytes, " and ", options_.first_bucket_bytes, " bytes");
  if (!options_.communication_dtype) return;
  const Dtype dtype = *options_.communication_dtype;
  WICK_CHECK(dtype == kFloat16 || dtype == kBFloat16,
             "DistributedDataParallel: communication_dtype must be float16 or bfloat16: got ",
             dtype);
}

void Reducer::add_hooks() {
  if (alone()) return;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    parameters_[p].tensor.register_post_accumulate_grad_hook(
        [reducer = weak_from_this(), p](const Tensor&) {
          if (const auto r = reducer.lock()) r->on_gradient(p);
        });
  }
}

void Reducer::before_forward(bool training) {
  if (alone() || parameters_.empty() || !grad_enabled()) return;
  if (graph::is_tracing()) check_each_run();
  if (!sync) return;
  check_finished();
  if (!training) return;
  if (join_) announce(true);
  const bool all_are_here = !join_ || active_ == group_->size();
  if (!order_.empty() && !rebuilt_ && all_are_here) rebuild();
  if (options_.broadcast_buffers) share_buffers();
}

// A graph has what the host decided when it was traced.
void Reducer::check_each_run() {
  const auto again = [self = shared_from_this(), traced = sync_around](const auto&) {
    WICK_CHECK(!self->join_, "join: a step within a graph: got a compiled one, expected an eager ",
               "one, as ranks agree in each pass on who has inputs");
    WICK_CHECK(self->sync_around == traced, "NoSync: around a step that was traced ",
               traced ? "without" : "with", " it: expected NoSync within the step");
    return Tensor();
  };
  graph::host_call("check_data_parallel", again, {});
}

void Reducer::share_buffers() {
  const auto again = [self = shared_from_this()](const std::vector<Tensor>&) {
    self->broadcast_all(self->buffers_, self->root_);
    return Tensor();
  };
  std::vector<Tensor> changed;
  for (const auto& [name, buffer] : buffers_) changed.push_back(buffer);
  graph::host_call("broadcast_buffers", again, {}, changed);
}

void Reducer::after_forward(const std::vector<Tensor>& outputs) {
  if (alone() || !grad_enabled()) return;
  expecting_ = sync;
  finished_ = false;
  if (!sync) return;
  begin_pass();
  if (options_.find_unused_parameters || (options_.static_graph && !searched_)) {
    unused_ = find_unused(outputs);
    searched_ = true;
  }
}

void Reducer::begin_pass() {
  for (Parameter& p : parameters_) p.ready = false;
  for (Bucket& b : buckets_) b.pending = b.parameters.size();
  next_ = 0;
}

Dtype Reducer::travel_dtype(const Tensor& parameter) const {
  return options_.communication_dtype.value_or(parameter.dtype());
}

// What can be one tensor: elements of one dtype, on one device.
std::pair<Dtype, int> Reducer::kind_of(const Tensor& x) {
  return {x.dtype(), x.device().is_cpu() ? -1 : int{x.device().index}};
}

// Small tensors of a kind travel together: a collective for each would be mostly waiting.
void Reducer::broadcast_all(const nn::NamedTensors& tensors, int root) {
  const NoGrad no_grad;
  std::map<std::pair<Dtype, int>, std::vector<Tensor>> small;
  std::vector<Work> works;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.numel() * size_of(tensor.dtype()) >= kLargeBroadcast) {
      works.push_back(group_->broadcast(tensor, root));
    } else {
      small[kind_of(tensor)].push_back(tensor);
    }
  }
  std::vector<std::pair<Tensor, Tensor>> copies;  // from, to: once all is there
  for (const auto& [kind, all] : small) {
    int64_t size = 0;
    for (const Tensor& x : all) size += x.numel();
    const Tensor together = empty({size}, kind.first, all[0].device());
    int64_t begin = 0;
    for (const Tensor& x : all) {
      const Tensor place = in_layout_of(together.narrow(0, begin, x.numel()), x);
      begin += x.numel();
      if (group_->rank() == root) {
        place.copy_(x);
      } else {
        copies.emplace_back(place, x);
      }
    }
    works.push_back(group_->broadcast(together, root));
  }
  for (const Work& work : works) work.wait();
  for (const auto& [from, to] : copies) to.copy_(from);
}

// Fills buckets with the parameters in this order; each is of one dtype and device.
void Reducer::build(const std::vector<size_t>& order) {
  buckets_.clear();
  std::map<std::pair<Dtype, int>, Bucket> open;
  std::map<std::pair<Dtype, int>, int64_t> bytes;
  const auto close = [&](Bucket& bucket) { buckets_.push_back(std::exchange(bucket, {})); };
  for (const size_t p : order) {
    const Tensor& x = parameters_[p].tensor;
    const auto key = kind_of(x);
    open[key].parameters.push_back(p);
    bytes[key] += padded(x) * size_of(travel_dtype(x));
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
int64_t Reducer::padded(const Tensor& x) const {
  return round_up(x.numel(), alignment_of(travel_dtype(x)));
}

void Reducer::lay_out(size_t b) {
  Bucket& bucket = buckets_[b];
  int64_t size = 0;
  for (const size_t p : bucket.parameters) size += padded(parameters_[p].tensor);
  const Tensor& first = parameters_[bucket.parameters[0]].tensor;
  const Dtype dtype = travel_dtype(first);
  size = round_up(size, alignment_of(dtype) * group_->size());
  bucket.memory = zeros({size}, dtype, first.device());
  int64_t begin = 0;
  for (const size_t p : bucket.parameters) {
    Parameter& parameter = parameters_[p];
    const Tensor& x = parameter.tensor;
    parameter.bucket = b;
    parameter.begin = begin;
    parameter.place = in_layout_of(bucket.memory.narrow(0, begin, x.numel()), x);
    parameter.gradient = parameter.place.detach();
    begin += padded(x);
  }
  bucket.pending = bucket.parameters.size();
}

// Once, in the order in which rank 0 saw the gradients become ready.
void Reducer::rebuild() {
  const graph::Untraced once;
  rebuilt_ = true;
  std::vector<int64_t> order(order_.begin(), order_.end());
  const Tensor agreed = tensor<int64_t>(order).to(parameters_[0].tensor.device());
  group_->broadcast(agreed).wait();
  order = agreed.to_vector<int64_t>();
  build({order.begin(), order.end()});
}

void Reducer::check_finished() const {
  if (!started_) return;
  std::string missing;
  for (const Parameter& p : parameters_) {
    if (!p.ready) missing += (missing.empty() ? "" : ", ") + p.name;
  }
  throw Error(concat(
      "DistributedDataParallel: the last backward did not reduce all gradients: none came for ",
      missing, "; does the loss depend on them? If not, set find_unused_parameters"));
}

std::vector<size_t> Reducer::find_unused(const std::vector<Tensor>& outputs) const {
  std::set<const Node*> seen;
  std::vector<const Node*> open;
  for (const Tensor& y : outputs) {
    if (const Edge edge = gradient_edge(y); edge.node) open.push_back(edge.node.get());
  }
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

void Reducer::on_gradient(size_t p) {
  Parameter& parameter = parameters_[p];
  parameter.is_used = true;
  if (!expecting_ && !finished_) return;
  const NoGrad no_grad;
  WICK_CHECK(!parameter.ready, "DistributedDataParallel: ", parameter.name,
             " got a second gradient since the last forward: backward twice needs a forward "
             "each, or NoSync around all but the last");
  if (!started_) {
    started_ = true;
    for (const size_t u : unused_) {
      put_in_place(parameters_[u]);
      mark_ready(u);
    }
  }
  put_in_place(parameter);
  if (!rebuilt_ && order_.size() < parameters_.size()) order_.push_back(p);
  mark_ready(p);
  if (next_ == buckets_.size()) finish();
}

// The gradient of this pass, or of earlier ones, or of both.
void Reducer::put_in_place(Parameter& parameter) {
  const Tensor grad = parameter.tensor.grad();
  parameter.is_used = parameter.is_used && grad.defined();
  WICK_CHECK(!grad.defined() || !grad.is_sparse(), "DistributedDataParallel: ", parameter.name,
             " has a sparse gradient: got ", sparse_rows(grad).rows.numel(), " rows of ",
             grad.shape(), ", expected a dense one: make the embedding without sparse");
  if (!grad.defined()) parameter.place.zero_();
  if (!grad.defined() || grad.address() == parameter.place.address()) return;
  parameter.place.copy_(grad);
  const bool fits = grad.dtype() == parameter.place.dtype();
  if (parameter.is_used && fits) parameter.tensor.set_grad(parameter.gradient);
}

// Buckets are reduced in their order, which is the same on all ranks.
void Reducer::mark_ready(size_t p) {
  parameters_[p].ready = true;
  --buckets_[parameters_[p].bucket].pending;
  for (; next_ < buckets_.size() && buckets_[next_].pending == 0; ++next_) {
    reduce(buckets_[next_]);
  }
}

void Reducer::reduce(Bucket& bucket) {
  if (!sharded_) {
    bucket.work = group_->all_reduce(bucket.memory, ReduceOp::kAverage);
    return;
  }
  const Tensor parts = bucket.memory.view({group_->size(), bucket.part.numel()});
  bucket.work = group_->reduce_scatter(parts, bucket.part, ReduceOp::kAverage);
}

void Reducer::finish() {
  const std::vector<bool> used = settle_unused();
  const bool over_active = join_ && !join_->divide_by_initial_world_size;
  for (Bucket& bucket : buckets_) {
    bucket.work->wait();
    bucket.work.reset();
    if (!over_active || active_ == group_->size()) continue;
    const Tensor& average = sharded_ ? bucket.part : bucket.memory;
    average.mul_(static_cast<double>(group_->size()) / active_);
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& p = parameters_[i];
    const Tensor grad = p.tensor.grad();
    const bool is_apart = grad.defined() && grad.dtype() != p.place.dtype();
    if (is_apart && used[i] && !sharded_) grad.copy_(p.place);
    p.is_used = false;
  }
  for (const size_t u : unused_) {  // here
    const Parameter& p = parameters_[u];
    if (used[u]) p.tensor.set_grad(p.place.to(p.tensor.dtype()));
  }
  for (size_t i = 0; sharded_ && i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    p.shard.set_grad(used[i] ? p.shard_grad.to(p.tensor.dtype()) : Tensor());
  }
  if (graph::is_tracing()) set_gradients_in_each_run();
  expecting_ = started_ = false;
  finished_ = true;
  if (may_be_unused()) rebuilt_ = true;
  if (order_.size() != parameters_.size()) order_.clear();
}

void Reducer::set_gradients_in_each_run() const {
  std::vector<Tensor> leaves;
  for (const Parameter& p : parameters_) {
    leaves.push_back(p.tensor);
    if (sharded_) leaves.push_back(p.shard);
  }
  graph::host_call(
      "set_gradients", [](const std::vector<Tensor>&) { return Tensor(); }, leaves);
}

// Which parameters any rank used. Those that none did keep whatever grad() they have.
std::vector<bool> Reducer::settle_unused() {
  std::vector<bool> used(parameters_.size(), true);
  if (!may_be_unused()) return used;
  std::vector<int32_t> here(parameters_.size(), 1);
  for (const size_t u : unused_) here[u] = parameters_[u].is_used ? 1 : 0;
  const auto anywhere = std::make_shared<std::vector<int32_t>>();
  const auto settle = [self = shared_from_this(), here, anywhere](const std::vector<Tensor>&) {
    const Tensor map = tensor<int32_t>(here).to(self->parameters_[0].tensor.device());
    self->group_->all_reduce(map, ReduceOp::kMax).wait();
    const std::vector<int32_t> found = map.to_vector<int32_t>();
    WICK_CHECK(anywhere->empty() || *anywhere == found, "DistributedDataParallel: ranks use other ",
               "parameters than when the step was traced: expected the same ones in each run");
    *anywhere = found;
    return Tensor();
  };
  graph::host_call("settle_unused", settle, {});
  for (size_t i = 0; i < used.size(); ++i) used[i] = (*anywhere)[i] != 0;
  return used;
}

// --- Shares of an optimizer ---------------------------------------------------------------------

std::pair<int64_t, int64_t> Reducer::share_of(const Parameter& parameter, int rank) const {
  const int64_t part = buckets_[parameter.bucket].memory.numel() / group_->size();
  const int64_t numel = parameter.tensor.numel();
  const int64_t begin = std::clamp(rank * part - parameter.begin, int64_t{0}, numel);
  const int64_t end = std::clamp((rank + 1) * part - parameter.begin, int64_t{0}, numel);
  return {begin, end - begin};
}

Tensor Reducer::narrow_to_share(const Tensor& bucket_part, const Parameter& parameter) const {
  const auto [begin, count] = share_of(parameter, group_->rank());
  if (count == 0) return bucket_part.narrow(0, 0, 0);
  return bucket_part.narrow(0, parameter.begin + begin - group_->rank() * bucket_part.numel(),
                            count);
}

void Reducer::shard() {
  if (sharded_) return;
  const NoGrad no_grad;
  sharded_ = rebuilt_ = true;
  order_.clear();
  for (Bucket& bucket : buckets_) {
    const int64_t part = bucket.memory.numel() / group_->size();
    bucket.part = zeros({part}, bucket.memory.dtype(), bucket.memory.device());
  }
  for (Parameter& p : parameters_) {
    const auto [begin, count] = share_of(p, group_->rank());
    p.shard = flat(p.tensor.detach()).narrow(0, begin, count);
    p.shard.set_requires_grad();
    p.shard_grad = narrow_to_share(buckets_[p.bucket].part, p);
  }
}

void Reducer::gather_parameters() {
  const NoGrad no_grad;
  // One bucket is under way while the next is put together.
  std::optional<Work> work;
  Tensor own, all;
  for (size_t b = 0; b <= buckets_.size(); ++b) {
    const Tensor all_before = all, own_before = own;
    const std::optional<Work> before = std::exchange(work, std::nullopt);
    if (b < buckets_.size()) {
      const Tensor& like = parameters_[buckets_[b].parameters[0]].tensor;
      const int64_t part = buckets_[b].part.numel();
      own = empty({part}, like.dtype(), like.device());
      all = empty({group_->size(), part}, like.dtype(), like.device());
      for (const size_t p : buckets_[b].parameters) {
        const Tensor& shard = parameters_[p].shard;
        if (shard.numel() > 0) narrow_to_share(own, parameters_[p]).copy_(shard.detach());
      }
      work = group_->all_gather(own, all);
    }
    if (!before) continue;
    before->wait();
    for (const size_t p : buckets_[b - 1].parameters) {
      const Tensor x = flat(parameters_[p].tensor.detach());
      x.copy_(all_before.view({-1}).narrow(0, parameters_[p].begin, x.numel()));
    }
  }
}

}  // namespace wick::dist
