#include "wick/tools/common/attempt.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "wick/core/base/check.h"
#include "wick/tools/common/exit_codes.h"

namespace wick::tool {

namespace {

// What the others get to report, once one has failed.
constexpr std::chrono::seconds kGrace{5};

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

// Only calls that are safe between fork and exec.
[[noreturn]] void run_child(pid_t parent, const WordList& words, const WordList& environment,
                            const std::optional<cpu_set_t>& cores, const sigset_t& signals) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotStartExit);  // it is gone already
  setsid();                                          // the terminal's signals go to the parent
  if (cores) sched_setaffinity(0, sizeof *cores, &*cores);
  const int input = open("/dev/null", O_RDONLY);
  if (input >= 0) dup2(input, STDIN_FILENO);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  execvpe(words.get()[0], words.get(), environment.get());
  _exit(kCannotStartExit);
}

// Only calls that are safe after fork. Reads the numbers of groups until the pipe's other end is
// closed, which is when its owner has ended.
[[noreturn]] void keep(int from) {
  setsid();  // no signal of the owner's terminal or group
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(descriptor);
  constexpr size_t kMostGroups = 4096;
  static pid_t groups[kMostGroups];
  size_t count = 0;
  pid_t group = 0;
  while (read(from, &group, sizeof group) == static_cast<ssize_t>(sizeof group)) {
    if (count < kMostGroups) groups[count++] = group;
  }
  for (size_t i = 0; i < count; ++i) kill(-groups[i], SIGKILL);
  _exit(0);
}

// To the member and what it has started.
void send(pid_t pid, int signal) {
  if (kill(-pid, signal) != 0) kill(pid, signal);  // no group of its own yet
}

// How far such an end tells of a failure of the member's own; 0: of none.
int own_failure(int status) {
  if (WIFSIGNALED(status)) return 3;
  const int code = WEXITSTATUS(status);
  if (code == 0 || code == kInterruptedExit) return 0;
  return code == kOtherRankFailedExit ? 1 : 2;
}

// Whether a member that was to stop may have ended so for that reason.
bool was_asked(int status) {
  if (!WIFSIGNALED(status)) return false;
  const int number = WTERMSIG(status);
  return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGKILL;
}

std::string end_text(const Member& member, int status) {
  if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    return concat(" was killed by ",
                  name != nullptr ? concat("SIG", name) : concat("signal ", WTERMSIG(status)));
  }
  const int code = WEXITSTATUS(status);
  if (code == kCannotStartExit) return concat(" could not be started: ", member.words[0]);
  return concat(" failed with exit code ", code);
}

}  // namespace

HeldSignals::HeldSignals() {
  sigemptyset(&held_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGTSTP}) sigaddset(&held_, number);
  std::signal(SIGCHLD, SIG_DFL);  // ignored, it would take the members' ends with it
  sigprocmask(SIG_BLOCK, &held_, &before_);
}

HeldSignals::~HeldSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

int HeldSignals::wait(std::chrono::milliseconds timeout) const {
  timespec time{};
  time.tv_sec = timeout.count() / 1000;
  time.tv_nsec = timeout.count() % 1000 * 1'000'000;
  const int number = sigtimedwait(&held_, nullptr, &time);
  return number > 0 ? number : 0;
}

Keeper::Keeper() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(concat("launch: cannot make a pipe: ", std::strerror(errno)));
  }
  pid_ = fork();
  if (pid_ == 0) {
    close(ends[1]);
    keep(ends[0]);
  }
  close(ends[0]);
  to_ = ends[1];
  if (pid_ > 0) return;
  const int error = errno;
  close(to_);
  throw Error(concat("launch: cannot start a process: ", std::strerror(error)));
}

Keeper::~Keeper() {
  kill(pid_,
       SIGKILL);  // before it sees the pipe closed, for the groups' numbers may be others' now
  waitpid(pid_, nullptr, 0);
  close(to_);
}

void Keeper::watch(pid_t group) const { static_cast<void>(!write(to_, &group, sizeof group)); }

Attempt::Attempt(std::vector<Member> members, const HeldSignals& signals)
    : members_(std::move(members)), signals_(signals) {
  try {
    for (const Member& member : members_) start(member);
  } catch (...) {
    end();
    throw;
  }
}

Attempt::~Attempt() { end(); }

void Attempt::end() {
  signal_all(SIGKILL);
  for (const Process& p : processes_) {
    if (!p.status) waitpid(p.pid, nullptr, 0);
  }
}

void Attempt::start(const Member& member) {
  const WordList words(member.words), environment(environment_with(member.variables));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) run_child(parent, words, environment, member.cores, signals_.before());
  if (pid < 0) throw Error(concat("launch: cannot start a process: ", std::strerror(errno)));
  keeper_.watch(pid);
  processes_.push_back({pid});
}

void Attempt::wait() {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  while (reap()) {
    const auto now = std::chrono::steady_clock::now();
    if (failed_ && !deadline) deadline = now + kGrace;
    if (deadline && now >= *deadline) kill_rest();
    const int number = signals_.wait(std::chrono::milliseconds(200));
    if (number == SIGTSTP) {
      suspend();
    } else if (number != 0 && number != SIGCHLD) {
      pass_on(number);
    }
  }
}

void Attempt::pass_on(int signal) {
  signal_all(is_signalled_ ? SIGKILL : signal);
  is_signalled_ = interrupted_ = true;
}

// The members have no terminal that could stop them, nor go on by themselves.
void Attempt::suspend() const {
  signal_all(SIGSTOP);
  kill(getpid(), SIGSTOP);
  signal_all(SIGCONT);
}

void Attempt::signal_all(int signal) const {
  for (const Process& p : processes_) {
    if (!p.status) send(p.pid, signal);
  }
}

void Attempt::kill_rest() {
  for (Process& p : processes_) {
    if (p.status || p.killed) continue;
    p.killed = true;
    send(p.pid, SIGKILL);
  }
}

// Notes who has ended; whether anybody is left.
bool Attempt::reap() {
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process& p = processes_[i];
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
    if (WIFEXITED(status) && WEXITSTATUS(status) == kInterruptedExit) {
      // It was asked to stop by somebody else: so are the others.
      if (!interrupted_) signal_all(SIGTERM);
      interrupted_ = true;
    }
    if (!p.killed &&
        own_failure(status) > (failed_ ? own_failure(*processes_[*failed_].status) : 0)) {
      failed_ = i;
    }
  }
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const Process& p) { return !p.status; });
}

bool Attempt::interrupted() const {
  const bool is_complete =  // before the signal came
      std::all_of(processes_.begin(), processes_.end(), [](const Process& p) {
        return WIFEXITED(*p.status) && WEXITSTATUS(*p.status) == 0;
      });
  return interrupted_ && !is_complete && !(failed_ && !was_asked(*processes_[*failed_].status));
}

int Attempt::exit_code() const {
  if (!failed_) return interrupted() ? kInterruptedExit : 0;
  const int status = *processes_[*failed_].status;
  return WIFSIGNALED(status) ? kSignalExit + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string Attempt::sentence() const {
  const Member& member = members_[*failed_];
  std::string text = member.name + end_text(member, *processes_[*failed_].status), late;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].killed) late += (late.empty() ? "" : ", ") + members_[i].name;
  }
  if (!late.empty()) {
    text += concat("; ", late, " did not end within ", kGrace.count(), " s and had to be killed");
  }
  return text;
}

}  // namespace wick::tool
