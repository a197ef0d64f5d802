// Ranks that are processes: what they ask for is compared, then done by NCCL or PeerCollectives.
#include "wick/dist/processes.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "wick/core/stream.h"
#include "wick/dist/detail/backend.h"
#include "wick/dist/detail/control.h"
#include "wick/dist/detail/nccl.h"
#include "wick/dist/detail/peer_collectives.h"
#include "wick/dist/detail/reduction.h"
#include "wick/dist/detail/shared_memory_link.h"
#include "wick/dist/detail/tcp_link.h"

namespace wick::dist {

namespace {

// How long a rank that leaves waits for the others to do the same.
constexpr auto kLinger = std::chrono::milliseconds(1000);
constexpr int kLeaveExit = 76;

// What goes before each collective, from every rank to every other: what the rank asks for.
struct Announcement {
  uint8_t kind = 0, op = 0, dtype = 0, is_on_gpu = 0;
  int32_t peer = 0, axes = -1, unused = 0;
  uint64_t sequence = 0;
  int64_t sizes[kMaxRank] = {}, strides[kMaxRank] = {};
  char text[256] = {};  // for messages

  explicit Announcement(const Collective& c)
      : kind(static_cast<uint8_t>(c.kind)),
        op(static_cast<uint8_t>(c.op)),
        peer(c.peer),
        sequence(c.sequence) {
    const std::string words = c.description();
    std::memcpy(text, words.data(), std::min(words.size(), sizeof text - 1));
    const Tensor& x = c.is_between_two() ? c.transfers[0].tensor : c.tensor;
    if (!x.defined()) return;
    dtype = static_cast<uint8_t>(x.dtype());
    is_on_gpu = x.device().is_cpu() ? 0 : 1;
    axes = x.rank();
    for (int i = 0; i < axes; ++i) {
      sizes[i] = x.shape()[i];
      strides[i] = x.strides()[i];
    }
  }
  explicit Announcement(const void* bytes) {
    std::memcpy(static_cast<void*>(this), bytes, sizeof *this);
    text[sizeof text - 1] = '\0';
  }

  bool asks_the_same(const Announcement& other) const {
    return kind == other.kind && op == other.op && peer == other.peer &&
           sequence == other.sequence && has_same_tensor(other) &&
           std::equal(strides, strides + kMaxRank, other.strides);
  }
  bool has_same_tensor(const Announcement& other) const {
    return dtype == other.dtype && is_on_gpu == other.is_on_gpu && axes == other.axes &&
           std::equal(sizes, sizes + kMaxRank, other.sizes);
  }
};

// A tensor of a GPU as pinned host memory, and one of the host as it is. In the order of memory.
Tensor on_host(const Tensor& x) {
  if (x.device().is_cpu()) return flat(x);
  const Tensor host = flat(x).to(kCpu, true);
  synchronize(current_stream(x.device()));
  return host;
}

class ProcessesGroup final : public ProcessGroup {
 public:
  ProcessesGroup(const LaunchEnv& env, const ProcessGroupOptions& options,
                 std::unique_ptr<Control> control, std::vector<std::unique_ptr<Link>> links,
                 bool is_one_host, std::string why_no_nccl)
      : ProcessGroup(env.rank, env.world_size, options),
        control_(std::move(control)),
        peers_(env.rank, std::move(links)),
        is_one_host_(is_one_host),
        why_no_nccl_(std::move(why_no_nccl)) {
    control_->start([this](const std::string& reason) { abort(reason); }, [this] { wake_all(); });
  }

  ~ProcessesGroup() override {
    stop();
    if (nccl_) nccl_->stop();  // it stays, for whoever calls abort() until control_ has left
    // Rank 0 watches over the others until they leave, too; and what was sent by TCP is lost if
    // the connection ends before it was read.
    control_->leave(rank() == 0 || !is_one_host_ ? kLinger : std::chrono::milliseconds(0));
  }

  // Before anything else: tensors of `gpu`, and of no other, go through NCCL from here on.
  void use_nccl(Device gpu, const std::string& id) {
    nccl_ = make_nccl_group(
        *control_, rank(), size(), gpu, id, options().timeout,
        {.failed = [this](const std::string& reason) { abort(reason); },
         .ended = [this](CollectiveKind kind, uint64_t sequence) { note_end(kind, sequence); },
         .stuck = [this](const std::string& reason) { leave(reason); }});
    gpu_ = gpu;
    is_nccl_made_.store(true, std::memory_order_release);
  }

