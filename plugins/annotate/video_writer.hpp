// MP4 of one camera. Written beside its name as NAME.partial.mp4 in fragments of a second, so that even a killed camd
// leaves a film that plays; renamed when finished.
//
// Threads: as GstWriter.
#pragma once

#include <string>

#include "plugins/annotate/gst_writer.hpp"

namespace camd::plugins {

struct VideoOptions {
  int crf = 23;  // H.264's constant rate factor: lower is better and larger
};

class VideoWriter final : public GstWriter {
 public:
  // Opens the file. Throws std::invalid_argument: missing encoder, folder, rights, a second writer.
  VideoWriter(std::string path, const VideoOptions& options);
  ~VideoWriter() override;

  // Finishes and renames; nothing is left behind when no picture came. Returns what could not be done.
  [[nodiscard]] std::string finish();

 private:
  void sized(Size size) override;

  std::string path_, partial_;
  int lock_ = -1;  // the partial file, locked: two writers would ruin it
};

}  // namespace camd::plugins
