#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "wick/tests/harness/temporary_folder.h"

namespace wick::dist {

/// Processes of one group, each this test program again, which runs the body of that name
/// (rank_bodies() in processes_test.cpp). What is left of them is killed at the end.
class RankProcesses {
 public:
  using Variables = std::map<std::string, std::string>;
  RankProcesses(int size, const std::string& body, const Variables& variables = {});
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Waits until every rank has called tell_ready(); false if one does not within a minute.
  bool wait_until_ready() const;
  void send_signal(int rank, int signal) const;
  /// Waits until `rank` ends, at most a minute; its exit code, or -1 after a signal or in vain.
  int wait(int rank);
  /// What it said by tell().
  std::string words(int rank) const;
  /// What it wrote to own_file().
  std::string file_of(int rank, const std::string& what) const;

 private:
  wick::testing::TemporaryFolder folder_;
  std::vector<pid_t> processes_;
};

// Within a body:
void tell_ready(int rank);
void tell(int rank, const std::string& words);
std::string own_file(int rank, const std::string& what);

}  // namespace wick::dist
