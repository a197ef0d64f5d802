#pragma once

#include <sched.h>
#include <csignal>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace wick::tool {

/// A process of a job, such as a rank.
struct Member {
  std::string name;                                   // for sentences: "rank 1 of 4"
  std::vector<std::string> words;                     // the program and its arguments
  std::map<std::string, std::string> variables = {};  // changes of the environment
  std::optional<cpu_set_t> cores = {};                // all that it may run on
};

/// Holds back the signals that Attempt waits for, while it lives.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  const sigset_t& before() const { return before_; }
  /// The next one within `timeout`; 0 if there is none.
  int wait(std::chrono::milliseconds timeout) const;

 private:
  sigset_t held_, before_;
};

/// A process that outlives this one, if this one is killed, for as long as it takes to kill the
/// groups of processes it was told of: members' own children do not end with them.
class Keeper {
 public:
  Keeper();
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  void watch(pid_t group) const;

 private:
  pid_t pid_ = -1;
  int to_ = -1;
};

/// One start of all members. When one fails, the others get a few seconds to say what they have to
/// say, and what is left is killed. Signals that ask to end are passed on; Ctrl-Z stops all. No
/// member, and nothing that it has started in its group, outlives this process, not even if it is
/// killed.
class Attempt {
 public:
  /// Starts them. They have no input.
  Attempt(std::vector<Member> members, const HeldSignals& signals);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// Returns when all have ended.
  void wait();

  bool was_asked_to_stop() const { return interrupted_; }
  /// Whether all ended as they were asked to.
  bool interrupted() const;
  /// Which one failed first: by a signal, else by another exit code than kOtherRankFailedExit, else
  /// at all.
  std::optional<size_t> failed() const { return failed_; }
  /// 0, kInterruptedExit, or that of the one that failed: kSignalExit + N for signal N.
  int exit_code() const;
  /// What became of the one that failed.
  std::string sentence() const;

 private:
  struct Process {
    pid_t pid = -1;
    std::optional<int> status = {};  // once it has ended
    bool killed = false;             // by us
  };

  void start(const Member& member);
  void end();
  void pass_on(int signal);
  void suspend() const;
  void signal_all(int signal) const;
  void kill_rest();
  bool reap();

  const std::vector<Member> members_;
  const HeldSignals& signals_;
  const Keeper keeper_;
  std::vector<Process> processes_;
  std::optional<size_t> failed_;
  bool interrupted_ = false;   // asked to stop, by a signal to this process or to a member
  bool is_signalled_ = false;  // this process was
};

}  // namespace wick::tool
