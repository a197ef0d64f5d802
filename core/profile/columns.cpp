// How tables of averages look: as PyTorch's.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "wick/core/base/check.h"
#include "wick/core/options.h"
#include "wick/core/profile/detail/columns.h"

namespace wick::profile {

namespace {

struct NamedKey {
  const char* name;
  SortKey key;
};

double per_call(double total, const Average& row) {
  return row.count == 0 ? 0 : total / static_cast<double>(row.count);
}

constexpr NamedKey kKeys[] = {
    {"count", [](const Average& r) { return static_cast<double>(r.count); }},
    {"self_cpu_time_total", [](const Average& r) { return r.self_cpu_time_total; }},
    {"cpu_time_total", [](const Average& r) { return r.cpu_time_total; }},
    {"cpu_time", [](const Average& r) { return per_call(r.cpu_time_total, r); }},
    {"self_device_time_total", [](const Average& r) { return r.self_device_time_total; }},
    {"device_time_total", [](const Average& r) { return r.device_time_total; }},
    {"device_time", [](const Average& r) { return per_call(r.device_time_total, r); }},
    {"cpu_memory_usage", [](const Average& r) { return static_cast<double>(r.cpu_memory_usage); }},
    {"self_cpu_memory_usage",
     [](const Average& r) { return static_cast<double>(r.self_cpu_memory_usage); }},
    {"device_memory_usage",
     [](const Average& r) { return static_cast<double>(r.device_memory_usage); }},
    {"self_device_memory_usage",
     [](const Average& r) { return static_cast<double>(r.self_device_memory_usage); }},
    {"flops", [](const Average& r) { return r.flops; }},
    {"bytes", [](const Average& r) { return static_cast<double>(r.bytes); }},
};

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string time_text(double us) {
  if (us >= 1e6) return formatted("%.3fs", us / 1e6);
  if (us >= 1e3) return formatted("%.3fms", us / 1e3);
  return formatted("%.3fus", us);
}

std::string share_text(double us, double total) {
  return total == 0 ? "NaN" : formatted("%.2f%%", us * 100 / total);
}

std::string memory_text(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  constexpr double kKilo = 1024;
  if (std::abs(value) >= kKilo * kKilo * kKilo) {
    return formatted("%.2f GB", value / kKilo / kKilo / kKilo);
  }
  if (std::abs(value) >= kKilo * kKilo) return formatted("%.2f MB", value / kKilo / kKilo);
  if (std::abs(value) >= kKilo) return formatted("%.2f KB", value / kKilo);
  return formatted("%.0f B", value);
}

// On one line of a terminal, whatever it holds.
std::string printable(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return shown;
}

std::string shortened(const std::string& text, int64_t width) {
  const std::string shown = printable(text);
  const auto most = static_cast<size_t>(std::max<int64_t>(width - 3, 1));
  return shown.size() >= most ? shown.substr(0, most) + "..." : shown;
}

struct Column {
  std::string header;
  int64_t width;
  std::string (*cell)(const Average& row, const TableShape& shape, double scale);
  double scale = 1;
};

using Row = const Average&;
using Sums = const TableShape&;

void add_time_columns(std::vector<Column>& columns, bool has_device_time) {
  const auto add = [&](const char* header, auto cell) { columns.push_back({header, 12, cell, 1}); };
  add("Self CPU %",
      [](Row r, Sums s, double) { return share_text(r.self_cpu_time_total, s.self_cpu_us); });
  add("Self CPU", [](Row r, Sums, double) { return time_text(r.self_cpu_time_total); });
  add("CPU total %", [](Row r, Sums s, double) {
    return r.is_async ? "0.00%" : share_text(r.cpu_time_total, s.self_cpu_us);
  });
  add("CPU total", [](Row r, Sums, double) { return time_text(r.cpu_time_total); });
  add("CPU time avg", [](Row r, Sums, double) { return time_text(per_call(r.cpu_time_total, r)); });
  if (!has_device_time) return;
  add("Self CUDA", [](Row r, Sums, double) { return time_text(r.self_device_time_total); });
  add("Self CUDA %",
      [](Row r, Sums s, double) { return share_text(r.self_device_time_total, s.self_device_us); });
  add("CUDA total", [](Row r, Sums, double) { return time_text(r.device_time_total); });
  add("CUDA time avg",
      [](Row r, Sums, double) { return time_text(per_call(r.device_time_total, r)); });
}

void add_memory_columns(std::vector<Column>& columns, bool has_device_memory) {
  const auto add = [&](const char* header, auto cell) { columns.push_back({header, 12, cell, 1}); };
  add("CPU Mem", [](Row r, Sums, double) { return memory_text(r.cpu_memory_usage); });
  add("Self CPU Mem", [](Row r, Sums, double) { return memory_text(r.self_cpu_memory_usage); });
  if (!has_device_memory) return;
  add("CUDA Mem", [](Row r, Sums, double) { return memory_text(r.device_memory_usage); });
  add("Self CUDA Mem", [](Row r, Sums, double) { return memory_text(r.self_device_memory_usage); });
}

// "Total MFLOPs", by the smallest number there is.
void add_flops_column(std::vector<Column>& columns, const std::vector<Average>& all) {
  constexpr const char* kNames[] = {"FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"};
  double least = HUGE_VAL;
  for (const Average& row : all) {
    if (row.flops > 0) least = std::min(least, row.flops);
  }
  if (least == HUGE_VAL) return;
  const auto unit = static_cast<size_t>(std::clamp(std::floor(std::log10(least) / 3), 0.0, 5.0));
  columns.push_back({concat("Total ", kNames[unit]), 12,
                     [](Row r, Sums, double scale) {
                       return r.flops > 0 ? formatted("%.3f", r.flops * scale) : "--";
                     },
                     std::pow(10, -3.0 * static_cast<double>(unit))});
}

void add_rate_columns(std::vector<Column>& columns) {
  // In self time a row's own work is done: 10^9 per second are 10^3 per microsecond.
  columns.push_back({"GB/s", 12,
                     [](Row r, Sums, double) {
                       const double us = std::max(r.self_cpu_time_total, r.self_device_time_total);
                       const auto amount = static_cast<double>(r.bytes);
                       return r.bytes > 0 && us > 0 ? formatted("%.2f", amount / us / 1e3) : "--";
                     },
                     1});
  columns.push_back({"GFLOP/s", 12,
                     [](Row r, Sums, double) {
                       const double us = std::max(r.self_cpu_time_total, r.self_device_time_total);
                       return r.flops > 0 && us > 0 ? formatted("%.2f", r.flops / us / 1e3) : "--";
                     },
                     1});
}

int64_t widest(const std::vector<Average>& all, std::string Average::*text, int64_t most) {
  size_t width = 0;
  for (const Average& row : all) width = std::max(width, (row.*text).size());
  return std::min(static_cast<int64_t>(width) + 4, most);
}

std::string line_of(const std::vector<std::string>& cells, const std::vector<Column>& columns) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto width = static_cast<size_t>(columns[i].width);
    line += std::string(cells[i].size() < width ? width - cells[i].size() : 0, ' ') + cells[i];
    line += "  ";
  }
  return line + "\n";
}

}  // namespace

