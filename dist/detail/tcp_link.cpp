// A connection for each pair of ranks. There is no thread for them: whoever waits for one of a
// rank's connections moves all of them on, so that ranks that send to each other never wait in a
// circle.
#include "wick/dist/detail/tcp_link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <sstream>
#include <system_error>

namespace wick::dist {

namespace {

using std::chrono::milliseconds;

constexpr size_t kTcpSlots = 4;
constexpr size_t kMostTcpSlotBytes = 1 << 20, kLeastTcpSlotBytes = 1 << 16;
constexpr size_t kMostBytesOfTcpSlots = 128 << 20;  // of a rank
constexpr auto kConnectTimeout = std::chrono::seconds(20);
constexpr size_t kMostGuests = 256;
// How long the reason why a connection broke may take to be known.
constexpr milliseconds kReasonTimeout{1000};
// What a rank sent before it left is here within this time.
constexpr milliseconds kLastWords{300};

std::string error_text(int error) { return std::generic_category().message(error); }

// A message, and before it its size, as they are on the way.
class MessageSlot {
 public:
  explicit MessageSlot(size_t bytes)
      : blocks_(new Block[1 + (bytes + sizeof(Block) - 1) / sizeof(Block)]) {}

  char* message() const { return blocks_[1].bytes; }
  char* on_the_way() const { return message() - sizeof(uint32_t); }
  size_t bytes_on_the_way() const { return sizeof(uint32_t) + size(); }
  uint32_t size() const {
    uint32_t size = 0;
    std::memcpy(&size, on_the_way(), sizeof size);
    return size;
  }
  void set_size(uint32_t size) { std::memcpy(on_the_way(), &size, sizeof size); }

 private:
  struct alignas(64) Block {
    char bytes[64];
  };
  std::unique_ptr<Block[]> blocks_;  // takes memory once it is used: it is not written to before
};

// Messages of one direction.
struct MessageQueue {
  std::vector<MessageSlot> slots;
  uint64_t filled = 0, emptied = 0;  // messages so far
  size_t moved = 0;                  // bytes of the one that is under way
  std::string why_broken;

  explicit MessageQueue(size_t slot_bytes) {
    for (size_t i = 0; i < kTcpSlots; ++i) slots.emplace_back(slot_bytes);
  }
  bool is_empty() const { return filled == emptied; }
  bool is_full() const { return filled - emptied == kTcpSlots; }
  MessageSlot& to_fill() { return slots[filled % kTcpSlots]; }
  MessageSlot& to_empty() { return slots[emptied % kTcpSlots]; }
};

struct Connection {
  Socket socket;
  size_t slot_bytes;
  MessageQueue out, in;

  Connection(Socket open, size_t bytes)
      : socket(std::move(open)), slot_bytes(bytes), out(bytes), in(bytes) {}

  bool has_output() const { return !out.is_empty() && out.why_broken.empty(); }
  bool has_room() const { return !in.is_full() && in.why_broken.empty(); }

  // Sends what the system takes now.
  void write() {
    while (has_output()) {
      const MessageSlot& slot = out.to_empty();
      const ssize_t sent = send(socket.descriptor(), slot.on_the_way() + out.moved,
                                slot.bytes_on_the_way() - out.moved, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (sent < 0) {
        out.why_broken = error_text(errno);
        return;
      }
      out.moved += static_cast<size_t>(sent);
      if (out.moved < slot.bytes_on_the_way()) continue;
      out.moved = 0;
      ++out.emptied;
    }
  }

  // Reads what has come, as far as there are slots for it.
  void read() {
    while (has_room()) {
      const MessageSlot& slot = in.to_fill();
      const bool is_size_known = in.moved >= sizeof(uint32_t);
      if (is_size_known && slot.size() > slot_bytes) {
        in.why_broken =
            concat("got a message of ", slot.size(), " bytes, expected at most ", slot_bytes);
        return;
      }
      const size_t end = is_size_known ? slot.bytes_on_the_way() : sizeof(uint32_t);
      if (in.moved < end) {
        const ssize_t got =
            recv(socket.descriptor(), slot.on_the_way() + in.moved, end - in.moved, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (got <= 0) {
          in.why_broken = got == 0 ? "the other end closed it" : error_text(errno);
          return;
        }
        in.moved += static_cast<size_t>(got);
      }
      if (!is_size_known || in.moved < end) continue;
      in.moved = 0;
      ++in.filled;
    }
  }
};

// All connections of a rank.
class Connections {
 public:
  Connections() : waker_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!waker_.is_open()) {
      throw ProcessGroupError(concat("process group: cannot open an eventfd: ", error_text(errno)));
    }
  }

  Connection& add(Socket socket, size_t slot_bytes) {
    all_.push_back(std::make_unique<Connection>(std::move(socket), slot_bytes));
    return *all_.back();
  }

