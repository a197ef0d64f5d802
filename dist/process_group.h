#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wick/core/stream.h"
#include "wick/core/tensor.h"

namespace wick::dist {

/// A collective did not happen: a rank is gone, late, or asked for something else. The group cannot
/// be used any more, on any rank.
class ProcessGroupError : public Error {
 public:
  using Error::Error;
};

/// How the ranks' elements become one. kAverage: their sum, divided by the number of ranks.
enum class ReduceOp : uint8_t { kSum, kAverage, kProduct, kMin, kMax };
const char* to_string(ReduceOp op);

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kBarrier,
  kSend,
  kReceive,
  kBatch,  // of sends and receives
};
const char* to_string(CollectiveKind kind);

/// One send or receive of a batch.
struct Transfer {
  CollectiveKind kind = CollectiveKind::kSend;  // or kReceive
  Tensor tensor = {};                           // what is sent, or where what comes goes
  int peer = 0;                                 // to whom, or from whom
};

/// What one rank asks the others for. All tensors are dense and lie on one device.
struct Collective {
  CollectiveKind kind = CollectiveKind::kBarrier;
  Tensor tensor = {};  // what this rank gives; changed in place by all_reduce, broadcast and recv
  Tensor result = {};  // of all_gather and reduce_scatter
  ReduceOp op = ReduceOp::kSum;
  int peer = 0;           // the root of a broadcast, the other end of send and recv
  uint64_t sequence = 0;  // from 1: among the group's collectives, or its sends and recvs
  std::vector<Transfer> transfers = {};  // of send, recv and batch

  /// Whether other ranks than those of `transfers` take no notice.
  bool is_between_two() const { return !transfers.empty(); }
  /// All tensors that it reads or writes.
  std::vector<Tensor> tensors() const;
  /// "all_reduce #7 (sum, float32 [10, 3])"
  std::string description() const;
};

/// A collective under way. Copies are of the same one.
class Work {
 public:
  /// Whether it is over, or on a GPU queued; be it with an error. Error within a trace.
  bool is_done() const;
  /// Waits for it, and throws what it failed with. On a GPU the host waits until it is queued, and
  /// what the current stream does from now on comes after it. Within a trace: error for a
  /// collective that began before.
  void wait() const;

 private:
  friend class ProcessGroup;
  struct State;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// What carries the tensors of GPUs between processes. Those of the CPU go through shared memory or
/// TCP in any case.
/// - kAuto: NCCL if it can be used by all ranks and each has a real GPU of its own (`device`), else
///   as those of the CPU.
/// - kGloo: as those of the CPU, through the host's memory. The name is that of PyTorch's backend
///   for the CPU; the library Gloo is not used.
enum class Backend : uint8_t { kAuto, kNccl, kGloo };
const char* to_string(Backend backend);
/// The one that "auto", "nccl" or "gloo" names; an error for any other text.
Backend parse_backend(const std::string& name);

/// Options of a process group. Error for a `timeout` of 0 or less.
struct ProcessGroupOptions {
  /// How long a rank waits for the others in one collective.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Where a rank whose group fails leaves flight_json(), as flight-<rank>.json. Empty: in
  /// WICK_FLIGHT_DIR if that is set, else nowhere.
  std::string flight_folder = {};
  /// Whether processes of one host may exchange tensors through shared memory.
  bool shared_memory = true;
  /// Every rank must ask for the same.
  Backend backend = Backend::kAuto;
  /// The GPU whose tensors this rank exchanges. None: those of any, and with kNccl the one of its
  /// number among the ranks of this host.
  std::optional<Device> device = {};
  /// What a rank does that cannot go on and cannot say so, since its GPU waits for ever and not
  /// even NCCL's abort returns. Null: tells `reason` on stderr and leaves the process, with exit
  /// code 76.
  void (*leave)(const std::string& reason) = nullptr;
};

/// What became of one of the last 256 collectives of a rank.
struct FlightRecord {
  enum class State : uint8_t { kQueued, kRunning, kDone, kFailed };
  uint64_t sequence = 0;
  CollectiveKind kind = CollectiveKind::kBarrier;
  std::string description;
  int64_t bytes = 0;  // of the tensor given
  State state = State::kQueued;
  // Microseconds since the group was made; 0 if it has not come to that.
  int64_t queued_us = 0, begin_us = 0, end_us = 0;
};

/// Ranks 0 to size() - 1 that exchange tensors. Every rank calls the same collectives in the same
/// order. Each returns at once, and a thread of the group carries them out in that order, on a GPU
/// on a stream of its own. Tensors given must not be changed, nor results read, before wait(). One
/// thread at a time may call a group.
///
/// Within a trace (docs/graphs.md) collectives and their wait() become nodes of the graph, so that
/// each run exchanges its own tensors. The group must outlive the graph.
///
/// Results are the same bits on every rank, and in every run with the same number of ranks. NCCL
/// promises neither, see docs/data_parallel.md.
class ProcessGroup {
 public:
  virtual ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// The number of this rank, 0 to size() - 1.
  int rank() const { return rank_; }
  /// Number of ranks.
  int size() const { return size_; }
  /// What the group was made with.
  const ProcessGroupOptions& options() const { return options_; }
  /// What carries the tensors, for people: "threads", "shared memory", "TCP", "NCCL 2.28.9".
  virtual std::string transport() const { return "threads"; }

