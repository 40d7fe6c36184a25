// Single pictures of one camera, PNG or JPEG, encoded and written on the pipeline's thread; each appears whole or not
// at all. A path without {sequence} is replaced every time: the latest picture.
//
// Threads: as GstWriter; write_picture() on the pipeline's streaming thread.
#pragma once

#include <gst/app/gstappsink.h>

#include <mutex>
#include <string>

#include "plugins/annotate/gst_writer.hpp"

namespace camd::plugins {

class ImageWriter final : public GstWriter {
 public:
  // `path` may hold {sequence}; its extension is .png, .jpg or .jpeg. Throws std::invalid_argument.
  explicit ImageWriter(std::string path);
  ~ImageWriter() override;

  // commit() with the frame's sequence number in place of a time: it names the file.
  void commit_picture(std::uint64_t sequence) { commit(static_cast<std::int64_t>(sequence), 1); }
  // The first picture that could not be written, if any.
  [[nodiscard]] std::string write_problem();
  // Waits for the pictures under way. Returns what could not be done.
  [[nodiscard]] std::string finish();

 private:
  static GstFlowReturn on_sample(GstAppSink* sink, gpointer self);
  void write_picture(GstBuffer* buffer);

  std::string path_;
  std::mutex mutex_;
  std::string write_problem_;  // guarded by mutex_
  bool finished_ = false;
};

}  // namespace camd::plugins
