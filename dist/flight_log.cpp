#include "wick/dist/flight_log.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "wick/core/base/check.h"
#include "wick/core/file.h"

namespace wick::dist {

namespace {

using FlightJson = nlohmann::json;

// A rank writes 256 entries of some hundred bytes.
constexpr uint64_t kMostFlightBytes = 1 << 20;
constexpr int kMostFlightDepth = 8;
constexpr size_t kMostFlightEntries = 4096;
constexpr int64_t kMostFlightRanks = 100'000;
constexpr size_t kMostFlightText = 400;

// `text` from a log, as it may be shown.
std::string shown_text(const FlightJson& value) {
  if (!value.is_string()) return {};
  std::string text = value.get<std::string>();
  const bool cut = text.size() > kMostFlightText;
  if (cut) text.resize(kMostFlightText);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return cut ? text + "..." : text;
}

FlightJson member(const FlightJson& values, const char* name) {
  const auto found = values.find(name);
  return found == values.end() ? FlightJson() : *found;
}

int64_t number_of(const FlightJson& value, int64_t low, int64_t high, const std::string& path,
                  const char* what) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX);
  const int64_t number = fits ? value.get<int64_t>() : low - 1;
  WICK_CHECK(number >= low && number <= high, "flight log: ", path, ": wrong ", what,
             ": expected a whole number from ", low, " to ", high);
  return number;
}

std::string rank_list(const std::vector<int64_t>& ranks) {
  constexpr size_t kMostListed = 8;
  std::string text;
  for (size_t i = 0; i < std::min(ranks.size(), kMostListed); ++i) {
    const bool last = i + 1 == ranks.size();
    text += concat(i == 0 ? "" : last ? " and " : ", ", ranks[i]);
  }
  if (ranks.size() > kMostListed) text += concat(" and ", ranks.size() - kMostListed, " more");
  return concat(ranks.size() == 1 ? "rank " : "ranks ", text);
}

// The one that most ranks asked for; of several, that of the lowest rank.
std::string usual(const std::map<int64_t, std::string>& asked) {
  std::map<std::string, size_t> counts;
  for (const auto& [rank, what] : asked) ++counts[what];
  const std::string* most = nullptr;
  for (const auto& [rank, what] : asked) {
    if (most == nullptr || counts[what] > counts[*most]) most = &what;
  }
  return most == nullptr ? "" : *most;
}

// What each rank that still knows asked for, by sequence.
std::map<int64_t, std::map<int64_t, std::string>> by_sequence(const std::vector<FlightLog>& logs) {
  std::map<int64_t, std::map<int64_t, std::string>> all;
  for (const FlightLog& log : logs) {
    for (const FlightLog::Collective& e : log.collectives)
      all[e.sequence][log.rank] = e.description;
  }
  return all;
}

std::optional<FlightVerdict> find_divergence(const std::vector<FlightLog>& logs) {
  for (const auto& [sequence, asked] : by_sequence(logs)) {
    const std::string common = usual(asked);
    FlightVerdict verdict;
    std::vector<int64_t> others;
    std::string other;
    for (const auto& [rank, what] : asked) {
      if (what == common) {
        others.push_back(rank);
      } else {
        verdict.ranks.push_back(rank);
        if (other.empty()) other = what;
      }
    }
    if (verdict.ranks.empty()) continue;
    verdict.why = concat(rank_list(verdict.ranks), " asked for ", other, " where ",
                         rank_list(others), " asked for ", common);
    return verdict;
  }
  return {};
}

// What the others waited for that is not done, at or behind `after`.
std::string waited_for(const std::vector<FlightLog>& logs, int64_t after) {
  const FlightLog::Collective* first = nullptr;
  for (const FlightLog& log : logs) {
    for (const FlightLog::Collective& e : log.collectives) {
      if (e.done || e.sequence < after) continue;
      if (first == nullptr || e.sequence < first->sequence) first = &e;
    }
  }
  return first == nullptr ? "" : first->description;
}

std::vector<int64_t> without_record(const std::vector<FlightLog>& logs) {
  std::set<int64_t> there;
  for (const FlightLog& log : logs) there.insert(log.rank);
  std::vector<int64_t> absent;
  for (int64_t r = 0; r < logs[0].size; ++r) {
    if (there.count(r) == 0) absent.push_back(r);
  }
  return absent;
}

}  // namespace

int64_t FlightLog::last_done() const {
  int64_t last = 0;
  for (const Collective& c : collectives) last = c.done ? c.sequence : last;
  return last;
}

