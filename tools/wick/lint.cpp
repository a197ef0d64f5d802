#include "wick/tools/wick/lint.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <optional>

#include "wick/core/anomaly.h"
#include "wick/core/memory/stats.h"
#include "wick/core/ops/random.h"
#include "wick/nn/lint.h"
#include "wick/train/trial.h"

namespace wick::tool {

int lint(const train::Recipe& recipe, bool json) {
  train::Trial run(recipe);
  const auto step = [&](const Tensor& images) {
    run.step_on({{images, zeros({images.size(0)}, kInt64, run.device())}});
  };
  // Already on the device: `wick train` always loads into pinned memory for a GPU, so that no flag
  // makes its copies pageable.
  const Tensor images = run.next_batch()[0];
  if (recipe.memory.history) record_memory_history(run.device());
  std::optional<DetectAnomaly> search;
  if (recipe.run.detect_anomaly) search.emplace();
  const std::vector<nn::Lint> found = nn::lint_training(run.model(), run.device(), images, step);
  if (json) {
    nlohmann::ordered_json lines = nlohmann::ordered_json::array();
    for (const nn::Lint& lint : found) {
      lines.push_back({{"rule", lint.rule}, {"message", lint.message}, {"cost", lint.cost}});
    }
    fmt::print("{}\n", lines.dump());
    return 0;
  }
  for (const nn::Lint& lint : found) {
    const std::string cost =
        lint.cost > 0 ? fmt::format("{:.1f} % of a step", 100 * lint.cost) : "-";
    fmt::print("{:<19} {:>17}  {}\n", lint.rule, cost, lint.message);
  }
  if (found.empty()) fmt::print("nothing found that costs time\n");
  return 0;
}

}  // namespace wick::tool
