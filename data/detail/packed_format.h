#pragma once

#include <cstddef>
#include <cstdint>

#include "wick/data/sha256.h"

// What a packed file's bytes mean: see packed.h. These structures are its bytes, on the
// little-endian machines that this library runs on.
namespace wick::data::packed {

inline constexpr char kMagic[8] = {'W', 'I', 'C', 'K', 'P', 'A', 'C', 'K'};
inline constexpr uint32_t kVersion = 2;
// Without checksums: those fields are 0.
inline constexpr uint32_t kUncheckedVersion = 1;
inline constexpr uint32_t kRaw = 0, kEncoded = 1;
inline constexpr uint64_t kMostClasses = 1 << 20;
inline constexpr uint64_t kMostNameBytes = 4096;
inline constexpr uint32_t kMostPadding = 1024;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t form;         // kRaw: pixels; kEncoded: JPEG or PNG
  uint64_t train, test;  // numbers of images; those to train on come first
  uint64_t classes;
  uint64_t index_offset;  // where the images end
  uint64_t file_bytes;
  uint32_t channels;
  uint32_t photographs, padding, flip;  // as in Preparation
  float mean[4], std[4];
  uint32_t index_check;  // CRC-32C of all behind the images
  uint32_t head_check;   // CRC-32C of the header before this
  uint32_t zero[12];
  Sha256::Digest hash;  // of everything behind the header, then of the header before this
};
static_assert(sizeof(Header) == 192 && offsetof(Header, hash) == 160);

struct Entry {
  uint64_t offset, length;
  uint32_t label, height, width;
  uint32_t check;  // CRC-32C of the image's bytes
};
static_assert(sizeof(Entry) == 32);

}  // namespace wick::data::packed
