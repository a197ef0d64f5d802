#include "wick/tools/study/child.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "wick/tools/wick/commands.h"

namespace wick::study {

namespace {

struct Pipe {
  int read = -1, write = -1;
};

Pipe open_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw ChildError("cannot make a pipe");
  return {ends[0], ends[1]};
}

// The environment of this process with what decides how threads wait for each other.
std::vector<std::string> environment(bool brief_spin) {
  std::vector<std::string> values;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string value = *entry;
    if (!value.starts_with("GOMP_SPINCOUNT=")) values.push_back(value);
  }
  if (brief_spin) values.push_back(fmt::format("GOMP_SPINCOUNT={}", tool::kSpinCount));
  return values;
}

std::vector<char*> pointers(std::vector<std::string>& values) {
  std::vector<char*> result;
  for (std::string& value : values) result.push_back(value.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Child::Child(const Settings& settings) {
  const Pipe in = open_pipe(), out = open_pipe();
  std::vector<std::string> words = {"wick-study", "worker", nlohmann::json(settings).dump()};
  std::vector<std::string> variables = environment(settings.brief_spin);
  const std::vector<char*> argv = pointers(words), envp = pointers(variables);
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    signal(SIGINT, SIG_IGN);  // the parent ends it
    dup2(in.read, STDIN_FILENO);
    dup2(out.write, STDOUT_FILENO);
    execve("/proc/self/exe", argv.data(), envp.data());
    _exit(127);
  }
  close(in.read);
  close(out.write);
  input_ = in.write;
  output_ = out.read;
  if (process_ < 0) throw ChildError("cannot start a process");
  try {
    read(kPatience);
    rest();
  } catch (...) {
    end();
    throw;
  }
}

void Child::rest() { kill(process_, SIGSTOP); }

Child::~Child() { end(); }

std::string Child::end() {
  for (int* descriptor : {&input_, &output_}) {
    if (*descriptor >= 0) close(*descriptor);
    *descriptor = -1;
  }
  if (process_ < 0) return "";
  // At the end of its input it leaves by itself, and deletes its files.
  kill(process_, SIGCONT);
  int status = 0;
  for (int i = 0; i < 50 && process_ >= 0; ++i) {
    if (waitpid(process_, &status, WNOHANG) == process_) {
      process_ = -1;
    } else {
      usleep(20000);
    }
  }
  if (process_ >= 0) {
    kill(process_, SIGKILL);
    waitpid(process_, &status, 0);
    process_ = -1;
  }
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {}", WTERMSIG(status));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

nlohmann::json Child::ask(const std::string& line, double seconds) {
  const std::string text = line + "\n";
  kill(process_, SIGCONT);
  // A pipe takes so short a line at once, or its other end is gone.
  if (write(input_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw ChildError("its process " + end());
  }
  nlohmann::json values = read(seconds);
  rest();
  return values;
}

nlohmann::json Child::read(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  size_t newline = unread_.find('\n');
  while (newline == std::string::npos) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      kill(process_, SIGKILL);
      throw ChildError(fmt::format("no answer within {:.0f} s", seconds));
    }
    pollfd waiting{output_, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready < 0) throw ChildError(std::string("cannot wait: ") + std::strerror(errno));
    if (ready == 0) continue;
    char buffer[1 << 16];
    const ssize_t count = ::read(output_, buffer, sizeof buffer);
    if (count <= 0) throw ChildError("its process " + end());
    unread_.append(buffer, static_cast<size_t>(count));
    newline = unread_.find('\n');
  }
  const std::string line = unread_.substr(0, newline);
  unread_.erase(0, newline + 1);
  auto values = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!values.is_object()) throw ChildError("it wrote something that is no answer");
  if (values.contains("error")) throw ChildError(values["error"].get<std::string>());
  return values;
}

}  // namespace wick::study
