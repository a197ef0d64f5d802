// Ranks that are threads of one process. They lay their tensors out for each other, and each rank
// reduces one part of them: in the order of the ranks, so that all get the same bits.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "wick/dist/detail/reduction.h"
#include "wick/dist/process_group.h"

namespace wick::dist {

namespace {

// A tensor on its way from one rank to another.
struct Message {
  Tensor tensor;
  std::optional<Event> written, read;
  bool taken = false;
};

// What one rank shows the others.
struct Slot {
  Collective collective;
  // Where its stream was when it came to the last two meetings; null on the CPU. Nobody is more
  // than one meeting ahead.
  std::shared_ptr<const Event> marks[2];
  bool arrived = false, gone = false;
};

class LocalWorld {
 public:
  explicit LocalWorld(int size) : slots_(static_cast<size_t>(size)) {}

  std::vector<Slot>& slots() { return slots_; }

  // Returns the marks of all ranks when every rank has called it; throws after `timeout`, or when
  // the group has failed.
  std::vector<std::shared_ptr<const Event>> meet(int rank, std::shared_ptr<const Event> mark,
                                                 const std::string& what,
                                                 std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    check_failure(what);
    const uint64_t meeting = meetings_;
    Slot& mine = slots_[static_cast<size_t>(rank)];
    mine.arrived = true;
    mine.marks[meeting % 2] = std::move(mark);
    if (std::all_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.arrived; })) {
      for (Slot& slot : slots_) slot.arrived = false;
      ++meetings_;
      changed_.notify_all();
    } else {
      const bool told = changed_.wait_for(lock, timeout, [&] {
        return meetings_ != meeting || !failure_.empty() || someone_is_gone();
      });
      if (meetings_ == meeting) {
        check_failure(what);
        throw ProcessGroupError(concat(what, ": ", absent(),
                                       told ? " left the group" : " did not come",
                                       told ? "" : concat(" within ", timeout.count(), " ms")));
      }
    }
    std::vector<std::shared_ptr<const Event>> marks;
    for (const Slot& slot : slots_) marks.push_back(slot.marks[meeting % 2]);
    return marks;
  }

  void post(int from, int to, const std::shared_ptr<Message>& message) {
    const std::lock_guard lock(mutex_);
    mail_[{from, to}].push_back(message);
    changed_.notify_all();
  }

  std::shared_ptr<Message> fetch(int from, int to, const std::string& what,
                                 std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    auto& box = mail_[{from, to}];
    wait_for(lock, what, timeout, from, [&] { return !box.empty(); });
    const std::shared_ptr<Message> message = box.front();
    box.pop_front();
    return message;
  }

  void take(Message& message) {
    const std::lock_guard lock(mutex_);
    message.taken = true;
    changed_.notify_all();
  }

  void wait_until_taken(const Message& message, int by, const std::string& what,
                        std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    wait_for(lock, what, timeout, by, [&] { return message.taken; });
  }

  void fail(int rank, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = concat("rank ", rank, " failed: ", reason);
    changed_.notify_all();
  }

  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    slots_[static_cast<size_t>(rank)].gone = true;
    changed_.notify_all();
  }

 private:
  void check_failure(const std::string& what) const {
    if (!failure_.empty()) throw ProcessGroupError(concat(what, ": ", failure_));
  }

  template <class Condition>
  void wait_for(std::unique_lock<std::mutex>& lock, const std::string& what,
                std::chrono::milliseconds timeout, int peer, const Condition& condition) {
    const Slot& other = slots_[static_cast<size_t>(peer)];
    const bool ended = changed_.wait_for(
        lock, timeout, [&] { return condition() || !failure_.empty() || other.gone; });
    if (condition()) return;
    check_failure(what);
    throw ProcessGroupError(concat(what, ": rank ", peer,
                                   ended ? " left the group" : " did not come",
                                   ended ? "" : concat(" within ", timeout.count(), " ms")));
  }

  bool someone_is_gone() const {
    return std::any_of(slots_.begin(), slots_.end(),
                       [](const Slot& s) { return s.gone && !s.arrived; });
  }

  std::string absent() const {
    std::string text;
    int count = 0;
    for (size_t r = 0; r < slots_.size(); ++r) {
      if (slots_[r].arrived) continue;
      text += concat(text.empty() ? "" : ", ", r);
      ++count;
    }
    return (count == 1 ? "rank " : "ranks ") + text;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Message>>> mail_;
  uint64_t meetings_ = 0;
  std::string failure_;
};

class LocalGroup final : public ProcessGroup {
 public:
  LocalGroup(int rank, int size, const ProcessGroupOptions& options,
             std::shared_ptr<LocalWorld> world)
      : ProcessGroup(rank, size, options), world_(std::move(world)) {}

  ~LocalGroup() override {
    stop();
    world_->leave(rank());
  }

 protected:
  void run(const Collective& c) override {
    if (c.is_between_two()) return exchange(c);
    slot(rank()).collective = c;
    meet(c);
    check_agreement(c);
    switch (c.kind) {
      case CollectiveKind::kAllReduce: all_reduce_parts(c); break;
      case CollectiveKind::kBroadcast:
        if (c.peer != rank()) c.tensor.copy_(given(c.peer), true);
        break;
      case CollectiveKind::kAllGather:
        for (int r = 0; r < size(); ++r) c.result[r].copy_(given(r), true);
        break;
      case CollectiveKind::kReduceScatter: {
        std::vector<Tensor> parts;
        for (int r = 0; r < size(); ++r) parts.push_back(given(r)[rank()]);
        reduce_parts(parts, c.op, c.result);
        break;
      }
      default: break;
    }
    meet(c);
  }

