#include "base/sha256.hpp"

#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.hpp"

namespace camd::base {
namespace {

class Hasher {
 public:
  Hasher() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    require(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void add(const void* bytes, std::size_t size) { require(EVP_DigestUpdate(context_.get(), bytes, size) == 1); }
  [[nodiscard]] std::string finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    require(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1);
    static constexpr std::string_view kHex = "0123456789abcdef";
    std::string text;
    for (std::size_t i = 0; i < size; ++i) {
      text += kHex[digest[i] >> 4U];
      text += kHex[digest[i] & 0xFU];
    }
    return text;
  }

 private:
  static void require(bool ok) {
    if (!ok) throw Error(ErrorKind::kInternal, "libcrypto cannot compute SHA-256");
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string sha256(std::string_view bytes) {
  Hasher hasher;
  hasher.add(bytes.data(), bytes.size());
  return hasher.finish();
}

std::string sha256_file(const std::filesystem::path& path) {
  const auto fail = [&path] {
    throw Error(ErrorKind::kIo, path.string() + ": cannot be read: " + std::strerror(errno));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) fail();
  Hasher hasher;
  std::array<char, 65536> piece{};
  while (true) {
    const std::size_t size = std::fread(piece.data(), 1, piece.size(), file.get());
    hasher.add(piece.data(), size);
    if (size < piece.size()) {
      if (std::ferror(file.get()) != 0) fail();
      return hasher.finish();
    }
  }
}

}  // namespace camd::base
