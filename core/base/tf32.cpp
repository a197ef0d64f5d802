#include "wick/core/base/tf32.h"

#include <atomic>

namespace wick {

namespace {

std::atomic<bool> allowed{false};

}  // namespace

bool allow_tf32() { return allowed; }
void set_allow_tf32(bool on) { allowed = on; }

}  // namespace wick
