// The section `http` with a session behind it: what it tells, and how a reload changes it.
#include "apps/http/service.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "config/loader.hpp"
#include "pipeline/run/card_keys.hpp"
#include "tests/http/client.hpp"
#include "tests/support/paths.hpp"

namespace camd::http {
namespace CAMD_TEST_FILE {

using namespace std::chrono_literals;
using pipeline::EndReason;
using pipeline::Session;
using test::ask;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kFive = "{type: test, width: 64, height: 36, frames: 5, realtime: false}";
constexpr const char* kLive = "{type: test, width: 64, height: 36, frames: 1000000, fps: 30}";
constexpr const char* kNobodyThere = "{type: rtsp, url: \"rtsp://127.0.0.1:1/none\", timeout: 1h}";
constexpr const char* kToken = "0123456789abcdef";
const std::string kBearer = "Authorization: Bearer 0123456789abcdef\r\n";

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("camd_http_" + std::string(info->name()) + "_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~ServiceTest() override {
    service_.close();
    session_ = nullptr;
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // `http` is the section's text, empty for none.
  void configure(const std::string& http, const std::vector<std::string>& sources = {kFive},
                 const std::string& device = "host") const {
    std::ofstream file(path("c.yaml"), std::ios::binary);
    file << "device: " << device << "\nmodel: {path: " << test::source_dir()
         << "/models/marker-640x360.onnx}\ncameras:\n";
    for (std::size_t i = 0; i < sources.size(); ++i) {
      file << "  - {name: " << static_cast<char>('a' + i) << ", source: " << sources[i] << "}\n";
    }
    file << "postprocess: [" << before_ << "{plugin: jsonl, config: {path: " << path("d.jsonl") << "}}]\n";
    if (!http.empty()) file << "http: " << http << "\n";
  }
  Session& session() {
    pipeline::SessionOptions options;
    options.side = &service_;
    options.tap = &service_.tap();
    session_ = std::make_unique<Session>(
        [this] { return config::read(path("c.yaml"), {}, {.card_keys = pipeline::card_keys()}); }, options,
        base::system_clock(),
        [this](std::string_view line) {
          last_ = line;
          service_.line(line);
        });
    service_.attach({[this] { return session_->snapshot(); }, [this] { return session_->progress(); },
                     [this](std::string_view name) { return session_->find_camera(name); }});
    return *session_;
  }
  // Starts it and waits for its five frames.
  void run_to_the_end() {
    session().start();
    ASSERT_EQ(session_->wait(base::TimePoint::max()), EndReason::kSourcesEnded);
  }
  [[nodiscard]] config::Endpoint at() const { return service_.endpoint().value(); }

  std::filesystem::path folder_;
  std::string before_;  // plug-ins in front of jsonl, as YAML, each with its comma
  std::string last_;
  HttpService service_{"1.2.3", {1, 3}, base::system_clock()};
  std::unique_ptr<Session> session_;
};

TEST_F(ServiceTest, TellsPrometheusOfEveryFrameOnce) {
  configure("{listen: \"127.0.0.1:0\"}");
  run_to_the_end();
  const test::Answer page = ask(at(), "/metrics");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.head, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  for (const char* const line :
       {"camd_build_info{version=\"1.2.3\",shard=\"1/3\"} 1\n", "camd_frames_captured_total{camera=\"a\"} 5\n",
        "camd_frames_total{camera=\"a\",outcome=\"delivered\"} 5\n", "camd_frames_in_flight{camera=\"a\"} 0\n",
        "camd_stage_duration_seconds_bucket{camera=\"a\",stage=\"infer\",le=\"+Inf\"} 5\n",
        "camd_stage_duration_seconds_count{camera=\"a\",stage=\"total\"} 5\n",
        "camd_camera_state{camera=\"a\",state=\"ended\"} 1\n", "camd_device_up{device=\"host\",lane=\"0\"} 1\n"}) {
    EXPECT_THAT(page.body, HasSubstr(line));
  }
  // Nothing is used up by asking.
  EXPECT_THAT(ask(at(), "/metrics").body,
              HasSubstr("camd_stage_duration_seconds_count{camera=\"a\",stage=\"total\"} 5\n"));
}

TEST_F(ServiceTest, TellsOfCamerasUnderTheNamesOfTheMetricsLines) {
  configure("{listen: \"127.0.0.1:0\"}");
  run_to_the_end();
  const test::Answer answer = ask(at(), "/api/v1/cameras");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.head, HasSubstr("Content-Type: application/json"));
  const nlohmann::json cameras = nlohmann::json::parse(answer.body).at("cameras");
  ASSERT_EQ(cameras.size(), 1U);
  EXPECT_EQ(cameras[0].at("camera"), "a");
  EXPECT_EQ(cameras[0].at("state"), "ended");
  EXPECT_EQ(cameras[0].at("device"), "host");
  EXPECT_EQ(cameras[0].at("totals").at("delivered"), 5);
  EXPECT_TRUE(cameras[0].contains("clock") && cameras[0].contains("upstream"));
}

TEST_F(ServiceTest, ShowsTheLatestPictureOfACamera) {
  configure("{listen: \"127.0.0.1:0\"}", {kLive});
  session().start();
  std::uint64_t before = 0;
  for (const std::string width : {"", "?width=320", "?width=1280"}) {
    const test::Answer answer = ask(at(), "/api/v1/cameras/a/latest.jpg" + width);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_THAT(answer.head, HasSubstr("Content-Type: image/jpeg"));
    EXPECT_THAT(answer.head, HasSubstr("Camd-Width: 64\r\nCamd-Height: 36"));
    EXPECT_TRUE(answer.body.starts_with("\xFF\xD8\xFF") && answer.body.ends_with("\xFF\xD9"));
    const auto sequence = answer.head.find("Camd-Sequence: ");
    ASSERT_NE(sequence, std::string::npos);
    const std::uint64_t now = std::stoull(answer.head.substr(sequence + 15));
    EXPECT_GE(now, before);
    before = now;
  }
}

TEST_F(ServiceTest, RefusesPicturesThatItDoesNotHave) {
  configure("{listen: \"127.0.0.1:0\"}", {kNobodyThere});
  session().start();
  for (const std::string name : {"b", "", "a/../a", "a%00", "..", "a%2Flatest.jpg", "%22%3E%3Cscript%3E"}) {
    const test::Answer answer = ask(at(), "/api/v1/cameras/" + name + "/latest.jpg");
    EXPECT_EQ(answer.status, 404) << name;
    EXPECT_THAT(answer.body, Not(HasSubstr("script"))) << "what a client sends is not sent back";
  }
  for (const std::string width : {"0", "-1", "641", "640x", "99999999999999999999"}) {
    EXPECT_EQ(ask(at(), "/api/v1/cameras/a/latest.jpg?width=" + width).status, 400) << width;
  }
  Request request{"/api/v1/cameras/a/latest.jpg", "127.0.0.1", ""};
  EXPECT_TRUE(service_.answer(request, "").later);
  request.waited = 3s;
  const Reply reply = service_.answer(request, "");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.body, "no frame was delivered for 3 s: /api/v1/cameras says how the camera is\n");
}

