#include "wick/kernels/cuda/kernel_cache.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "wick/core/base/cache_folder.h"
#include "wick/core/base/check.h"
#include "wick/core/base/sha256.h"

namespace wick::cuda {

namespace {

constexpr std::string_view kMagic = "wick kernel 1\n";

constexpr size_t kDigestBytes = sizeof(Sha256::Digest);

Sha256::Digest digest_of(const std::string& bytes) {
  Sha256 sha;
  sha.update(bytes.data(), bytes.size());
  return sha.digest();
}
std::string text_of_digest(const std::string& bytes) {
  const Sha256::Digest digest = digest_of(bytes);
  return std::string(digest.begin(), digest.end());
}

std::string folder() {
  if (const char* const named = std::getenv("WICK_KERNEL_CACHE")) return named;
  const std::string user = user_cache_folder();
  return user.empty() ? user : user + "/kernels";
}

}  // namespace

std::string kernel_key(const std::string& all) { return to_hex(digest_of(all)); }

// A file is kMagic, the digest of the key and the code, and the code.
std::string read_kernel(const std::string& key) {
  const std::string in = folder();
  if (in.empty()) return "";
  std::ifstream file(in + "/" + key, std::ios::binary);
  std::ostringstream read;
  read << file.rdbuf();
  const std::string all = std::move(read).str();
  constexpr size_t kHead = kMagic.size() + kDigestBytes;
  if (!all.starts_with(kMagic) || all.size() < kHead) return "";
  std::string code = all.substr(kHead);
  const bool is_whole = text_of_digest(key + code) == all.substr(kMagic.size(), kDigestBytes);
  return is_whole ? code : "";
}

void keep_kernel(const std::string& key, const std::string& code) {
  static std::atomic<int> count = 0;
  const std::string in = folder();
  if (in.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(in, error);
  const std::string path = in + "/" + key;
  const std::string unfinished = concat(path, ".", getpid(), ".", count++);
  bool is_written = false;
  {
    std::ofstream file(unfinished, std::ios::binary);
    file << kMagic << text_of_digest(key + code) << code;
    file.close();
    is_written = !file.fail();
  }
  if (is_written) std::filesystem::rename(unfinished, path, error);
  if (!is_written || error) std::filesystem::remove(unfinished, error);
}

}  // namespace wick::cuda
