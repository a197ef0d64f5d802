#pragma once

#include <cstddef>
#include <cstdint>

namespace wick::data {

/// CRC-32C (Castagnoli; RFC 3720, B.4) of bytes: by the processor's instruction where the build may
/// use it, else by a table. `crc`: of the bytes before.
uint32_t crc32c(const void* bytes, size_t count, uint32_t crc = 0);
/// The same by the table.
uint32_t crc32c_by_table(const void* bytes, size_t count, uint32_t crc = 0);

}  // namespace wick::data
