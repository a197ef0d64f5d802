#include "wick/tools/wick/hosts.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <sstream>

#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/tools/wick/config.h"

namespace wick::tool {

namespace {

constexpr int64_t kMostRanksOfHost = 256;
constexpr uint64_t kMostBytesOfHosts = 1 << 20;

Host parse_host(const std::string& text) {
  const bool has_brackets = text.starts_with("[");
  const size_t end = has_brackets ? text.find(']') : text.find(':');
  const std::string rest =
      end == std::string::npos ? "" : text.substr(end + (has_brackets ? 1 : 0));
  Host host{text.substr(has_brackets ? 1 : 0, end - (has_brackets ? 1 : 0))};
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 || std::strchr("@._-:%", c) != nullptr;
  };
  if (host.name.empty() || host.name[0] == '-' || (has_brackets && end == std::string::npos) ||
      !std::all_of(host.name.begin(), host.name.end(), is_plain)) {
    throw UsageError(
        concat("--hosts: no host's name: got \"", text, "\", expected HOST or HOST:RANKS"));
  }
  if (rest.empty()) return host;
  const auto [last, error] =
      std::from_chars(rest.data() + 1, rest.data() + rest.size(), host.ranks);
  if (rest[0] != ':' || error != std::errc() || last != rest.data() + rest.size() ||
      host.ranks < 1 || host.ranks > kMostRanksOfHost) {
    throw UsageError(concat("--hosts: no number of ranks: got \"", text,
                            "\", expected HOST:RANKS, with 1 to ", kMostRanksOfHost,
                            " ranks; an IPv6 address stands in brackets"));
  }
  return host;
}

}  // namespace

std::vector<Host> parse_hosts(const std::vector<std::string>& texts) {
  std::vector<Host> hosts;
  for (const std::string& text : texts) {
    const Host host = parse_host(text);
    for (const Host& other : hosts) {
      if (other.name != host.name) continue;
      throw UsageError(concat("--hosts: ", host.name, " is named twice: give it as ", host.name,
                              ":N, with N ranks"));
    }
    hosts.push_back(host);
  }
  return hosts;
}

std::vector<Host> read_hosts(const std::string& path) {
  std::istringstream text(read_file(path, kMostBytesOfHosts));
  std::vector<std::string> found;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host, slots, more;
    if (!(words >> host)) continue;
    constexpr std::string_view kSlots = "slots=";
    if (words >> slots) {
      if (!slots.starts_with(kSlots) || words >> more) {
        throw UsageError(concat("--hosts-file: ", path, ": a line is no host: got \"", line,
                                "\", expected HOST, HOST:N or HOST slots=N"));
      }
      host += ":" + slots.substr(kSlots.size());
    }
    found.push_back(host);
  }
  if (found.empty()) throw UsageError(concat("--hosts-file: ", path, " names no host"));
  return parse_hosts(found);
}

std::string address_of(const Host& host) { return host.name.substr(host.name.rfind('@') + 1); }

}  // namespace wick::tool
