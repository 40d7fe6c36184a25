// An RTSP camera for the tests, in a process of its own so that it can be killed as a camera's power can be cut. Its
// pictures tell the truth: each carries its number and the time at which it was taken (capture/test_pattern.hpp), so
// that a test knows what camd should have said about it. Told so on standard input, the camera misbehaves.
//
//   camd_rtsp_server PORT [USER PASSWORD] [--size WxH] [--fps N] [--codec h264|jpeg] [--seed N]
//
// PORT 0: any free one. Prints "ready PORT" and serves rtsp://127.0.0.1:PORT/live (H.264 320x240, 30 frames/s, a key
// frame every 15, and a sound track) until its standard input is closed. One command a line; each is answered with
// "ok COMMAND" or with "error COMMAND: why". What a command does to pictures holds for those that are taken after it.
//
//   stall            sends nothing more, but goes on taking pictures
//   go               sends all that waited and goes on; ends `freeze` and `hold-stamps` as well
//   freeze           sends the same picture, with its old number and time, again and again
//   restart-stamps   RTP time stamps begin at 0 again
//   hold-stamps      every RTP time stamp is the same
//   drift PPM        the camera's clock runs fast (above 0) or slow (below 0)
//   step MS          the camera's clock jumps forwards, or backwards
//   size WxH         other pictures within the same stream
//   codec h264|jpeg  another codec: all connections are closed, the next one gets it
//   no-rtcp, rtcp    without and with RTCP (sender reports)
//   rtcp-every MS    sender reports come about so often instead of every 5 s
//   drop N           loses N % of the RTP packets
//   corrupt N        damages N % of the RTP packets
//   kick             closes all connections
//   now              answers "now NUMBER NANOSECONDS": the last picture and when it was taken
//
// Times are CLOCK_MONOTONIC.
//
// Threads: main (GLib's loop: connections and commands), `camera` (takes pictures), GStreamer's streaming threads.
// Camera (rtsp_server_camera.hpp) holds what they share.
#include <gst/gst.h>
#include <gst/rtsp-server/rtsp-server.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "capture/gst_support.hpp"
#include "tests/support/rtsp_server_camera.hpp"

