#include "wick/tools/study/scaling_lab.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "wick/core/base/check.h"
#include "wick/tools/common/exit_codes.h"
#include "wick/tools/common/supervisor.h"
#include "wick/tools/study/commands.h"

namespace wick::study {

namespace {

using Words = std::vector<std::string>;

class NoLab : public Error {
 public:
  using Error::Error;
};

void check_system(bool is_done, const char* what) {
  if (!is_done) {
    throw NoLab(
        concat("network namespaces cannot be made here: ", what, ": ", std::strerror(errno)));
  }
}

// From here on this process has a network and a /run of its own, whose namespaces are nobody
// else's. Who is not root becomes so in a user namespace, where the kernel lets everybody make one.
void enter_own_namespaces() {
  const bool is_root = geteuid() == 0;
  const std::string user = fmt::format("0 {} 1", geteuid()),
                    group = fmt::format("0 {} 1", getegid());
  check_system(unshare(CLONE_NEWNET | CLONE_NEWNS | (is_root ? 0 : CLONE_NEWUSER)) == 0, "unshare");
  if (!is_root) {
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << user;
    std::ofstream("/proc/self/gid_map") << group;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // which a change of rights undoes
  }
  check_system(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "private mounts");
  check_system(mount("none", "/run", "tmpfs", 0, nullptr) == 0, "a /run of its own");
  check_system(mkdir("/run/netns", 0755) == 0, "/run/netns");
}

void call(const tool::HeldSignals& signals, const Words& words) {
  tool::Attempt attempt({{fmt::format("{}", fmt::join(words, " ")), words}}, signals);
  attempt.wait();
  if (attempt.failed())
    throw NoLab("network namespaces cannot be made here: " + attempt.sentence());
}

std::string host(int64_t rank) { return "host" + std::to_string(rank); }
std::string address(int64_t rank) { return "10.77.0." + std::to_string(rank + 1); }

// Short bursts, so that messages find the link as slow as it is said to be; and a queue that holds
// what all others send to one at a time.
Words limit(double megabits, const Words& where) {
  Words words = {"tc"};
  words.insert(words.end(), where.begin(), where.end());
  const Words more = {"root",  "tbf",
                      "rate",  fmt::format("{:.0f}kbit", 1000 * megabits),
                      "burst", fmt::format("{:.0f}", std::max(4000.0, 120 * megabits)),
                      "limit", "64mb"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void connect_hosts(const tool::HeldSignals& signals, int64_t count, double megabits) {
  const auto ip = [&](Words words) {
    words.insert(words.begin(), "ip");
    call(signals, words);
  };
  ip({"link", "add", "name", "switch", "type", "bridge"});
  ip({"link", "set", "switch", "up"});
  for (int64_t r = 0; r < count; ++r) {
    const std::string port = "port" + std::to_string(r);
    ip({"netns", "add", host(r)});
    ip({"link", "add", port, "type", "veth", "peer", "name", "net", "netns", host(r)});
    ip({"link", "set", port, "master", "switch", "up"});
    ip({"-n", host(r), "addr", "add", address(r) + "/16", "dev", "net"});
    ip({"-n", host(r), "link", "set", "lo", "up"});
    ip({"-n", host(r), "link", "set", "net", "up"});
    call(signals, limit(megabits, {"-n", host(r), "qdisc", "add", "dev", "net"}));
    call(signals, limit(megabits, {"qdisc", "add", "dev", port}));
  }
}

void run_ranks(const tool::HeldSignals& signals, const LabRun& run, bool has_network) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<tool::Member> members =
      tool::members_of({.count = run.ranks,
                        .master_addr = address(0),
                        .master_port = 29'500,
                        .token = std::to_string(getpid())},
                       {program, kRankWord, nlohmann::json(run.task).dump()});
  for (size_t r = 0; r < members.size() && has_network; ++r) {
    const Words inside = {"ip", "netns", "exec", host(static_cast<int64_t>(r))};
    members[r].words.insert(members[r].words.begin(), inside.begin(), inside.end());
  }
  tool::Attempt attempt(std::move(members), signals);
  attempt.wait();
  WICK_CHECK(!attempt.was_asked_to_stop(), "interrupted");
  WICK_CHECK(!attempt.failed(), attempt.sentence());
}

}  // namespace

int serve_lab(const std::string& text) {
  try {
    const auto task = nlohmann::json::parse(text).get<LabTask>();
    const tool::HeldSignals signals;
    const bool has_network = task.megabits > 0;
    if (has_network) {
      enter_own_namespaces();
      int64_t most = 1;
      for (const LabRun& run : task.runs) most = std::max(most, run.ranks);
      connect_hosts(signals, most, task.megabits);
    }
    for (const LabRun& run : task.runs) run_ranks(signals, run, has_network);
    return 0;
  } catch (const NoLab& error) {
    fmt::print(stderr, "wick: {}\n", error.what());
    return tool::kNoLabExit;
  } catch (const std::exception& error) {
    fmt::print(stderr, "wick: study: {}\n", error.what());
    return tool::kFailedExit;
  }
}

}  // namespace wick::study
