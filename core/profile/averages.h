#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wick/core/profile/event.h"

namespace wick::profile {

/// What beside the name parts the rows of a table.
struct GroupBy {
  bool input_shape = false;
  bool module = false;
};

/// The events of one name. Times are in microseconds, memory in bytes, and both are sums over all
/// calls: what calls within took is in `total`, not in `self`.
struct Average {
  std::string key;
  std::string input_shapes;  // where rows are parted by them
  std::string module;
  int64_t count = 0;
  double cpu_time_total = 0, self_cpu_time_total = 0;
  double device_time_total = 0, self_device_time_total = 0;
  int64_t cpu_memory_usage = 0, self_cpu_memory_usage = 0;  // allocated less freed
  int64_t device_memory_usage = 0, self_device_memory_usage = 0;
  double flops = 0;
  int64_t bytes = 0;      // of inputs and results
  bool is_async = false;  // ran beside the threads' other work: no part of the sum of times
};

/// Options of KeyAverages::table(). Names and shapes longer than the widths are cut. A negative
/// `row_limit` prints all rows.
struct TableOptions {
  /// "self_cpu_time_total", "cpu_time_total", "cpu_time" (per call), "count", "flops", "bytes",
  /// "cpu_memory_usage", "self_cpu_memory_usage", and of the GPU's "cuda_time_total",
  /// "device_time_total" and so on. Empty: the order in which they first came.
  std::string sort_by = {};
  int64_t row_limit = 100;
  int64_t max_name_column_width = 55;
  int64_t max_shapes_column_width = 80;
  bool top_level_events_only = false;
  /// Columns that PyTorch's table has not: gigabytes and 10^9 operations per second of self time.
  bool rates = false;
};

/// Error unless a table can be sorted by `name`.
void check_sort_key(const std::string& name);

/// A recording's events by name. PyTorch's key_averages().
class KeyAverages {
 public:
  explicit KeyAverages(const Recording& recording, const GroupBy& group = {});

  /// One per name, and per shape and module where GroupBy parts them.
  const std::vector<Average>& rows() const { return rows_; }
  /// Microseconds of the host, and of its GPUs: the sums of the rows' self times.
  double self_cpu_time_total() const { return self_cpu_us_; }
  double self_device_time_total() const { return self_device_us_; }
  /// Null if there is no row of that name.
  const Average* find(const std::string& key) const;

  /// PyTorch's columns in PyTorch's order. Error for another `sort_by`.
  std::string table(const TableOptions& options = {}) const;
  /// All rows and columns as JSON, numbers as they are.
  std::string json() const;
  /// The same with commas, the names of columns in the first line.
  std::string csv() const;

 private:
  std::vector<const Average*> chosen_rows(const TableOptions& options) const;

  GroupBy group_;
  std::vector<Average> rows_;
  std::vector<bool> is_top_level_;  // some event of the row is within no other
  bool with_shapes_, with_memory_, with_flops_;
  int64_t dropped_, dropped_activities_;
  double self_cpu_us_ = 0, self_device_us_ = 0;
};

}  // namespace wick::profile
