#pragma once

#include <string>
#include <utility>
#include <vector>

#include "wick/core/profile/averages.h"

namespace wick::profile {

/// What rows are sorted by.
using SortKey = double (*)(const Average& row);
/// That of this name; error for another.
SortKey sort_key(const std::string& name);

/// Which columns a table has, and the sums that its percents are of.
struct TableShape {
  bool with_shapes = false, with_modules = false, with_memory = false, with_flops = false;
  double self_cpu_us = 0, self_device_us = 0;
};

/// The table of `rows`, with columns as wide as all of them need.
std::string table_text(const std::vector<Average>& all, const std::vector<const Average*>& rows,
                       const TableShape& shape, const TableOptions& options);

/// A row's numbers by name.
std::vector<std::pair<const char*, double>> figures_of(const Average& row);

/// `text` as a cell of a file with commas.
std::string csv_cell(const std::string& text);

}  // namespace wick::profile