  void on_abort(const std::string& reason) override { world_->fail(rank(), reason); }

 private:
  Slot& slot(int r) const { return world_->slots()[static_cast<size_t>(r)]; }
  const Tensor& given(int r) const { return slot(r).collective.tensor; }

  // What the ranks have done so far comes before what they do from here on.
  void meet(const Collective& c) {
    const bool on_gpu = c.tensor.defined() && !c.tensor.device().is_cpu();
    std::shared_ptr<Event> mark;
    if (on_gpu) {
      mark = std::make_shared<Event>(c.tensor.device());
      mark->record();
    }
    const auto marks = world_->meet(rank(), mark, c.description(), options().timeout);
    if (!on_gpu) return;
    for (const auto& other : marks) {
      if (other && other != mark) other->block(current_stream(c.tensor.device()));
    }
  }

  void check_agreement(const Collective& c) const {
    for (int r = 0; r < size(); ++r) {
      const Collective& other = slot(r).collective;
      bool same = other.kind == c.kind && other.op == c.op && other.peer == c.peer;
      if (same && c.tensor.defined()) {
        same = other.tensor.shape() == c.tensor.shape() &&
               other.tensor.dtype() == c.tensor.dtype() &&
               other.tensor.strides() == c.tensor.strides() &&
               other.tensor.device().type == c.tensor.device().type;
      }
      if (!same) {
        throw ProcessGroupError(concat("ranks ask for different collectives: rank ", rank(),
                                       " for ", c.description(), ", rank ", r, " for ",
                                       other.description()));
      }
    }
  }

  Tensor reduced(const std::vector<Tensor>& parts, ReduceOp op, Device device) const {
    const Tensor total = empty(parts[0].shape(), parts[0].dtype(), device);
    reduce_parts(parts, op, total);
    return total;
  }

  void all_reduce_parts(const Collective& c) {
    const Tensor mine = flat(c.tensor);
    const int64_t n = mine.numel(), part = (n + size() - 1) / size();
    const auto range_of = [&](int r, const Tensor& x) {
      const int64_t begin = std::min(n, r * part);
      return x.narrow(0, begin, std::min(part, n - begin));
    };
    std::vector<Tensor> parts;
    for (int r = 0; r < size(); ++r) parts.push_back(range_of(rank(), flat(given(r))));
    if (parts[0].numel() > 0)
      parts[static_cast<size_t>(rank())].copy_(reduced(parts, c.op, c.tensor.device()));
    meet(c);
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      const Tensor theirs = range_of(r, flat(given(r)));
      if (theirs.numel() > 0) range_of(r, mine).copy_(theirs, true);
    }
  }

  // All is laid out before anything is waited for.
  void exchange(const Collective& c) {
    std::vector<std::shared_ptr<Message>> sent;
    for (const Transfer& t : c.transfers) {
      if (t.kind == CollectiveKind::kSend) sent.push_back(post(t));
    }
    for (const Transfer& t : c.transfers) {
      if (t.kind == CollectiveKind::kReceive) receive(t, c);
    }
    size_t next = 0;
    for (const Transfer& t : c.transfers) {
      if (t.kind != CollectiveKind::kSend) continue;
      const Message& message = *sent[next++];
      world_->wait_until_taken(message, t.peer, c.description(), options().timeout);
      if (message.read) message.read->block(current_stream(t.tensor.device()));
    }
  }

  std::shared_ptr<Message> post(const Transfer& t) {
    const auto message = std::make_shared<Message>();
    message->tensor = t.tensor;
    const Device device = t.tensor.device();
    if (!device.is_cpu()) {
      message->written.emplace(device);
      message->written->record();
    }
    world_->post(rank(), t.peer, message);
    return message;
  }

  void receive(const Transfer& t, const Collective& c) {
    const auto message = world_->fetch(t.peer, rank(), c.description(), options().timeout);
    const Tensor& x = message->tensor;
    const Device device = t.tensor.device();
    if (x.shape() != t.tensor.shape() || x.dtype() != t.tensor.dtype() ||
        x.device().type != device.type) {
      throw ProcessGroupError(concat(c.description(), ": rank ", t.peer, " sent ", x.dtype(), " ",
                                     x.shape(), " from ", x.device()));
    }
    if (!device.is_cpu()) message->written->block(current_stream(device));
    t.tensor.copy_(x, true);
    if (!device.is_cpu()) {
      message->read.emplace(device);
      message->read->record();
    }
    world_->take(*message);
  }

  std::shared_ptr<LocalWorld> world_;
};

}  // namespace

std::vector<std::shared_ptr<ProcessGroup>> make_local_groups(int size,
                                                             const ProcessGroupOptions& options) {
  WICK_CHECK(size >= 1, "make_local_groups: size must be positive: got ", size);
  const auto world = std::make_shared<LocalWorld>(size);
  std::vector<std::shared_ptr<ProcessGroup>> groups;
  for (int r = 0; r < size; ++r) {
    groups.push_back(std::make_shared<LocalGroup>(r, size, options, world));
  }
  return groups;
}

}  // namespace wick::dist
