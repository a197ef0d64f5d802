#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wick::tool {

/// A host that ranks are started on.
struct Host {
  std::string name;  // as the remote shell program takes it: "node3", "me@10.0.0.3"
  int64_t ranks = 1;
};

/// Hosts of the form NAME or NAME:RANKS; an IPv6 address stands in brackets. UsageError for another
/// form, a name that a remote shell would take for a flag or several words, or one named twice.
std::vector<Host> parse_hosts(const std::vector<std::string>& texts);

/// The hosts in a file, one a line: NAME, NAME:RANKS or, as Open MPI has it, NAME slots=RANKS. What
/// is behind a # is none of it.
std::vector<Host> read_hosts(const std::string& path);

/// The address of a host without the user's name in front.
std::string address_of(const Host& host);

}  // namespace wick::tool
