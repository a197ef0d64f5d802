#pragma once

#include <string>
#include <utility>
#include <vector>

#include "wick/optim/optimizer.h"

namespace wick::optim {

/// The options of a schedule that are numbers, by name; of a list each entry.
using ScheduleOptions = std::vector<std::pair<std::string, double>>;

/// Writes into a schedule's state what it is of: "kind", its text in bytes, and "options".
void write_description(StateDict& state, const std::string& kind, const ScheduleOptions& options);
/// Error if a state is of another kind of schedule, or of one with other options. What it does not
/// say is right.
void check_description(const StateDict& state, const std::string& kind,
                       const ScheduleOptions& options);

}  // namespace wick::optim
