#include "plugins/annotate/gst_writer.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

namespace camd::plugins {
namespace {

constexpr auto kEnds = static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR);

// Encoding may wait, cameras may not: the pipeline's threads step back behind camd's own. On whichever thread it is.
GstBusSyncReply on_message(GstBus*, GstMessage* message, gpointer) {
  if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_STREAM_STATUS) {
    GstStreamStatusType type = GST_STREAM_STATUS_TYPE_CREATE;
    gst_message_parse_stream_status(message, &type, nullptr);
    if (type == GST_STREAM_STATUS_TYPE_ENTER) {
      constexpr int kNice = 10;
      static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice));
    }
  }
  if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR || GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS) {
    return GST_BUS_PASS;
  }
  gst_message_unref(message);  // nobody reads the others: on the bus they would pile up
  return GST_BUS_DROP;
}

std::string message_text(GstMessage* message) {
  GError* error = nullptr;
  gst_message_parse_error(message, &error, nullptr);
  std::string text = error != nullptr ? error->message : "unknown error";
  g_clear_error(&error);
  return text;
}

}  // namespace

void init_gstreamer() {
  GError* error = nullptr;
  if (gst_init_check(nullptr, nullptr, &error) == FALSE) {
    const std::string text = error != nullptr ? error->message : "unknown error";
    g_clear_error(&error);
    throw std::invalid_argument("GStreamer cannot be started: " + text);
  }
}

bool has_element(const char* name) {
  const GstPtr<GstElementFactory> factory(gst_element_factory_find(name));
  return factory != nullptr;
}

GstWriter::GstWriter(const std::string& description) {
  GError* error = nullptr;
  pipeline_.reset(gst_parse_launch(description.c_str(), &error));
  if (pipeline_ != nullptr) gst_object_ref_sink(pipeline_.get());
  if (error != nullptr || pipeline_ == nullptr) {
    const std::string text = error != nullptr ? error->message : "unknown error";
    g_clear_error(&error);
    throw std::invalid_argument("cannot build the encoder: " + text);
  }
  source_.reset(element("source"));
  g_object_set(source_.get(), "format", GST_FORMAT_TIME, "is-live", TRUE, "block", FALSE, "max-bytes",
               static_cast<guint64>(0), "max-buffers", static_cast<guint64>(2 * kPool), nullptr);
  bus_.reset(gst_element_get_bus(pipeline_.get()));
  gst_bus_set_sync_handler(bus_.get(), &on_message, nullptr, nullptr);
}

GstWriter::~GstWriter() { stop(); }

GstElement* GstWriter::element(const char* name) const noexcept {
  return gst_bin_get_by_name(GST_BIN(pipeline_.get()), name);
}

void GstWriter::start() {
  if (gst_element_set_state(pipeline_.get(), GST_STATE_PLAYING) != GST_STATE_CHANGE_FAILURE) return;
  static_cast<void>(problem());
  const std::string text = problem_.empty() ? "the encoder does not start" : problem_;
  stop();
  throw std::invalid_argument(text);
}

void GstWriter::configure(Size size, const char* colorimetry) {
  sized(size);
  GstCaps* caps =
      gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, "I420", "width", G_TYPE_INT, size.width, "height",
                          G_TYPE_INT, size.height, "framerate", GST_TYPE_FRACTION, 0, 1, "pixel-aspect-ratio",
                          GST_TYPE_FRACTION, 1, 1, "colorimetry", G_TYPE_STRING, colorimetry, nullptr);
  gst_app_src_set_caps(GST_APP_SRC(source_.get()), caps);
  pool_.reset(gst_buffer_pool_new());
  GstStructure* config = gst_buffer_pool_get_config(pool_.get());
  gst_buffer_pool_config_set_params(config, caps, static_cast<guint>(i420_bytes(size)), kPool, kPool);
  const bool good = gst_buffer_pool_set_config(pool_.get(), config) != FALSE &&
                    gst_buffer_pool_set_active(pool_.get(), TRUE) != FALSE;
  gst_caps_unref(caps);
  if (!good) {
    throw std::runtime_error("no memory for pictures of " + std::to_string(size.width) + "x" +
                             std::to_string(size.height));
  }
  size_ = size;
}

std::uint8_t* GstWriter::begin(Size size, const char* colorimetry) {
  if (!size_) configure(size, colorimetry);
  GstBufferPoolAcquireParams params{};
  params.flags = GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT;
  if (gst_buffer_pool_acquire_buffer(pool_.get(), &buffer_, &params) != GST_FLOW_OK) {
    buffer_ = nullptr;
    return nullptr;
  }
  if (gst_buffer_map(buffer_, &map_, GST_MAP_WRITE) == FALSE) {
    gst_clear_buffer(&buffer_);
    return nullptr;
  }
  return map_.data;
}

void GstWriter::commit(std::int64_t pts_ns, std::int64_t duration_ns) {
  gst_buffer_unmap(buffer_, &map_);
  GST_BUFFER_PTS(buffer_) = static_cast<GstClockTime>(pts_ns);
  GST_BUFFER_DURATION(buffer_) = static_cast<GstClockTime>(duration_ns);
  ++pushed_;
  // Takes the reference, also when it fails; why it fails comes over the bus.
  static_cast<void>(gst_app_src_push_buffer(GST_APP_SRC(source_.get()), buffer_));
  buffer_ = nullptr;
}

const std::string& GstWriter::problem() {
  if (!problem_.empty() || bus_ == nullptr) return problem_;
  // Both at once: gst_bus_pop_filtered() throws away what is not asked for.
  if (GstMessage* message = gst_bus_pop_filtered(bus_.get(), kEnds)) note(message);
  return problem_;
}

void GstWriter::note(GstMessage* message) {
  if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
    problem_ = message_text(message);
  } else {
    end_seen_ = true;
  }
  gst_message_unref(message);
}

void GstWriter::end_stream() {
  if (pipeline_ == nullptr || !problem().empty() || std::exchange(end_sent_, true)) return;
  gst_app_src_end_of_stream(GST_APP_SRC(source_.get()));
}

bool GstWriter::ended() { return pipeline_ == nullptr || !problem().empty() || end_seen_; }

std::string GstWriter::drain(std::int64_t timeout_ns) {
  if (pipeline_ == nullptr) return problem_;
  end_stream();
  if (!ended()) {
    GstMessage* message = gst_bus_timed_pop_filtered(bus_.get(), static_cast<GstClockTime>(timeout_ns), kEnds);
    if (message == nullptr) {
      problem_ = "the encoder did not finish within " + std::to_string(timeout_ns / 1'000'000'000) + " s";
    } else {
      note(message);
    }
  }
  stop();
  return problem_;
}

void GstWriter::stop() noexcept {
  if (buffer_ != nullptr) {
    gst_buffer_unmap(buffer_, &map_);
    gst_clear_buffer(&buffer_);
  }
  if (pipeline_ != nullptr) {
    gst_element_set_state(pipeline_.get(), GST_STATE_NULL);
    gst_bus_set_sync_handler(bus_.get(), nullptr, nullptr, nullptr);
  }
  if (pool_ != nullptr) gst_buffer_pool_set_active(pool_.get(), FALSE);
  pool_.reset();
  source_.reset();
  bus_.reset();
  pipeline_.reset();
}

}  // namespace camd::plugins
