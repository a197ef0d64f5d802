#include "wick/nn/activation_offload.h"

#include <deque>
#include <optional>
#include <vector>

#include "wick/core/autograd.h"
#include "wick/core/base/check.h"
#include "wick/core/stream.h"

namespace wick::nn {

namespace {

// The streams of a GPU's copies, one for each way.
struct CopyStreams {
  Stream out, in;
};

const CopyStreams& copy_streams(Device device) {
  thread_local std::vector<std::optional<CopyStreams>> streams;
  const auto index = static_cast<size_t>(device.index);
  if (streams.size() <= index) streams.resize(index + 1);
  if (!streams[index]) streams[index] = {stream_from_pool(device), stream_from_pool(device)};
  return *streams[index];
}

int64_t bytes_of(const Tensor& tensor) { return tensor.numel() * size_of(tensor.dtype()); }

}  // namespace

class OffloadedTensor;
struct OffloadLog {
  int64_t prefetch = 0, bytes = 0;
  std::vector<OffloadedTensor*> tensors;  // as they were kept; null once backward is done with one
};

// Memory of the GPU is that of the stream which computes, and it waits for a copy before it gives
// any back: so a host that is far ahead of the GPU takes no more of it.
class OffloadedTensor final : public PackedTensor {
 public:
  OffloadedTensor(const Tensor& tensor, std::shared_ptr<OffloadLog> log)
      : device_(tensor.device()),
        stream_(current_stream(device_)),
        storage_(tensor.impl()->storage.get()),
        source_(tensor.detach()),
        version_(tensor.version()),
        kept_by_op_(*detail::current_op() != 0),
        log_(std::move(log)),
        number_(log_->tensors.size()) {
    log_->tensors.push_back(this);
  }
  ~OffloadedTensor() override {
    try {
      let_go();
      if (back_.defined()) arrived_->block(stream_);
    } catch (...) {  // the allocator then keeps the memory from its next user
      if (source_.defined()) source_.record_stream(out_);
      if (back_.defined()) back_.record_stream(in_);
    }
    std::vector<OffloadedTensor*>& all = log_->tensors;
    all[number_] = nullptr;
    while (!all.empty() && all.back() == nullptr) all.pop_back();
  }

  bool is(const Tensor& tensor) const {
    return source_.defined() && lies_in(tensor) &&
           source_.impl()->offset == tensor.impl()->offset && source_.dtype() == tensor.dtype() &&
           source_.shape() == tensor.shape() && source_.strides() == tensor.strides() &&
           version_ == tensor.version();
  }
  /// Also true of a storage that has come to the same place since.
  bool lies_in(const Tensor& tensor) const { return storage_ == tensor.impl()->storage.get(); }

  /// Queues the copy to the host, behind what is queued on the current stream. Not of a tensor that
  /// was changed in place already, which ends in an error if backward comes to it.
  void offload() {
    if (kept_by_op_) version_ = source_.version();  // that op may have counted its own change since
    if (source_.version() != version_) return;
    const SavedTensorScope no_hooks(nullptr);
    out_ = copy_streams(device_).out;
    Event written(device_), copied(device_);
    written.record();
    written.block(out_);
    {
      const StreamGuard guard(out_);
      host_ = source_.to(kCpu, /*non_blocking=*/true);
    }
    copied.record(out_);
    copied_ = std::move(copied);
    log_->bytes += bytes_of(host_);
  }
  void wait_for_copy() const {
    if (copied_) copied_->block(current_stream(device_));
  }
  /// From here on the GPU's memory is held no longer, if there is a copy.
  void let_go() {
    if (!copied_ || !source_.defined()) return;
    copied_->block(stream_);
    source_ = Tensor();
  }

  void fetch() {
    if (source_.defined() && copied_ && source_.version() != version_) let_go();
    if (back_.defined() && back_.version() != back_version_) back_ = Tensor();  // somebody's now
    if (back_.defined() || source_.defined()) return;
    const SavedTensorScope no_hooks(nullptr);
    const NoGrad no_grad;
    in_ = copy_streams(device_).in;
    const StreamGuard computing(stream_);
    const Tensor back = empty_strided(host_.shape(), host_.strides(), host_.dtype(), device_);
    Event given(device_);  // behind the copy to the host, too, which let_go() waited for
    Event arrived(device_);
    given.record();
    given.block(in_);
    try {
      const StreamGuard guard(in_);
      back.copy_(host_, /*non_blocking=*/true);
      arrived.record(in_);
    } catch (...) {
      back.record_stream(in_);
      throw;
    }
    arrived_ = std::move(arrived);
    back_ = back;
    back_version_ = back.version();
  }

