#include "wick/dist/detail/nccl.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#ifdef WICK_SIM
#include <unistd.h>
#endif

#include "wick/core/base/detail/start_thread.h"
#include "wick/core/stream.h"
#include "wick/dist/detail/nccl_api.h"
#include "wick/dist/detail/reduction.h"
#include "wick/kernels/cuda/common/enter_device.h"

namespace wick::dist {

namespace {

using std::chrono::milliseconds;

// How often what is queued is looked at: soon, and then less and less.
constexpr std::chrono::microseconds kFirstPause{500}, kLongestPause{20'000};
// How long the reason why NCCL failed may take to be known.
constexpr milliseconds kReasonOfNcclTimeout{1000};
// Whose GPU is not even there says so first.
constexpr milliseconds kGraceOfWaiting{150};
// Survivors of a failure are to end within 5 s.
constexpr milliseconds kLeastAbortTime{1500}, kMostAbortTime{3000};
constexpr milliseconds kFinalizeTimeout{1000};
constexpr milliseconds kPatienceWithCalls{200};
constexpr const char* kOpening = "ncclCommInitRankConfig";

ncclDataType_t nccl_type(Dtype dtype) {
  switch (dtype) {
    case kFloat64: return ncclFloat64;
    case kFloat32: return ncclFloat32;
    case kFloat16: return ncclFloat16;
    case kBFloat16: return ncclBfloat16;
    case kInt64: return ncclInt64;
    case kInt32: return ncclInt32;
    default: return ncclUint8;  // bool, too, which is never reduced
  }
}

ncclRedOp_t nccl_op(ReduceOp op) {
  static constexpr ncclRedOp_t kOps[] = {ncclSum, ncclAvg, ncclProd, ncclMin, ncclMax};
  return kOps[static_cast<int>(op)];
}

// A communicator, which a thread that ends it may be the last to hold.
class Communicator {
 public:
  explicit Communicator(Device gpu) : gpu_(gpu) {}

  // Calls `function` with the handle, on this GPU. Throws if it fails, with `what` in the text, or
  // if there is no handle any more. It may not be over before is_settled() says so.
  template <class Function>
  void call(const char* what, const Function& function) {
    const std::lock_guard lock(mutex_);
    cuda::enter_device(gpu_);
    check_open();
    check(what, function(handle_));
  }
  void open(int rank, int size, const ncclUniqueId& id) {
    const std::lock_guard lock(mutex_);
    cuda::enter_device(gpu_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t handle = nullptr;
    const ncclResult_t status = nccl().init_rank(&handle, size, id, rank, &config);
    handle_ = handle;
    check(kOpening, status);
  }
  // Whether the last call is over. Not so either while another thread's call is under way, which
  // may take long if the GPU hangs.
  bool is_settled(const char* what) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    cuda::enter_device(gpu_);
    check_open();
    ncclResult_t status = ncclSuccess;
    check("ncclCommGetAsyncError", nccl().get_async_error(handle_, &status));
    check(what, status);
    return status != ncclInProgress;
  }
  // `how` is abort, which may come from outside of a call that does not return, or destroy.
  void end(ncclResult_t (*how)(ncclComm_t)) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    const auto deadline = Clock::now() + kPatienceWithCalls;
    while (!lock.owns_lock() && !lock.try_lock() && Clock::now() < deadline) {
      std::this_thread::sleep_for(kFirstPause);
    }
    const ncclComm_t handle = handle_.exchange(nullptr);
    if (handle == nullptr) return;
    try {
      cuda::enter_device(gpu_);
    } catch (const std::exception&) {  // a broken GPU's communicator must end, too
    }
    how(handle);
  }

 private:
  void check_open() const {
    if (handle_ == nullptr) throw ProcessGroupError("NCCL was aborted");
  }
  void check(const char* what, ncclResult_t status) const {
    if (status == ncclSuccess || status == ncclInProgress) return;
    const char* const words = nccl().last_error(handle_);
    const bool has_words = words != nullptr && *words != 0;
    throw ProcessGroupError(concat("NCCL: ", what, " failed: ", nccl().error_string(status),
                                   has_words ? concat(": ", words) : ""));
  }

  const Device gpu_;
  std::mutex mutex_;
  std::atomic<ncclComm_t> handle_ = nullptr;
};

// Does `action` in a thread of its own; false if it takes longer than `most`: the thread is left to
// itself.
template <class Action>
bool finishes_within(milliseconds most, Action action) {
  struct Outcome {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_over = false;
  };
  const auto outcome = std::make_shared<Outcome>();
  std::thread acting =
      wick::detail::start_thread("NCCL", [outcome, action = std::move(action)]() mutable {
        try {
          action();
        } catch (const std::exception&) {  // it is over all the same
        }
        { const Action last = std::move(action); }  // lets go of what it holds
        const std::lock_guard lock(outcome->mutex);
        outcome->is_over = true;
        outcome->changed.notify_all();
      });
  acting.detach();
  std::unique_lock lock(outcome->mutex);
  return outcome->changed.wait_for(lock, most, [&] { return outcome->is_over; });
}

// A collective that was queued.
struct Watched {
  Watched(const Collective& c, Device gpu)
      : description(c.description()),
        kind(c.kind),
        sequence(c.sequence),
        started(gpu),
        finished(gpu) {
    for (const Transfer& t : c.transfers) {
      if (t.kind == CollectiveKind::kSend) absent.push_back(t.peer);
    }
  }
  std::string description;
  CollectiveKind kind;
  uint64_t sequence;
  std::vector<int> absent;  // who may not have called it
  Event started, finished;
  Clock::time_point queued = {};
};

class WatchedNcclGroup final : public NcclGroup {
 public:
  WatchedNcclGroup(Control& control, int rank, int size, Device gpu, const std::string& id,
                   milliseconds timeout, NcclEvents events)
      : control_(control),
        gpu_(gpu),
        timeout_(timeout),
        events_(std::move(events)),
        communicator_(std::make_shared<Communicator>(gpu)) {
    try {
      connect(rank, size, id);
    } catch (const std::exception& error) {
      events_.failed(error.what());  // before the abort, which may not return
      end_by_abort();
      throw;
    }
    watcher_ = wick::detail::start_thread("NCCL", [this] { watch(); });
  }

