#include "wick/tools/study/base64.h"

#include <openssl/evp.h>

namespace wick::study {

std::string base64(const uint8_t* bytes, size_t count) {
  std::string text((count + 2) / 3 * 4 + 1, '\0');  // and the 0 that OpenSSL writes
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes, static_cast<int>(count));
  text.pop_back();
  return text;
}

}  // namespace wick::study
