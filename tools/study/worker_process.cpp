#include "wick/tools/study/worker_process.h"

#include <fmt/core.h>
#include <unistd.h>

#include "wick/tools/common/spin.h"
#include "wick/tools/study/commands.h"
#include "wick/tools/study/compare.h"

namespace wick::study {

namespace {

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

}  // namespace

WorkerProcess::WorkerProcess(const Settings& settings)
    : child_("/proc/self/exe", {kWorkerWord, nlohmann::json(settings).dump()},
             {.name = "its process",
              .environment = environment(settings.brief_spin),
              .rests = true,
              .interrupted = [] { return interrupted.load(); }}) {}

nlohmann::json WorkerProcess::ask(const std::string& line, double seconds) {
  send(line);
  return answer(seconds);
}

nlohmann::json WorkerProcess::answer(double seconds) {
  const std::string line = child_.answer(seconds);
  auto values = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!values.is_object()) throw ChildError("it wrote something that is no answer");
  if (values.contains("error")) throw ChildError(values["error"].get<std::string>());
  return values;
}

}  // namespace wick::study
