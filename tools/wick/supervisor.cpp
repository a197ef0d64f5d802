#include "wick/tools/wick/supervisor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "wick/core/base/check.h"
#include "wick/core/base/threads.h"
#include "wick/tools/wick/ranks.h"

namespace wick::tool {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStoppedExit = 130;
constexpr int kUsageExit = 2;
constexpr int kCannotStartExit = 127;
// What the other ranks get to report, once one has failed.
constexpr std::chrono::seconds kGrace{5};

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
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    fail_by_errno("no random numbers");
  }
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// Holds back the signals that `supervise` waits for, while it lives.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&held_, number);
    std::signal(SIGCHLD, SIG_DFL);  // ignored, it would take the ranks' ends with it
    sigprocmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  const sigset_t& before() const { return before_; }
  // The next one within `timeout`; 0 if there is none.
  int wait(std::chrono::milliseconds timeout) const {
    timespec time{};
    time.tv_sec = timeout.count() / 1000;
    time.tv_nsec = timeout.count() % 1000 * 1'000'000;
    const int number = sigtimedwait(&held_, nullptr, &time);
    return number > 0 ? number : 0;
  }

 private:
  sigset_t held_, before_;
};

// The words in the form that exec takes.
class WordList {
 public:
  explicit WordList(std::vector<std::string> words) : words_(std::move(words)) {
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }
  WordList(const WordList&) = delete;
  WordList& operator=(const WordList&) = delete;
  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

// This process's environment with `changes`.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (changes.count(text.substr(0, text.find('='))) == 0) all.push_back(text);
  }
  for (const auto& [name, value] : changes) all.push_back(concat(name, "=", value));
  return all;
}

struct RankProcess {
  pid_t pid = -1;
  std::optional<int> status = {};  // once it has ended
  bool killed = false;             // by us
};

std::string ranks_text(const std::vector<size_t>& ranks) {
  std::string text;
  for (const size_t r : ranks) text += concat(text.empty() ? "" : ", ", r);
  return concat(ranks.size() == 1 ? "rank " : "ranks ", text);
}

