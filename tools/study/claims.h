#pragma once

#include "wick/tools/study/cards.h"

namespace wick::study {

/// What the articles promise beside what was measured.
void show_claims(Html& html, const Store& store, const std::vector<Measured>& all);

}  // namespace wick::study
