#include "plugins/annotate/video_writer.hpp"

#include <fcntl.h>
#include <sys/file.h>
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

std::string partial_path(const std::string& path) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / (whole.stem().string() + ".partial" + whole.extension().string())).string();
}

}  // namespace

VideoWriter::VideoWriter(std::string path, const VideoOptions& options)
    : GstWriter(pipeline_text(options)), path_(std::move(path)), partial_(partial_path(path_)) {
  create_parents(path_);
  if (std::filesystem::is_directory(path_)) throw std::invalid_argument(path_ + ": is a folder");
  lock_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) throw std::invalid_argument("cannot write " + io_message(partial_, errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(std::exchange(lock_, -1));
    throw std::invalid_argument(path_ + ": is being written by another postprocessor or another camd");
  }
  try {
    const GstPtr<GstElement> file(element("file"));
    g_object_set(file.get(), "location", partial_.c_str(), nullptr);
    start();
  } catch (...) {
    static_cast<void>(::unlink(partial_.c_str()));
    ::close(std::exchange(lock_, -1));
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

std::string VideoWriter::finish() {
  if (lock_ < 0) return {};
  std::string problem;
  if (!fed()) {
    stop();
    static_cast<void>(::unlink(partial_.c_str()));
  } else {
    problem = drain(kFinishTimeoutNs);
    if (problem.empty() && std::rename(partial_.c_str(), path_.c_str()) != 0) {
      problem = "cannot write " + io_message(path_, errno);
    } else if (!problem.empty()) {
      problem = path_ + ": " + problem + "; what was written so far is in " + partial_;
    }
  }
  ::close(std::exchange(lock_, -1));
  return problem;
}

}  // namespace camd::plugins
