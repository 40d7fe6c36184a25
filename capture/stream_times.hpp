// StreamTimes: the times of one live camera's pictures. It feeds the camera's clock (capture/camera_clock.hpp) and says
// of each decoded picture when it was taken.
//
// RTP. Time stamps and arrivals are read from the packets where they enter the jitter buffer (rtpjitterbuffer), before
// it smooths the stamps towards the arrivals: what it hands on says of a backlog that it is fresh. A picture's arrival
// is that of its first packet. Behind the jitter buffer each picture gets a name in place of its PTS
// (capture/picture_names.hpp): decoders carry it through unchanged, and by it the decoded picture is known again.
// Sender reports (RFC 3550, section 6.4.1) are read where they enter it, too.
// This holds for `rtsp`, and for the text of a free pipeline with one video jitter buffer in it.
//
// Without RTP the stamp is the PTS on the pipeline's clock, which is CLOCK_MONOTONIC, and the arrival that of the
// sample.
//
// Losses. The sequence numbers of the same packets, the key frames that enter a decoder, and what comes out of it say
// what was lost before a frame could be captured (capture/picture_losses.hpp). So do the numbers that V4L2 drivers give
// their pictures, read where these leave v4l2src.
//
// Threads: connect() [control]; picture() [streaming]; status() [any]; packets on GStreamer's threads. One lock, held
// for arithmetic only, once for each picture and thread [no-alloc]. Invariants: a pipeline that was left behind,
// because it hung, changes nothing once connect() was called again.
#pragma once

#include <gst/gst.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>

#include "base/mutex.hpp"
#include "capture/camera_clock.hpp"
#include "capture/picture_losses.hpp"

namespace camd::capture {

class StreamTimes : public std::enable_shared_from_this<StreamTimes> {
 public:
  // `clock` must be the system's and outlive what GStreamer leaves behind. Make it with std::make_shared.
  explicit StreamTimes(const base::Clock& clock) : clock_(clock) {}

  // [control] Before the pipeline leaves the state NULL, once for each connection.
  void connect(GstElement* pipeline);
  // [streaming] When the picture of a decoded buffer was taken. `stamp`: its PTS on CLOCK_MONOTONIC, where it has one.
  [[nodiscard]] CaptureTime picture(GstClockTime pts, std::optional<base::TimePoint> stamp,
                                    base::TimePoint arrived) noexcept;
  // [streaming] Once for each decoded buffer: whether its picture is damaged. `corrupted`: the decoder says so.
  [[nodiscard]] bool is_damaged(GstClockTime pts, bool corrupted, base::TimePoint now) noexcept;
  // [streaming] A compressed picture goes to a decoder that is no element of the pipeline. Those are watched anyway.
  void decodes(GstBuffer* coded) noexcept;
  // [streaming] A time that needs no estimate: a file's.
  [[nodiscard]] CaptureTime known(base::TimePoint captured, base::TimePoint arrived) noexcept;
  [[nodiscard]] ClockStatus status() const noexcept;
  [[nodiscard]] UpstreamLosses losses() const noexcept;  // [any]
  // [any] Whether a packet of RTP has come since connect().
  [[nodiscard]] bool has_packets() const noexcept { return has_packets_; }
  // [any] Whether pictures' packets come at this time, and have for half a second, whatever becomes of them.
  [[nodiscard]] bool packets_arrive() const noexcept;

 private:
  struct Connection;
  struct Tap;                                     // one jitter buffer
  static constexpr std::size_t kPictures = 2048;  // more than wait anywhere: half a minute at 60 pictures a second
  struct Picture {
    std::uint32_t rtp = 0;
    std::uint32_t tap = 0;                    // 0: none
    GstClockTime name = GST_CLOCK_TIME_NONE;  // none before it has left the jitter buffer
    CameraStamp stamp;
  };

  // `held`: a Held<Connection> or a Held<Tap>.
  static void on_element(GstBin*, GstBin*, GstElement* element, gpointer held);
  static void watch_driver(GstElement* element, const std::shared_ptr<Connection>& connection);
  static GstPadProbeReturn on_driver(GstPad*, GstPadProbeInfo* info, gpointer held);
  static void on_pad(GstElement*, GstPad* pad, gpointer held);
  static GstPadProbeReturn on_arrival(GstPad* pad, GstPadProbeInfo* info, gpointer held);
  static GstPadProbeReturn on_departure(GstPad*, GstPadProbeInfo* info, gpointer held);
  static GstPadProbeReturn on_decode(GstPad*, GstPadProbeInfo* info, gpointer held);
  static void watch_decoder(GstElement* element, const std::shared_ptr<Connection>& connection);
  static GstPadProbeReturn on_report(GstPad*, GstPadProbeInfo* info, gpointer held);
  [[nodiscard]] bool accepts(Tap& tap, base::TimePoint now) CAMD_REQUIRES(mutex_);
  void note_packets(const Tap& tap) noexcept;
  void arrived(Tap& tap, std::uint32_t rtp, base::TimePoint now) noexcept;
  void departed(Tap& tap, std::uint32_t rtp, GstClockTime pts, bool holed) noexcept;
  void lost(const Tap& tap, unsigned packets, bool from_open) noexcept;
  void reported(Tap& tap, std::uint32_t rtp, std::int64_t wall_ns) noexcept;
  [[nodiscard]] const Picture* find(GstClockTime pts) const CAMD_REQUIRES(mutex_);

  const base::Clock& clock_;
  std::atomic<bool> has_packets_{false};
  mutable base::Mutex mutex_;
  CameraClock times_ CAMD_GUARDED_BY(mutex_){CameraClock::Stamps::kMonotonic};
  std::uint32_t connection_ CAMD_GUARDED_BY(mutex_) = 0;
  std::uint32_t taps_ CAMD_GUARDED_BY(mutex_) = 0;        // made
  std::uint32_t active_tap_ CAMD_GUARDED_BY(mutex_) = 0;  // whose packets are the pictures'; 0: none yet
  bool several_ CAMD_GUARDED_BY(mutex_) = false;          // more than one at a time: nobody knows whose pictures come
  bool fresh_ CAMD_GUARDED_BY(mutex_) = true;             // the connection has shown nothing yet
  base::TimePoint last_packet_ CAMD_GUARDED_BY(mutex_);
  base::TimePoint packets_since_ CAMD_GUARDED_BY(mutex_);            // without a pause
  std::array<Picture, kPictures> pictures_ CAMD_GUARDED_BY(mutex_);  // the last ones, in a circle
  std::size_t next_ CAMD_GUARDED_BY(mutex_) = 0;
  PictureLosses losses_ CAMD_GUARDED_BY(mutex_);
};

}  // namespace camd::capture