  std::string transport() const override {
    if (nccl_) return concat("NCCL ", nccl_version());
    const char* const host = is_one_host_ ? "shared memory" : "TCP";
    return why_no_nccl_.empty() ? host : concat(host, " and not NCCL: ", why_no_nccl_);
  }

 protected:
  bool ends_later(const Collective& c) const override { return goes_by_nccl(c); }

  void run(const Collective& c) override {
    if (goes_by_nccl(c) && c.tensors()[0].device() != gpu_) {
      throw ProcessGroupError(concat(c.description(), ": the tensor is on ",
                                     c.tensors()[0].device(), ", but this rank exchanges those of ",
                                     gpu_));
    }
    control_->set_deadline(Clock::now() + options().timeout);
    arrived_.assign(static_cast<size_t>(size()), false);
    try {
      if (c.is_between_two()) {
        exchange(c);
      } else {
        for (const int r : peers_.others()) announce(c, r);
        for (const int r : peers_.others()) check_agreement(c, r);
        carry_out(c);
      }
      peers_.finish();
    } catch (const Late& late) {
      control_->blame(c.description(), missing(c, late.rank));
    } catch (const ProcessGroupError& error) {
      throw ProcessGroupError(concat(c.description(), ": ", error.what()));
    }
  }

  void on_abort(const std::string& reason) override {
    control_->fail(reason);
    wake_all();
    if (is_nccl_made_.load(std::memory_order_acquire)) nccl_->abort();
  }

 private:
  bool goes_by_nccl(const Collective& c) const {
    const std::vector<Tensor> tensors = c.tensors();
    return nccl_ && std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) {
             return x.numel() > 0 && !x.device().is_cpu();
           });
  }

  // The thread that computes waits for its GPU, for ever.
  void leave(const std::string& reason) {
    leave_record();
    if (options().leave != nullptr) return options().leave(reason);
    std::fprintf(stderr, "wick: rank %d of %d leaves: %s\n", rank(), size(), reason.c_str());
    std::_Exit(kLeaveExit);
  }

  void wake_all() const {
    for (const int r : peers_.others()) peers_.link(r).wake();
  }

  static size_t bytes_of(const Tensor& x) {
    return static_cast<size_t>(x.numel() * size_of(x.dtype()));
  }

  void announce(const Collective& c, int to) const {
    const Announcement mine(c);
    Link& link = peers_.link(to);
    std::memcpy(link.begin_send(), &mine, sizeof mine);
    link.end_send(sizeof mine);
  }

  Announcement await_announcement(int from) {
    const Announcement theirs(peers_.link(from).receive(sizeof(Announcement)));
    peers_.link(from).release();
    arrived_[static_cast<size_t>(from)] = true;
    return theirs;
  }

  void check_agreement(const Collective& c, int with) {
    const Announcement mine(c), theirs = await_announcement(with);
    if (mine.asks_the_same(theirs)) return;
    throw ProcessGroupError(concat("ranks ask for different collectives: rank ", rank(), " for ",
                                   mine.text, ", rank ", with, " for ", theirs.text));
  }

  // Who may have kept this rank waiting for `late`.
  std::vector<int> missing(const Collective& c, int late) const {
    std::vector<int> ranks;
    for (int r = 0; r < size(); ++r) {
      const bool is_here = c.is_between_two() || r == rank() || arrived_[static_cast<size_t>(r)];
      if (r == late || (!is_here && !peers_.link(r).has_message())) ranks.push_back(r);
    }
    return ranks;
  }

  // A transfer under way: first an announcement, then, but by NCCL, the elements in pieces.
  struct Parcel {
    const Transfer* transfer;
    Tensor host = {};
    size_t done = 0;
    bool is_announced = false;

    bool is_delivered() const {
      return is_announced && (!host.defined() || done == bytes_of(host));
    }
    char* next() const { return static_cast<char*>(host.raw_data()) + done; }
    size_t next_bytes(const Link& link) const {
      return std::min(bytes_of(host) - done, link.slot_bytes());
    }
  };

  // A message to each rank and one from each in turn, so that all ranks of a batch go on together:
  // a link holds few.
  void exchange(const Collective& c) {
    std::map<int, std::deque<Parcel>> sent, received;
    for (const Transfer& t : c.transfers) {
      Parcel parcel{&t};
      if (!goes_by_nccl(c)) parcel.host = on_host(t.tensor);
      (t.kind == CollectiveKind::kSend ? sent : received)[t.peer].push_back(std::move(parcel));
    }
    const auto advance = [](auto& all, const auto& move) {
      for (auto it = all.begin(); it != all.end(); it = it->second.empty() ? all.erase(it) : ++it) {
        move(it->first, it->second.front());
        if (it->second.front().is_delivered()) it->second.pop_front();
      }
    };
    while (!sent.empty() || !received.empty()) {
      advance(sent, [&](int to, Parcel& parcel) { send_next(to, parcel); });
      advance(received, [&](int from, Parcel& parcel) { receive_next(from, parcel); });
    }
    if (goes_by_nccl(c)) nccl_->run(c);
  }

