#include "capture/gst_pictures.hpp"

#include <fmt/format.h>

#include "base/log.hpp"
#include "capture/gst_picture.hpp"

namespace camd::capture {

using base::ErrorKind;
using base::MutexLock;
using base::TimePoint;

GstPictures::GstPictures(const config::Camera& camera, FrameRing& ring, const base::Clock& clock, unsigned held)
    : camera_(camera),
      ring_(ring),
      clock_(clock),
      held_(held),
      lossless_(is_lossless(camera)),
      paced_(std::holds_alternative<config::FileSource>(camera.source) && !lossless_),
      times_(std::make_shared<StreamTimes>(clock)) {}

// ---- [control]

void GstPictures::open(GstElement* pipeline, bool compressed, bool on_device) {
  on_device_ = on_device;
  if (!compressed) decoder_.reset();
  if (compressed && !decoder_) {
    device::VideoDecoderOptions limits;
    limits.held = static_cast<int>(held_);
    limits.most_pixels = std::int64_t{camera_.max_megapixels} * 1'000'000;
    limits.tells_damage = camera_.damaged == config::DamagedMode::kDrop;
    decoder_ = std::make_unique<SampleDecoder>(ring_.device(), limits, static_cast<DecodedTaker&>(*this));
  }
  if (decoder_) decoder_->begin();
  DecoderNote::watch(decoded_by_, compressed ? nullptr : pipeline);
  {
    const MutexLock lock(mutex_);
    closing_ = false;
  }
  any_ = false;
  if (!paced_ && !lossless_) times_->connect(pipeline);
  begin_round();
}

void GstPictures::begin_round() {
  of_this_round_ = 0;
  const MutexLock lock(mutex_);
  pace_.start_round();
}

void GstPictures::close() noexcept {
  const MutexLock lock(mutex_);
  closing_ = true;
  changed_.notify_all();
}

void GstPictures::stop() noexcept {
  const MutexLock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

// ---- [streaming]

bool GstPictures::take_sample(GstSample* sample, GstElement* pipeline) noexcept {
  if (decoder_) {
    times_->decodes(gst_sample_get_buffer(sample));
    return decoded(decoder_->decode(sample, pipeline), pipeline);
  }
  return deliver(stamp_of(sample), pipeline, [this, sample](FillLease& lease) {
    return fill_from_sample(lease, ring_.may_borrow(), on_device_, sample);
  });
}

void GstPictures::take_end(GstElement* pipeline) noexcept {
  if (decoder_) (void)decoded(decoder_->end(pipeline), pipeline);
}

bool GstPictures::take_decoded(LentPicture& picture, const StreamStamp& stamp, GstElement* pipeline) noexcept {
  return deliver(stamp, pipeline, [this, &picture](FillLease& lease) -> std::string {
    if (const base::Status ready = ring_.device().synchronize(*picture->ready); !ready.ok()) return ready.message();
    lease.borrow_on_device(picture->layout,
                           {picture->data, picture->layout.size_bytes, picture->release, picture->argument});
    picture.take_over();
    return "";
  });
}

bool GstPictures::gives_up() noexcept {
  const MutexLock lock(mutex_);
  return stopping_ || closing_;
}

// What follows from the decoder's answer. False: no more samples are wanted.
bool GstPictures::decoded(const base::Status& status, GstElement* pipeline) {
  if (status.ok()) return decoder_->wanted();
  if (status.kind() == ErrorKind::kSource) {
    gst_element_post_message(pipeline, refused_message(pipeline, status.message()));
  }
  return false;
}

// `fill` puts the picture into the slot that it is given, and says what is wrong or "".
template <typename Fill>
bool GstPictures::deliver(const StreamStamp& stamp, GstElement* pipeline, const Fill& fill) {
  TimePoint arrived = clock_.now();
  CaptureTime time;
  if (paced_) {
    time.captured = due(stamp, arrived);
    if (!wait_until_due(time.captured)) return false;
    arrived = clock_.now();
    time = times_->known(time.captured, arrived);
  } else if (!lossless_) {
    time = times_->picture(stamp.pts, stamp.on_clock(pipeline), arrived);
    tell_steps();
  }
  const bool damaged = is_damaged(stamp, arrived);
  if (ring_.closed()) return false;
  std::optional<FillLease> lease = ring_.begin();
  if (lossless_) time.captured = arrived = clock_.now();  // waiting for a slot is the file's time, not the frame's
  last_ns_ = base::to_ns(arrived);
  if (lease && !(damaged && camera_.damaged == config::DamagedMode::kDrop)) {
    std::string problem;
    try {
      problem = fill(*lease);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (problem.empty()) {
      copied_bytes_ += lease->own_bytes();
      lease->publish(time.captured, arrived, time.uncertainty, damaged);
    } else {
      tell_once(told_problem_, "frames are dropped as source_error: " + problem);
    }
  }
  ++of_this_round_;
  if (!any_.exchange(true)) {
    if (decoder_) decoded_by_->set({decoder_->name(), "cuda:" + std::to_string(ring_.device().info().index)});
    gst_element_post_message(
        pipeline, gst_message_new_application(GST_OBJECT(pipeline), gst_structure_new_empty(kFirstFrameMessage)));
  }
  return true;
}

bool GstPictures::is_damaged(const StreamStamp& stamp, TimePoint arrived) noexcept {
  return times_->is_damaged(paced_ || lossless_ ? GST_CLOCK_TIME_NONE : stamp.pts, stamp.corrupted, arrived);
}

TimePoint GstPictures::due(const StreamStamp& stamp, TimePoint now) {
  TimePoint due;
  bool moved = false;
  {
    const MutexLock lock(mutex_);
    due = pace_.due(stamp.running, stamp.shown, now);
    moved = pace_.moved();
  }
  if (moved) tell_once(told_moved_, "more than a second late, its schedule moves");
  return due;
}

// False when the pipeline is being closed.
bool GstPictures::wait_until_due(TimePoint due) {
  const MutexLock lock(mutex_);
  while (!stopping_ && !closing_ && clock_.now() < due) (void)clock_.wait_until(changed_, mutex_, due);
  return !stopping_ && !closing_;
}

// One line for a step of the stamps; for a camera whose stamps step all the time, one a minute.
void GstPictures::tell_steps() {
  const std::uint64_t steps = times_->status().steps;
  const TimePoint now = clock_.now();
  if (steps == told_steps_ || (told_steps_ > 0 && now - told_steps_at_ < std::chrono::minutes(1))) return;
  base::log().warn(
      "camera {}: its time stamps have stepped, started over or stood still ({} times since the start); "
      "its clock is estimated anew",
      camera_.name, steps);
  told_steps_ = steps;
  told_steps_at_ = now;
}

void GstPictures::tell_once(bool& told, const std::string& what) const {
  if (!told) base::log().warn("camera {}: {}", camera_.name, what);
  told = true;
}

}  // namespace camd::capture
