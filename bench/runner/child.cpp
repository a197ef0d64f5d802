#include "wick/bench/runner/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

#include "wick/bench/runner/measure.h"
#include "wick/bench/runner/options.h"
#include "wick/core/base/check.h"

namespace wick::bench {

namespace {

constexpr size_t kMostBytesOfLine = 1 << 20;

std::string error_text(int error) { return std::generic_category().message(error); }

void make_pipe(int (&ends)[2]) {
  WICK_CHECK(pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe: ", error_text(errno));
}

void close_if_open(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

}  // namespace

Child::Child(const std::string& program, const std::vector<std::string>& arguments)
    : program_(program) {
  int input[2], output[2];
  make_pipe(input);
  make_pipe(output);
  std::vector<char*> words = {const_cast<char*>(program.c_str())};
  for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
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
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string Child::ask(const std::string& line, double seconds) {
  const std::string text = line + "\n";
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t count = write(to_, text.data() + sent, text.size() - sent);
    if (count < 0 && errno == EINTR) continue;
    WICK_CHECK(count > 0, program_, " ended early");
    sent += static_cast<size_t>(count);
  }
  return answer(seconds);
}

std::string Child::answer(double seconds) {
  const double end = now() + seconds;
  for (;;) {
    const size_t at = pending_.find('\n');
    if (at != std::string::npos) {
      const std::string line = pending_.substr(0, at);
      pending_.erase(0, at + 1);
      return line;
    }
    WICK_CHECK(pending_.size() < kMostBytesOfLine, program_, " answers without end");
    const double left = end - now();
    WICK_CHECK(!interrupted(), program_, " was not waited for");
    WICK_CHECK(left > 0, program_, " gave no answer within ", seconds, " s");
    pollfd waiting = {from_, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(left * 1000) + 1) <= 0) continue;
    char buffer[65536];
    const ssize_t count = read(from_, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    WICK_CHECK(count > 0, program_, " ended early");
    pending_.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace wick::bench
