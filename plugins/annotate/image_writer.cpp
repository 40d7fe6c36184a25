#include "plugins/annotate/image_writer.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>
#include <utility>

#include "plugins/paths.hpp"

namespace camd::plugins {
namespace {

std::string pipeline_text(const std::string& path) {
  init_gstreamer();
  const bool png = std::filesystem::path(path).extension() == ".png";
  const char* encoder = png ? "pngenc" : "jpegenc";
  if (!has_element(encoder)) {
    throw std::invalid_argument(std::string("GStreamer has no ") + encoder + ": apt install gstreamer1.0-plugins-good");
  }
  return std::string("appsrc name=source ! ") + (png ? "videoconvert ! pngenc compression-level=1" : "jpegenc") +
         " ! appsink name=sink sync=false async=false";
}

}  // namespace

ImageWriter::ImageWriter(std::string path) : GstWriter(pipeline_text(path)), path_(std::move(path)) {
  create_parents(path_);
  const GstPtr<GstElement> sink(element("sink"));
  GstAppSinkCallbacks callbacks{};
  callbacks.new_sample = &ImageWriter::on_sample;
  gst_app_sink_set_callbacks(GST_APP_SINK(sink.get()), &callbacks, this, nullptr);
  start();
}

ImageWriter::~ImageWriter() { static_cast<void>(finish()); }

GstFlowReturn ImageWriter::on_sample(GstAppSink* sink, gpointer self) {
  GstSample* sample = gst_app_sink_pull_sample(sink);
  if (sample == nullptr) return GST_FLOW_EOS;
  static_cast<ImageWriter*>(self)->write_picture(gst_sample_get_buffer(sample));
  gst_sample_unref(sample);
  return GST_FLOW_OK;
}

void ImageWriter::write_picture(GstBuffer* buffer) {
  GstMapInfo map{};
  if (gst_buffer_map(buffer, &map, GST_MAP_READ) == FALSE) return;
  // Nothing may be thrown into GStreamer.
  try {
    const std::string sequence = fmt::format("{:06}", GST_BUFFER_PTS(buffer));
    write_whole_file(replaced(path_, "{sequence}", sequence), map.data, map.size);
  } catch (const std::exception& e) {
    const std::lock_guard lock(mutex_);
    if (write_problem_.empty()) write_problem_ = e.what();
  }
  gst_buffer_unmap(buffer, &map);
}

std::string ImageWriter::write_problem() {
  const std::lock_guard lock(mutex_);
  return write_problem_;
}

std::string ImageWriter::finish() {
  if (std::exchange(finished_, true)) return {};
  std::string problem;
  if (fed()) {
    problem = drain(kFinishTimeoutNs);
  } else {
    stop();
  }
  return problem.empty() ? write_problem() : problem;
}

}  // namespace camd::plugins
