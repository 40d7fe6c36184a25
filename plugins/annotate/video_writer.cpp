#include "plugins/annotate/video_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "plugins/paths.hpp"

namespace camd::plugins {
namespace {

// The encoder that is there, best first. All of them without look-ahead: every picture that is kept back is memory.
// x264enc writes MP4's form of H.264 itself: h264parse would give the last picture no duration where rates vary.
std::string encoder_text(const VideoOptions& options) {
  if (has_element("x264enc")) {
    return "x264enc name=encoder speed-preset=ultrafast tune=zerolatency pass=qual key-int-max=60 threads=1 "
           "quantizer=" +
           std::to_string(options.crf) + " ! video/x-h264,stream-format=avc,alignment=au";
  }
  if (has_element("openh264enc")) {
    return "openh264enc complexity=low rate-control=off gop-size=60 qp-min=" + std::to_string(options.crf) +
           " ! h264parse";
  }
  if (has_element("avenc_mpeg4")) return "avenc_mpeg4 bitrate=6000000 ! mpeg4videoparse";
  throw std::invalid_argument(
      "GStreamer has no encoder for MP4: apt install gstreamer1.0-plugins-ugly (x264enc) or gstreamer1.0-libav");
}

std::string pipeline_text(const VideoOptions& options) {
  init_gstreamer();
  if (!has_element("mp4mux")) {
    throw std::invalid_argument("GStreamer has no mp4mux: apt install gstreamer1.0-plugins-good");
  }
  return "appsrc name=source ! " + encoder_text(options) +
         " ! mp4mux fragment-duration=1000 fragment-mode=first-moov-then-finalise ! filesink name=file async=false";
}

std::string partial_of(const std::string& path) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / (whole.stem().string() + ".partial" + whole.extension().string())).string();
}

bool is_taken(const std::string& path) { return plugins::is_there(path) || plugins::is_there(partial_of(path)); }

// rename() that replaces nothing. Returns errno, 0 when done.
int rename_to_new(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL) return errno;
  // A file system that cannot see to it itself.
  if (plugins::is_there(to)) return EEXIST;
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace

VideoWriter::VideoWriter(const std::string& path, const VideoOptions& options)
    : GstWriter(pipeline_text(options)), wanted_(path) {
  create_parents(path);
  if (std::filesystem::is_directory(path)) throw std::invalid_argument(path + ": is a folder");
  int file = -1;
  do {  // until nobody else is quicker
    path_ = first_free(wanted_, is_taken);
    partial_ = partial_of(path_);
    file = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  } while (file < 0 && errno == EEXIST);
  if (file < 0) throw std::invalid_argument("cannot write " + io_message(partial_, errno));
  ::close(file);
  id_ = file_at(partial_);
  try {
    const GstPtr<GstElement> sink(element("file"));
    g_object_set(sink.get(), "location", partial_.c_str(), nullptr);
    start();
  } catch (...) {
    static_cast<void>(::unlink(partial_.c_str()));
    throw;
  }
}

void VideoWriter::sized(Size size) {
  // One thread takes the least CPU time in all and leaves the other cores to the network; it keeps up to 1080p.
  if (size.width * size.height <= 1920 * 1088 || !has_element("x264enc")) return;
  const GstPtr<GstElement> encoder(element("encoder"));
  g_object_set(encoder.get(), "threads", 0U, nullptr);
}

VideoWriter::~VideoWriter() { static_cast<void>(finish()); }

// Returns what went wrong.
std::string VideoWriter::rename_to_free() {
  int problem = rename_to_new(partial_, path_);
  while (problem == EEXIST) {  // somebody has put a file there meanwhile
    path_ = first_free(wanted_, is_taken);
    problem = rename_to_new(partial_, path_);
  }
  return problem == 0 ? std::string() : "cannot write " + io_message(path_, problem);
}

std::string VideoWriter::finish() {
  if (std::exchange(finished_, true)) return {};
  if (!fed()) {
    stop();
    if (is_there()) static_cast<void>(::unlink(partial_.c_str()));
    return {};
  }
  const std::string problem = drain(kFinishTimeoutNs);
  if (!problem.empty()) return path_ + ": " + problem + "; what was written so far is in " + partial_;
  return is_there() ? rename_to_free() : std::string();
}

}  // namespace camd::plugins
