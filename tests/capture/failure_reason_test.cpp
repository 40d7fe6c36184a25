#include "capture/failure_reason.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace camd::capture {
namespace CAMD_TEST_FILE {

using ::testing::StartsWith;

constexpr const char* kFailed =
    "camera: Could not open resource for reading and writing. (Failed to connect. (Generic error))";

// A TCP socket on a port of its own at 127.0.0.1.
class Port {
 public:
  Port() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    number_ = ntohs(address.sin_port);
  }
  ~Port() { ::close(socket_); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  void listen() const { EXPECT_EQ(::listen(socket_, 1), 0); }
  [[nodiscard]] std::string text() const { return std::to_string(number_); }

 private:
  int socket_;
  int number_ = 0;
};

config::RtspSource at(const std::string& url) {
  config::RtspSource source;
  source.url = url;
  return source;
}

bool never() { return false; }

TEST(FailureReason, NamesThePortOnWhichNothingListens) {
  const Port port;  // bound, so that nobody else listens there, and silent
  EXPECT_EQ(explain_failure(at("rtsp://user:secret@127.0.0.1:" + port.text() + "/door"), kFailed, &never),
            "nothing listens on port " + port.text() + " of 127.0.0.1 (connection refused): is the port right?");
}

TEST(FailureReason, NamesTheHostThatIsNotKnown) {
  EXPECT_THAT(explain_failure(at("rtsp://no-such-camera.invalid/door"), kFailed, &never),
              StartsWith("the host no-such-camera.invalid is not known: is its name right? ("));
}

TEST(FailureReason, SaysWhatGStreamerSaidWhereTheCameraCanBeConnectedTo) {
  const Port port;
  port.listen();
  EXPECT_EQ(explain_failure(at("rtsp://127.0.0.1:" + port.text() + "/door"), kFailed, &never), kFailed);
}

TEST(FailureReason, SaysWhatGStreamerSaidOfOtherFailuresAndOtherSources) {
  EXPECT_EQ(explain_failure(at("rtsp://no-such-camera.invalid/door"), "Unauthorized", &never), "Unauthorized");
  EXPECT_EQ(explain_failure(at("no URL"), kFailed, &never), kFailed);
  EXPECT_EQ(explain_failure(config::FileSource{}, kFailed, &never), kFailed);
}

TEST(FailureReason, DoesNotHoldUpACameraThatIsStopped) {
  EXPECT_EQ(explain_failure(at("rtsp://no-such-camera.invalid/door"), kFailed, [] { return true; }), kFailed);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
