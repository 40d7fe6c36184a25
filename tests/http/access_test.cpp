// Who may ask.
#include "apps/http/access.hpp"

#include <gtest/gtest.h>

#include <string>

namespace camd::http {
namespace CAMD_TEST_FILE {

constexpr std::string_view kToken = "0123456789abcdef";

TEST(Access, TakesTheTokenFromABearerAndFromThePasswordOfAnyUser) {
  EXPECT_TRUE(brings_token("Bearer 0123456789abcdef", kToken));
  EXPECT_TRUE(brings_token("bearer   0123456789abcdef", kToken));
  EXPECT_TRUE(brings_token("Basic OjAxMjM0NTY3ODlhYmNkZWY=", kToken));      // :0123456789abcdef
  EXPECT_TRUE(brings_token("BASIC YW5uYTowMTIzNDU2Nzg5YWJjZGVm", kToken));  // anna:0123456789abcdef
}

TEST(Access, RefusesEverythingElse) {
  for (const std::string wrong :
       {"", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdeg", "Bearer 0123456789abcdef0",
        "0123456789abcdef", "Digest 0123456789abcdef", "Basic 0123456789abcdef",
        "Basic MDEyMzQ1Njc4OWFiY2RlZg==", "Basic !!!!", "Basic ====", "Basic OjAxMjM0NTY3ODlhYmNkZQ=="}) {
    EXPECT_FALSE(brings_token(wrong, kToken)) << wrong;
  }
  EXPECT_FALSE(brings_token("Bearer ", "")) << "no token is no token that anybody can bring";
  EXPECT_FALSE(brings_token(std::string("Bearer \0", 8), std::string_view("\0", 1).substr(1)));
}

TEST(Access, KnowsTheNamesOfThisMachine) {
  for (const std::string_view here :
       {"localhost", "LocalHost:8088", "127.0.0.1", "127.0.0.1:8088", "[::1]:8088", "[::1]", "192.168.1.7:80"}) {
    EXPECT_TRUE(names_this_machine(here)) << here;
  }
  for (const std::string_view other : {"", "evil.example", "evil.example:8088", "localhost.evil.example", "localhost:x",
                                       "127.0.0.1.evil.example", ":8088", "127.0.0.1:80:80"}) {
    EXPECT_FALSE(names_this_machine(other)) << other;
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::http
