#include "wick/tools/wick/supervisor.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "wick/core/base/check.h"
#include "wick/tools/wick/attempt.h"
#include "wick/tools/wick/remote.h"

namespace wick::tool {

namespace {

[[noreturn]] void fail_by_errno(const char* what) {
  throw Error(concat("launch: ", what, ": ", std::strerror(errno)));
}

// A port of this machine that nobody else is given while this lives. A rank can listen on it all
// the same, as both allow for the address to be used again.
class ReservedPort {
 public:
  ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int yes = 1;
    socklen_t size = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    if (socket_ < 0 || setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(socket_, plain, size) != 0 || getsockname(socket_, plain, &size) != 0) {
      fail_by_errno("cannot find a free port");
    }
    number_ = ntohs(address.sin_port);
  }
  ~ReservedPort() {
    if (socket_ >= 0) close(socket_);
  }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;
  int number() const { return number_; }

 private:
  int socket_, number_ = 0;
};

std::vector<unsigned char> random_bytes(size_t count) {
  std::vector<unsigned char> bytes(count);
  if (getrandom(bytes.data(), count, 0) != static_cast<ssize_t>(count)) {
    fail_by_errno("no random numbers");
  }
  return bytes;
}

std::string random_token() {
  std::string text;
  for (const unsigned char byte : random_bytes(16)) text += fmt::format("{:02x}", byte);
  return text;
}

// Below those that systems give out by themselves. Who has it on another host is not known here.
int64_t random_port() {
  constexpr int64_t kFirst = 20'000, kEnd = 32'000;
  const std::vector<unsigned char> bytes = random_bytes(4);
  return kFirst + (bytes[0] << 16 | bytes[1] << 8 | bytes[2]) % (kEnd - kFirst);
}

std::vector<Member> members_of_start(const SuperviseOptions& options, int64_t restarts,
                                     int64_t local_port, const std::vector<std::string>& words) {
  HostRanks ranks{.count = options.ranks,
                  .world_size = options.ranks,
                  .master_port = local_port,
                  .token = random_token(),
                  .flight_folder = options.flight_folder,
                  .restarts = restarts};
  if (options.hosts.empty()) return members_of(ranks, words);
  ranks.is_address_given = !options.master_addr.empty();
  ranks.master_addr = !ranks.is_address_given ? address_of(options.hosts[0]) : options.master_addr;
  ranks.master_port = options.master_port > 0 ? options.master_port : random_port();
  std::vector<Member> members;
  for (const Host& host : options.hosts) {
    ranks.host = host.name;
    ranks.count = host.ranks;
    members.push_back(remote_member(options.rsh, ranks, words));
    ranks.first += host.ranks;
  }
  return members;
}

// Records of an earlier start would tell of ranks that left none this time.
void clear_flight_records(const std::string& folder) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  WICK_CHECK(!error, "launch: cannot make ", folder, ": ", error.message());
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("flight-") && name.ends_with(".json")) {
      std::filesystem::remove(entry.path(), error);
    }
  }
}

void clear_restarts(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (!entry.path().filename().string().starts_with("restart-")) continue;
    clear_flight_records(path);
    std::filesystem::remove(path, error);  // if nothing else is in it
  }
}

}  // namespace

int supervise(const SuperviseOptions& all_options, const RankWords& words) {
  const HeldSignals signals;
  for (int64_t restarts = 0;; ++restarts) {
    SuperviseOptions options = all_options;
    if (restarts > 0 && !options.flight_folder.empty()) {
      options.flight_folder += concat("/restart-", restarts);
    }
    clear_flight_records(options.flight_folder);
    if (restarts == 0) clear_restarts(options.flight_folder);
    const ReservedPort port;
    Attempt attempt(members_of_start(options, restarts, port.number(), words(restarts)), signals);
    attempt.wait();
    const int code = attempt.exit_code();
    if (attempt.interrupted()) return kStoppedExit;
    if (!attempt.failed()) return code;
    const bool again = !attempt.was_asked_to_stop() && restarts < options.max_restarts &&
                       code != kUsageExit && code != kCannotStartExit;
    std::string text = attempt.sentence();
    if (!options.flight_folder.empty()) {
      text += concat("; see wick doctor --flight ", options.flight_folder);
    }
    if (again) {
      text += concat("; starting all again, restart ", restarts + 1, " of ", options.max_restarts);
    }
    fmt::print(stderr, "wick: {}\n", text);
    if (!again) return code;
  }
}

}  // namespace wick::tool
