#include "wick/dist/detail/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "wick/core/base/check.h"

#include "wick/core/base/detail/start_thread.h"

namespace wick::dist {

namespace {

std::string system_message(int error) { return std::generic_category().message(error); }

struct AddressesDeleter {
  void operator()(addrinfo* all) const { freeaddrinfo(all); }
};
using Addresses = std::unique_ptr<addrinfo, AddressesDeleter>;

int look_up(const std::string& host, int port, int flags, Addresses& found) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* all = nullptr;
  const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &all);
  if (failed == 0) found.reset(all);
  return failed;
}

// What a thread finds that may be left to itself.
struct LookUp {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<int> failed;
  Addresses found;
};

// Null, and the reason, if the host is not known, or the system's resolver, which waits for servers
// as long as it likes, does not answer by `deadline`.
Addresses addresses_of(const std::string& host, int port, int flags, Clock::time_point deadline,
                       std::string& reason) {
  Addresses numeric;
  if (look_up(host, port, flags | AI_NUMERICHOST, numeric) == 0) return numeric;
  const auto shared = std::make_shared<LookUp>();
  std::thread asker = wick::detail::start_thread("process group", [=] {
    Addresses found;
    const int failed = look_up(host, port, flags, found);
    const std::lock_guard lock(shared->mutex);
    shared->found = std::move(found);
    shared->failed = failed;
    shared->changed.notify_all();
  });
  asker.detach();
  std::unique_lock lock(shared->mutex);
  if (!shared->changed.wait_until(lock, deadline, [&] { return shared->failed.has_value(); })) {
    reason = "no answer from the name service";
    return nullptr;
  }
  if (*shared->failed != 0) reason = gai_strerror(*shared->failed);
  return std::move(shared->found);
}

// Small notices go at once, and a host that is out of reach is noticed within half a minute.
void set_options(const Socket& socket) {
  if (!socket.is_open()) return;
  const auto set = [&](int level, int name, int value) {
    setsockopt(socket.descriptor(), level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

Socket open_socket(const addrinfo& address) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  set_options(socket);
  return socket;
}

// Whether nobody listened there, but the kernel chose that port for this end.
bool is_connected_to_itself(const Socket& socket) {
  sockaddr_storage own{}, other{};
  socklen_t own_bytes = sizeof own, other_bytes = sizeof other;
  return getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
         getpeername(socket.descriptor(), reinterpret_cast<sockaddr*>(&other), &other_bytes) == 0 &&
         own_bytes == other_bytes && std::memcmp(&own, &other, own_bytes) == 0;
}

// Host and port of this end, as numbers.
std::pair<std::string, std::string> own_name(int descriptor) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "0";
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &bytes) == 0) {
    getnameinfo(reinterpret_cast<sockaddr*>(&address), bytes, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
  }
  return {host, port};
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool Socket::wait(short events, Clock::time_point deadline) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd one{descriptor_, events, 0};
    const int got = poll(&one, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 60'000)));
    if (got > 0) return true;
    if (got < 0 && errno != EINTR && left > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return true;  // the call that follows says what is wrong, if anything is
    }
    if (got <= 0 && left <= 0) return false;
  }
}

void Socket::shut_down() const { shutdown(descriptor_, SHUT_RDWR); }

std::string Socket::address() const { return own_name(descriptor_).first; }
int Socket::port() const { return std::stoi(own_name(descriptor_).second); }

Socket listen_at(const std::string& host, int port, Clock::time_point deadline, int rank) {
  std::string reason;
  const Addresses all = addresses_of(host, port, AI_PASSIVE, deadline, reason);
  for (const addrinfo* a = all.get(); a != nullptr; a = a->ai_next) {
    Socket socket = open_socket(*a);
    const int on = 1;
    if (socket.is_open() &&
        setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(socket.descriptor(), a->ai_addr, a->ai_addrlen) == 0 &&
        listen(socket.descriptor(), SOMAXCONN) == 0) {
      return socket;
    }
    reason = system_message(errno);
  }
  throw Error(
      concat("process group: rank ", rank, " cannot listen at ", host, ":", port, ": ", reason));
}

bool is_exhaustion(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

Socket accept_from(const Socket& listener, int& error) {
  Socket socket(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  error = socket.is_open() ? 0 : errno;
  set_options(socket);
  return socket;
}

Socket connect_to(const std::string& host, int port, Clock::time_point deadline,
                  std::string& reason) {
  const Addresses all = addresses_of(host, port, 0, deadline, reason);
  for (const addrinfo* a = all.get(); a != nullptr; a = a->ai_next) {
    Socket socket = open_socket(*a);
    if (!socket.is_open()) {
      const int error = errno;
      reason = system_message(error);
      if (is_exhaustion(error))
        throw Error(concat("process group: cannot open a socket: ", reason));
      continue;
    }
    int error = connect(socket.descriptor(), a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      socklen_t bytes = sizeof error;
      error = ETIMEDOUT;
      if (socket.wait(POLLOUT, deadline)) {
        getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &bytes);
      }
    }
    if (error == 0 && is_connected_to_itself(socket)) error = ECONNREFUSED;
    if (error == 0) return socket;
    reason = system_message(error);
  }
  return {};
}

// A message is the size of its text (4 bytes, the lowest first, as all our machines have it), its
// kind (1 byte) and the text.
void ControlChannel::put(ControlKind kind, std::string_view text) {
  const auto size = static_cast<uint32_t>(text.size());
  output_.append(reinterpret_cast<const char*>(&size), sizeof size);
  output_ += static_cast<char>(kind);
  output_ += text;
}

bool ControlChannel::flush() {
  while (!output_.empty()) {
    const ssize_t sent =
        send(socket_.descriptor(), output_.data(), output_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    output_.erase(0, static_cast<size_t>(sent));
  }
  return true;
}

std::optional<uint32_t> ControlChannel::first_size() const {
  if (input_.size() < 5) return {};
  uint32_t size = 0;
  std::memcpy(&size, input_.data(), sizeof size);
  return size;
}

bool ControlChannel::fill(size_t most) {
  char bytes[1 << 14];
  for (;;) {
    const ssize_t got = recv(socket_.descriptor(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (got == 0) return false;
    input_.append(bytes, static_cast<size_t>(got));
    const auto size = first_size();
    if (size &&
        (*size > most || input_[4] < 1 || input_[4] > static_cast<char>(ControlKind::kParts))) {
      return false;
    }
    if (input_.size() > most + 5) return true;  // the rest once these are read
  }
}

std::optional<ControlMessage> ControlChannel::next() {
  const auto size = first_size();
  if (!size || input_.size() < 5 + size_t{*size}) return {};
  ControlMessage message{static_cast<ControlKind>(input_[4]), input_.substr(5, *size)};
  input_.erase(0, 5 + size_t{*size});
  return message;
}

}  // namespace wick::dist
