#pragma once

#include <string_view>

namespace wick::profile {

/// Begins a range within those that this thread has begun.
void nvtx_push(std::string_view name) noexcept;
/// Ends the range that this thread began last.
void nvtx_pop() noexcept;

}  // namespace wick::profile
