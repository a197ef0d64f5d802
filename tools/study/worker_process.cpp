#include "wick/tools/study/worker_process.h"

#include "wick/tools/study/commands.h"
#include "wick/tools/study/compare.h"

namespace wick::study {

WorkerProcess::WorkerProcess(const Settings& settings)
    : child_("/proc/self/exe", {kWorkerWord, nlohmann::json(settings).dump()},
             {.name = "its process", .rests = true, .interrupted = [] {
                return interrupted.load();
              }}) {}

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
