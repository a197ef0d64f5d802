#pragma once

#include <string>

#include "wick/tools/study/store.h"

namespace wick::study {

/// Writes study.html, and summary.svg and .png beside it, about what the store holds. `bench`: JSON
/// of wick bench, or empty. Error if that cannot be read.
void write_study_page(const Store& store, const std::string& bench);

}  // namespace wick::study
