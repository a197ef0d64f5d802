#pragma once

#include "wick/core/profile/detail/session.h"

namespace wick::profile {

/// Lets CUPTI tell what GPUs do; false where there is none, or no GPU. It keeps about `most`
/// activities.
bool begin_gpu_activities(int64_t most);
/// Waits for the GPUs of `recording`, of session number `session`, and adds what CUPTI told: to the
/// event of each launch its kernel, with an event for each further one; events for all else.
void add_gpu_activities(Recording& recording, uint64_t session);

/// Ties what this thread queues, until the pop, to the place `order` in its log.
void push_launch(const ThreadLog& log, uint32_t order) noexcept;
void pop_launch() noexcept;

}  // namespace wick::profile