  /// Puts the reduction over all ranks in the place of `x`: dense, of any shape and a numeric
  /// dtype, the same on all ranks. 16-bit floats are added in float32; integers have no kAverage.
  Work all_reduce(const Tensor& x, ReduceOp op = ReduceOp::kSum);
  /// Puts root's elements in the place of `x` on every rank.
  Work broadcast(const Tensor& x, int root = 0);
  /// result[r] = rank r's x. result: [size(), x's shape...], contiguous as x is.
  Work all_gather(const Tensor& x, const Tensor& result);
  /// result = the reduction over all ranks of x[rank()]. x: [size(), result's shape...], both
  /// contiguous.
  Work reduce_scatter(const Tensor& x, const Tensor& result, ReduceOp op = ReduceOp::kSum);
  /// Done when every rank has called it.
  Work barrier();
  /// Gives `x` to rank `to`, which calls recv with a tensor of the same shape and dtype. Other
  /// ranks do not notice. A send may end only once it is received, and what is called after it
  /// begins only then: ranks that all send first, and receive afterwards, wait for each other until
  /// the timeout. Such an exchange is a batch.
  Work send(const Tensor& x, int to);
  Work recv(const Tensor& x, int from);
  /// Sends and receives of which none waits for another, as PyTorch's batch_isend_irecv: what two
  /// ranks send each other meets what they receive in the order of each one's calls. All tensors
  /// lie on one device.
  ///   group->batch({{CollectiveKind::kSend, mine, next}, {CollectiveKind::kReceive, got,
  ///   before}});
  Work batch(const std::vector<Transfer>& transfers);

  /// Makes what is under way and all that follows fail with `reason`, here and on other ranks.
  void abort(const std::string& reason);
  /// The last 256 collectives, oldest first.
  std::vector<FlightRecord> flight_records() const;
  /// The same as JSON, with rank, size and what made the group fail: what a rank should leave
  /// behind.
  std::string flight_json() const;

 protected:
  ProcessGroup(int rank, int size, const ProcessGroupOptions& options);

  /// Carries out one collective and returns when it is over, or on a GPU queued on the current
  /// stream. Called in order, by one thread; throws if it fails, after which it is not called
  /// again.
  virtual void run(const Collective& collective) = 0;
  /// Tells the other ranks that this one has failed, and wakes run(). Called from any thread.
  virtual void on_abort(const std::string& reason) = 0;
  /// Waits for what is under way. Every derived destructor calls it first.
  void stop();
  /// Whether the GPU may still be at it when run() returns. Then note_end() says when it is over.
  virtual bool ends_later(const Collective&) const { return false; }
  void note_end(CollectiveKind kind, uint64_t sequence);
  /// Leaves flight_json() where the options say, if the group has failed. Any thread may call it.
  void leave_record();

 private:
  struct Engine;
  Work enqueue(Collective collective);  // or has a graph do so in each run
  Work start(Collective collective);
  Work exchange(CollectiveKind kind, std::vector<Transfer> transfers);

  int rank_, size_;
  ProcessGroupOptions options_;
  std::unique_ptr<Engine> engine_;
};

/// Groups of `size` ranks for as many threads of this process, one for each; their tensors may lie
/// on the CPU or on GPUs, one per rank or shared. For tests, and for several GPUs without
/// processes.
std::vector<std::shared_ptr<ProcessGroup>> make_local_groups(
    int size, const ProcessGroupOptions& options = {});

}  // namespace wick::dist
