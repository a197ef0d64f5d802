#include <CLI/CLI.hpp>

#include <cstdlib>
#include <iterator>
#include <sstream>

#include "wick/dist/launch_env.h"
#include "wick/tools/wick/commands.h"
#include "wick/tools/wick/config.h"
#include "wick/tools/wick/launch.h"
#include "wick/tools/wick/ranks.h"
#include "wick/tools/wick/remote.h"
#include "wick/tools/wick/setup.h"
#include "wick/train/run_folder.h"

namespace wick::tool {

namespace {

constexpr int64_t kMostRanks = 256;
// A connection that asks for nothing by the terminal, and notices when the other end is gone.
constexpr const char* kSsh =
    "ssh -T -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=10 "
    "-o ServerAliveCountMax=3";

std::vector<Host> hosts_of(const LaunchFlags& flags) {
  return flags.hosts_file.empty() ? parse_hosts(flags.hosts) : read_hosts(flags.hosts_file);
}

bool has_hosts(const LaunchFlags& flags) {
  return !flags.hosts.empty() || !flags.hosts_file.empty();
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

void check(const LaunchFlags& flags) {
  constexpr int64_t kMostRestarts = 1'000'000;
  const auto check_range = [](const char* flag, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return;
    throw UsageError(concat(flag, ": out of range: got ", value, ", expected ", low, " to ", high));
  };
  check_range("--ranks", flags.ranks.value_or(1), 1, kMostRanks);
  check_range("--max-restarts", flags.max_restarts, 0, kMostRestarts);
  check_range("--master-port", flags.master_port, 0, 65535);
  if (!has_hosts(flags)) {
    for (const auto& [flag, is_given] : {std::pair{"--rsh", !flags.rsh.empty()},
                                         {"--master-addr", !flags.master_addr.empty()},
                                         {"--master-port", flags.master_port != 0}}) {
      if (is_given) throw UsageError(concat(flag, ": of use with --hosts alone"));
    }
    return;
  }
  if (flags.ranks) throw UsageError("--ranks: --hosts says how many: --hosts HOST:RANKS,...");
  if (!flags.hosts.empty() && !flags.hosts_file.empty()) {
    throw UsageError("--hosts-file: there are --hosts, too: give one of them");
  }
}

SuperviseOptions options_of(const LaunchFlags& flags) {
  SuperviseOptions options{.ranks = flags.ranks.value_or(1),
                           .max_restarts = flags.max_restarts,
                           .flight_folder = flags.flight,
                           .hosts = hosts_of(flags),
                           .rsh = words_of(flags.rsh.empty() ? kSsh : flags.rsh),
                           .master_addr = flags.master_addr,
                           .master_port = flags.master_port};
  if (options.hosts.empty()) return options;
  if (options.rsh.empty()) throw UsageError("--rsh: no program: got only spaces");
  if (flags.rsh.find_first_of("'\"\\") != std::string::npos) {
    throw UsageError("--rsh: it is split at blanks alone: got quotes or backslashes");
  }
  options.ranks = 0;
  for (const Host& host : options.hosts) options.ranks += host.ranks;
  if (options.ranks > kMostRanks) {
    throw UsageError(
        concat("--hosts: too many ranks: got ", options.ranks, ", expected at most ", kMostRanks));
  }
  if (options.hosts.size() > 1 && options.master_addr.empty() &&
      address_of(options.hosts[0]) == "localhost") {
    throw UsageError("--hosts: localhost is another one for each host: name it as the others do");
  }
  return options;
}

int launch(const LaunchFlags& flags, const std::vector<std::string>& words) {
  if (flags.serve) return serve_host();
  if (words.empty()) {
    throw UsageError("launch: what to start is missing: wick launch --ranks 2 -- train ...");
  }
  check(flags);
  if (words[0] != "train") {
    return supervise(options_of(flags), [&](int64_t) { return words; });
  }
  std::vector<std::string> all = {"train", "--max-restarts", std::to_string(flags.max_restarts)};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) all.insert(all.end(), {flag, value});
  };
  if (!has_hosts(flags)) add("--ranks", std::to_string(flags.ranks.value_or(1)));
  for (const std::string& host : flags.hosts) add("--hosts", host);
  add("--hosts-file", flags.hosts_file);
  add("--rsh", flags.rsh);
  add("--master-addr", flags.master_addr);
  if (flags.master_port > 0) add("--master-port", std::to_string(flags.master_port));
  add("--flight", flags.flight);
  all.insert(all.end(), words.begin() + 1, words.end());
  return run_program(all);
}

}  // namespace

void add_launch_flags(CLI::App& app, LaunchFlags& flags) {
  app.add_option("--ranks", flags.ranks,
                 "processes on this machine that train together, each on its share of every batch");
  app.add_option(
         "--max-restarts", flags.max_restarts,
         "how often all ranks are started again, from the newest checkpoint, when one fails")
      ->capture_default_str();
  app.add_option("--flight", flags.flight,
                 "folder for records of what ranks did last before a failure, for wick doctor");
  app.add_option("--hosts", flags.hosts,
                 "hosts that the ranks run on, and how many each: node1:4,node2:4")
      ->delimiter(',');
  app.add_option("--hosts-file", flags.hosts_file,
                 "the same in a file, one host a line: node1:4, or node1 slots=4");
  app.add_option("--rsh", flags.rsh,
                 "what starts a program on a host, called as RSH HOST PROGRAM (default: ssh)");
  app.add_option("--master-addr", flags.master_addr,
                 "where all hosts reach rank 0 (default: the first host's name)");
  app.add_option("--master-port", flags.master_port,
                 "the port there (default: one of 20000 to 31999 by chance)");
}

bool starts_ranks(const LaunchFlags& flags) {
  check(flags);
  const bool wanted = flags.ranks.value_or(1) > 1 || flags.max_restarts > 0 || has_hosts(flags);
  return wanted && !dist::launch_env();
}

int launch_train(const LaunchFlags& flags, const TrainConfig& config) {
  const SuperviseOptions options = options_of(flags);
  check_shares(config, options.ranks);
  if (options.hosts.empty()) check_backend(config);
  train::RunFolder folder = config.resume ? train::RunFolder::open(config.run_dir)
                                          : train::RunFolder::plan(config.run_dir);
  folder.claim_for_ranks();  // what they restart into is to be their own
  return supervise(options, [&](int64_t restarts) {
    std::vector<std::string> words = program_words();
    words.insert(words.begin(), "/proc/self/exe");
    if (config.run_dir.empty()) words.insert(words.end(), {"--run-dir", folder.path()});
    if (restarts > 0 && !config.resume && folder.holds_run()) words.emplace_back("--resume");
    return words;
  });
}

void add_launch(CLI::App& app, Command& command, const std::vector<std::string>& words) {
  CLI::App* sub = app.add_subcommand(
      "launch", "Starts a program as several ranks: wick launch --ranks 2 -- train --model lenet");
  auto flags = std::make_shared<LaunchFlags>();
  add_launch_flags(*sub, *flags);
  sub->add_flag("--serve", flags->serve, "what --hosts calls over there")->group("");
  sub->footer(
      "`wick train --ranks 2` is short for `wick launch --ranks 2 -- train`. Any other program is\n"
      "started with torchrun's variables. With --hosts this program must be at the same path on "
      "all\n"
      "hosts, and the folder that it is called in, too. Under torchrun, mpirun or srun give\n"
      "`wick train` as it is: it understands their variables.");
  sub->callback(
      [flags, words, &command] { command = [flags, words] { return launch(*flags, words); }; });
}

}  // namespace wick::tool
