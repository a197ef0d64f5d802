#pragma once

#include <vector>

#include "wick/tools/study/cards.h"
#include "wick/tools/study/store.h"

namespace wick::study {

/// Writes summary.svg beside the page, and summary.png where rsvg-convert is installed: the speed
/// of each measured technique, to be shown elsewhere.
void write_summary(const Store& store, const std::vector<Measured>& all);

}  // namespace wick::study
