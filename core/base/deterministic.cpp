#include "wick/core/base/deterministic.h"

#include <atomic>

namespace wick {

namespace {

std::atomic<bool> only_deterministic{false};

}  // namespace

bool deterministic() { return only_deterministic; }
void set_deterministic(bool on) { only_deterministic = on; }

}  // namespace wick
