#include "wick/dist/process_group.h"

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include <nlohmann/json.hpp>

#include "wick/core/autograd.h"
#include "wick/core/base/detail/start_thread.h"
#include "wick/core/base/threads.h"
#include "wick/core/detail/capture.h"
#include "wick/core/file.h"
#include "wick/core/graph/host_call.h"
#include "wick/core/graph/trace.h"
#include "wick/core/profile/span.h"

namespace wick::dist {

struct Work::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr error;
  Device device;
  std::optional<Event> ready;   // what was queued before the call
  std::optional<Event> behind;  // behind the collective's own work
  // Of a collective within a trace: that of the graph's last run, and the trace's tensors.
  std::shared_ptr<std::optional<Work>> live;
  std::vector<Tensor> tensors;
};

bool Work::is_done() const {
  WICK_CHECK(!graph::is_tracing(), "is_done: the host asks within a trace: a graph would keep the ",
             "answer, expected wait()");
  if (state_->live) return (*state_->live)->is_done();
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

void Work::wait() const {
  if (state_->live) {
    const auto again = [live = state_->live](const std::vector<Tensor>&) {
      (*live)->wait();
      return Tensor();
    };
    graph::host_call("wait", again, {}, state_->tensors);
    return;
  }
  WICK_CHECK(!graph::is_tracing(), "wait: the collective began before the trace: a graph cannot ",
             "wait for it in each run, expected one that began within");
  const profile::Span span(profile::EventKind::kCollectiveWait, "Work.wait");
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
  if (state_->error) std::rethrow_exception(state_->error);
  if (state_->behind) state_->behind->block(current_stream(state_->device));
}

namespace {

constexpr size_t kMostRecords = 256;

const char* name_of(FlightRecord::State state) {
  static constexpr const char* kNames[] = {"queued", "running", "done", "failed"};
  return kNames[static_cast<int>(state)];
}

}  // namespace

// The group's thread and what it shares with the callers.
struct ProcessGroup::Engine {
  struct Item {
    Collective collective;
    uint64_t id;  // of its record
    std::shared_ptr<Work::State> state;
  };

  explicit Engine(ProcessGroup& owner)
      : group(owner), thread(wick::detail::start_thread("process group", [this] { loop(); })) {}
  ~Engine() { stop(); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
      changed.notify_all();
    }
    if (thread.joinable()) thread.join();
  }

  int64_t now_us() const {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                                 start)
               .count() +
           1;
  }

  // Null if it has been dropped since.
  FlightRecord* record_of(const Item& item) {
    const uint64_t first = recorded - records.size();
    return item.id < first ? nullptr : &records[item.id - first];
  }

  void loop() {
    set_num_threads(1);  // the others compute meanwhile
    const NoGrad no_grad;
    for (;;) {
      Item item;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stopping || !queue.empty() || wants_to_leave_record(); });
        if (queue.empty()) {
          if (!wants_to_leave_record()) return;
          lock.unlock();
          leave_record();
          continue;
        }
        item = std::move(queue.front());
        queue.pop_front();
        if (FlightRecord* r = record_of(item)) {
          r->state = FlightRecord::State::kRunning;
          r->begin_us = now_us();
        }
      }
      finish(item, carry_out(item));
    }
  }

  // Runs the collective; what it failed with, or null.
  std::exception_ptr carry_out(const Item& item) {
    profile::Span span(profile::EventKind::kCollective, to_string(item.collective.kind));
    if (span) [[unlikely]]
      tell_profiler(span.event(), item);
    {
      const std::lock_guard lock(mutex);
      if (!failure.empty()) {
        return std::make_exception_ptr(ProcessGroupError(
            concat(item.collective.description(), ": the group has failed: ", failure)));
      }
    }
    try {
      const Device device = item.state->device;
      if (device.is_cpu()) {
        group.run(item.collective);
        return nullptr;
      }
      const StreamGuard guard(stream_of(device));
      const Stream stream = current_stream(device);
      item.state->ready->block(stream);
      // Before it is queued: what fails may be under way all the same.
      for (const Tensor& x : item.collective.tensors()) x.record_stream(stream);
      group.run(item.collective);
      item.state->behind.emplace(device);
      item.state->behind->record(stream);
      return nullptr;
    } catch (const std::exception& error) {
      group.abort(error.what());
      return std::current_exception();
    }
  }

  static void tell_profiler(profile::Event& event, const Item& item) {
    event.is_async = true;  // beside what the ranks compute
    event.device = item.state->device;
    event.sequence = item.collective.sequence;
    for (const Tensor& x : item.collective.tensors()) {
      if (!item.collective.result.is_same(x)) event.bytes += x.numel() * size_of(x.dtype());
    }
  }

  Stream stream_of(Device device) {
    for (const Stream& s : streams) {
      if (s.device == device) return s;
    }
    streams.push_back(stream_from_pool(device, true));
    return streams.back();
  }

  void finish(Item& item, std::exception_ptr error) {
    {
      const std::lock_guard lock(mutex);
      FlightRecord* const r = record_of(item);
      if (r != nullptr && (error || !group.ends_later(item.collective))) {
        r->state = error ? FlightRecord::State::kFailed : FlightRecord::State::kDone;
        r->end_us = now_us();
      }
    }
    if (error) leave_record();
    item.collective = {};  // its tensors go before anybody is told
    const std::lock_guard lock(item.state->mutex);
    item.state->error = std::move(error);
    item.state->done = true;
    item.state->changed.notify_all();
  }

  bool wants_to_leave_record() const { return !failure.empty() && !has_left_record; }

  // What happened, once, for whoever looks for the rank at fault. That it cannot be written is no
  // reason to say anything but why the group failed.
  void leave_record() {
    {
      const std::lock_guard lock(mutex);
      if (!wants_to_leave_record()) return;
      has_left_record = true;
    }
    const std::filesystem::path path = record_path(group);
    if (path.empty()) return;
    try {
      std::filesystem::create_directories(path.parent_path());
      write_file(path, group.flight_json());
    } catch (const std::exception&) {
    }
  }

  // Empty if none is wanted.
  static std::filesystem::path record_path(const ProcessGroup& group) {
    const char* variable = std::getenv("WICK_FLIGHT_DIR");
    std::string folder = group.options().flight_folder;
    if (folder.empty() && variable != nullptr) folder = variable;
    if (folder.empty()) return {};
    return std::filesystem::path(folder) / concat("flight-", group.rank(), ".json");
  }

  ProcessGroup& group;
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> queue;
  std::deque<FlightRecord> records;
  std::string failure;
  uint64_t recorded = 0;  // in all
  uint64_t sequence = 0, messages = 0;
  bool stopping = false, has_left_record = false;
  std::vector<Stream> streams;  // the thread's own
  std::thread thread;           // last: it uses the others
};

