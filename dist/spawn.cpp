#include "wick/dist/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/base/threads.h"
#include "wick/dist/process_group.h"

namespace wick::dist {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(2);
// How long ranks may take to end that are asked to, and a first failure to show behind those that
// follow from it: rank 0 waits a second for others before it leaves a group.
constexpr auto kPatience = std::chrono::seconds(3);
// What begins the words of a rank that failed: by itself, or as its group did.
constexpr char kOwnFailure = 'f', kGroupFailure = 'g';

#if defined(__SANITIZE_THREAD__)
constexpr int kThreadsOfSanitizer = 1;
#elif defined(__has_feature)
constexpr int kThreadsOfSanitizer = __has_feature(thread_sanitizer) ? 1 : 0;
#else
constexpr int kThreadsOfSanitizer = 0;
#endif

// ThreadSanitizer has a thread of its own, but not in a process that was forked.
int count_threads() {
  const fs::directory_iterator tasks("/proc/self/task");
  const int all = static_cast<int>(std::distance(fs::begin(tasks), fs::end(tasks)));
  return std::max(1, all - kThreadsOfSanitizer);
}

std::string new_token() {
  std::random_device random;
  return concat(random(), "-", random());
}

void set_variable(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

// So that launch_env() and programs that a rank starts find what `env` says.
void export_to_environment(const LaunchEnv& env) {
  set_variable("RANK", std::to_string(env.rank));
  set_variable("LOCAL_RANK", std::to_string(env.local_rank));
  set_variable("WORLD_SIZE", std::to_string(env.world_size));
  set_variable("LOCAL_WORLD_SIZE", std::to_string(env.local_world_size));
  set_variable("WICK_RENDEZVOUS_FILE", env.rendezvous_file);
  set_variable("WICK_JOB_TOKEN", env.job_token);
}

void write_all(int descriptor, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = write(descriptor, text.data() + done, text.size() - done);
    if (count <= 0) return;
    done += static_cast<size_t>(count);
  }
}

// The life of a rank, from fork to end. Writes to `words` what it failed with.
[[noreturn]] void be_rank(const std::function<void(const LaunchEnv&)>& body, const LaunchEnv& env,
                          pid_t parent, int words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) std::_Exit(1);  // it ended before that
  int code = 0;
  try {
    export_to_environment(env);
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    set_num_threads(std::max(1, std::min(num_threads(), cores / env.world_size)));
    body(env);
  } catch (const ProcessGroupError& error) {
    write_all(words, concat(kGroupFailure, error.what()));
    code = 1;
  } catch (const std::exception& error) {
    write_all(words, concat(kOwnFailure, error.what()));
    code = 1;
  } catch (...) {
    write_all(words, concat(kOwnFailure, "an exception that is no std::exception"));
    code = 1;
  }
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(code);  // what this process has to do at its end is its own
}

// Those that one call of spawn started; what is left of them is killed at the end.
class Ranks {
 public:
  Ranks() : folder_((fs::temp_directory_path() / "wick-spawn-XXXXXX").string()) {
    WICK_CHECK(mkdtemp(folder_.data()) != nullptr, "spawn: cannot make a folder: ", folder_, ": ",
               std::strerror(errno));
  }
  ~Ranks() {
    end(SIGKILL);
    for (const Rank& rank : ranks_) {
      if (rank.process != 0) waitpid(rank.process, nullptr, 0);
      if (rank.words >= 0) close(rank.words);
    }
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void start(const std::function<void(const LaunchEnv&)>& body, int count) {
    LaunchEnv env;
    env.world_size = env.local_world_size = count;
    env.rendezvous_file = folder_ + "/rendezvous";
    env.job_token = new_token();
    env.launcher = "spawn";
    const pid_t parent = getpid();
    std::cout.flush();  // or each rank would print what waits to be
    std::fflush(nullptr);
    for (env.rank = 0; env.rank < count; ++env.rank) {
      env.local_rank = env.rank;
      std::array<int, 2> ends = {};
      WICK_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0, "spawn: ", std::strerror(errno));
      const pid_t process = fork();
      if (process == 0) {
        for (const Rank& earlier : ranks_) close(earlier.words);
        close(ends[0]);
        be_rank(body, env, parent, ends[1]);
      }
      close(ends[1]);
      ranks_.push_back({process, ends[0]});
      WICK_CHECK(process > 0, "spawn: cannot start rank ", env.rank, ": ", std::strerror(errno));
    }
  }

  // Throws the first rank's error, once no rank runs any more.
  void wait() {
    Clock::time_point deadline = Clock::time_point::max();
    while (still_running()) {
      look();
      if (!failure_.empty()) deadline = std::min(deadline, Clock::now() + kPatience);
      if (is_own_ && !was_ended_) {
        end(SIGTERM);
        deadline = Clock::now() + kPatience;
      }
      if (Clock::now() >= deadline) {
        end(was_ended_ ? SIGKILL : SIGTERM);
        deadline = Clock::now() + kPatience;
      }
      std::this_thread::sleep_for(kPause);
    }
    if (!failure_.empty()) throw Error(failure_);
  }

 private:
  struct Rank {
    pid_t process = 0;  // 0: ended
    int words = -1;
  };

  bool still_running() const {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& rank) { return rank.process != 0; });
  }

  void end(int signal) {
    was_ended_ = true;
    for (const Rank& rank : ranks_) {
      if (rank.process > 0) kill(rank.process, signal);
    }
  }

  void look() {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      int status = 0;
      if (rank.process == 0 || waitpid(rank.process, &status, WNOHANG) != rank.process) continue;
      rank.process = 0;
      if (status != 0 && !was_ended_) note_failure(r, status);
    }
  }

  // The first that fails by itself, or else the first of all, is what is told.
  void note_failure(size_t r, int status) {
    const std::string words = words_of(ranks_[r]);
    const bool is_own = words.empty() || words[0] == kOwnFailure;
    if (!failure_.empty() && (is_own_ || !is_own)) return;
    is_own_ = is_own;
    if (!words.empty()) {
      failure_ = concat("spawn: rank ", r, " failed: ", words.substr(1));
    } else if (WIFSIGNALED(status)) {
      failure_ = concat("spawn: rank ", r, " was ended by signal ", WTERMSIG(status), " (",
                        strsignal(WTERMSIG(status)), ")");
    } else {
      failure_ = concat("spawn: rank ", r, " left with exit code ", WEXITSTATUS(status));
    }
  }

  // What it wrote before it ended.
  static std::string words_of(const Rank& rank) {
    fcntl(rank.words, F_SETFL, O_NONBLOCK);  // a process that it started may hold the other end
    std::string text;
    std::array<char, 4096> piece = {};
    for (ssize_t count = 0; (count = read(rank.words, piece.data(), piece.size())) > 0;) {
      text.append(piece.data(), static_cast<size_t>(count));
    }
    return text;
  }

  std::string folder_;
  std::vector<Rank> ranks_;
  std::string failure_;
  bool is_own_ = false, was_ended_ = false;
};

}  // namespace

void spawn(const std::function<void(const LaunchEnv& env)>& body, int ranks) {
  WICK_CHECK(ranks >= 1, "spawn: the number of ranks must be positive: got ", ranks);
  const int threads = count_threads();
  WICK_CHECK(threads == 1, "spawn: this process has ", threads,
             " threads, which its ranks would lack: expected 1; call spawn before tensors are "
             "computed and before a GPU is used");
  Ranks all;
  all.start(body, ranks);
  all.wait();
}

}  // namespace wick::dist