FlightLog read_flight_log(const std::string& path) {
  const auto check_depth = [&](int depth, FlightJson::parse_event_t, FlightJson&) {
    WICK_CHECK(depth <= kMostFlightDepth, "flight log: ", path, ": nested deeper than ",
               kMostFlightDepth);
    return true;
  };
  const FlightJson values =
      FlightJson::parse(read_file(path, kMostFlightBytes), check_depth, /*allow_exceptions=*/false);
  WICK_CHECK(values.is_object(), "flight log: ", path, ": not a JSON object");
  FlightLog log;
  log.size = number_of(member(values, "size"), 1, kMostFlightRanks, path, "size");
  log.rank = number_of(member(values, "rank"), 0, log.size - 1, path, "rank");
  log.failure = shown_text(member(values, "failure"));
  const FlightJson entries = member(values, "collectives");
  WICK_CHECK(entries.is_array() && entries.size() <= kMostFlightEntries, "flight log: ", path,
             ": wrong collectives: expected a list of at most ", kMostFlightEntries);
  for (const FlightJson& entry : entries) {
    WICK_CHECK(entry.is_object(), "flight log: ", path, ": a collective is not an object");
    const FlightJson op = member(entry, "op");
    if (op == "send" || op == "recv" || op == "batch") continue;  // numbered apart
    FlightLog::Collective e;
    e.sequence = number_of(member(entry, "sequence"), 1, INT64_MAX - 1, path, "sequence");
    e.description = shown_text(member(entry, "description"));
    e.done = member(entry, "state") == "done";
    WICK_CHECK(e.sequence > log.last_asked(), "flight log: ", path, ": sequence ", e.sequence,
               " comes after ", log.last_asked());
    log.collectives.push_back(std::move(e));
  }
  return log;
}

FlightVerdict find_desync(const std::vector<FlightLog>& logs) {
  WICK_CHECK(!logs.empty(), "find_desync: got no record, expected one for each rank");
  if (const auto diverged = find_divergence(logs)) return *diverged;
  int64_t most = 0, least = INT64_MAX;
  for (const FlightLog& log : logs) {
    most = std::max(most, log.last_asked());
    least = std::min(least, log.last_asked());
  }
  if (const std::vector<int64_t> absent = without_record(logs); !absent.empty()) {
    const std::string what = waited_for(logs, 0);
    return {absent, concat(rank_list(absent), " left no record: killed, stopped or never there",
                           what.empty() ? "" : ", while the others waited for ", what)};
  }
  if (least < most) {
    FlightVerdict verdict;
    std::vector<int64_t> others;
    for (const FlightLog& log : logs) {
      (log.last_asked() == least ? verdict.ranks : others).push_back(log.rank);
    }
    const std::string what = waited_for(logs, least + 1);
    verdict.why = concat(rank_list(verdict.ranks), " did not come to ",
                         what.empty() ? concat("collective #", least + 1) : what, ", as ",
                         rank_list(others), " did");
    return verdict;
  }
  FlightVerdict verdict;
  for (const FlightLog& log : logs) {
    // Those that failed by another say: rank N ...
    if (log.failure.empty() || log.failure.find("rank ") != std::string::npos) continue;
    verdict.ranks.push_back(log.rank);
    if (verdict.why.empty()) verdict.why = concat("rank ", log.rank, " failed: ", log.failure);
  }
  if (!verdict.ranks.empty()) return verdict;
  return {{}, "all ranks did the same, and came to the same collective"};
}

FlightLogs read_flight_logs(const std::string& folder) {
  FlightLogs found;
  std::vector<FlightLog>& logs = found.logs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("flight-") || !name.ends_with(".json")) continue;
    WICK_CHECK(static_cast<int64_t>(logs.size()) < kMostFlightRanks, "flight logs: ", folder,
               " holds more than ", kMostFlightRanks);
    try {
      logs.push_back(read_flight_log(entry.path().string()));
    } catch (const Error& problem) {
      found.rejected.emplace_back(problem.what());
    }
  }
  WICK_CHECK(!error, "flight logs: cannot read ", folder, ": ", error.message());
  WICK_CHECK(!logs.empty(), "flight logs: ", folder,
             " holds no flight log: expected flight-0.json and so on",
             found.rejected.empty() ? "" : concat("; ", found.rejected[0]));
  std::sort(logs.begin(), logs.end(),
            [](const FlightLog& a, const FlightLog& b) { return a.rank < b.rank; });
  for (size_t i = 1; i < logs.size(); ++i) {
    WICK_CHECK(logs[i].size == logs[0].size, "flight logs: different jobs in ", folder, ": rank ",
               logs[i].rank, " is of ", logs[i].size, ", rank ", logs[0].rank, " of ",
               logs[0].size);
    WICK_CHECK(logs[i].rank != logs[i - 1].rank, "flight logs: two logs of rank ", logs[i].rank,
               " in ", folder);
  }
  return found;
}

}  // namespace wick::dist
