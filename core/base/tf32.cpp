#include "wick/core/base/tf32.h"

#include <atomic>

namespace wick {

namespace {

std::atomic<bool> tf32_is_allowed{false};

}  // namespace

bool allow_tf32() { return tf32_is_allowed; }
void set_allow_tf32(bool on) { tf32_is_allowed = on; }

}  // namespace wick
