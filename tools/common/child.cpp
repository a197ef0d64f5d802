#include "wick/tools/common/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>

namespace wick::tool {

namespace {

constexpr size_t kMostBytesOfLine = size_t{1} << 20;

std::string error_text(int error) { return std::generic_category().message(error); }

void make_pipe(int (&ends)[2]) {
  WICK_CHECK(pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe: ", error_text(errno));
}

void close_if_open(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

Child::Child(const std::string& program, const std::vector<std::string>& arguments,
             ChildOptions options)
    : options_(std::move(options)) {
  if (options_.name.empty()) options_.name = program;
  start(program, arguments);
}

void Child::start(const std::string& program, const std::vector<std::string>& arguments) {
  int input[2], output[2];
  make_pipe(input);
  make_pipe(output);
  std::vector<std::string> all = {program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const std::vector<char*> words = pointers(all);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int error =
      posix_spawn(&pid_, program.c_str(), &actions, &attributes, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(input[0]);
  close(output[1]);
  to_ = input[1];
  from_ = output[0];
  if (error != 0) {
    pid_ = -1;
    close_if_open(to_);
    close_if_open(from_);
    throw Error(concat("cannot run ", program, ": ", error_text(error)));
  }
}

Child::~Child() {
  close_if_open(to_);
  close_if_open(from_);
  if (pid_ < 0) return;
  signal(SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Child::signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

void Child::fail_as_it_ended() {
  // Its pipe may be closed while it lives.
  signal(SIGKILL);
  int status = 0;
  while (pid_ > 0 && waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  throw ChildError(WIFSIGNALED(status)
                       ? concat(options_.name, " ended by signal ", WTERMSIG(status))
                       : concat(options_.name, " ended with exit code ", WEXITSTATUS(status)));
}

std::string Child::ask(const std::string& line, double seconds) {
  send(line);
  return answer(seconds);
}

void Child::send(const std::string& line) {
  if (options_.rests) signal(SIGCONT);
  const std::string text = line + "\n";
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t count = write(to_, text.data() + sent, text.size() - sent);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail_as_it_ended();
    sent += static_cast<size_t>(count);
  }
}

std::string Child::answer(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (;;) {
    const size_t at = pending_.find('\n');
    if (at != std::string::npos) {
      if (options_.rests) signal(SIGSTOP);
      std::string line = pending_.substr(0, at);
      pending_.erase(0, at + 1);
      return line;
    }
    const auto fail = [&](const auto&... text) {
      throw ChildError(concat(options_.name, text...));
    };
    if (pending_.size() > kMostBytesOfLine) fail(" answers without end");
    if (options_.interrupted != nullptr && options_.interrupted()) fail(" was not waited for");
    const double left = seconds - std::chrono::duration<double>(Clock::now() - begin).count();
    if (left <= 0) fail(" gave no answer within ", seconds, " s");
    pollfd waiting = {from_, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(left * 1000) + 1) <= 0) continue;
    char buffer[1 << 16];
    const ssize_t count = read(from_, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail_as_it_ended();
    pending_.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace wick::tool