namespace {

using camd::capture::GstOwned;
using camd::test::Camera;
using camd::test::Options;
using camd::test::to_number;
using camd::test::to_size;

void on_unprepared(GstRTSPMedia* media, gpointer camera) { static_cast<Camera*>(camera)->unuse(media); }

// rtpbin hands RTCP out at a pad of this name, made when clients have set the stream up.
void on_pad_added(GstElement*, GstPad* pad, gpointer camera) {
  if (g_str_has_prefix(GST_PAD_NAME(pad), "send_rtcp_src") != FALSE) static_cast<Camera*>(camera)->use_rtcp(pad);
}

void on_element_added(GstBin*, GstElement* element, gpointer camera) {
  if (g_str_has_prefix(GST_ELEMENT_NAME(element), "rtpbin") != FALSE) {
    g_signal_connect(element, "pad-added", G_CALLBACK(&on_pad_added), camera);
  }
}

void on_media(GstRTSPMediaFactory*, GstRTSPMedia* media, gpointer camera) {
  static_cast<Camera*>(camera)->use(media);
  g_signal_connect(media, "unprepared", G_CALLBACK(&on_unprepared), camera);
  const GstOwned<GstElement> element(gst_rtsp_media_get_element(media));
  const GstOwned<GstElement> pipeline(GST_ELEMENT(gst_object_get_parent(GST_OBJECT(element.get()))));
  g_signal_connect(pipeline.get(), "element-added", G_CALLBACK(&on_element_added), camera);
}

class Server {
 public:
  Server(const Options& options, Camera& camera) : camera_(camera), server_(gst_rtsp_server_new()) {
    gst_rtsp_server_set_address(server_, "127.0.0.1");
    gst_rtsp_server_set_service(server_, options.port.c_str());
    if (!options.user.empty()) {
      with_login_ = true;
      GstRTSPAuth* const auth = gst_rtsp_auth_new();
      GstRTSPToken* const token =
          gst_rtsp_token_new(GST_RTSP_TOKEN_MEDIA_FACTORY_ROLE, G_TYPE_STRING, "viewer", nullptr);
      gchar* const basic = gst_rtsp_auth_make_basic(options.user.c_str(), options.password.c_str());
      gst_rtsp_auth_add_basic(auth, basic, token);
      gst_rtsp_server_set_auth(server_, auth);
      g_free(basic);
      gst_rtsp_token_unref(token);
      g_object_unref(auth);
    }
    serve(options.codec);
  }
  ~Server() { g_object_unref(server_); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The port; 0 when it cannot be had.
  [[nodiscard]] int open() {
    return gst_rtsp_server_attach(server_, nullptr) == 0 ? 0 : gst_rtsp_server_get_bound_port(server_);
  }

  // False for a codec that is not known.
  bool serve(const std::string& codec) {
    std::string encoder;
    if (codec == "h264") {
      encoder =
          // The parser and not the payloader repeats the parameter sets: rtph264pay (1.22) puts them before each slice
          // of a key picture, and a picture ends where they come.
          "x264enc tune=zerolatency speed-preset=ultrafast key-int-max=15 pass=qual quantizer=21 ! "
          "h264parse config-interval=-1 ! rtph264pay name=pay0 pt=96 timestamp-offset=0";
    } else if (codec == "jpeg") {
      encoder = "jpegenc quality=85 ! rtpjpegpay name=pay0 pt=26 timestamp-offset=0";
    } else {
      return false;
    }
    // A client that does not want the sound leaves it unlinked. That must not become an error of the source: where it
    // came before the media was playing, gst-rtsp-server 1.22 answered PLAY with OK and never sent a packet.
    GstRTSPMediaFactory* const factory = gst_rtsp_media_factory_new();
    const std::string launch =
        "( appsrc name=in format=time is-live=true max-buffers=4 leaky-type=downstream ! " + encoder +
        " audiotestsrc is-live=true ! audioconvert ! audio/x-raw,rate=8000,channels=1 ! mulawenc ! errorignore "
        "ignore-notlinked=true convert-to=ok ! rtppcmupay name=pay1 )";
    gst_rtsp_media_factory_set_launch(factory, launch.c_str());
    gst_rtsp_media_factory_set_shared(factory, TRUE);
    if (with_login_) {
      gst_rtsp_media_factory_add_role(factory, "viewer", GST_RTSP_PERM_MEDIA_FACTORY_ACCESS, G_TYPE_BOOLEAN, TRUE,
                                      GST_RTSP_PERM_MEDIA_FACTORY_CONSTRUCT, G_TYPE_BOOLEAN, TRUE, nullptr);
    }
    g_signal_connect(factory, "media-configure", G_CALLBACK(&on_media), &camera_);
    GstRTSPMountPoints* const mounts = gst_rtsp_server_get_mount_points(server_);
    gst_rtsp_mount_points_add_factory(mounts, "/live", factory);
    g_object_unref(mounts);
    kick();
    return true;
  }

  // Closes all connections.
  void kick() {
    GList* const gone = gst_rtsp_server_client_filter(
        server_, [](GstRTSPServer*, GstRTSPClient*, gpointer) { return GST_RTSP_FILTER_REMOVE; }, nullptr);
    g_list_free_full(gone, g_object_unref);
  }

 private:
  Camera& camera_;
  GstRTSPServer* const server_;
  bool with_login_ = false;
};

struct Room {
  GMainLoop* loop;
  Camera& camera;
  Server& server;
};

std::string answer(const Room& room, const std::string& line) {
  const std::size_t space = line.find(' ');
  const std::string verb = line.substr(0, space);
  const std::string word = space == std::string::npos ? "" : line.substr(space + 1);
  if (verb == "codec") {
    return room.server.serve(word) ? "ok " + line : "error codec: h264 or jpeg, please";
  }
  if (verb == "kick") {
    room.server.kick();
    return "ok kick";
  }
  const std::string said = room.camera.obey(verb, word);
  return said.empty() ? "error " + verb + ": not a command" : said;
}

gboolean on_input(GIOChannel* channel, GIOCondition, gpointer data) {
  const auto& room = *static_cast<Room*>(data);
  gchar* text = nullptr;
  gsize length = 0;
  gsize end = 0;
  const GIOStatus status = g_io_channel_read_line(channel, &text, &length, &end, nullptr);
  if (status == G_IO_STATUS_AGAIN) return TRUE;
  if (status != G_IO_STATUS_NORMAL) {
    g_main_loop_quit(room.loop);
    return FALSE;
  }
  const std::string line(text, end);
  g_free(text);
  std::printf("%s\n", answer(room, line).c_str());
  std::fflush(stdout);
  return TRUE;
}

std::optional<Options> options_of(int argc, char** argv) {
  Options options;
  std::vector<std::string> words(argv + 1, argv + argc);
  std::vector<std::string> plain;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].rfind("--", 0) != 0) {
      plain.push_back(words[i]);
      continue;
    }
    const std::string name = words[i];
    if (++i == words.size()) return std::nullopt;
    double number = 0;
    const bool is_number = to_number(words[i], number);
    if (name == "--size" && to_size(words[i], options.width, options.height)) continue;
    if (name == "--codec" && (words[i] == "h264" || words[i] == "jpeg")) {
      options.codec = words[i];
    } else if (name == "--fps" && is_number && number >= 1 && number <= 1000) {
      options.fps = static_cast<int>(number);
    } else if (name == "--seed" && is_number && number >= 0) {
      options.seed = static_cast<unsigned>(number);
    } else {
      return std::nullopt;
    }
  }
  if (plain.size() != 1 && plain.size() != 3) return std::nullopt;
  options.port = plain[0];
  if (plain.size() == 3) {
    options.user = plain[1];
    options.password = plain[2];
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = options_of(argc, argv);
  if (!options) {
    std::fprintf(stderr,
                 "camd_rtsp_server PORT [USER PASSWORD] [--size WxH] [--fps N] [--codec h264|jpeg] [--seed N]\n");
    return 2;
  }
  gst_init(nullptr, nullptr);
  GMainLoop* const loop = g_main_loop_new(nullptr, FALSE);
  Camera camera(*options);
  Server server(*options, camera);
  const int port = server.open();
  if (port <= 0) return 1;
  camera.start();

  Room room{loop, camera, server};
  GIOChannel* const input = g_io_channel_unix_new(STDIN_FILENO);
  g_io_channel_set_flags(input, G_IO_FLAG_NONBLOCK, nullptr);
  g_io_add_watch(input, static_cast<GIOCondition>(G_IO_IN | G_IO_HUP), &on_input, &room);
  std::printf("ready %d\n", port);
  std::fflush(stdout);
  g_main_loop_run(loop);
  return 0;
}