  static Collective alone(const Transfer& t) { return {.kind = t.kind, .transfers = {t}}; }

  void send_next(int to, Parcel& parcel) const {
    if (!std::exchange(parcel.is_announced, true)) return announce(alone(*parcel.transfer), to);
    Link& link = peers_.link(to);
    const size_t bytes = parcel.next_bytes(link);
    std::memcpy(link.begin_send(), parcel.next(), bytes);
    link.end_send(bytes);
    parcel.done += bytes;
  }

  void receive_next(int from, Parcel& parcel) {
    if (!std::exchange(parcel.is_announced, true)) {
      const Announcement mine(alone(*parcel.transfer)), theirs = await_announcement(from);
      if (theirs.kind == static_cast<uint8_t>(CollectiveKind::kSend) &&
          mine.has_same_tensor(theirs)) {
        return;
      }
      throw ProcessGroupError(concat("rank ", from, " asks for ", theirs.text));
    }
    Link& link = peers_.link(from);
    const size_t bytes = parcel.next_bytes(link);
    std::memcpy(parcel.next(), link.receive(bytes), bytes);
    link.release();
    parcel.done += bytes;
    if (parcel.is_delivered()) put_back(parcel.host, parcel.transfer->tensor);
  }

  void put_back(const Tensor& host, const Tensor& x) const {
    if (!x.device().is_cpu()) flat(x).copy_(host, true);
  }

  void carry_out(const Collective& c) const {
    if (c.kind == CollectiveKind::kBarrier) return;
    if (goes_by_nccl(c)) return nccl_->run(c);
    const Tensor x = on_host(c.tensor);
    switch (c.kind) {
      case CollectiveKind::kAllReduce:
        peers_.all_reduce(x, c.op);
        put_back(x, c.tensor);
        break;
      case CollectiveKind::kBroadcast:
        peers_.broadcast(x, c.peer);
        put_back(x, c.tensor);
        break;
      default: {
        const bool is_here = c.result.device().is_cpu();
        const Tensor result = is_here ? flat(c.result) : empty({c.result.numel()}, x.dtype());
        if (c.kind == CollectiveKind::kAllGather) {
          peers_.all_gather(x, result);
        } else {
          peers_.reduce_scatter(x, result, c.op);
        }
        if (!is_here) flat(c.result).copy_(result);
      }
    }
  }

  std::unique_ptr<Control> control_;
  PeerCollectives peers_;
  const bool is_one_host_;
  const std::string why_no_nccl_;
  std::vector<bool> arrived_;  // whose announcement of this collective has come
  std::unique_ptr<NcclGroup> nccl_;
  Device gpu_;
  std::atomic<bool> is_nccl_made_ = false;
};

}  // namespace

std::shared_ptr<ProcessGroup> init_process_group(const LaunchEnv& env,
                                                 const ProcessGroupOptions& options) {
  WICK_CHECK(env.world_size >= 1 && env.rank >= 0 && env.rank < env.world_size,
             "process group: no such rank: got rank ", env.rank, " of ", env.world_size);
  WICK_CHECK(options.timeout.count() > 0, "process group: timeout must be positive: got ",
             options.timeout.count(), " ms");
  if (env.world_size == 1 && options.backend != Backend::kNccl) {
    return make_local_groups(1, options)[0];
  }
  auto control = std::make_unique<Control>(env, options.timeout);
  control->set_deadline(Clock::now() + options.timeout);
  const BackendChoice choice = agree_on_backend(*control, env, options);
  std::vector<std::unique_ptr<Link>> links;
  if (choice.shared_memory) links = make_shared_memory_links(*control, env.rank, env.world_size);
  const bool is_one_host = !links.empty();
  if (!is_one_host) links = make_tcp_links(*control, env.rank, env.world_size);
  std::string id;
  if (choice.nccl) id = control->exchange(env.rank == 0 ? new_nccl_id() : "")[0];
  const auto group = std::make_shared<ProcessesGroup>(
      env, options, std::move(control), std::move(links), is_one_host, choice.why_no_nccl);
  if (choice.nccl) group->use_nccl(choice.gpu, id);
  return group;
}

}  // namespace wick::dist
