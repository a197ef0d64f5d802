#pragma once

#include <map>
#include <string>
#include <string_view>

#include "wick/core/file.h"
#include "wick/core/serialize.h"

namespace wick {

/// What a safetensors file says of one tensor.
struct SafetensorsEntry {
  Dtype dtype = kFloat32;
  Shape shape;
  uint64_t begin = 0;  // byte offsets from the end of the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> entries;
  TextMap metadata;
  uint64_t data_start = 0;  // byte offset in the file
};

/// Reads and checks the header: afterwards every entry's bytes lie in the file and the entries
/// cover the rest of it without holes or overlaps.
SafetensorsHeader read_safetensors_header(const InputFile& file);

/// "F32", "I64", ...
std::string_view safetensors_dtype_name(Dtype dtype);

}  // namespace wick