  ~WatchedNcclGroup() override { stop(); }

  void run(const Collective& c) override {
    const auto watched = std::make_shared<Watched>(c, gpu_);
    const Stream stream = current_stream(gpu_);
    watched->started.record(stream);
    awaited_ = watched->absent;
    queue(c, static_cast<cudaStream_t>(stream.handle));
    watched->finished.record(stream);
    watched->queued = Clock::now();
    const std::lock_guard lock(mutex_);
    queued_.push_back(watched);
    changed_.notify_all();
  }

  void abort() override {
    const std::lock_guard lock(mutex_);
    is_aborting_ = true;
    changed_.notify_all();
  }

  void stop() override {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
      changed_.notify_all();
    }
    if (watcher_.joinable()) watcher_.join();
  }

 private:
  void connect(int rank, int size, const std::string& id) {
    ncclUniqueId unique = {};
    WICK_CHECK(id.size() == sizeof unique, "NCCL: rank 0 gave no id");
    std::memcpy(&unique, id.data(), sizeof unique);
    try {
      communicator_->open(rank, size, unique);
      await_settled(kOpening);
    } catch (const ProcessGroupError&) {
      throw_reason();
    }
  }

  template <class Function>
  void call(const char* what, const Function& function) {
    try {
      communicator_->call(what, function);
      await_settled(what);
    } catch (const ProcessGroupError&) {
      throw_reason();
    }
  }

