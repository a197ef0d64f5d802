#include "wick/tools/wick/remote.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "wick/core/base/check.h"
#include "wick/core/base/threads.h"
#include "wick/tools/wick/ranks.h"

namespace wick::tool {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostRanks, first, count, world_size, master_addr,
                                   is_address_given, master_port, token, flight_folder, restarts,
                                   host)

}  // namespace wick::tool

namespace wick::tool {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostJobBytes = 1 << 20;
constexpr const char* kOwnProgram = "/proc/self/exe";

// Of the bytes of this program: FNV-1a.
std::string program_digest() {
  std::ifstream file(kOwnProgram, std::ios::binary);
  const auto chunk = std::make_unique<std::array<char, 1 << 16>>();
  uint64_t hash = 0xcbf29ce484222325u;
  while (file.read(chunk->data(), chunk->size()) || file.gcount() > 0) {
    for (std::streamsize i = 0; i < file.gcount(); ++i) {
      hash = (hash ^ static_cast<unsigned char>((*chunk)[static_cast<size_t>(i)])) * 0x100000001b3u;
    }
  }
  return fmt::format("{:016x}", hash);
}

// Settings of this library and of OpenMP that were made here hold for all hosts.
json common_variables() {
  json all = json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t end = text.find('=');
    if (!text.starts_with("WICK_") && !text.starts_with("OMP_")) continue;
    all[text.substr(0, end)] = text.substr(end + 1);
  }
  return all;
}

std::string path_of_program() {
  const std::string path = fs::read_symlink(kOwnProgram).string();
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("/._-+,=@%:", c) != nullptr;
  };
  WICK_CHECK(std::all_of(path.begin(), path.end(), is_plain),
             "launch: the path of this program is not one that a remote shell takes as it is: got ",
             path);
  return path;
}

// Up to the end of the first line, and no byte more: what follows is for Attempt.
std::string read_line() {
  std::string line;
  for (char c = 0; line.size() < kMostJobBytes && read(STDIN_FILENO, &c, 1) == 1;) {
    if (c == '\n') return line;
    line += c;
  }
  throw Error("launch: what to start did not come: this is started by wick launch --hosts alone");
}

// Others cannot come to a name that means, on its own host, that host's loopback.
void check_address(const HostRanks& ranks) {
  if (ranks.is_address_given || ranks.first != 0 || ranks.count == ranks.world_size) return;
  addrinfo hints{}, *all = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(ranks.master_addr.c_str(), nullptr, &hints, &all) != 0) return;  // rank 0 tells
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(all, freeaddrinfo);
  if (all->ai_family != AF_INET) return;
  const auto* address = reinterpret_cast<const sockaddr_in*>(all->ai_addr);
  WICK_CHECK(ntohl(address->sin_addr.s_addr) >> 24 != 127, "launch: on ", ranks.host, ", ",
             ranks.master_addr,
             " is an address of loopback, which other hosts cannot reach: give one that they can "
             "by --master-addr");
}

int run_ranks(const json& job) {
  WICK_CHECK(job.at("program") == program_digest(), "launch: the program on ",
             job.value("host", "this host"),
             " is not the one that wick launch runs: install the same version on all hosts");
  const auto ranks = job.at("ranks").get<HostRanks>();
  const auto folder = job.at("folder").get<std::string>();
  WICK_CHECK(chdir(folder.c_str()) == 0, "launch: ", ranks.host, " has no folder ", folder, ": ",
             std::strerror(errno), ": all hosts must see it at the same path");
  check_address(ranks);
  for (const auto& [name, value] : job.at("variables").items()) {
    setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  }
  if (!ranks.flight_folder.empty()) {
    std::error_code error;
    fs::create_directories(ranks.flight_folder, error);
    WICK_CHECK(!error, "launch: cannot make ", ranks.flight_folder, " on ", ranks.host, ": ",
               error.message());
  }
  const HeldSignals signals;
  Attempt attempt(members_of(ranks, job.at("words").get<std::vector<std::string>>()), signals,
                  STDIN_FILENO);
  attempt.wait();
  const int code = attempt.interrupted() ? kStoppedExit : attempt.exit_code();
  if (!attempt.failed() || attempt.interrupted() || code == kOtherRankFailedExit) return code;
  fmt::print(stderr, "wick: {}\n", attempt.sentence());
  // By these a remote shell says that nothing began.
  if (code == kCannotStartExit) return kUsageExit;
  return code == 255 || code == 126 ? 1 : code;
}

}  // namespace

std::vector<Member> members_of(const HostRanks& ranks, const std::vector<std::string>& words) {
  std::vector<Member> members;
  for (int64_t r = 0; r < ranks.count; ++r) {
    std::string name = ranks.world_size == 1
                           ? "the process"
                           : concat("rank ", ranks.first + r, " of ", ranks.world_size);
    if (!ranks.host.empty()) name += concat(" (on ", ranks.host, ")");
    Member member{std::move(name), words};
    member.variables = {{"RANK", std::to_string(ranks.first + r)},
                        {"LOCAL_RANK", std::to_string(r)},
                        {"WORLD_SIZE", std::to_string(ranks.world_size)},
                        {"LOCAL_WORLD_SIZE", std::to_string(ranks.count)},
                        {"MASTER_ADDR", ranks.master_addr},
                        {"MASTER_PORT", std::to_string(ranks.master_port)},
                        {"WICK_JOB_TOKEN", ranks.token},
                        {"WICK_RESTARTS", std::to_string(ranks.restarts)}};
    if (std::getenv("OMP_NUM_THREADS") == nullptr) {
      member.variables["OMP_NUM_THREADS"] =
          std::to_string(std::max<int64_t>(num_threads() / ranks.count, 1));
    }
    if (!ranks.flight_folder.empty()) member.variables["WICK_FLIGHT_DIR"] = ranks.flight_folder;
    members.push_back(std::move(member));
  }
  return members;
}

Member remote_member(const std::vector<std::string>& rsh, const HostRanks& ranks,
                     const std::vector<std::string>& words) {
  Member member{concat("host ", ranks.host), rsh};
  member.words.insert(member.words.end(), {ranks.host, path_of_program(), "launch", "--serve"});
  const json job = {{"program", program_digest()},
                    {"folder", fs::current_path().string()},
                    {"variables", common_variables()},
                    {"ranks", ranks},
                    {"words", words},
                    {"host", ranks.host}};
  try {
    member.input = job.dump() + "\n";
  } catch (const json::exception&) {
    throw Error("launch: words and variables for other hosts must be UTF-8");
  }
  return member;
}

int serve_host() {
  const json job = json::parse(read_line(), nullptr, /*allow_exceptions=*/false);
  WICK_CHECK(job.is_object() && job.contains("program") && job.contains("ranks"),
             "launch: what came is no job: is the program of wick launch --hosts of another "
             "version?");
  return run_ranks(job);
}

}  // namespace wick::tool
