#include "wick/core/base/sha256.h"

#include "wick/core/base/check.h"
#include "wick/core/base/detail/dynamic_library.h"

namespace wick {

namespace {

// Of OpenSSL's libcrypto, by its declarations in <openssl/evp.h>.
struct OpenSsl {
  void* (*context_new)() = nullptr;
  void (*context_free)(void* context) = nullptr;
  const void* (*sha256)() = nullptr;
  int (*init)(void* context, const void* method, void* engine) = nullptr;
  int (*update)(void* context, const void* bytes, size_t count) = nullptr;
  int (*finish)(void* context, unsigned char* digest, unsigned* count) = nullptr;

  OpenSsl() {
    const DynamicLibrary library("OpenSSL 3", "libcrypto.so.3");
    library.find(context_new, "EVP_MD_CTX_new");
    library.find(context_free, "EVP_MD_CTX_free");
    library.find(sha256, "EVP_sha256");
    library.find(init, "EVP_DigestInit_ex");
    library.find(update, "EVP_DigestUpdate");
    library.find(finish, "EVP_DigestFinal_ex");
  }
};

const OpenSsl& openssl() {
  static const OpenSsl functions;
  return functions;
}

}  // namespace

struct Sha256::State {
  void* context = openssl().context_new();
  State() = default;
  ~State() { openssl().context_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  WICK_CHECK(state_->context != nullptr &&
                 openssl().init(state_->context, openssl().sha256(), nullptr) == 1,
             "sha256: OpenSSL could not start");
}

Sha256::~Sha256() = default;

void Sha256::update(const void* bytes, size_t count) {
  WICK_CHECK(openssl().update(state_->context, bytes, count) == 1, "sha256: OpenSSL failed");
}

Sha256::Digest Sha256::digest() {
  Digest digest{};
  unsigned count = 0;
  WICK_CHECK(
      openssl().finish(state_->context, digest.data(), &count) == 1 && count == digest.size(),
      "sha256: OpenSSL failed");
  return digest;
}

std::string to_hex(const Sha256::Digest& digest) {
  constexpr char kHexDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) text += {kHexDigits[byte >> 4], kHexDigits[byte & 15]};
  return text;
}

}  // namespace wick