  // Until NCCL has taken note of what it was called for. In the first collectives ranks may connect
  // to each other meanwhile.
  void await_settled(const char* what) {
    for (auto pause = kFirstPause / 16; !communicator_->is_settled(what);
         pause = std::min(2 * pause, kLongestPause)) {
      if (control_.has_failed()) control_.throw_failure();
      if (Clock::now() >= control_.deadline()) control_.blame(what, awaited_);
      std::this_thread::sleep_for(pause);
    }
  }

  // The error under way, or the failure that it follows from: that a rank is gone says more.
  [[noreturn]] void throw_reason() {
    control_.wait_for_failure(kReasonOfNcclTimeout);
    if (control_.has_failed()) control_.throw_failure();
    throw;
  }

  // All at once: a send that is queued alone holds the stream up until it is received.
  void exchange(const Collective& c, cudaStream_t stream) {
    call("ncclGroupEnd", [&](ncclComm_t comm) {
      ncclResult_t status = nccl().group_start();
      for (const Transfer& t : c.transfers) {
        const Tensor x = flat(t.tensor);
        const auto count = static_cast<size_t>(x.numel());
        if (count == 0 || (status != ncclSuccess && status != ncclInProgress)) continue;
        const ncclDataType_t type = nccl_type(x.dtype());
        status = t.kind == CollectiveKind::kSend
                     ? nccl().send(x.raw_data(), count, type, t.peer, comm, stream)
                     : nccl().recv(x.raw_data(), count, type, t.peer, comm, stream);
      }
      const ncclResult_t ended = nccl().group_end();
      return status == ncclSuccess || status == ncclInProgress ? ended : status;
    });
  }

  void queue(const Collective& c, cudaStream_t stream) {
    if (c.is_between_two()) return exchange(c, stream);
    const Tensor x = flat(c.tensor);
    void* const data = x.raw_data();
    const auto count = static_cast<size_t>(x.numel());
    const ncclDataType_t type = nccl_type(x.dtype());
    switch (c.kind) {
      case CollectiveKind::kAllReduce:
        return call("ncclAllReduce", [&](ncclComm_t comm) {
          return nccl().all_reduce(data, data, count, type, nccl_op(c.op), comm, stream);
        });
      case CollectiveKind::kBroadcast:
        return call("ncclBroadcast", [&](ncclComm_t comm) {
          return nccl().broadcast(data, data, count, type, c.peer, comm, stream);
        });
      case CollectiveKind::kAllGather:
        return call("ncclAllGather", [&](ncclComm_t comm) {
          return nccl().all_gather(data, c.result.raw_data(), count, type, comm, stream);
        });
      case CollectiveKind::kReduceScatter:
        return call("ncclReduceScatter", [&](ncclComm_t comm) {
          const auto part = static_cast<size_t>(c.result.numel());
          return nccl().reduce_scatter(data, c.result.raw_data(), part, type, nccl_op(c.op), comm,
                                       stream);
        });
      default: return;
    }
  }

  // --- The watcher's thread ---------------------------------------------------------------------

  void watch() {
    auto pause = kFirstPause;
    while (const std::shared_ptr<Watched> next = await_next()) {
      std::string reason;
      try {
        if (next->finished.query()) {
          drop(*next);
          pause = kFirstPause;
          continue;
        }
        look_for_trouble(*next);
      } catch (const std::exception& error) {
        reason = error.what();
      }
      std::unique_lock lock(mutex_);
      if (!reason.empty()) {
        lock.unlock();
        events_.failed(reason);
        lock.lock();
        is_aborting_ = true;
      }
      changed_.wait_for(lock, pause, [&] { return is_aborting_; });
      pause = std::min(2 * pause, kLongestPause);
    }
    bool is_aborting = false;
    {
      const std::lock_guard lock(mutex_);
      is_aborting = is_aborting_;
    }
    if (is_aborting) {
      end_by_abort();
    } else {
      end_in_peace();
    }
  }

