// A GStreamer pipeline fed with I420 pictures from a small fixed pool: encoding runs on the pipeline's own thread, and
// when it falls behind the pool is empty, so the caller learns at once that this picture has to be left out.
//
// Threads: start(), finish() [setup]; begin(), commit(), problem(), end_stream(), ended() [post].
// Invariants: begin() never blocks; at most kPool pictures are held.
#pragma once

#include <gst/app/gstappsrc.h>
#include <gst/gst.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "plugins/annotate/canvas.hpp"

namespace camd::plugins {

struct GstRelease {
  void operator()(void* object) const noexcept { gst_object_unref(object); }
};
template <class T>
using GstPtr = std::unique_ptr<T, GstRelease>;

// Initialises GStreamer once per process. Throws std::invalid_argument with GStreamer's message.
void init_gstreamer();
[[nodiscard]] bool has_element(const char* name);

class GstWriter {
 public:
  static constexpr unsigned kPool = 4;
  static constexpr std::int64_t kFinishTimeoutNs = 10'000'000'000;  // for drain() at the end of a run

  // `description` is gst_parse_launch text whose source is `appsrc name=source`. Throws std::invalid_argument.
  explicit GstWriter(const std::string& description);
  virtual ~GstWriter();
  GstWriter(const GstWriter&) = delete;
  GstWriter& operator=(const GstWriter&) = delete;

  // A picture to draw on, or nothing when all are still being encoded (or the pipeline has failed).
  // The first call fixes the size and the colours' meaning (`colorimetry`, GStreamer's word).
  [[nodiscard]] std::uint8_t* begin(Size size, const char* colorimetry);
  // Hands the picture of the last begin() to the encoder.
  void commit(std::int64_t pts_ns, std::int64_t duration_ns);
  // The canvas' size; empty before the first begin().
  [[nodiscard]] std::optional<Size> size() const noexcept { return size_; }
  // What went wrong in the pipeline, if anything; does not block.
  [[nodiscard]] const std::string& problem();
  // Whether a picture has been handed over.
  [[nodiscard]] bool fed() const noexcept { return pushed_ > 0; }
  // There will be no more pictures. Does not block.
  void end_stream();
  // After end_stream(): whether all is written, or cannot be. Does not block.
  [[nodiscard]] bool ended();

 protected:
  [[nodiscard]] GstElement* element(const char* name) const noexcept;  // caller unrefs
  // Opens files: call after the elements have their properties. Throws std::invalid_argument.
  void start();
  // Ends the stream and waits until all is written, at most `timeout_ns`; then the pipeline is gone.
  // Returns what could not be done, empty when all is well.
  [[nodiscard]] std::string drain(std::int64_t timeout_ns);
  void stop() noexcept;
  // The size is known, nothing has been encoded yet.
  virtual void sized(Size size) { static_cast<void>(size); }

 private:
  void note(GstMessage* message);  // an end or an error; takes the reference
  void configure(Size size, const char* colorimetry);

  GstPtr<GstElement> pipeline_;
  GstPtr<GstElement> source_;
  GstPtr<GstBus> bus_;
  GstPtr<GstBufferPool> pool_;
  std::optional<Size> size_;
  GstBuffer* buffer_ = nullptr;  // between begin() and commit()
  GstMapInfo map_{};
  std::uint64_t pushed_ = 0;
  bool end_sent_ = false, end_seen_ = false;
  std::string problem_;
};

}  // namespace camd::plugins