ProcessGroup::ProcessGroup(int rank, int size, const ProcessGroupOptions& options)
    : rank_(rank), size_(size), options_(options) {
  WICK_CHECK(size >= 1 && rank >= 0 && rank < size, "process group: no such rank: got rank ", rank,
             " of ", size);
  WICK_CHECK(options.timeout.count() > 0, "process group: timeout must be positive: got ",
             options.timeout.count(), " ms");
  std::error_code ignored;  // one that an earlier group left would tell of another failure
  if (const auto record = Engine::record_path(*this); !record.empty()) {
    std::filesystem::remove(record, ignored);
  }
  engine_ = std::make_unique<Engine>(*this);
}

ProcessGroup::~ProcessGroup() = default;

void ProcessGroup::stop() { engine_->stop(); }

void ProcessGroup::note_end(CollectiveKind kind, uint64_t sequence) {
  const std::lock_guard lock(engine_->mutex);
  for (FlightRecord& r : engine_->records) {
    if (r.kind != kind || r.sequence != sequence || r.state != FlightRecord::State::kRunning) {
      continue;
    }
    r.state = FlightRecord::State::kDone;
    r.end_us = engine_->now_us();
  }
}

void ProcessGroup::leave_record() { engine_->leave_record(); }

namespace {

// What a graph keeps of a collective: each run has tensors of its own.
Collective without_tensors(Collective collective) {
  collective.tensor = collective.result = Tensor();
  for (Transfer& t : collective.transfers) t.tensor = Tensor();
  return collective;
}

// `given`: in the order of Collective::tensors().
Collective with_tensors(Collective collective, const std::vector<Tensor>& given) {
  for (size_t i = 0; i < collective.transfers.size(); ++i) {
    collective.transfers[i].tensor = given[i];
  }
  if (collective.is_between_two()) return collective;
  if (!given.empty()) collective.tensor = given[0];
  if (given.size() > 1) collective.result = given[1];
  return collective;
}

}  // namespace

