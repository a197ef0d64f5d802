#include "wick/bench/runner/serve.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <regex>
#include <sstream>

#include "wick/bench/runner/measure.h"
#include "wick/core/random.h"

namespace wick::bench {

namespace {

const Row& row_named(const std::string& name) {
  for (const Row& row : rows()) {
    if (row.name == name) return row;
  }
  throw Error("no row of that name: got " + name);
}

double slower_factor(const std::string& name) {
  const char* const text = std::getenv("WICK_BENCH_SLOWER");
  if (text == nullptr) return 1;
  std::istringstream words(text);
  std::string pattern;
  double factor = 1;
  words >> pattern >> factor;
  return std::regex_search(name, std::regex(pattern)) ? std::max(1.0, factor) : 1;
}

class Server {
 public:
  explicit Server(const Setting& setting) : setting_(setting) {}

  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "list") return names();
    if (command == "prepare") {
      std::string name;
      words >> name;
      work_.reset();
      manual_seed(0);
      work_ = row_named(name).prepare(setting_);
      slower_ = slower_factor(name);
      return "ok";
    }
    WICK_CHECK(work_, "no row is prepared");
    if (command == "check") {
      const std::string wrong = work_->check ? work_->check() : "";
      return wrong.empty() ? "ok" : "error " + wrong;
    }
    if (command == "calls") {
      double seconds = 0;
      words >> seconds;
      return std::to_string(calls_for(setting_.device, seconds, work_->call));
    }
    WICK_CHECK(command == "run", "unknown command: got ", command);
    int64_t calls = 1;
    words >> calls;
    char text[32];
    std::snprintf(text, sizeof text, "%.9e", run(calls));
    return text;
  }

 private:
  std::string names() const {
    std::string all;
    for (const Row& row : rows()) {
      if (setting_.device.is_cpu() || !row.cpu_only) all += row.name + " ";
    }
    return all;
  }

  double run(int64_t calls) const {
    const double start = now();
    const double seconds = time_calls(setting_.device, calls, work_->call);
    while (now() < start + seconds * slower_) {
    }
    return seconds * slower_;
  }

  Setting setting_;
  std::optional<Work> work_;
  double slower_ = 1;
};

}  // namespace

int serve(const Setting& setting) {
  std::signal(SIGINT, SIG_IGN);  // who asks decides when it is over
  std::cout << kGreeting << std::endl;
  Server server(setting);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::string answer;
    try {
      answer = server.answer(line);
    } catch (const std::exception& error) {
      answer = concat("error ", error.what());
      std::replace(answer.begin(), answer.end(), '\n', ' ');
    }
    std::cout << answer << std::endl;
  }
  return 0;
}

}  // namespace wick::bench
