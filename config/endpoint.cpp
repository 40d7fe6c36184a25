#include "config/endpoint.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <array>
#include <charconv>
#include <cstring>

namespace camd::config {
namespace {

// The storage holds one or the other; copied, because a reference of another type must not look into it.
template <class Address>
Address copied(const sockaddr_storage& storage) noexcept {
  Address address{};
  std::memcpy(&address, &storage, sizeof(address));
  return address;
}

template <class Address>
Endpoint endpoint_of(const Address& address) noexcept {
  Endpoint endpoint;
  std::memcpy(&endpoint.address, &address, sizeof(address));
  endpoint.size = sizeof(address);
  return endpoint;
}

}  // namespace

std::uint16_t Endpoint::port() const noexcept {
  return ntohs(address.ss_family == AF_INET6 ? copied<sockaddr_in6>(address).sin6_port
                                             : copied<sockaddr_in>(address).sin_port);
}

bool Endpoint::is_loopback() const noexcept {
  if (address.ss_family == AF_INET6) {
    const in6_addr host = copied<sockaddr_in6>(address).sin6_addr;
    return std::memcmp(&host, &in6addr_loopback, sizeof(host)) == 0;
  }
  return ntohl(copied<sockaddr_in>(address).sin_addr.s_addr) >> 24U == 127U;
}

std::string Endpoint::text() const {
  std::array<char, INET6_ADDRSTRLEN> host{};
  if (address.ss_family == AF_INET6) {
    const auto v6 = copied<sockaddr_in6>(address);
    (void)inet_ntop(AF_INET6, &v6.sin6_addr, host.data(), host.size());
    return fmt::format("[{}]:{}", host.data(), port());
  }
  const auto v4 = copied<sockaddr_in>(address);
  (void)inet_ntop(AF_INET, &v4.sin_addr, host.data(), host.size());
  return fmt::format("{}:{}", host.data(), port());
}

std::optional<Endpoint> parse_endpoint(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  std::string host(text.substr(0, colon));
  if (host.starts_with('[') && host.ends_with(']')) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    host = host.substr(1, host.size() - 2);
    if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) != 1) return std::nullopt;
    return endpoint_of(v6);
  }
  if (host == "localhost") host = "127.0.0.1";
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) != 1) return std::nullopt;
  return endpoint_of(v4);
}

}  // namespace camd::config
