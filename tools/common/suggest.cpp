#include "wick/tools/common/suggest.h"

#include <algorithm>

namespace wick::tool {

namespace {
// Insertions, deletions and substitutions that turn one into the other (Levenshtein 1966).
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({substituted, above + 1, row[j - 1] + 1});
      diagonal = above;
    }
  }
  return row[b.size()];
}
}  // namespace

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const bool prefix = word.size() >= 3 && candidate.starts_with(word);
    const size_t d = prefix ? 1 : distance(word, candidate);
    if (d >= best_distance) continue;
    best_distance = d;
    best = &candidate;
  }
  return best == nullptr ? "" : " Did you mean " + *best + "?";
}

}  // namespace wick::tool