  Tensor unpack() override {
    fetch();
    fetch_ahead();
    if (back_.defined()) {
      const Stream current = current_stream(device_);
      arrived_->block(current);
      if (!(current == stream_)) back_.record_stream(current);
      return back_;
    }
    WICK_CHECK(source_.version() == version_ || (kept_by_op_ && !copied_),
               "offload: a tensor needed by backward was changed in place: got version ",
               source_.version(), " of shape ", source_.shape(), ", expected version ", version_);
    return source_;
  }

 private:
  void fetch_ahead() {
    int64_t ahead = log_->prefetch;
    for (size_t i = number_; i-- > 0 && ahead > 0;) {
      if (log_->tensors[i] == nullptr) continue;
      try {
        log_->tensors[i]->fetch();
      } catch (const OutOfMemory&) {
        return;  // there may be room when it is wanted
      }
      --ahead;
    }
  }

  const Device device_;
  const Stream stream_;
  Stream out_, in_;  // of the copies
  const Storage* const storage_;
  Tensor source_, host_, back_;
  uint64_t version_, back_version_ = 0;
  const bool kept_by_op_;
  std::optional<Event> copied_, arrived_;
  const std::shared_ptr<OffloadLog> log_;
  const size_t number_;
};

class OffloadActivations::Hooks final : public SavedTensorHooks {
 public:
  explicit Hooks(const OffloadOptions& options) : min_bytes_(options.min_bytes) {
    log_->prefetch = options.prefetch;
  }

  Ref<PackedTensor> pack(const Tensor& tensor) override {
    const bool stays = !tensor.device().is_cuda() || (tensor.requires_grad() && tensor.is_leaf()) ||
                       bytes_of(tensor) < min_bytes_ || !is_dense(tensor.shape(), tensor.strides());
    if (stays) return {};
    for (const Ref<OffloadedTensor>& known : kept_) {  // an op's result is the next one's input
      if (known->is(tensor)) return known;
    }
    kept_.push_back(make_ref<OffloadedTensor>(tensor, log_));
    return kept_.back();
  }

  void before_op(std::span<const Tensor> inputs, uint32_t mutates) override {
    offload();
    for (size_t i = 0; i < inputs.size() && mutates >> i != 0; ++i) {
      if ((mutates >> i & 1) == 0 || !inputs[i].defined()) continue;
      for (const OffloadedTensor* tensor : log_->tensors) {
        if (tensor != nullptr && tensor->lies_in(inputs[i])) tensor->wait_for_copy();
      }
    }
  }

  /// What ops have kept so far is written, or will be before what is queued from now on.
  void offload() {
    for (; queued_ < kept_.size(); ++queued_) kept_[queued_]->offload();
    for (; kept_.size() > kRemembered; --queued_) {
      kept_.front()->let_go();
      kept_.pop_front();
    }
  }

  /// Nobody is told any more of changes in place.
  void end() {
    offload();
    for (const OffloadedTensor* tensor : log_->tensors) {
      if (tensor != nullptr) tensor->wait_for_copy();
    }
    for (const Ref<OffloadedTensor>& tensor : kept_) tensor->let_go();
    kept_.clear();
    queued_ = 0;
  }

  int64_t bytes() const { return log_->bytes; }

 private:
  // So many of the last tensors are known again, and have so long to be copied before the current
  // stream waits for it.
  static constexpr size_t kRemembered = 3;

  const int64_t min_bytes_;
  const std::shared_ptr<OffloadLog> log_ = std::make_shared<OffloadLog>();
  std::deque<Ref<OffloadedTensor>> kept_;
  size_t queued_ = 0;  // of kept_, that are on their way
};

OffloadActivations::OffloadActivations(const OffloadOptions& options)
    : hooks_(std::make_shared<Hooks>(options)), scope_(hooks_.get()) {
  WICK_CHECK(options.min_bytes >= 0 && options.prefetch >= 0,
             "offload: negative options: got min_bytes ", options.min_bytes, " and prefetch ",
             options.prefetch);
}

OffloadActivations::~OffloadActivations() {
  try {
    hooks_->end();
  } catch (const Error&) {
    // No pinned memory: what is not on its way stays on the GPU.
  }
}

int64_t OffloadActivations::offloaded_bytes() const { return hooks_->bytes(); }

}  // namespace wick::nn