Work ProcessGroup::enqueue(Collective collective) {
  if (!graph::is_tracing()) return start(std::move(collective));
  auto state = std::make_shared<Work::State>();
  state->live = std::make_shared<std::optional<Work>>();
  state->tensors = collective.tensors();
  const auto again = [this, asked = without_tensors(collective),
                      live = state->live](const std::vector<Tensor>& given) {
    *live = start(with_tensors(asked, given));
    return Tensor();
  };
  graph::host_call(to_string(collective.kind), again, {}, state->tensors);
  return Work(std::move(state));
}

Work ProcessGroup::start(Collective collective) {
  const std::vector<Tensor> tensors = collective.tensors();
  auto state = std::make_shared<Work::State>();
  if (!tensors.empty()) {
    state->device = tensors[0].device();
    refuse_in_capture(state->device, "exchange tensors between ranks");
  }
  if (!state->device.is_cpu()) {
    state->ready.emplace(state->device);
    state->ready->record();
  }
  const std::lock_guard lock(engine_->mutex);
  collective.sequence = collective.is_between_two() ? ++engine_->messages : ++engine_->sequence;
  FlightRecord record;
  record.sequence = collective.sequence;
  record.kind = collective.kind;
  record.description = collective.description();
  for (const Tensor& x : tensors) {
    if (!collective.result.is_same(x)) record.bytes += x.numel() * size_of(x.dtype());
  }
  record.queued_us = engine_->now_us();
  engine_->records.push_back(std::move(record));
  if (engine_->records.size() > kMostRecords) engine_->records.pop_front();
  engine_->queue.push_back({std::move(collective), engine_->recorded++, state});
  engine_->changed.notify_all();
  return Work(std::move(state));
}

namespace {

void check_dense(const char* name, const Tensor& x) {
  WICK_CHECK(x.defined(), name, ": the tensor is undefined");
  WICK_CHECK(x.is_contiguous() || x.is_contiguous(MemoryFormat::kChannelsLast), name,
             ": the tensor is not dense: got shape ", x.shape(), " with strides ", x.strides());
}

void check_reduction(const char* name, const Tensor& x, ReduceOp op) {
  WICK_CHECK(x.dtype() != kBool, name, ": bool cannot be reduced: expected a numeric dtype");
  WICK_CHECK(op != ReduceOp::kAverage || is_floating(x.dtype()), name,
             ": only floating dtypes have an average: got ", x.dtype());
}

// One more axis in front of `part`, of `size`, makes `whole`.
void check_parts(const char* name, const Tensor& whole, const Tensor& part, int size) {
  WICK_CHECK(whole.defined() && part.defined(), name, ": a tensor is undefined");
  WICK_CHECK(whole.is_contiguous() && part.is_contiguous(), name,
             ": a tensor is not contiguous: got strides ", whole.strides(), " and ",
             part.strides());
  WICK_CHECK(whole.dtype() == part.dtype() && whole.device() == part.device(), name,
             ": tensors differ: got ", whole.dtype(), " on ", whole.device(), " and ", part.dtype(),
             " on ", part.device());
  Shape expected = {size};
  for (const int64_t n : part.shape()) expected.push_back(n);
  WICK_CHECK(whole.shape() == expected, name, ": shapes do not fit: got ", whole.shape(), " and ",
             part.shape(), ", expected ", expected, " for ", size, " ranks");
}

}  // namespace

