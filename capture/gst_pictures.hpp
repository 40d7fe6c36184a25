// GstPictures: what becomes of the samples of one camera's pipelines. Each gets its capture time, waits until it is due
// where a file is shown in real time, is decoded where camd decodes by itself, and goes into a slot of the ring.
//
// Threads: samples [streaming], one thread after the other, with a detach() or the end of the stream between them;
// open() and begin_round() [control], while nothing streams; all else [any].
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/mutex.hpp"
#include "capture/file_pace.hpp"
#include "capture/gst_connection.hpp"
#include "capture/sample_decoder.hpp"
#include "capture/stream_times.hpp"
#include "config/config.hpp"

namespace camd::capture {

// The application message that the first picture of a pipeline posts.
inline constexpr const char* kFirstFrameMessage = "camd-first-frame";

class GstPictures final : public SampleTaker, private DecodedTaker {
 public:
  // All must outlive it. `held`: buffers that camd keeps at once.
  GstPictures(const config::Camera& camera, FrameRing& ring, const base::Clock& clock, unsigned held);

  // Before the pipeline leaves the state NULL. `compressed`: its samples are; `on_device`: its decoders leave pictures
  // in the device's memory.
  void open(GstElement* pipeline, bool compressed, bool on_device);
  void begin_round();
  // A frame that waits until it is due is let go: the pipeline is being closed, or the source stopped for good.
  void close() noexcept;
  void stop() noexcept;

  [[nodiscard]] bool any() const noexcept { return any_; }  // since open()
  [[nodiscard]] base::TimePoint last() const noexcept { return base::from_ns(last_ns_); }
  [[nodiscard]] std::uint64_t of_this_round() const noexcept { return of_this_round_; }
  [[nodiscard]] const StreamTimes& times() const noexcept { return *times_; }
  [[nodiscard]] std::uint64_t copied_bytes() const noexcept { return copied_bytes_; }
  [[nodiscard]] DecoderStatus decoder() const { return decoded_by_->status(); }
  // [control] True while camd's own decoder waits for the driver to make it.
  [[nodiscard]] bool waits_for_decoder() const { return decoder_ && decoder_->waits(); }

  bool take_sample(GstSample* sample, GstElement* pipeline) noexcept override;
  void take_end(GstElement* pipeline) noexcept override;

 private:
  bool take_decoded(LentPicture& picture, const StreamStamp& stamp, GstElement* pipeline) noexcept override;
  [[nodiscard]] bool gives_up() noexcept override;
  bool decoded(const base::Status& status, GstElement* pipeline);
  template <typename Fill>
  bool deliver(const StreamStamp& stamp, GstElement* pipeline, const Fill& fill);
  [[nodiscard]] bool is_damaged(const StreamStamp& stamp, base::TimePoint arrived) noexcept;
  [[nodiscard]] base::TimePoint due(const StreamStamp& stamp, base::TimePoint now);
  [[nodiscard]] bool wait_until_due(base::TimePoint due);
  void tell_steps();
  void tell_once(bool& told, const std::string& what) const;

  const config::Camera& camera_;
  FrameRing& ring_;
  const base::Clock& clock_;
  const unsigned held_;
  const bool lossless_;
  const bool paced_;  // a file in real time

  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ CAMD_GUARDED_BY(mutex_) = false;
  bool closing_ CAMD_GUARDED_BY(mutex_) = false;
  FilePace pace_ CAMD_GUARDED_BY(mutex_);

  std::atomic<bool> any_{false};
  std::atomic<std::int64_t> last_ns_{0};
  std::atomic<std::uint64_t> of_this_round_{0};
  std::atomic<bool> on_device_{false};
  std::atomic<std::uint64_t> copied_bytes_{0};

  // [streaming]
  std::unique_ptr<SampleDecoder> decoder_;  // made by [control] while nothing streams; null: GStreamer decodes
  const std::shared_ptr<DecoderNote> decoded_by_ = std::make_shared<DecoderNote>();
  const std::shared_ptr<StreamTimes> times_;
  std::uint64_t told_steps_ = 0;
  base::TimePoint told_steps_at_;
  bool told_moved_ = false;
  bool told_problem_ = false;
};

}  // namespace camd::capture
