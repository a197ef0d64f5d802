#include "wick/dist/detail/gloo_link.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstring>

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>

namespace wick::dist {

namespace {

using std::chrono::milliseconds;

constexpr size_t kGlooSlots = 4;
constexpr size_t kMostGlooSlotBytes = 1 << 20, kLeastGlooSlotBytes = 1 << 16;
constexpr size_t kMostBytesOfGlooSlots = 128 << 20;        // of a rank
constexpr auto kConnectTimeout = std::chrono::seconds(4);  // Gloo waits five times as long
// How long the reason why a connection broke may take to be known.
constexpr milliseconds kReasonTimeout{1000};
// What a rank sent before it left is here within this time.
constexpr milliseconds kLastWords{300};

// Gloo writes to connections that may have been closed, which would end the process by SIGPIPE.
// This keeps it from the thread while it lives, and for good from those that the thread starts.
class NoBrokenPipes {
 public:
  NoBrokenPipes() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipes() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec none{};
    sigtimedwait(&pipe_, nullptr, &none);  // one that came
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipes(const NoBrokenPipes&) = delete;
  NoBrokenPipes& operator=(const NoBrokenPipes&) = delete;

 private:
  sigset_t pipe_, before_;
};

// The same for a thread of the group's own, for good.
void block_broken_pipes() { static thread_local const NoBrokenPipes blocked; }

// What the links share, and last lets go of.
struct GlooTransport {
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::transport::Context> context;
};

class GlooLink final : public Link {
 public:
  GlooLink(Control& control, std::shared_ptr<GlooTransport> transport, int peer, int size)
      : control_(control),
        transport_(std::move(transport)),
        peer_(peer),
        slot_bytes_(std::clamp(kMostBytesOfGlooSlots / (2 * kGlooSlots * static_cast<size_t>(size)),
                               kLeastGlooSlotBytes, kMostGlooSlotBytes)) {
    for (size_t i = 0; i < kGlooSlots; ++i) {
      outbox_.push_back(make_slot());
      inbox_.push_back(make_slot());
    }
    while (expected_ < kGlooSlots) expect_next();
  }

  size_t slot_bytes() const override { return slot_bytes_; }

  void* begin_send() override {
    block_broken_pipes();
    if (sent_ - done_ == kGlooSlots) await_sent();
    return outbox_[sent_ % kGlooSlots].bytes.get();
  }
  void end_send(size_t bytes) override {
    translated([&] { outbox_[sent_ % kGlooSlots].buffer->send(peer_, kTag, 0, bytes); });
    ++sent_;
  }
  const void* receive(size_t) override {
    Slot& slot = inbox_[received_ % kGlooSlots];
    if (expected_ == received_) translated([&] { expect_next(); });
    if (!std::exchange(has_received_, false)) {
      await([&](auto timeout) { return slot.buffer->waitRecv(nullptr, timeout); });
    }
    return slot.bytes.get();
  }
  void release() override {
    block_broken_pipes();
    ++received_;
    try {
      while (expected_ < received_ + kGlooSlots) expect_next();
    } catch (const std::exception&) {  // the last message may have come: receive() will tell
    }
  }
  // A wait of Gloo's that ends in vain closes all connections; here they are lost anyhow. The first
  // may end since it was woken before.
  bool has_message() override {
    try {
      auto& buffer = *inbox_[received_ % kGlooSlots].buffer;
      has_received_ = has_received_ || buffer.waitRecv(nullptr, milliseconds(1)) ||
                      buffer.waitRecv(nullptr, milliseconds(1));
    } catch (const std::exception&) {
    }
    return has_received_;
  }
  void finish() override {
    while (done_ != sent_) await_sent();
  }
  void wake() override {
    for (const Slot& slot : outbox_) slot.buffer->abortWaitSend();
    for (const Slot& slot : inbox_) slot.buffer->abortWaitRecv();
  }

 private:
  static constexpr uint64_t kTag = 1;
  struct Slot {
    std::unique_ptr<char[]> bytes;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  };

  Slot make_slot() const {
    // Not written to before it is used, so that it takes no memory until then.
    Slot slot{std::unique_ptr<char[]>(new char[slot_bytes_]), nullptr};
    slot.buffer = transport_->context->createUnboundBuffer(slot.bytes.get(), slot_bytes_);
    return slot;
  }
  // Receives may be asked for before the message comes; they are served in order.
  void expect_next() {
    inbox_[expected_ % kGlooSlots].buffer->recv(peer_, kTag, 0, slot_bytes_);
    ++expected_;
  }
  void await_sent() {
    Slot& slot = outbox_[done_ % kGlooSlots];
    await([&](auto timeout) { return slot.buffer->waitSend(nullptr, timeout); });
    ++done_;
  }

  // `wait` gives false if it was woken, since the group has failed or a rank left.
  template <class Wait>
  void await(const Wait& wait) {
    for (;;) {
      if (control_.has_failed()) control_.throw_failure();
      auto most = std::chrono::ceil<milliseconds>(control_.deadline() - Clock::now());
      if (control_.has_left(peer_)) most = std::min(most, kLastWords);
      bool is_there = false;
      translated([&] { is_there = wait(std::max(most, milliseconds(1))); });
      if (is_there) return;
    }
  }

  // Gloo's errors name an address: the reason is what rank 0 says soon after, or the deadline.
  template <class Action>
  void translated(const Action& action) {
    try {
      action();
    } catch (const std::exception& error) {
      if (Clock::now() < control_.deadline() && !control_.has_left(peer_)) {
        control_.wait_for_failure(kReasonTimeout);
      }
      control_.check(peer_);
      throw ProcessGroupError(concat("the connection to rank ", peer_, " broke: ", error.what()));
    }
  }

  Control& control_;
  std::shared_ptr<GlooTransport> transport_;
  const int peer_;
  const size_t slot_bytes_;
  std::vector<Slot> outbox_, inbox_;
  uint64_t sent_ = 0, done_ = 0, expected_ = 0, received_ = 0;
  bool has_received_ = false;
};

}  // namespace

std::vector<std::unique_ptr<Link>> make_gloo_links(Control& control, int rank, int size) {
  std::vector<std::unique_ptr<Link>> links(static_cast<size_t>(size));
  try {
    const NoBrokenPipes no_broken_pipes;
    gloo::transport::tcp::attr attributes;
    attributes.hostname = control.address();
    const auto transport = std::make_shared<GlooTransport>();
    transport->device = gloo::transport::tcp::CreateDevice(attributes);
    transport->context = transport->device->createContext(rank, size);
    transport->context->setTimeout(kConnectTimeout);
    // Each pair listens at a port of its own.
    std::vector<std::string> addresses;
    for (int r = 0; r < size; ++r) {
      std::vector<char> bytes;
      if (r != rank) bytes = transport->context->createPair(r)->address().bytes();
      addresses.emplace_back(bytes.begin(), bytes.end());
    }
    const std::vector<std::string> theirs = control.exchange_parts(addresses);
    for (int r = 0; r < size; ++r) {
      if (r == rank) continue;
      const std::string& address = theirs[static_cast<size_t>(r)];
      if (address.empty()) throw ProcessGroupError("no address");
      transport->context->getPair(r)->connect({address.begin(), address.end()});
      links[static_cast<size_t>(r)] = std::make_unique<GlooLink>(control, transport, r, size);
    }
  } catch (const ProcessGroupError&) {
    throw;
  } catch (const std::exception& error) {
    throw ProcessGroupError(
        concat("process group: rank ", rank, " cannot connect to all others: ", error.what()));
  }
  return links;
}

}  // namespace wick::dist
