#include "wick/tools/common/supervisor.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "wick/core/base/check.h"
#include "wick/core/base/threads.h"
#include "wick/tools/common/exit_codes.h"

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

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    fail_by_errno("no random numbers");
  }
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
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

cpu_set_t cores_of(int64_t rank, int64_t count) {
  cpu_set_t all, own;
  CPU_ZERO(&all);
  CPU_ZERO(&own);
  WICK_CHECK(sched_getaffinity(0, sizeof all, &all) == 0,
             "launch: cannot tell the cores: ", std::strerror(errno));
  const int64_t cores = CPU_COUNT(&all);
  WICK_CHECK(cores >= count, "launch: --bind-cores: got ", count, " ranks on ", cores,
             " cores, expected a core for each rank");
  int64_t number = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    if (number >= rank * cores / count && number < (rank + 1) * cores / count) CPU_SET(core, &own);
    ++number;
  }
  return own;
}

std::vector<Member> members_of(const LocalRanks& ranks, const std::vector<std::string>& words) {
  std::vector<Member> members;
  const std::string count = std::to_string(ranks.count);
  for (int64_t r = 0; r < ranks.count; ++r) {
    const std::string rank = std::to_string(r);
    Member member{ranks.count == 1 ? "the process" : concat("rank ", rank, " of ", count), words};
    member.variables = {{"RANK", rank},
                        {"LOCAL_RANK", rank},
                        {"WORLD_SIZE", count},
                        {"LOCAL_WORLD_SIZE", count},
                        {"MASTER_ADDR", ranks.master_addr},
                        {"MASTER_PORT", std::to_string(ranks.master_port)},
                        {"WICK_JOB_TOKEN", ranks.token},
                        {"WICK_RESTARTS", std::to_string(ranks.restarts)}};
    if (std::getenv("OMP_NUM_THREADS") == nullptr) {
      member.variables["OMP_NUM_THREADS"] =
          std::to_string(std::max<int64_t>(num_threads() / ranks.count, 1));
    }
    if (!ranks.flight_folder.empty()) member.variables["WICK_FLIGHT_DIR"] = ranks.flight_folder;
    if (ranks.bind_cores) member.cores = cores_of(r, ranks.count);
    members.push_back(std::move(member));
  }
  return members;
}

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
    Attempt attempt(members_of({.count = options.ranks,
                                .master_port = port.number(),
                                .token = random_token(),
                                .flight_folder = options.flight_folder,
                                .restarts = restarts,
                                .bind_cores = options.bind_cores},
                               words(restarts)),
                    signals);
    attempt.wait();
    const int code = attempt.exit_code();
    if (attempt.interrupted()) return kInterruptedExit;
    if (!attempt.failed()) return code;
    const bool again = !attempt.was_asked_to_stop() && restarts < options.max_restarts &&
                       code != kUsageExit && code != kDivergedExit && code != kCannotStartExit;
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
