#include "wick/core/cuda_graph.h"

#include <optional>
#include <utility>

#include "wick/core/autograd.h"
#include "wick/core/base/check.h"
#include "wick/core/detail/autocast.h"
#include "wick/core/detail/capture.h"
#include "wick/core/memory/allocator.h"
#include "wick/core/profile/span.h"
#include "wick/core/random.h"
#include "wick/core/stream.h"
#include "wick/core/tensor.h"
#include "wick/kernels/declare.h"
#ifdef WICK_HAS_CUDA
#include "wick/core/cuda/capture.h"
#endif

namespace wick {

namespace {

thread_local std::optional<Capture> capture;

void check_gpu(Device device) {
  WICK_CHECK(device.is_cuda(), "cuda_graph: got ", device,
             ", whose work runs as it is called, expected a GPU");
}

}  // namespace

Capture* capture_of(Device device) {
  return capture && capture->device == device ? &*capture : nullptr;
}

bool is_capturing() { return capture.has_value(); }

void refuse_in_capture(Device device, const char* what) {
  WICK_CHECK(capture_of(device) == nullptr, "cuda_graph: captured work must not ", what,
             ": none of it has run on ", device, " yet");
}

RandomKey Capture::from_base(RandomKey key) const {
  WICK_CHECK(key.seed == start.seed && key.offset >= start.offset,
             "cuda_graph: captured work must not set the default generator of ", device);
  return {0, key.offset - start.offset};
}

RandomKey key_of_op(uint64_t seed, uint64_t offset, const Tensor& base, Device device) {
  Capture* const now = base.defined() ? nullptr : capture_of(device);
  const bool is_due = now != nullptr && std::exchange(now->is_base_due, false);
  if (is_due) now->draws = true;
  const Tensor& added = is_due ? now->base : base;
  return {seed, offset, added.defined() ? static_cast<const uint64_t*>(added.raw_data()) : nullptr};
}

struct CudaGraph::State {
  explicit State(Device of) : device(of), memory(allocator(of)), pool(memory.create_pool()) {}
  ~State() {
#ifdef WICK_HAS_CUDA
    if (graph != nullptr) cuda::delete_graph(graph);
    if (stream) cuda::give_back_capture_stream(*stream);
#endif
    memory.release_pool(pool);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Tells the kernels where the generator is.
  void place_generator(RandomKey now) {
    const NoGrad no_grad;
    if (now.seed != seed_there) base[0].fill_(static_cast<int64_t>(now.seed));
    seed_there = now.seed;
    base[1].fill_(static_cast<int64_t>(now.offset));
  }

  Device device;
  CachingAllocator& memory;
  CachingAllocator::PoolId pool;
  std::optional<Stream> stream;
  void* graph = nullptr;
  int64_t nodes = 0;
  Tensor base;  // see Capture; undefined if nothing is drawn
  std::optional<uint64_t> seed_there;
  int64_t draws = 0;  // by how many a replay moves the generator on
};

namespace {

// Of one thread, until it goes out of scope: by then the capture has become a graph, or is over.
class Capturing {
 public:
  Capturing(CachingAllocator& memory, CachingAllocator::PoolId pool, Stream stream)
      : memory_(memory), pool_(pool), stream_(stream), on_stream_(stream) {
    memory_.begin_allocate_to_pool(pool_);
    try {
      const Tensor base = empty({2}, kInt64, stream.device);
      WICK_CALL_CUDA(begin_capture(stream_));
      capture = Capture{stream.device, generator().get_state(), base};
    } catch (...) {
      memory_.end_allocate_to_pool(pool_);
      throw;
    }
    amp::forget_casts();
  }
  ~Capturing() {
    generator().set_state(capture->start);  // nothing was drawn yet
    capture.reset();
    amp::forget_casts();
#ifdef WICK_HAS_CUDA
    if (!finished_) cuda::abandon_capture(stream_);
#endif
    memory_.end_allocate_to_pool(pool_);
  }
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;

  int64_t draws() const {
    const RandomKey now = generator().get_state(), start = capture->start;
    const auto draws = static_cast<int64_t>(now.offset - start.offset);
    WICK_CHECK(now.seed == start.seed && draws >= 0,
               "cuda_graph: captured work must not set the default generator of ", stream_.device);
    return draws;
  }
  void* finish([[maybe_unused]] int64_t* nodes) {
    void* graph = nullptr;
    WICK_CALL_CUDA_INTO(graph, end_capture(stream_, nodes));
    finished_ = true;
    return graph;
  }