Work ProcessGroup::all_reduce(const Tensor& x, ReduceOp op) {
  check_dense("all_reduce", x);
  check_reduction("all_reduce", x, op);
  return enqueue({.kind = CollectiveKind::kAllReduce, .tensor = x.detach(), .op = op});
}

Work ProcessGroup::broadcast(const Tensor& x, int root) {
  check_dense("broadcast", x);
  WICK_CHECK(root >= 0 && root < size_, "broadcast: no such root: got ", root,
             ", expected less than ", size_);
  return enqueue({.kind = CollectiveKind::kBroadcast, .tensor = x.detach(), .peer = root});
}

Work ProcessGroup::all_gather(const Tensor& x, const Tensor& result) {
  check_parts("all_gather", result, x, size_);
  return enqueue(
      {.kind = CollectiveKind::kAllGather, .tensor = x.detach(), .result = result.detach()});
}

Work ProcessGroup::reduce_scatter(const Tensor& x, const Tensor& result, ReduceOp op) {
  check_parts("reduce_scatter", x, result, size_);
  check_reduction("reduce_scatter", x, op);
  return enqueue({.kind = CollectiveKind::kReduceScatter,
                  .tensor = x.detach(),
                  .result = result.detach(),
                  .op = op});
}

Work ProcessGroup::barrier() { return enqueue({}); }

Work ProcessGroup::send(const Tensor& x, int to) {
  return exchange(CollectiveKind::kSend, {{CollectiveKind::kSend, x, to}});
}

Work ProcessGroup::recv(const Tensor& x, int from) {
  return exchange(CollectiveKind::kReceive, {{CollectiveKind::kReceive, x, from}});
}

Work ProcessGroup::batch(const std::vector<Transfer>& transfers) {
  WICK_CHECK(!transfers.empty(), "batch: there are no transfers: expected at least one");
  return exchange(CollectiveKind::kBatch, transfers);
}

Work ProcessGroup::exchange(CollectiveKind kind, std::vector<Transfer> transfers) {
  for (Transfer& t : transfers) {
    const bool is_sent = t.kind == CollectiveKind::kSend;
    WICK_CHECK(is_sent || t.kind == CollectiveKind::kReceive,
               "batch: not a send or a receive: got ", to_string(t.kind));
    check_dense(to_string(t.kind), t.tensor);
    WICK_CHECK(t.peer >= 0 && t.peer < size_ && t.peer != rank_, to_string(t.kind),
               ": no such rank to ", is_sent ? "send to" : "receive from", ": got ", t.peer,
               ", expected another one of ", size_);
    WICK_CHECK(t.tensor.device() == transfers[0].tensor.device(),
               "batch: tensors lie on different devices: got ", transfers[0].tensor.device(),
               " and ", t.tensor.device());
    t.tensor = t.tensor.detach();
  }
  return enqueue({.kind = kind, .transfers = std::move(transfers)});
}

void ProcessGroup::abort(const std::string& reason) {
  {
    const std::lock_guard lock(engine_->mutex);
    if (!engine_->failure.empty()) return;
    engine_->failure = reason.empty() ? "aborted" : reason;
    engine_->changed.notify_all();
  }
  on_abort(reason);
}

std::vector<FlightRecord> ProcessGroup::flight_records() const {
  const std::lock_guard lock(engine_->mutex);
  return {engine_->records.begin(), engine_->records.end()};
}

std::string ProcessGroup::flight_json() const {
  nlohmann::ordered_json all;
  all["rank"] = rank_;
  all["size"] = size_;
  {
    const std::lock_guard lock(engine_->mutex);
    all["failure"] = engine_->failure;
  }
  all["collectives"] = nlohmann::ordered_json::array();
  for (const FlightRecord& r : flight_records()) {
    all["collectives"].push_back({{"sequence", r.sequence},
                                  {"op", to_string(r.kind)},
                                  {"description", r.description},
                                  {"bytes", r.bytes},
                                  {"state", name_of(r.state)},
                                  {"queued_us", r.queued_us},
                                  {"begin_us", r.begin_us},
                                  {"end_us", r.end_us}});
  }
  // Whatever bytes are in an error's text: the record must be left.
  return all.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace wick::dist
