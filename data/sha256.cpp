#include "wick/data/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/file.h"

namespace wick::data {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  WICK_CHECK(
      state_->context != nullptr && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1,
      "sha256: the library could not start");
}

Sha256::~Sha256() = default;

void Sha256::update(const void* bytes, size_t count) {
  WICK_CHECK(EVP_DigestUpdate(state_->context, bytes, count) == 1, "sha256: the library failed");
}

Sha256::Digest Sha256::digest() {
  Digest digest{};
  unsigned count = 0;
  WICK_CHECK(
      EVP_DigestFinal_ex(state_->context, digest.data(), &count) == 1 && count == digest.size(),
      "sha256: the library failed");
  return digest;
}

std::string to_hex(const Sha256::Digest& digest) {
  constexpr char kHexDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) text += {kHexDigits[byte >> 4], kHexDigits[byte & 15]};
  return text;
}

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
