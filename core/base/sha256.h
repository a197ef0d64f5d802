#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace wick {

/// The SHA-256 of bytes that come one piece after the other. OpenSSL computes it, which is opened
/// when first needed: error if it is missing.
class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  Sha256();
  ~Sha256();
  /// Adds `count` bytes.
  void update(const void* bytes, size_t count);
  /// Of all bytes so far. Ends it: nothing may follow.
  Digest digest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// 64 digits, as sha256sum prints them.
std::string to_hex(const Sha256::Digest& digest);

}  // namespace wick