TEST_F(ServiceTest, ServesAPageThatLoadsNothingFromElsewhereAndMayNot) {
  configure("{listen: \"127.0.0.1:0\"}");
  run_to_the_end();
  const test::Answer page = ask(at(), "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.head, HasSubstr("Content-Type: text/html; charset=utf-8"));
  EXPECT_THAT(page.head, ::testing::ContainsRegex("Content-Security-Policy: default-src 'none'; script-src 'sha256-"
                                                  "[A-Za-z0-9+/]{43}='; style-src 'sha256-[A-Za-z0-9+/]{43}='; "
                                                  "connect-src 'self'; img-src data:; base-uri 'none'; form-action "
                                                  "'none'; frame-ancestors 'none'"));
  EXPECT_TRUE(page.body.starts_with("<!doctype html>") && page.body.ends_with("</html>\n"));
  for (const std::string beyond : {"https://", "src=", "@import", "url(", "innerHTML", "onclick=\""}) {
    EXPECT_THAT(page.body, Not(HasSubstr(beyond)));
  }
}

TEST_F(ServiceTest, TellsOfTheZonesThatRunAndOfNoOthers) {
  const std::string http = "{listen: \"127.0.0.1:0\"}";
  configure(http);
  run_to_the_end();
  EXPECT_EQ(ask(at(), "/api/v1/zones").body, "{\"zones\":[],\"lines\":[]}\n");
  before_ = "{plugin: zones, config: {lines: [{name: gate, from: [0, 0.5], to: [1, 0.5]}]}}, ";
  configure(http);
  EXPECT_TRUE(session_->reload());
  EXPECT_THAT(ask(at(), "/api/v1/zones").body,
              HasSubstr(R"("lines":[{"name":"gate","from":[0.0,0.5],"to":[1.0,0.5]}])"));
}

TEST_F(ServiceTest, StreamsDetectionsAndMetricsLines) {
  configure("{listen: \"127.0.0.1:0\"}", {kLive, kLive});
  session().start();
  const test::Connection stream(at());
  ASSERT_TRUE(stream.send("GET /api/v1/events?metrics=1&camera=b&every=0ms HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
  std::string text;
  while (text.find("event: detections\ndata: {\"camera\":\"b\",\"seq\":") == std::string::npos ||
         text.find("event: metrics\ndata: {\"event\":\"camera\"") == std::string::npos) {
    const std::string some = stream.receive();
    ASSERT_FALSE(some.empty()) << text;
    text += some;
  }
  EXPECT_THAT(text, HasSubstr("Content-Type: text/event-stream"));
  EXPECT_THAT(text, Not(HasSubstr("event: detections\ndata: {\"camera\":\"a\"")));
}

TEST_F(ServiceTest, RefusesStreamsThatMakeNoSense) {
  configure("{listen: \"127.0.0.1:0\"}");
  run_to_the_end();
  EXPECT_EQ(ask(at(), "/api/v1/events?camera=z").status, 404);
  for (const std::string wrong : {"metrics=2", "every=5", "every=-1s", "every=2h"}) {
    EXPECT_EQ(ask(at(), "/api/v1/events?" + wrong).status, 400) << wrong;
  }
}

TEST_F(ServiceTest, EndsStreamsThatWereOpenedWithAnotherToken) {
  configure("{listen: \"127.0.0.1:0\"}", {kLive});
  session().start();
  const test::Connection stream(at());
  ASSERT_TRUE(stream.send("GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"));
  ASSERT_THAT(stream.receive(), HasSubstr("200"));
  configure("{listen: \"127.0.0.1:0\", token: " + std::string(kToken) + "}", {kLive});
  EXPECT_TRUE(session_->reload());
  EXPECT_TRUE(stream.rest().ends_with("0\r\n\r\n"));
  while (service_.tap().wants_frames()) std::this_thread::yield();  // the viewer goes behind its last byte
}

TEST_F(ServiceTest, IsReadyOnlyWhenEveryCameraIsAndNamesThoseThatAreNot) {
  configure("{listen: \"127.0.0.1:0\"}", {kFive, kNobodyThere});
  session().start();
  nlohmann::json answer;
  do {  // until camera a has done its five frames
    const test::Answer text = ask(at(), "/readyz");
    ASSERT_EQ(text.status, 503);
    answer = nlohmann::json::parse(text.body);
  } while (answer.at("not_running") != 1);
  EXPECT_EQ(answer.at("ready"), false);
  EXPECT_EQ(answer.at("cameras"), 2);
  EXPECT_EQ(answer.at("waits_for")[0].at("camera"), "b");
  EXPECT_EQ(ask(at(), "/healthz").status, 200) << "a camera that is away is no reason to start camd again";
  configure("{listen: \"127.0.0.1:0\"}");
  EXPECT_TRUE(session_->reload());
  EXPECT_EQ(ask(at(), "/readyz").status, 200);
}

TEST_F(ServiceTest, AsksForTheTokenAndTellsOthersOnlyHowItIs) {
  configure("{listen: \"127.0.0.1:0\", token: " + std::string(kToken) + "}", {kFive, kNobodyThere});
  session().start();
  for (const std::string page : {"/metrics", "/api/v1/cameras", "/", "/other", "/api/v1/zones",
                                 "/api/v1/cameras/a/latest.jpg", "/api/v1/cameras/none/latest.jpg", "/api/v1/events"}) {
    const test::Answer refused = ask(at(), page);
    EXPECT_EQ(refused.status, 401) << page;
    EXPECT_THAT(refused.head, HasSubstr("WWW-Authenticate: Basic realm=\"camd\""));
    EXPECT_EQ(ask(at(), page, "Authorization: Bearer wrong\r\n").status, 401);
  }
  EXPECT_EQ(ask(at(), "/metrics", kBearer).status, 200);
  EXPECT_EQ(ask(at(), "/metrics", kBearer, "camd.example").status, 200);
  EXPECT_EQ(ask(at(), "/other", kBearer).status, 404);
  EXPECT_EQ(ask(at(), "/healthz").status, 200);
  EXPECT_THAT(ask(at(), "/readyz").body, Not(HasSubstr("waits_for")));
  EXPECT_THAT(ask(at(), "/readyz", kBearer).body, HasSubstr("waits_for"));
}

TEST_F(ServiceTest, AnswersNoPageOfAnotherSiteWhereThereIsNoToken) {
  configure("{listen: \"127.0.0.1:0\"}");
  run_to_the_end();
  EXPECT_EQ(ask(at(), "/metrics", "", "evil.example").status, 403);
  EXPECT_EQ(ask(at(), "/metrics", "", "localhost:8088").status, 200);
}

TEST_F(ServiceTest, IsAddedMovedAndRemovedByReloads) {
  configure("");
  run_to_the_end();
  EXPECT_FALSE(service_.endpoint());
  configure("{listen: \"127.0.0.1:0\"}");
  EXPECT_TRUE(session_->reload());
  const config::Endpoint first = at();
  EXPECT_EQ(ask(first, "/metrics").status, 200);
  EXPECT_TRUE(session_->reload());
  EXPECT_EQ(at().text(), first.text()) << "a reload that changes nothing keeps the port";
  configure("{listen: \"127.0.0.2:0\"}");
  EXPECT_TRUE(session_->reload());
  EXPECT_EQ(ask(at(), "/metrics").status, 200);
  EXPECT_FALSE(test::Connection(first).connected());
  const config::Endpoint second = at();
  configure("");
  EXPECT_TRUE(session_->reload());
  EXPECT_FALSE(service_.endpoint());
  EXPECT_FALSE(test::Connection(second).connected());
}

TEST_F(ServiceTest, OpensItsOwnPortToOtherMachinesByAReload) {
  configure("{listen: \"127.0.0.1:0\"}");
  run_to_the_end();
  const std::string port = std::to_string(at().port());
  configure("{listen: \"0.0.0.0:" + port + "\", token: " + kToken + "}");
  EXPECT_TRUE(session_->reload());
  EXPECT_EQ(at().text(), "0.0.0.0:" + port);
  const config::Endpoint here = *config::parse_endpoint("127.0.0.1:" + port);
  EXPECT_EQ(ask(here, "/metrics").status, 401);
  EXPECT_EQ(ask(here, "/metrics", kBearer).status, 200);
}

TEST_F(ServiceTest, TakesAnotherTokenByAReload) {
  configure("{listen: \"127.0.0.1:0\"}");
  run_to_the_end();
  const config::Endpoint before = at();
  configure("{listen: \"127.0.0.1:0\", token: " + std::string(kToken) + "}");
  EXPECT_TRUE(session_->reload());
  EXPECT_EQ(at().text(), before.text());
  EXPECT_EQ(ask(at(), "/metrics").status, 401);
  EXPECT_EQ(ask(at(), "/metrics", kBearer).status, 200);
}

TEST_F(ServiceTest, RefusesAReloadToAPortThatIsTakenAndLeavesAllAsItWas) {
  configure("{listen: \"127.0.0.1:0\"}");
  run_to_the_end();
  const config::Endpoint before = at();
  const Server other(listen_on(*config::parse_endpoint("127.0.0.1:0"), -1), [](const Request&) { return Reply{}; });
  const std::string taken = other.endpoint().text();
  configure("{listen: \"" + taken + "\"}", {kFive, kFive});
  EXPECT_FALSE(session_->reload());
  EXPECT_THAT(session_->status_line(),
              HasSubstr(path("c.yaml") + ":7:16: http.listen: " + taken + " is taken by another program"));
  EXPECT_EQ(at().text(), before.text());
  EXPECT_EQ(nlohmann::json::parse(ask(before, "/api/v1/cameras").body).at("cameras").size(), 1U);
}

TEST_F(ServiceTest, GivesUpAPreparedPortWhereTheReloadIsRefusedForAnotherReason) {
  configure("");
  run_to_the_end();
  config::Endpoint free;
  {
    const Server probe(listen_on(*config::parse_endpoint("127.0.0.1:0"), -1), [](const Request&) { return Reply{}; });
    free = probe.endpoint();
  }
  configure("{listen: \"" + free.text() + "\"}", {kFive}, "cuda:127");
  EXPECT_FALSE(session_->reload());
  EXPECT_THAT(session_->status_line(), HasSubstr(path("c.yaml") + ":1:9: device: "));
  EXPECT_FALSE(service_.endpoint());
  EXPECT_FALSE(test::Connection(free).connected());
}

TEST_F(ServiceTest, RefusesAStartOnAPortThatIsTaken) {
  const Server other(listen_on(*config::parse_endpoint("127.0.0.1:0"), -1), [](const Request&) { return Reply{}; });
  configure("{listen: \"" + other.endpoint().text() + "\"}");
  try {
    session().start();
    FAIL() << "started";
  } catch (const base::Error& error) {
    EXPECT_EQ(base::exit_code(error.kind()), 2);
    EXPECT_THAT(error.what(), HasSubstr("http.listen: " + other.endpoint().text() + " is taken by another program"));
  }
}

TEST_F(ServiceTest, SaysWhenNothingRunsAnyMore) {
  configure("{listen: \"127.0.0.1:0\"}");
  run_to_the_end();
  EXPECT_EQ(session_->stop(EndReason::kSourcesEnded), 0);
  EXPECT_EQ(ask(at(), "/readyz").status, 503);
  EXPECT_EQ(ask(at(), "/metrics").status, 503);
  EXPECT_EQ(ask(at(), "/healthz").status, 200);
}

TEST(Health, CountsTheTimeInWhichFramesWaitAndNoneComesThrough) {
  Health health;
  const base::TimePoint begin{};
  EXPECT_EQ(health.stuck_for({7, 2}, begin + 1s), 0s) << "the first question has nothing to compare with";
  EXPECT_EQ(health.stuck_for({7, 2}, begin + 6s), 5s);
  EXPECT_EQ(health.stuck_for({7, 2}, begin + 12s), 11s);
  EXPECT_EQ(health.stuck_for({8, 2}, begin + 13s), 0s) << "one came through";
  EXPECT_EQ(health.stuck_for({8, 2}, begin + 14s), 1s);
  EXPECT_EQ(health.stuck_for({8, 0}, begin + 15s), 0s) << "nothing waits";
  EXPECT_EQ(health.stuck_for({8, 1}, begin + 99s), 0s) << "nothing waited when it was asked before";
  EXPECT_EQ(health.stuck_for({8, 1}, begin + 100s), 1s);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::http
