#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wick/tools/wick/attempt.h"

namespace wick::tool {

/// The ranks of one start of a job that one host runs.
struct HostRanks {
  int64_t first = 0, count = 1, world_size = 1;
  std::string master_addr = "127.0.0.1";
  bool is_address_given = false;  // by the user: not the name of the first host
  int64_t master_port = 0;
  std::string token = {}, flight_folder = {};
  int64_t restarts = 0;
  std::string host = {};  // its name; empty where there is but one
};

/// Each of these ranks, to be started here with torchrun's variables.
std::vector<Member> members_of(const HostRanks& ranks, const std::vector<std::string>& words);

/// What starts these ranks on their host by `rsh`, words such as "ssh": this program over there,
/// which must be the same one, at the same path. It goes to the folder that this process is in. The
/// ranks' variables (the job's token is one) and words come to it by its input, and are on nobody's
/// command line. Error if this program's path is none that a shell would leave as it is.
Member remote_member(const std::vector<std::string>& rsh, const HostRanks& ranks,
                     const std::vector<std::string>& words);

/// What a remote member does over there. Returns its exit code.
int serve_host();

}  // namespace wick::tool