 private:
  Generator& generator() const { return default_generator(stream_.device); }

  CachingAllocator& memory_;
  const CachingAllocator::PoolId pool_;
  const Stream stream_;
  const StreamGuard on_stream_;
  bool finished_ = false;
};

}  // namespace

CudaGraph::CudaGraph(Device device, const std::function<void()>& work) {
  const profile::Span span(profile::EventKind::kCapture, "CudaGraph.capture");
  check_gpu(device);
  WICK_CHECK(!capture, "cuda_graph: within the capture of another");
  state_ = std::make_unique<State>(device);
  state_->memory.empty_cache();  // in a capture nothing can be given back
  Stream stream;
  WICK_CALL_CUDA_INTO(stream, take_capture_stream(device));
  state_->stream = stream;
  Capturing capturing(state_->memory, state_->pool, stream);
  work();
  if (capture->draws) state_->base = capture->base;
  state_->draws = capturing.draws();
  state_->graph = capturing.finish(&state_->nodes);
}

CudaGraph::~CudaGraph() = default;
CudaGraph::CudaGraph(CudaGraph&&) noexcept = default;
CudaGraph& CudaGraph::operator=(CudaGraph&&) noexcept = default;

void CudaGraph::replay() {
  const profile::Span span(profile::EventKind::kReplay, "CudaGraph.replay");
  refuse_in_capture(state_->device, "replay a graph");
  amp::forget_casts();
  if (state_->base.defined()) {
    state_->place_generator(default_generator(state_->device).next(state_->draws));
  }
  WICK_CALL_CUDA(launch_graph(state_->graph, current_stream(state_->device)));
}

int64_t CudaGraph::num_nodes() const { return state_->nodes; }

namespace {

bool are_alike(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined() != b[i].defined()) return false;
    const bool same =
        !a[i].defined() || (a[i].dtype() == b[i].dtype() && a[i].shape() == b[i].shape());
    if (!same) return false;
  }
  return true;
}

int64_t elements_of(const std::vector<Tensor>& tensors) {
  int64_t elements = 0;
  for (const Tensor& x : tensors) elements += x.defined() ? x.numel() : 0;
  return elements;
}

}  // namespace

CapturedFunction::CapturedFunction(Device device, Function function, int64_t warm_ups,
                                   Identity identity)
    : device_(device),
      function_(std::move(function)),
      identity_(std::move(identity)),
      warm_ups_(warm_ups),
      left_(warm_ups) {
  check_gpu(device);
  WICK_CHECK(warm_ups >= 1, "cuda_graph: warm_ups: got ", warm_ups, ", expected 1 or more");
}

std::vector<Tensor> CapturedFunction::operator()(const std::vector<Tensor>& inputs) {
  for (const Tensor& x : inputs) {
    WICK_CHECK(!x.defined() || !x.requires_grad() || !grad_enabled(),
               "cuda_graph: an input of a captured function requires a gradient, which replays do "
               "not give: detach it, or capture what comes before it, too");
  }
  bool alike = are_alike(inputs, inputs_);
  if (!graph_ && !alike && (inputs_.empty() || elements_of(inputs) > elements_of(inputs_))) {
    inputs_.clear();
    for (const Tensor& x : inputs) inputs_.push_back(x.defined() ? empty_like(x) : Tensor());
    left_ = warm_ups_;
    alike = true;
  }
  if (!alike) return function_(inputs);
  const auto copied = [&]() -> const std::vector<Tensor>& {
    const NoGrad no_grad;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].defined()) inputs_[i].copy_(inputs[i], /*non_blocking=*/true);
    }
    return inputs_;
  };
  if (left_ > 0) {
    --left_;
    return function_(identity_ ? copied() : inputs);  // laid out as what is captured
  }
  std::vector<uint64_t> identity;
  if (identity_) {
    identity = identity_(inputs_);
    const bool is_other = graph_ ? identity != captured_ : identity.empty();
    if (is_other) return function_(copied());
  }
  if (!graph_) {
    graph_.emplace(device_, [&] { results_ = function_(inputs_); });
    captured_ = std::move(identity);
  }
  copied();
  graph_->replay();
  return results_;
}

}  // namespace wick
