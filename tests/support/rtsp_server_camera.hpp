// The camera that camd_rtsp_server serves: takes pictures that tell the truth, and misbehaves on demand
// (rtsp_server.cpp has the commands).
//
// Threads: [main] GLib's loop, [camera] its own, which takes the pictures, [streaming] GStreamer's. mutex_ guards what
// they share.
#pragma once

#include <gst/gst.h>
#include <gst/rtsp-server/rtsp-server.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "capture/test_pattern.hpp"

namespace camd::test {

struct ReleasePacket {
  void operator()(GstBuffer* packet) const noexcept { gst_buffer_unref(packet); }
};
using Packet = std::unique_ptr<GstBuffer, ReleasePacket>;

struct Options {
  std::string port;
  std::string user;
  std::string password;
  int width = 320;
  int height = 240;
  int fps = 30;
  std::string codec = "h264";
  unsigned seed = 1;
};

// False where the text is none.
bool to_number(std::string_view text, double& value);
bool to_size(const std::string& text, int& width, int& height);

// What the camera's own clock says at a true time.
class CameraClock {
 public:
  [[nodiscard]] base::Duration at(base::TimePoint now) const {
    const base::Duration since = now - anchor_;
    return said_ + since + base::Duration(static_cast<std::int64_t>(static_cast<double>(since.count()) * ppm_ * 1e-6));
  }
  void set(base::TimePoint now, base::Duration says) {
    anchor_ = now;
    said_ = says;
  }
  void drift(base::TimePoint now, double ppm) {
    set(now, at(now));
    ppm_ = ppm;
  }

 private:
  base::TimePoint anchor_;
  base::Duration said_{};
  double ppm_ = 0;
};

class Camera {
 public:
  explicit Camera(const Options& options);
  ~Camera();
  Camera(const Camera&) = delete;
  Camera& operator=(const Camera&) = delete;

  // [main]
  void start();
  // [main] A stream for clients has been built.
  void use(GstRTSPMedia* media);
  // [main]
  void unuse(GstRTSPMedia* media);
  // [any] The stream's RTCP goes through this pad.
  void use_rtcp(GstPad* pad);

  // [main] The answer; empty when the camera does not know the command.
  std::string obey(const std::string& verb, const std::string& word);

 private:
  void forget_media() CAMD_REQUIRES(mutex_);
  void hasten_reports(double milliseconds) CAMD_REQUIRES(mutex_);

  // ---- [camera]

  void take_pictures();
  // False when the camera is switched off.
  bool take_picture(std::uint64_t sequence);
  void send(base::TimePoint taken) CAMD_REQUIRES(mutex_);

  // ---- [streaming]

  static GstPadProbeReturn on_rtcp(GstPad*, GstPadProbeInfo*, gpointer self);
  static GstPadProbeReturn on_packets(GstPad* pad, GstPadProbeInfo* info, gpointer self);
  GstPadProbeReturn pass(GstPad* pad, GstPadProbeInfo* info);
  // Queues a packet, which is this function's to own, as it leaves the camera. Numbers are as in RFC 3550, 5.1.
  void keep(GstBuffer* buffer, const GstSegment& segment) CAMD_REQUIRES(mutex_);
  double chance() CAMD_REQUIRES(mutex_);

  const int fps_;
  std::thread thread_;

  // [camera]
  std::optional<capture::TestPattern> pattern_;
  std::vector<std::byte> pixels_;
  capture::TestStamp drawn_;

  base::Mutex mutex_;
  bool leaving_ CAMD_GUARDED_BY(mutex_) = false;
  int width_ CAMD_GUARDED_BY(mutex_);
  int height_ CAMD_GUARDED_BY(mutex_);
  bool frozen_ CAMD_GUARDED_BY(mutex_) = false;
  bool stalled_ CAMD_GUARDED_BY(mutex_) = false;
  bool rtcp_ CAMD_GUARDED_BY(mutex_) = true;
  double drop_ CAMD_GUARDED_BY(mutex_) = 0;
  double corrupt_ CAMD_GUARDED_BY(mutex_) = 0;
  std::mt19937 random_ CAMD_GUARDED_BY(mutex_);
  CameraClock clock_ CAMD_GUARDED_BY(mutex_);
  std::optional<base::Duration> held_ CAMD_GUARDED_BY(mutex_);  // what the clock says while it stands still
  base::Duration origin_ CAMD_GUARDED_BY(mutex_){};             // what the clock says where RTP time stamps are 0
  capture::TestStamp last_ CAMD_GUARDED_BY(mutex_);
  GstRTSPMedia* media_ CAMD_GUARDED_BY(mutex_) = nullptr;  // lives until unuse()
  GstElement* in_ CAMD_GUARDED_BY(mutex_) = nullptr;       // its appsrc
  int caps_width_ CAMD_GUARDED_BY(mutex_) = 0;
  int caps_height_ CAMD_GUARDED_BY(mutex_) = 0;
  // The RTP time stamp of each picture that is being encoded, by its time in the stream.
  std::map<GstClockTime, guint32> stamps_ CAMD_GUARDED_BY(mutex_);
  std::deque<Packet> waiting_ CAMD_GUARDED_BY(mutex_);  // packets, while the camera is stalled
};

}  // namespace camd::test
