#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace wick::dist {

using Clock = std::chrono::steady_clock;

/// A TCP connection, or what listens for them; closed at the end of the scope. No call blocks but
/// wait().
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket();
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  /// Waits for one of poll's `events`, or the connection's end; false if none comes in time.
  bool wait(short events, Clock::time_point deadline) const;
  /// Makes all reading and writing of the other threads and of the other end stop.
  void shut_down() const;
  /// This end's IP address and port.
  std::string address() const;
  int port() const;

 private:
  int descriptor_ = -1;
};

/// Listens at a host's address, of this machine, and a port, 0 for any that is free. Error if it
/// cannot, or the host's name is not resolved by `deadline`: it names `rank`.
Socket listen_at(const std::string& host, int port,
                 Clock::time_point deadline = Clock::now() + std::chrono::minutes(1), int rank = 0);
/// The next connection, if one has come.
Socket accept_from(const Socket& listener, int& error);
/// Whether `error`, an errno, says that the process or the system has no more files or memory to
/// give: what failed by it fails again.
bool is_exhaustion(int error);
/// Tries once. `reason` says why if it is not open.
Socket connect_to(const std::string& host, int port, Clock::time_point deadline,
                  std::string& reason);

/// What processes of a group tell each other beside tensors.
enum class ControlKind : uint8_t {
  kHello = 1,  // to rank 0: who I am
  kWelcome,    // from rank 0: all have come
  kRefused,    // from rank 0: why not
  kBlob,       // to rank 0: for all ranks to know
  kBlobs,      // from rank 0: what all ranks gave
  kAsk,        // from rank 0: do you live?
  kAlive,      // to rank 0: the answer
  kOverdue,    // to rank 0: ranks that I waited for in vain
  kFailure,    // either way: the group has failed, and why
  kLeave,      // to rank 0: I need the group no more
  kLeft,       // from rank 0: who needs it no more
  kParts,      // to rank 0: something for each rank, which answers by a kBlobs
};

struct ControlMessage {
  ControlKind kind;
  std::string text;
};

/// Messages over a connection. Reading and writing may be done by two threads.
class ControlChannel {
 public:
  explicit ControlChannel(Socket socket) : socket_(std::move(socket)) {}

  const Socket& socket() const { return socket_; }
  /// Queues a message. It goes with flush().
  void put(ControlKind kind, std::string_view text);
  /// Sends what the system takes now. False if the connection is broken.
  bool flush();
  bool has_output() const { return !output_.empty(); }
  /// Reads what has come. False at the connection's end, or if it sends what is no message, or one
  /// of more than `most` bytes.
  bool fill(size_t most);
  std::optional<ControlMessage> next();

 private:
  // Bytes of the first message's text; none if its head is not there yet.
  std::optional<uint32_t> first_size() const;

  Socket socket_;
  std::string input_, output_;
};

}  // namespace wick::dist