  // What was queued first of all that goes on; null if the group ends.
  std::shared_ptr<Watched> await_next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_aborting_ || is_stopping_ || !queued_.empty(); });
    if (is_aborting_ || queued_.empty()) return nullptr;
    return queued_.front();
  }

  void drop(const Watched& done) {
    events_.ended(done.kind, done.sequence);
    const std::lock_guard lock(mutex_);
    queued_.pop_front();
    if (!queued_.empty()) queued_.front()->queued = Clock::now();  // its turn began now
  }

  // Throws if `next`, which is not over, has failed or takes too long.
  void look_for_trouble(const Watched& next) {
    try {
      communicator_->is_settled(next.description.c_str());
    } catch (const ProcessGroupError&) {
      throw_reason();
    }
    const auto passed = Clock::now() - next.queued;
    if (passed < timeout_) return;
    if (!next.started.query()) {
      throw ProcessGroupError(concat(next.description, ": this rank's GPU is not done with what ",
                                     "was queued before it within ", timeout_.count(), " ms"));
    }
    if (passed >= timeout_ + kGraceOfWaiting) control_.blame(next.description, next.absent);
  }

  void end_by_abort() {
    const auto communicator = communicator_;
    const bool is_over = finishes_within(std::clamp(timeout_, kLeastAbortTime, kMostAbortTime),
                                         [communicator] { communicator->end(nccl().abort); });
    if (is_over) return;
    events_.stuck("NCCL's abort does not return");
  }

  // What was sent is to arrive before the communicator goes.
  void end_in_peace() {
    const auto communicator = communicator_;
    finishes_within(2 * kFinalizeTimeout, [communicator] {
      communicator->end(finalize(*communicator) ? nccl().destroy : nccl().abort);
    });
  }

  // False if it fails or takes too long.
  static bool finalize(Communicator& communicator) {
    const char* const what = "ncclCommFinalize";
    const auto deadline = Clock::now() + kFinalizeTimeout;
    try {
      communicator.call(what, [](ncclComm_t comm) { return nccl().finalize(comm); });
      while (!communicator.is_settled(what)) {
        if (Clock::now() >= deadline) return false;
        std::this_thread::sleep_for(kFirstPause);
      }
    } catch (const std::exception&) {
      return false;
    }
    return true;
  }

  Control& control_;
  const Device gpu_;
  const milliseconds timeout_;
  const NcclEvents events_;
  const std::shared_ptr<Communicator> communicator_;
  std::vector<int> awaited_;  // who may keep run() waiting; empty if any may
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Watched>> queued_;
  bool is_aborting_ = false, is_stopping_ = false;
  std::thread watcher_;
};

}  // namespace

std::string nccl_version() {
  int version = 0;
  nccl().get_version(&version);
  std::string text = concat(version / 10'000, ".", version / 100 % 100, ".", version % 100);
#ifdef WICK_SIM
  text += " (simulated)";
#endif
  return text;
}

std::string unique_name(Device gpu) {
#ifdef WICK_SIM
  return concat("simulated-", getpid(), "-", gpu.index);
#else
  cudaDeviceProp found = {};
  WICK_CUDA_CALL(cudaGetDeviceProperties, &found, gpu.index);
  return {found.uuid.bytes, sizeof found.uuid.bytes};
#endif
}

std::string new_nccl_id() {
  ncclUniqueId id = {};
  const ncclResult_t status = nccl().get_unique_id(&id);
  WICK_CHECK(status == ncclSuccess, "NCCL: ncclGetUniqueId failed: ", nccl().error_string(status));
  return {reinterpret_cast<const char*>(&id), sizeof id};
}

std::unique_ptr<NcclGroup> make_nccl_group(Control& control, int rank, int size, Device gpu,
                                           const std::string& id, milliseconds timeout,
                                           NcclEvents events) {
  return std::make_unique<WatchedNcclGroup>(control, rank, size, gpu, id, timeout,
                                            std::move(events));
}

}  // namespace wick::dist