// One start of all ranks.
class Attempt {
 public:
  Attempt(const SuperviseOptions& options, int64_t restarts, const std::vector<std::string>& words,
          const HeldSignals& signals)
      : options_(options), signals_(signals), words_(words) {
    const auto ranks = static_cast<size_t>(options.ranks);
    for (size_t r = 0; r < ranks; ++r) start(static_cast<int64_t>(r), restarts);
  }
  ~Attempt() {
    signal_all(SIGKILL);
    for (const RankProcess& p : processes_) {
      if (!p.status) waitpid(p.pid, nullptr, 0);
    }
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Returns when all have ended.
  void wait() {
    std::optional<Clock::time_point> deadline;
    while (reap()) {
      if (failed_ && !deadline) deadline = Clock::now() + kGrace;
      if (deadline && Clock::now() >= *deadline) kill_rest();
      const int number = signals_.wait(std::chrono::milliseconds(200));
      if (number == 0 || number == SIGCHLD) continue;
      signal_all(is_signalled_ ? SIGKILL : number);
      is_signalled_ = interrupted_ = true;
    }
  }

  bool was_asked_to_stop() const { return interrupted_; }
  // Whether all ended as they were asked to.
  bool interrupted() const {
    return interrupted_ && !(failed_ && WIFEXITED(*processes_[*failed_].status));
  }
  std::optional<size_t> failed() const { return failed_; }
  int exit_code() const {
    if (!failed_) return interrupted_ ? kStoppedExit : 0;
    const int status = *processes_[*failed_].status;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  // What became of the rank that failed first.
  std::string sentence() const {
    const int status = *processes_[*failed_].status;
    std::string text =
        options_.ranks == 1 ? "the process" : concat("rank ", *failed_, " of ", options_.ranks);
    if (WIFSIGNALED(status)) {
      const char* name = sigabbrev_np(WTERMSIG(status));
      text += concat(" was killed by ",
                     name != nullptr ? concat("SIG", name) : concat("signal ", WTERMSIG(status)));
    } else if (WEXITSTATUS(status) == kCannotStartExit) {
      text += concat(" could not be started: ", words_[0]);
    } else {
      text += concat(" failed with exit code ", WEXITSTATUS(status));
    }
    std::vector<size_t> late;
    for (size_t r = 0; r < processes_.size(); ++r) {
      if (processes_[r].killed) late.push_back(r);
    }
    if (!late.empty()) {
      text += concat("; ", ranks_text(late), " did not end within ", kGrace.count(),
                     " s and had to be killed");
    }
    return text;
  }

 private:
  void start(int64_t rank, int64_t restarts) {
    std::map<std::string, std::string> changes = {
        {"RANK", std::to_string(rank)},
        {"LOCAL_RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(options_.ranks)},
        {"LOCAL_WORLD_SIZE", std::to_string(options_.ranks)},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(port_.number())},
        {"WICK_JOB_TOKEN", token_},
        {"WICK_RESTARTS", std::to_string(restarts)}};
    if (std::getenv("OMP_NUM_THREADS") == nullptr) {
      changes["OMP_NUM_THREADS"] =
          std::to_string(std::max<int64_t>(num_threads() / options_.ranks, 1));
    }
    if (!options_.flight_folder.empty()) changes["WICK_FLIGHT_DIR"] = options_.flight_folder;
    const WordList words(words_), environment(environment_with(changes));
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) fail_by_errno("cannot start a process");
    if (pid == 0) run_child(parent, words, environment);
    processes_.push_back({pid});
  }

  // Only calls that are safe between fork and exec.
  [[noreturn]] void run_child(pid_t parent, const WordList& words,
                              const WordList& environment) const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kCannotStartExit);  // it is gone already
    setsid();                                          // the terminal's signals go to the parent
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    sigprocmask(SIG_SETMASK, &signals_.before(), nullptr);
    execvpe(words.get()[0], words.get(), environment.get());
    _exit(kCannotStartExit);
  }

  static void send(const RankProcess& process, int number) {
    if (kill(-process.pid, number) != 0) kill(process.pid, number);
  }

  void signal_all(int number) const {
    for (const RankProcess& p : processes_) {
      if (!p.status) send(p, number);
    }
  }

  void kill_rest() {
    for (RankProcess& p : processes_) {
      if (p.status || p.killed) continue;
      p.killed = true;
      send(p, SIGKILL);
    }
  }

  // Notes who has ended; whether anybody is left.
  bool reap() {
    for (size_t r = 0; r < processes_.size(); ++r) {
      RankProcess& p = processes_[r];
      int status = 0;
      siginfo_t ended{};
      if (p.status ||
          waitid(P_PID, static_cast<id_t>(p.pid), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
          ended.si_pid != p.pid) {
        continue;
      }
      kill(-p.pid, SIGKILL);  // what it may have left behind, while the number is still its own
      if (waitpid(p.pid, &status, 0) != p.pid) continue;
      p.status = status;
      if (WIFEXITED(status) && WEXITSTATUS(status) == kStoppedExit) {
        // It was asked to stop by somebody else: so are the others.
        if (!interrupted_) signal_all(SIGTERM);
        interrupted_ = true;
      }
      if (!p.killed && guilt(status) > (failed_ ? guilt(*processes_[*failed_].status) : 0)) {
        failed_ = r;
      }
    }
    return std::any_of(processes_.begin(), processes_.end(),
                       [](const RankProcess& p) { return !p.status; });
  }

  // How far such an end tells of a failure of the rank's own; 0: of none.
  static int guilt(int status) {
    if (WIFSIGNALED(status)) return 3;
    const int code = WEXITSTATUS(status);
    if (code == 0 || code == kStoppedExit) return 0;
    return code == kOtherRankFailedExit ? 1 : 2;
  }

  const SuperviseOptions& options_;
  const HeldSignals& signals_;
  std::vector<std::string> words_;
  ReservedPort port_;
  std::string token_ = random_token();
  std::vector<RankProcess> processes_;
  std::optional<size_t> failed_;
  bool interrupted_ = false;   // asked to stop, by a signal to this process or to a rank
  bool is_signalled_ = false;  // this process was
};

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
    Attempt attempt(options, restarts, words(restarts), signals);
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
