#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace wick::data {

/// The SHA-256 of bytes that come one piece after the other.
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

/// The SHA-256 of the file `path`, in 64 digits.
std::string sha256_of_file(const std::string& path);

}  // namespace wick::data
