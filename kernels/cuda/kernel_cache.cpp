#include "wick/kernels/cuda/kernel_cache.h"

#include <openssl/sha.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "wick/core/base/cache_folder.h"
#include "wick/core/base/check.h"

namespace wick::cuda {

namespace {

constexpr std::string_view kMagic = "wick kernel 1\n";

std::string digest_of(const std::string& bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::string folder() {
  if (const char* const named = std::getenv("WICK_KERNEL_CACHE")) return named;
  const std::string user = user_cache_folder();
  return user.empty() ? user : user + "/kernels";
}

}  // namespace

std::string kernel_key(const std::string& all) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string key;
  for (const char byte : digest_of(all)) {
    const auto value = static_cast<unsigned char>(byte);
    key += {kDigits[value / 16], kDigits[value % 16]};
  }
  return key;
}

// A file is kMagic, the digest of the key and the code, and the code.
std::string read_kernel(const std::string& key) {
  const std::string in = folder();
  if (in.empty()) return "";
  std::ifstream file(in + "/" + key, std::ios::binary);
  std::ostringstream read;
  read << file.rdbuf();
  const std::string all = std::move(read).str();
  constexpr size_t kHead = kMagic.size() + SHA256_DIGEST_LENGTH;
  if (!all.starts_with(kMagic) || all.size() < kHead) return "";
  std::string code = all.substr(kHead);
  const bool is_whole = digest_of(key + code) == all.substr(kMagic.size(), SHA256_DIGEST_LENGTH);
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
    file << kMagic << digest_of(key + code) << code;
    file.close();
    is_written = !file.fail();
  }
  if (is_written) std::filesystem::rename(unfinished, path, error);
  if (!is_written || error) std::filesystem::remove(unfinished, error);
}

}  // namespace wick::cuda
