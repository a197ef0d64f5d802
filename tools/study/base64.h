#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace wick::study {

/// Bytes in the characters that data: links and policies take (RFC 4648).
std::string base64(const uint8_t* bytes, size_t count);

}  // namespace wick::study
