// MP4 of one camera. Written beside its name as NAME.partial.mp4 in fragments of a second, so that even a killed camd
// leaves a film that plays; renamed when finished. Takes a name that no film has, finished or not: NAME.mp4,
// NAME-2.mp4, NAME-3.mp4, ...
//
// Threads: as GstWriter; the constructor and finish() after ended() also [post].
#pragma once

#include <string>

#include "plugins/annotate/gst_writer.hpp"
#include "plugins/paths.hpp"

namespace camd::plugins {

struct VideoOptions {
  int crf = 23;  // H.264's constant rate factor: lower is better and larger
};

class VideoWriter final : public GstWriter {
 public:
  // Opens the file. Throws std::invalid_argument: missing encoder, folder, rights.
  VideoWriter(const std::string& path, const VideoOptions& options);
  ~VideoWriter() override;

  // The name that the film will have.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const std::string& partial_path() const noexcept { return partial_; }
  // Whether the file still has its name: nobody has renamed or removed it.
  [[nodiscard]] bool is_there() const { return file_at(partial_) == id_; }
  // Finishes and renames; nothing is left behind when no picture came, and a file that somebody has renamed keeps that
  // name. Returns what could not be done.
  [[nodiscard]] std::string finish();

 private:
  void sized(Size size) override;

  [[nodiscard]] std::string rename_to_free();

  const std::string wanted_;
  std::string path_, partial_;
  FileId id_;  // of the partial file
  bool finished_ = false;
};

}  // namespace camd::plugins
