// The section `http`: off unless set, open to other machines with a token alone, and its token is shown to nobody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/secrets.hpp"
#include "config/difference.hpp"
#include "config/endpoint.hpp"
#include "tests/config/helpers.hpp"

namespace camd::config {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kToken = "0123456789abcdef";

TEST(HttpSection, IsOffUnlessItSaysWhereToListen) {
  EXPECT_EQ(load_yaml(kSmallest).http, Http{});
  EXPECT_EQ(load_yaml(std::string(kSmallest) + "http:\n").http, Http{});
  EXPECT_EQ(load_yaml(std::string(kSmallest) + "http: {listen: \"127.0.0.1:8088\"}\n").http,
            (Http{"127.0.0.1:8088", ""}));
  EXPECT_EQ(load_yaml(std::string(kSmallest) + "http: {listen: 127.0.0.1:8088, token: " + kToken + "}\n").http,
            (Http{"127.0.0.1:8088", kToken}));
}

TEST(HttpSection, NeedsATokenWhereOtherMachinesReachIt) {
  for (const std::string here : {"127.0.0.1:1", "127.3.2.1:0", "localhost:8088", "\"[::1]:8088\""}) {
    EXPECT_THAT(problems_with("http: {listen: " + here + "}\n"), ElementsAre());
  }
  for (const std::string beyond : {"0.0.0.0:8088", "192.168.1.2:8088", "[::]:8088", "[::ffff:127.0.0.1]:8088"}) {
    EXPECT_THAT(problems_with("http: {listen: \"" + beyond + "\"}\n"),
                ElementsAre("c.yaml:5:16: http.listen: " + beyond +
                            " can be reached by other machines: set http.token_file, or listen on 127.0.0.1"));
    EXPECT_THAT(problems_with("http: {listen: \"" + beyond + "\", token: " + kToken + "}\n"), ElementsAre());
  }
}

TEST(HttpSection, RefusesWhatIsNoAddress) {
  for (const std::string wrong : {"8088", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
                                  "example.org:80", "::1:8088", "[::1]", "[::1:80", "127.0.0.1:80 "}) {
    EXPECT_FALSE(parse_endpoint(wrong)) << wrong;
  }
  EXPECT_THAT(problems_with("http: {listen: 8088}\n"),
              ElementsAre("c.yaml:5:16: http.listen: expected a numeric address and a port, such as 127.0.0.1:8088 or "
                          "[::1]:8088, found 8088"));
}

TEST(HttpSection, RefusesATokenThatCanBeGuessedOrProtectsNothing) {
  EXPECT_THAT(
      problems_with("http: {listen: 127.0.0.1:8088, token: secret}\n"),
      ElementsAre("c.yaml:5:39: http.token: has 6 characters; it needs 16 or more (`openssl rand -hex 32` makes "
                  "one)"));
  EXPECT_THAT(problems_with("http: {token: 0123456789abcdef}\n"),
              ElementsAre("c.yaml:5:15: http.token: stands there without http.listen: there is no server to protect"));
}

TEST(HttpSection, TakesItsTokenFromAReferenceAndShowsItToNobody) {
  ASSERT_EQ(::setenv("CAMD_TEST_TOKEN", "a-token-of-the-test", 1), 0);
  const std::string text = std::string(kSmallest) + "http: {listen: 127.0.0.1:8088, token: \"${CAMD_TEST_TOKEN}\"}\n";
  const LoadOptions options{.check_files = true, .card_keys = card_keys()};
  const Reading reading = [&] {
    const auto file = std::filesystem::temp_directory_path() / ("camd_http_" + std::to_string(::getpid()) + ".yaml");
    write_file(file, text);
    Reading read_back = read(file, {}, options);
    std::filesystem::remove(file);
    return read_back;
  }();
  EXPECT_EQ(reading.config.http.token, "a-token-of-the-test");
  EXPECT_THAT(base::without_secrets(effective_text(reading.config)), Not(HasSubstr("a-token-of-the-test")));
  EXPECT_THAT(effective_text(reading.config), HasSubstr("\"token\": \"a-token-of-the-test\""));
}

TEST(HttpSection, TakesItsTokenFromAFileBesideTheConfiguration) {
  const auto folder = std::filesystem::temp_directory_path() / ("camd_http_token_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const LoadOptions options{.check_files = true, .card_keys = card_keys()};
  const auto problem = [&](const std::string& section) -> std::string {
    write_file(folder / "c.yaml", std::string(kSmallest) + "http: " + section + "\n");
    const Reading reading = read(folder / "c.yaml", {}, options);
    for (const Problem& one : reading.problems) {
      if (one.key.starts_with("http")) return one.line();  // there is no model either
    }
    EXPECT_EQ(reading.config.http.token, "${a-token-of-the-file");
    return "";
  };
  write_file(folder / "token", "${a-token-of-the-file\n");
  EXPECT_EQ(problem("{listen: 0.0.0.0:8088, token_file: token}"), "");
  EXPECT_EQ(base::without_secrets("${a-token-of-the-file"), "***");
  EXPECT_THAT(problem("{listen: 0.0.0.0:8088, token_file: token, token: 0123456789abcdef}"),
              HasSubstr(":5:30: http.token_file: is instead of http.token: leave one of them out"));
  EXPECT_THAT(problem("{listen: 0.0.0.0:8088, token_file: none}"), HasSubstr(":5:42: http.token_file: "));
  EXPECT_THAT(problem("{token_file: token}"), HasSubstr("stands there without http.listen"));
  write_file(folder / "token", "short\n");
  EXPECT_THAT(problem("{listen: 127.0.0.1:8088, token_file: token}"), HasSubstr("http.token: has 5 characters"));
  write_file(folder / "token", "a-token-of-one-line\nand-more\n");
  EXPECT_THAT(problem("{listen: 127.0.0.1:8088, token_file: token}"), HasSubstr("is no single line of UTF-8"));
  std::filesystem::remove_all(folder);
}

TEST(HttpSection, IsReadBackFromTheEffectiveText) {
  const Config config =
      load_yaml(std::string(kSmallest) + "http: {listen: \"[::]:80\", token: \"$${0123456789abcdef\"}\n");
  EXPECT_EQ(config.http.token, "${0123456789abcdef");
  EXPECT_EQ(load_yaml(effective_text(config)).http, config.http);
}

TEST(HttpSection, IsADifferenceByItself) {
  const Config off = load_yaml(kSmallest);
  const Config on = load_yaml(std::string(kSmallest) + "http: {listen: 127.0.0.1:8088}\n");
  const Difference change = difference(off, on);
  EXPECT_TRUE(change.http);
  EXPECT_FALSE(change.nothing());
  EXPECT_THAT(change.names(off, on), ElementsAre("http"));
  EXPECT_TRUE(difference(on, on).nothing());
}

TEST(Endpoint, IsSpelledAsItWasRead) {
  for (const std::string text : {"127.0.0.1:8088", "0.0.0.0:0", "[::1]:65535", "[fe80::1]:80"}) {
    ASSERT_TRUE(parse_endpoint(text));
    EXPECT_EQ(parse_endpoint(text)->text(), text);
  }
  EXPECT_EQ(parse_endpoint("localhost:7")->text(), "127.0.0.1:7");
  EXPECT_EQ(parse_endpoint("[::1]:65535")->port(), 65535);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::config