  // Waits until one of them goes on, wake() is called or `most` has passed, and moves them on.
  void move_on(milliseconds most) {
    polled_.assign(1, {waker_.descriptor(), POLLIN, 0});
    for (const auto& connection : all_) {
      const int events =
          (connection->has_output() ? POLLOUT : 0) | (connection->has_room() ? POLLIN : 0);
      polled_.push_back(
          {events == 0 ? -1 : connection->socket.descriptor(), static_cast<short>(events), 0});
    }
    if (poll(polled_.data(), polled_.size(), static_cast<int>(most.count())) <= 0) return;
    uint64_t count = 0;
    if (polled_[0].revents != 0 && ::read(waker_.descriptor(), &count, sizeof count) < 0) count = 0;
    for (size_t i = 0; i < all_.size(); ++i) {
      if (polled_[i + 1].revents == 0) continue;
      all_[i]->write();
      all_[i]->read();
    }
  }

  // By any thread.
  void wake() const {
    const uint64_t one = 1;
    if (::write(waker_.descriptor(), &one, sizeof one) < 0) return;  // it has been woken often
  }

 private:
  Socket waker_;
  std::vector<std::unique_ptr<Connection>> all_;
  std::vector<pollfd> polled_;
};

class TcpLink final : public Link {
 public:
  TcpLink(Control& control, std::shared_ptr<Connections> connections, Connection& own, int peer)
      : control_(control), connections_(std::move(connections)), own_(own), peer_(peer) {}

  size_t slot_bytes() const override { return own_.slot_bytes; }

  void* begin_send() override {
    await([&] { return !own_.out.is_full(); }, own_.out);
    return own_.out.to_fill().message();
  }
  void end_send(size_t bytes) override {
    own_.out.to_fill().set_size(static_cast<uint32_t>(bytes));
    ++own_.out.filled;
    own_.write();
  }
  const void* receive(size_t bytes) override {
    if (!has_message()) await([&] { return !own_.in.is_empty(); }, own_.in);
    const MessageSlot& slot = own_.in.to_empty();
    if (slot.size() != bytes) {
      throw ProcessGroupError(
          concat("rank ", peer_, " sent ", slot.size(), " bytes where ", bytes, " belong"));
    }
    return slot.message();
  }
  void release() override { ++own_.in.emptied; }
  bool has_message() override {
    if (own_.in.is_empty()) own_.read();
    return !own_.in.is_empty();
  }
  void finish() override {
    await([&] { return own_.out.is_empty(); }, own_.out);
  }
  void wake() override { connections_->wake(); }

