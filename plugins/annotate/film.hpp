// What `annotate` writes of one camera: a film, or single pictures. Chooses names that nothing has yet, keeps the
// film's times, and begins another film where the file has been renamed or removed.
//
// Threads: constructor [setup] or [beside]; finish() likewise, after the last frame; the rest [post].
// Invariants: nothing that lies in the folder already is replaced, but for a picture without {sequence}, which is
// always
//   the latest. No call but finish() waits for the encoder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/annotate/image_writer.hpp"
#include "plugins/annotate/video_writer.hpp"
#include "plugins/camd_plugin.hpp"

namespace camd::plugins {

struct FilmOptions {
  bool video = false;
  int crf = 23;
  std::uint64_t every = 1;
  std::int64_t period_ns = 0;  // least time between two pictures; 0: no limit
};

class Film final : public camd::plugin::Postprocessor::Camera {
 public:
  // `path` has times and {sequence} still in it. Opens the first file. Throws std::invalid_argument.
  Film(camd::plugin::Host host, std::string camera, std::string path, const FilmOptions& options);

  // Whether this frame is drawn; then a picture of it is to follow, from writer().begin() to commit() or skip().
  [[nodiscard]] bool wants(const camd_frame& frame, std::int64_t now_ns);
  [[nodiscard]] GstWriter& writer() const {
    return video_ ? static_cast<GstWriter&>(*video_) : static_cast<GstWriter&>(*images_);
  }
  void commit(const camd_frame& frame);
  void skip() noexcept { ++skipped_; }
  // Ends the film and begins the next one. Throws std::invalid_argument; goes on with the one that was then.
  void reopen();
  // Throws std::runtime_error with what could not be finished.
  void finish() override;

 private:
  void follow(std::int64_t now_ns);
  void begin();

  const camd::plugin::Host host_;
  const std::string camera_, path_;
  const FilmOptions options_;
  std::unique_ptr<VideoWriter> video_;
  std::unique_ptr<ImageWriter> images_;
  std::string images_path_;
  std::vector<std::unique_ptr<VideoWriter>> ending_;  // have got their last picture
  std::uint64_t seen_ = 0, written_ = 0, skipped_ = 0;
  bool failed_ = false;
  bool told_ = false;  // that the next film cannot be begun
  std::int64_t next_look_ns_ = 0;
  std::optional<std::int64_t> first_ns_;  // capture stamp of the first picture
  std::int64_t pts_ns_ = -1, duration_ns_ = 33'333'333;
};

}  // namespace camd::plugins
