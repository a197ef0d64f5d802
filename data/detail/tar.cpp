#include "wick/data/detail/tar.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "wick/core/base/check.h"
#include "wick/core/file.h"
#include "wick/data/detail/files.h"

namespace wick::data {

namespace {

constexpr uint64_t kBlock = 512;
constexpr uint64_t kMostMemberBytes = uint64_t{256} << 20;
constexpr uint64_t kMostMembers = 100000;

// The fields of a header block (POSIX ustar) that matter here.
struct TarHeader {
  std::string name;
  uint64_t bytes = 0;
  char type = 0;
};

std::string_view text_field(const uint8_t* block, size_t offset, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(block + offset), size);
  return text.substr(0, text.find('\0'));
}

uint64_t octal_field(const std::string& path, const uint8_t* block, size_t offset, size_t size) {
  uint64_t value = 0;
  for (const char c : text_field(block, offset, size)) {
    if (c == ' ') continue;
    WICK_CHECK(c >= '0' && c <= '7', path, ": damaged tar archive: a number is not octal");
    value = value << 3 | static_cast<uint64_t>(c - '0');
  }
  return value;
}

void check_sum(const std::string& path, const uint8_t* block) {
  constexpr size_t kSumOffset = 148, kSumSize = 8;
  uint64_t sum = kSumSize * ' ';
  for (size_t i = 0; i < kBlock; ++i) {
    if (i < kSumOffset || i >= kSumOffset + kSumSize) sum += block[i];
  }
  WICK_CHECK(sum == octal_field(path, block, kSumOffset, kSumSize), path,
             ": damaged tar archive: a header has another checksum");
}

TarHeader read_header(const std::string& path, const uint8_t* block) {
  check_sum(path, block);
  TarHeader header;
  const std::string_view prefix =
      text_field(block, 257, 5) == "ustar" ? text_field(block, 345, 155) : std::string_view();
  header.name = concat(prefix, prefix.empty() ? "" : "/", text_field(block, 0, 100));
  if (header.name.starts_with("./")) header.name.erase(0, 2);
  header.bytes = octal_field(path, block, 124, 12);  // 36 bits at most
  header.type = static_cast<char>(block[156]);
  return header;
}

void write_member(UnpackedFile& archive, uint64_t bytes, const std::string& target) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(target).parent_path(), error);
  WICK_CHECK(!error, "cannot make the folder of ", target, ": ", error.message());
  AtomicFile file(target);
  std::vector<uint8_t> piece(1 << 20);
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t count = std::min<uint64_t>(piece.size(), bytes - done);
    archive.read(piece.data(), count, "a member of the archive");
    file.write(piece.data(), count);
    done += count;
  }
  file.commit();
}

void skip(UnpackedFile& archive, uint64_t bytes) {
  uint8_t piece[1 << 14];
  while (bytes > 0) {
    const uint64_t count = std::min<uint64_t>(sizeof piece, bytes);
    archive.read(piece, count, "a member of the archive");
    bytes -= count;
  }
}

}  // namespace

void unpack_tar(const std::string& path, const std::string& folder,
                const std::vector<std::string>& members) {
  std::set<std::string> missing(members.begin(), members.end());
  UnpackedFile archive(path);
  uint8_t block[kBlock];
  for (uint64_t count = 0; !missing.empty(); ++count) {
    WICK_CHECK(count < kMostMembers, path, ": too many members: expected at most ", kMostMembers);
    archive.read(block, kBlock, "a header of the archive");
    if (std::all_of(block, block + kBlock, [](uint8_t byte) { return byte == 0; })) break;
    const TarHeader header = read_header(path, block);
    const uint64_t padding = (kBlock - header.bytes % kBlock) % kBlock;
    if (missing.erase(header.name) == 0) {
      skip(archive, header.bytes + padding);
      continue;
    }
    WICK_CHECK(header.type == '0' || header.type == '\0', path, ": ", header.name,
               " is not a plain file: expected one");
    WICK_CHECK(header.bytes <= kMostMemberBytes, path, ": ", header.name, " is too large: got ",
               header.bytes, " bytes, expected at most ", kMostMemberBytes);
    write_member(archive, header.bytes, concat(folder, "/", header.name));
    skip(archive, padding);
  }
  WICK_CHECK(missing.empty(), path, ": the archive lacks ", *missing.begin());
}

}  // namespace wick::data
