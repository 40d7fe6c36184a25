// The server against clients that behave and clients that do not.
#include "apps/http/server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "tests/http/client.hpp"

namespace camd::http {
namespace CAMD_TEST_FILE {

using test::answer_of;
using test::ask;
using test::Connection;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

config::Endpoint any_port() { return *config::parse_endpoint("127.0.0.1:0"); }

// Says "1", nothing, "2"; then it ends, or says nothing for ever.
class Counting final : public Stream {
 public:
  Counting(std::atomic<int>& open, bool ends) : open_(open), ends_(ends) { ++open_; }
  ~Counting() override { --open_; }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;
  std::optional<std::string> next() override {
    ++calls_;
    if (calls_ > 3 && ends_) return std::nullopt;
    return calls_ == 1 ? "1" : calls_ == 3 ? "2" : "";
  }

 private:
  std::atomic<int>& open_;
  const bool ends_;
  int calls_ = 0;
};

class ServerTest : public ::testing::Test {
 protected:
  std::atomic<int> asked_{0};    // how often /later was
  std::atomic<int> streams_{0};  // that are open
  Server server_{
      listen_on(any_port(), -1), [this](const Request& request) -> Reply {
        if (request.path == "/throws") throw std::runtime_error("of the test");
        if (request.path == "/later") {
          Reply reply;
          reply.later = ++asked_ < 3;
          reply.body = std::string(request.parameter("name"));
          return reply;
        }
        if (request.path == "/stream") {
          Reply reply;
          reply.stream = std::make_unique<Counting>(streams_, request.parameter("ends") == "1");
          return reply;
        }
        return {200,
                "text/plain",
                std::string(request.path) + "|" + std::string(request.host) + "|" + std::string(request.authorization),
                {{"X-Test", "yes"}}};
      }};
  const config::Endpoint at_ = server_.endpoint();
};

TEST_F(ServerTest, AnswersWithWhatTheHandlerSays) {
  const test::Answer answer = ask(at_, "/a%20b?c=d", "Authorization: Bearer x\r\n", "here");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "/a b|here|Bearer x");
  EXPECT_THAT(answer.head, HasSubstr("X-Test: yes"));
  EXPECT_THAT(answer.head, HasSubstr("Cache-Control: no-store"));
}

TEST_F(ServerTest, TakesSeveralRequestsOnOneConnection) {
  const Connection connection(at_);
  ASSERT_TRUE(
      connection.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  const std::string both = connection.rest();
  EXPECT_THAT(both, HasSubstr("/1|h|"));
  EXPECT_THAT(both, HasSubstr("/2|h|"));
}

TEST_F(ServerTest, AnswersHeadWithoutABody) {
  const Connection connection(at_);
  ASSERT_TRUE(connection.send("HEAD /1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  const test::Answer answer = answer_of(connection.rest());
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body, IsEmpty());
}

TEST_F(ServerTest, RefusesOtherMethodsAndBodies) {
  const auto status_of = [this](const std::string& request) {
    const Connection connection(at_);
    EXPECT_TRUE(connection.send(request));
    return answer_of(connection.rest()).status;
  };
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"), 405);
  EXPECT_EQ(status_of("DELETE / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), 405);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"), 413);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 413);
}

TEST_F(ServerTest, BoundsARequestAndOutlivesWhatIsNone) {
  const std::string long_line(2 * kMostRequestBytes, 'a');
  for (const std::string& request :
       {"GET /" + long_line + " HTTP/1.1\r\nHost: h\r\n\r\n", "GET / HTTP/1.1\r\nX: " + long_line + "\r\n\r\n",
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 \r\n\r\n", 16), std::string("GET\r\n\r\n")}) {
    const Connection connection(at_);
    (void)connection.send(request);
    connection.finish_sending();
    ::testing::internal::CaptureStderr();
    EXPECT_NE(answer_of(connection.rest()).status, 200);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
  }
  EXPECT_EQ(ask(at_, "/still").status, 200);
}

TEST_F(ServerTest, LetsClientsBeyondTheMostThatItHoldsWaitForAPlace) {
  std::vector<std::unique_ptr<Connection>> held;
  for (unsigned i = 0; i < kMostConnections; ++i) {
    held.push_back(std::make_unique<Connection>(at_));
    ASSERT_TRUE(held.back()->send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n"));
    ASSERT_THAT(held.back()->receive(), HasSubstr("200"));
  }
  const Connection more(at_);
  ASSERT_TRUE(more.send("GET /more HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  EXPECT_FALSE(more.has_something());
  held.pop_back();
  EXPECT_EQ(answer_of(more.rest()).status, 200);
}

TEST_F(ServerTest, AnswersAnExceptionWithoutItsText) {
  const test::Answer answer = ask(at_, "/throws");
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, Not(HasSubstr("of the test")));
}

TEST_F(ServerTest, AsksAgainWhereThereIsNoAnswerYet) {
  const test::Answer answer = ask(at_, "/later?name=a%20b");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "a b");
  EXPECT_EQ(asked_, 3);
}

TEST_F(ServerTest, SendsAStreamUntilItEnds) {
  const Connection connection(at_);
  ASSERT_TRUE(connection.send("GET /stream?ends=1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  const test::Answer answer = answer_of(connection.rest());
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "1\r\n1\r\n1\r\n2\r\n0\r\n\r\n") << "in chunks (RFC 9112, section 7.1)";
}

TEST_F(ServerTest, AnswersHeadOfAStreamWithoutIt) {
  const Connection connection(at_);
  ASSERT_TRUE(connection.send("HEAD /stream HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  const test::Answer answer = answer_of(connection.rest());
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body, IsEmpty());
  while (streams_ != 0) std::this_thread::yield();
}

TEST_F(ServerTest, EndsWhileStreamsAndRequestsWait) {
  std::atomic<int> streams{0};
  auto server = std::make_unique<Server>(listen_on(any_port(), -1), [&](const Request& request) {
    Reply reply;
    reply.later = request.path == "/later";
    if (!reply.later) reply.stream = std::make_unique<Counting>(streams, false);
    return reply;
  });
  const Connection stream(server->endpoint()), later(server->endpoint());
  ASSERT_TRUE(later.send("GET /later HTTP/1.1\r\nHost: h\r\n\r\n"));
  ASSERT_TRUE(stream.send("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n"));
  ASSERT_THAT(stream.receive(), HasSubstr("200"));
  server = nullptr;
  EXPECT_EQ(streams, 0);
  EXPECT_THAT(stream.rest(), Not(HasSubstr("HTTP/1.1")));
}

TEST_F(ServerTest, EndsWhileClientsAreConnected) {
  auto server = std::make_unique<Server>(listen_on(any_port(), -1), [](const Request&) { return Reply{}; });
  const Connection idle(server->endpoint());
  const Connection half(server->endpoint());
  ASSERT_TRUE(half.send("GET / HTT"));
  server = nullptr;
  EXPECT_THAT(idle.rest(), IsEmpty());
}

TEST(ListenOn, SaysWhyAnAddressCannotBeUsed) {
  const int first = listen_on(any_port(), -1);
  config::Endpoint taken;
  taken.size = sizeof(taken.address);
  ASSERT_EQ(::getsockname(first, reinterpret_cast<sockaddr*>(&taken.address), &taken.size), 0);
  const auto why = [](const config::Endpoint& endpoint, int beside) -> std::string {
    try {
      ::close(listen_on(endpoint, beside));
      return "";
    } catch (const base::Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(why(taken, -1),
            taken.text() + " is taken by another program: choose another port (`ss -ltnp` shows who has it)");
  const config::Endpoint wider = *config::parse_endpoint("0.0.0.0:" + std::to_string(taken.port()));
  EXPECT_THAT(why(wider, -1), HasSubstr("is taken by another program"));
  EXPECT_EQ(why(wider, first), "") << "the one that has it is our own";
  EXPECT_THAT(why(*config::parse_endpoint("192.0.2.1:8088"), -1), HasSubstr("this machine has no such address"));
  ::close(first);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::http
