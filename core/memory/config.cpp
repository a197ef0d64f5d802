#include <charconv>

#include "wick/core/base/check.h"
#include "wick/core/memory/block.h"

namespace wick {

namespace {

template <class T>
T number(std::string_view key, std::string_view text, T least, T most) {
  T value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  WICK_CHECK(result.ec == std::errc() && result.ptr == text.data() + text.size() &&
                 value >= least && value <= most,
             "allocator: bad ", key, ": got \"", text, "\", expected a number from ", least, " to ",
             most);
  return value;
}

size_t mebibytes(std::string_view key, std::string_view text) {
  return number<size_t>(key, text, 1, size_t{1} << 40) * memory::kMiB;
}

bool truth(std::string_view key, std::string_view text) {
  const bool yes = text == "true" || text == "True";
  WICK_CHECK(yes || text == "false" || text == "False", "allocator: bad ", key, ": got \"", text,
             "\", expected true or false");
  return yes;
}

}  // namespace

AllocatorConfig AllocatorConfig::parse(std::string_view text, const AllocatorConfig& base) {
  AllocatorConfig config = base;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const size_t colon = item.find(':');
    const std::string_view key = item.substr(0, colon);
    const std::string_view value = colon == item.npos ? "" : item.substr(colon + 1);
    if (key == "max_split_size_mb") {
      config.max_split_size = mebibytes(key, value);
    } else if (key == "memory_limit_mb") {
      config.memory_limit = mebibytes(key, value);
    } else if (key == "garbage_collection_threshold") {
      config.garbage_collection_threshold = number<double>(key, value, 0, 1);
    } else if (key == "roundup_power2_divisions") {
      config.roundup_power2_divisions.fill(number<int>(key, value, 0, 1024));
    } else if (key == "expandable_segments") {
      config.expandable_segments = truth(key, value);
    } else {
      WICK_CHECK(false, "allocator: unknown setting: got \"", key,
                 "\", expected max_split_size_mb, memory_limit_mb, garbage_collection_threshold, "
                 "roundup_power2_divisions or expandable_segments");
    }
  }
  return config;
}

}  // namespace wick
