#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "wick/core/base/check.h"
#include "wick/core/memory/detail/block.h"

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

// "8" for all sizes, or a list as PyTorch reads it: [256:1,512:2,>:8] is 1 below 512 MiB, 2 from
// there up to 1024 MiB, and 8 above. Sizes in between that are not named stay as they are.
void read_divisions(std::string_view key, std::string_view text, std::array<int, 16>& divisions) {
  const auto count = [&](std::string_view value) { return number<int>(key, value, 0, 1024); };
  if (!text.starts_with('[')) {
    divisions.fill(count(text));
    return;
  }
  const auto check = [&](bool is_right, std::string_view expected) {
    WICK_CHECK(is_right, "allocator: bad ", key, ": got \"", text, "\", expected ", expected);
  };
  check(text.ends_with(']'), "a list that ends in ]");
  std::string_view rest = text.substr(1, text.size() - 2);
  auto next = divisions.begin();  // behind the last size so far
  size_t last = 0;                // in MiB; 0: none yet
  for (bool more = true; more;) {
    const std::string_view item = rest.substr(0, rest.find(','));
    more = item.size() < rest.size();
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    const size_t colon = item.find(':');
    check(colon != item.npos, "MiB:DIVISIONS in each place of the list");
    const std::string_view size = item.substr(0, colon);
    const int value = count(item.substr(colon + 1));
    if (size == ">") {
      check(last > 0 && !more, "> in the last place only");
      std::fill(next, divisions.end(), value);
      return;
    }
    const size_t mib = number<size_t>(key, size, 1, size_t{1} << 15);
    check(std::has_single_bit(mib) && mib > last, "powers of two in ascending order before :");
    const auto place = divisions.begin() + std::countr_zero(mib);
    std::fill(last == 0 ? divisions.begin() : place, place + 1, value);
    next = place + 1;
    last = mib;
  }
}

// Up to the next comma that is in no list.
std::string_view first_item(std::string_view text) {
  size_t end = text.find_first_of(",[");
  if (end != text.npos && text[end] == '[') end = text.find(',', text.find(']', end));
  return text.substr(0, end);
}

}  // namespace

AllocatorConfig AllocatorConfig::parse(std::string_view text, const AllocatorConfig& base) {
  AllocatorConfig config = base;
  while (!text.empty()) {
    const std::string_view item = first_item(text);
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
      read_divisions(key, value, config.roundup_power2_divisions);
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