SortKey sort_key(const std::string& name) {
  std::string wanted = name;
  if (const size_t at = wanted.find("cuda"); at != wanted.npos) wanted.replace(at, 4, "device");
  std::vector<std::string> known;
  for (const NamedKey& entry : kKeys) {
    if (wanted == entry.name) return entry.key;
    known.emplace_back(entry.name);
  }
  throw Error(
      concat("profiler: table: sort_by: no such column: got ", name, suggestion(name, known)));
}

void check_sort_key(const std::string& name) { sort_key(name); }

std::string table_text(const std::vector<Average>& all, const std::vector<const Average*>& rows,
                       const TableShape& shape, const TableOptions& options) {
  bool has_device_time = false, has_device_memory = false;
  for (const Average& row : all) {
    has_device_time = has_device_time || row.self_device_time_total > 0;
    has_device_memory = has_device_memory || row.self_device_memory_usage > 0;
  }
  std::vector<Column> columns;
  columns.push_back(
      {"Name", widest(all, &Average::key, options.max_name_column_width),
       [](Row r, Sums, double width) { return shortened(r.key, static_cast<int64_t>(width)); },
       static_cast<double>(options.max_name_column_width)});
  add_time_columns(columns, has_device_time);
  if (shape.with_memory) add_memory_columns(columns, has_device_memory);
  columns.push_back({"# of Calls", 12, [](Row r, Sums, double) { return concat(r.count); }, 1});
  if (shape.with_shapes) {
    const int64_t width = widest(all, &Average::input_shapes, options.max_shapes_column_width);
    columns.push_back({"Input Shapes", std::max<int64_t>(width, 12),
                       [](Row r, Sums, double most) {
                         return r.input_shapes.substr(0, static_cast<size_t>(most));
                       },
                       static_cast<double>(width)});
  }
  if (shape.with_modules) {
    columns.push_back({"Module", std::max<int64_t>(widest(all, &Average::module, 60), 12),
                       [](Row r, Sums, double) { return printable(r.module); }, 1});
  }
  if (shape.with_flops) add_flops_column(columns, all);
  if (options.rates) add_rate_columns(columns);

  std::vector<std::string> headers, dashes;
  for (const Column& column : columns) {
    headers.push_back(column.header);
    dashes.emplace_back(static_cast<size_t>(column.width), '-');
  }
  const std::string separator = line_of(dashes, columns);
  std::string text = separator + line_of(headers, columns) + separator;
  for (const Average* row : rows) {
    std::vector<std::string> cells;
    for (const Column& column : columns) cells.push_back(column.cell(*row, shape, column.scale));
    text += line_of(cells, columns);
  }
  text += separator + "Self CPU time total: " + time_text(shape.self_cpu_us) + "\n";
  if (has_device_time) {
    text += "Self CUDA time total: " + time_text(shape.self_device_us) + "\n";
  }
  return text;
}

std::vector<std::pair<const char*, double>> figures_of(const Average& row) {
  std::vector<std::pair<const char*, double>> figures;
  for (const NamedKey& entry : kKeys) figures.emplace_back(entry.name, entry.key(row));
  return figures;
}

std::string csv_cell(const std::string& text) {
  std::string cell = "\"";
  for (const char c : text) {
    if (c == '"') cell += '"';
    cell += c;
  }
  return cell + "\"";
}

}  // namespace wick::profile
