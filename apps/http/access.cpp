#include "apps/http/access.hpp"

#include <cstdint>
#include <optional>
#include <string>

#include "config/endpoint.hpp"

namespace camd::http {
namespace {

bool same_letters(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char lower = a[i] >= 'A' && a[i] <= 'Z' ? static_cast<char>(a[i] - 'A' + 'a') : a[i];
    if (lower != b[i]) return false;
  }
  return true;
}

// RFC 4648 section 4. Nothing: it is no base64.
std::optional<std::string> decoded(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t pending = 0;
  int bits = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    pending = (pending << 6U) | static_cast<std::uint32_t>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>((pending >> static_cast<unsigned>(bits)) & 0xFFU);
  }
  return bytes;
}

bool equal(std::string_view given, std::string_view token) {
  unsigned difference = given.size() == token.size() ? 0 : 1;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const char one = given.empty() ? '\0' : given[i % given.size()];
    difference |= static_cast<unsigned char>(one) ^ static_cast<unsigned char>(token[i]);
  }
  return difference == 0;
}

}  // namespace

bool brings_token(std::string_view authorization, std::string_view token) {
  const auto space = authorization.find(' ');
  if (space == std::string_view::npos || token.empty()) return false;
  const std::string_view scheme = authorization.substr(0, space);
  std::string_view given = authorization.substr(space);
  while (given.starts_with(' ')) given.remove_prefix(1);
  if (same_letters(scheme, "bearer")) return equal(given, token);
  if (!same_letters(scheme, "basic")) return false;
  const std::optional<std::string> login = decoded(given);
  const auto colon = login ? login->find(':') : std::string::npos;
  return colon != std::string::npos && equal(std::string_view(*login).substr(colon + 1), token);
}

bool names_this_machine(std::string_view host) {
  if (same_letters(host, "localhost")) return true;
  // A port is not needed here, but there where the endpoint is read.
  if (config::parse_endpoint(host) || config::parse_endpoint(std::string(host) + ":0")) return true;
  const auto colon = host.rfind(':');
  return colon != std::string_view::npos && same_letters(host.substr(0, colon), "localhost") &&
         config::parse_endpoint("localhost" + std::string(host.substr(colon))).has_value();
}

}  // namespace camd::http