 private:
  template <class Condition>
  void await(const Condition& is_done, const MessageQueue& queue) {
    auto last_words = Clock::time_point::max();
    while (!is_done()) {
      if (!queue.why_broken.empty()) throw_broken(queue.why_broken);
      if (control_.has_failed()) control_.throw_failure();
      if (control_.has_left(peer_)) last_words = std::min(last_words, Clock::now() + kLastWords);
      const auto left = std::min(control_.deadline(), last_words) - Clock::now();
      if (left <= Clock::duration::zero()) control_.check(peer_);
      connections_->move_on(
          std::clamp(std::chrono::ceil<milliseconds>(left), milliseconds(0), milliseconds(60'000)));
    }
  }

  // The reason is what rank 0 says soon after, or the deadline.
  [[noreturn]] void throw_broken(const std::string& why) {
    if (Clock::now() < control_.deadline() && !control_.has_left(peer_)) {
      control_.wait_for_failure(kReasonTimeout);
    }
    control_.check(peer_);
    throw ProcessGroupError(concat("the connection to rank ", peer_, " broke: ", why));
  }

  Control& control_;
  std::shared_ptr<Connections> connections_;
  Connection& own_;
  const int peer_;
};

// --- How ranks connect ---------------------------------------------------------------------------

// What a connection begins with: the key of the rank that listens, and who connects.
struct Greeting {
  uint64_t key[2] = {}, rank = 0;
};

// Where a rank listens, and its key, as text.
struct ListenAddress {
  std::string host;
  int port = 0;
  uint64_t key[2] = {};

  std::string text() const { return concat(host, " ", port, " ", key[0], " ", key[1]); }
  static ListenAddress parse(const std::string& text) {
    std::istringstream words(text);
    ListenAddress address;
    words >> address.host >> address.port >> address.key[0] >> address.key[1];
    if (!words) throw ProcessGroupError("process group: a rank listens nowhere");
    return address;
  }
};

uint64_t random_word() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

// Brings the sockets of all pairs of ranks about. Each rank connects to those before it.
class Meeting {
 public:
  Meeting(Control& control, int rank, int size)
      : rank_(rank), deadline_(std::min(control.deadline(), Clock::now() + kConnectTimeout)) {
    sockets_.resize(static_cast<size_t>(size));
    const Socket listener = listen_at(control.address(), 0, deadline_, rank);
    own_ = {control.address(), listener.port(), {random_word(), random_word()}};
    const std::vector<std::string> addresses = control.exchange(own_.text());
    for (int r = 0; r < rank; ++r) {
      connect(r, ListenAddress::parse(addresses[static_cast<size_t>(r)]));
    }
    std::vector<Guest> guests;
    while (missing() > rank) welcome(listener, guests);
  }

  std::vector<Socket> take() { return std::move(sockets_); }

 private:
  struct Guest {
    Socket socket;
    Greeting greeting = {};
    size_t got = 0;
    bool is_done = false;
  };

  [[noreturn]] void fail(int with, const std::string& why) const {
    throw ProcessGroupError(
        concat("process group: rank ", rank_, " cannot connect to rank ", with, ": ", why));
  }

  // The last rank that is not connected; the own one if there is none.
  int missing() const {
    for (int r = static_cast<int>(sockets_.size()) - 1; r > rank_; --r) {
      if (!sockets_[static_cast<size_t>(r)].is_open()) return r;
    }
    return rank_;
  }

  void connect(int to, const ListenAddress& address) {
    std::string reason;
    Socket socket = connect_to(address.host, address.port, deadline_, reason);
    if (!socket.is_open()) fail(to, reason);
    const Greeting greeting{{address.key[0], address.key[1]}, static_cast<uint64_t>(rank_)};
    // The first bytes of a connection: the system takes them at once.
    const ssize_t sent = send(socket.descriptor(), &greeting, sizeof greeting, MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(sizeof greeting)) fail(to, error_text(errno));
    sockets_[static_cast<size_t>(to)] = std::move(socket);
  }

  // Waits for news of the listener or of guests, who may be strangers.
  void welcome(const Socket& listener, std::vector<Guest>& guests) {
    std::vector<pollfd> polled = {{listener.descriptor(), POLLIN, 0}};
    for (const Guest& guest : guests) polled.push_back({guest.socket.descriptor(), POLLIN, 0});
    const auto left = std::chrono::ceil<milliseconds>(deadline_ - Clock::now());
    if (left <= milliseconds(0)) fail(missing(), "it did not come");
    if (poll(polled.data(), polled.size(), static_cast<int>(left.count())) < 0) return;
    for (size_t i = 0; i < guests.size(); ++i) {
      if (polled[i + 1].revents != 0) listen_to(guests[i]);
    }
    std::erase_if(guests, [](const Guest& guest) { return guest.is_done; });
    int error = 0;
    Socket socket = accept_from(listener, error);
    if (is_exhaustion(error)) fail(missing(), error_text(error));
    if (!socket.is_open()) return;
    if (guests.size() == kMostGuests) guests.erase(guests.begin());
    guests.push_back({std::move(socket)});
  }

  void listen_to(Guest& guest) {
    const ssize_t got =
        recv(guest.socket.descriptor(), reinterpret_cast<char*>(&guest.greeting) + guest.got,
             sizeof(Greeting) - guest.got, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return;
    guest.is_done = got <= 0;
    guest.got += static_cast<size_t>(std::max<ssize_t>(got, 0));
    if (guest.got < sizeof(Greeting)) return;
    guest.is_done = true;
    const Greeting& greeting = guest.greeting;
    const bool is_invited = greeting.key[0] == own_.key[0] && greeting.key[1] == own_.key[1];
    if (!is_invited || greeting.rank >= sockets_.size()) return;
    Socket& own = sockets_[greeting.rank];
    if (!own.is_open() && static_cast<int>(greeting.rank) > rank_) {
      own = std::move(guest.socket);
    }
  }

  const int rank_;
  const Clock::time_point deadline_;
  ListenAddress own_;
  std::vector<Socket> sockets_;  // [r]: to rank r
};

}  // namespace

std::vector<std::unique_ptr<Link>> make_tcp_links(Control& control, int rank, int size) {
  const auto ranks = static_cast<size_t>(size);
  const size_t slot_bytes = std::clamp(kMostBytesOfTcpSlots / (2 * kTcpSlots * ranks),
                                       kLeastTcpSlotBytes, kMostTcpSlotBytes);
  std::vector<Socket> sockets = Meeting(control, rank, size).take();
  const auto connections = std::make_shared<Connections>();
  std::vector<std::unique_ptr<Link>> links(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    if (static_cast<int>(r) == rank) continue;
    Connection& own = connections->add(std::move(sockets[r]), slot_bytes);
    links[r] = std::make_unique<TcpLink>(control, connections, own, static_cast<int>(r));
  }
  return links;
}

}  // namespace wick::dist
