#include "wick/tests/dist/processes.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "wick/core/base/check.h"

extern char** environ;

namespace wick::dist {

namespace {

constexpr auto kLongest = std::chrono::minutes(1);

// Until `condition` holds; false if that takes too long.
template <class Condition>
bool poll_until(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

std::string file_in(const std::string& folder, int rank, const std::string& what) {
  return concat(folder, "/", what, "-", rank);
}

pid_t start(std::vector<std::string> words, const RankProcesses::Variables& variables,
            const std::string& log) {
  std::vector<std::string> environment;
  for (char** v = environ; *v != nullptr; ++v) environment.emplace_back(*v);
  for (const auto& [name, value] : variables) environment.push_back(concat(name, "=", value));
  std::vector<char*> arguments, all;
  for (std::string& word : words) arguments.push_back(word.data());
  for (std::string& variable : environment) all.push_back(variable.data());
  arguments.push_back(nullptr);
  all.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t process = 0;
  const int failed =
      posix_spawn(&process, "/proc/self/exe", &actions, nullptr, arguments.data(), all.data());
  posix_spawn_file_actions_destroy(&actions);
  WICK_CHECK(failed == 0, "cannot start this program again");
  return process;
}

}  // namespace

RankProcesses::RankProcesses(int size, const std::string& body, const Variables& variables) {
  for (int r = 0; r < size; ++r) {
    Variables all = variables;
    all["RANK"] = all["LOCAL_RANK"] = std::to_string(r);
    all["WORLD_SIZE"] = std::to_string(size);
    all["WICK_RENDEZVOUS_FILE"] = folder_.path("rendezvous");
    all["WICK_TEST_FOLDER"] = folder_.path();
    all["WICK_TEST_BODY"] = body;
    all["OMP_NUM_THREADS"] = "1";
    processes_.push_back(start({"rank", "--gtest_filter=Processes.DISABLED_Rank",
                                "--gtest_also_run_disabled_tests", "--gtest_brief=1"},
                               all, file_of(r, "log")));
  }
}

RankProcesses::~RankProcesses() {
  for (const pid_t process : processes_) {
    if (process == 0) continue;
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
}

bool RankProcesses::wait_until_ready() const {
  for (size_t r = 0; r < processes_.size(); ++r) {
    const std::string file = file_of(static_cast<int>(r), "ready");
    if (!poll_until([&] { return std::filesystem::exists(file); })) return false;
  }
  return true;
}

void RankProcesses::send_signal(int rank, int signal) const {
  kill(processes_[static_cast<size_t>(rank)], signal);
}

int RankProcesses::wait(int rank) {
  pid_t& process = processes_[static_cast<size_t>(rank)];
  int status = 0;
  if (!poll_until([&] { return waitpid(process, &status, WNOHANG) == process; })) return -1;
  process = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string RankProcesses::words(int rank) const {
  std::string text;
  for (const char* what : {"words", "log"}) {
    std::ifstream file(file_of(rank, what));
    text.assign(std::istreambuf_iterator<char>(file), {});
    if (!text.empty()) break;  // the log says what went wrong if there are no words
  }
  return text;
}

std::string RankProcesses::file_of(int rank, const std::string& what) const {
  return file_in(folder_.path(), rank, what);
}

std::string own_file(int rank, const std::string& what) {
  const char* folder = std::getenv("WICK_TEST_FOLDER");
  return file_in(folder == nullptr ? "." : folder, rank, what);
}

void tell_ready(int rank) { std::ofstream(own_file(rank, "ready")) << "ready"; }

void tell(int rank, const std::string& words) { std::ofstream(own_file(rank, "words")) << words; }

}  // namespace wick::dist
