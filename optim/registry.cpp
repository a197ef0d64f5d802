#include "wick/optim/registry.h"

#include "wick/core/base/detail/registry.h"

namespace wick::optim {

namespace {

// Made at first use: the library's optimizers register before main, in any order.
Registry<OptimizerEntry>& optimizers() {
  static Registry<OptimizerEntry> all("optimizer", {}, RegistryOrder::kByName);
  return all;
}

}  // namespace

void register_optimizer(OptimizerEntry entry) { optimizers().add(std::move(entry)); }
std::vector<std::string> optimizer_names() { return optimizers().names(); }
const OptimizerEntry& find_optimizer(const std::string& name) { return optimizers().find(name); }

}  // namespace wick::optim
