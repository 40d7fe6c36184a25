#include "apps/http/page.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <stdexcept>

namespace camd::http {
namespace {

// What stands between <NAME> and </NAME>, which are there once.
std::string_view inside(std::string_view html, const std::string& name) {
  const std::size_t begin = html.find("<" + name + ">") + name.size() + 2;
  return html.substr(begin, html.find("</" + name + ">", begin) - begin);
}

std::string source_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), sum.data(), &size, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("SHA-256 is not to be had");
  }
  std::array<unsigned char, 4 * (EVP_MAX_MD_SIZE + 2) / 3 + 1> base64{};
  const int length = EVP_EncodeBlock(base64.data(), sum.data(), static_cast<int>(size));
  return fmt::format("'sha256-{}'",
                     std::string_view(reinterpret_cast<const char*>(base64.data()), static_cast<std::size_t>(length)));
}

}  // namespace

const std::string& page_policy() {
  static const std::string policy = fmt::format(
      "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; base-uri 'none'; "
      "form-action 'none'; frame-ancestors 'none'",
      source_of(inside(page_html(), "script")), source_of(inside(page_html(), "style")));
  return policy;
}

}  // namespace camd::http
