#include "wick/data/sha256.h"

#include <algorithm>
#include <vector>

#include "wick/core/file.h"

namespace wick::data {

std::string sha256_of_file(const std::string& path) {
  const InputFile file(path);
  Sha256 sha;
  std::vector<uint8_t> piece(1 << 20);
  for (uint64_t at = 0; at < file.size();) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(piece.size(), file.size() - at));
    file.read_at(at, piece.data(), count);
    sha.update(piece.data(), count);
    at += count;
  }
  return to_hex(sha.digest());
}

}  // namespace wick::data
