#include "capture/gst_pipelines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gst/base/gstbasesrc.h>
#include <gst/sdp/gstsdpmessage.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "capture/gst_held.hpp"
#include "capture/gst_picture.hpp"
#include "capture/gst_size_bound.hpp"
#include "capture/sample_decoder.hpp"
#include "capture/state_worker.hpp"

namespace camd::capture {
namespace {

using base::Error;
using base::ErrorKind;

constexpr const char* kSinkName = "camd";

// Of the decoded pictures.
struct PictureWish {
  unsigned held;  // buffers that camd may keep at a time
  const Decoding& decoding;
  std::shared_ptr<MemoryLender> lender;  // null: nobody lends
};

// What an element that asks before it allocates is told.
struct Allocations {
  unsigned held;
  std::shared_ptr<MemoryLender> lender;
};

GstPadProbeReturn on_sink_query(GstPad*, GstPadProbeInfo* info, gpointer user) {
  GstQuery* const query = GST_PAD_PROBE_INFO_QUERY(info);
  if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION) return GST_PAD_PROBE_OK;
  const Held<Allocations>::Use told(user);
  answer_allocation(query, told->held, told->lender);
  return GST_PAD_PROBE_HANDLED;
}

// The sink hands every sample on at once, so its queue of one never fills: what is dropped is dropped in our ring,
// where it is counted. `sync` paces by the clock.
void set_up_sink(GstElement* sink, bool sync, const PictureWish& wanted) {
  const GstOwned<GstCaps> caps = accepted_caps(wanted.decoding.on_device());
  g_object_set(sink, "caps", caps.get(), "sync", static_cast<gboolean>(sync), "max-buffers", 1U, "drop", FALSE,
               "enable-last-sample", FALSE, "qos", FALSE, nullptr);
  const GstOwned<GstPad> pad(gst_element_get_static_pad(sink, "sink"));
  gst_pad_add_probe(pad.get(), GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM, &on_sink_query,
                    Held<Allocations>::make(std::make_shared<Allocations>(Allocations{wanted.held, wanted.lender})),
                    &Held<Allocations>::let_go);
}

// Frame threads hold pictures back, slice threads do not.
void on_deep_element(GstBin*, GstBin*, GstElement* element, gpointer) {
  GstElementFactory* const factory = gst_element_get_factory(element);
  if (factory == nullptr || !g_str_has_prefix(GST_OBJECT_NAME(factory), "avdec_")) return;
  if (g_object_class_find_property(G_OBJECT_GET_CLASS(element), "thread-type") == nullptr) return;
  gst_util_set_object_arg(G_OBJECT(element), "thread-type", "slice");
}

GstOwned<GstElement> new_pipeline() {
  GstOwned<GstElement> pipeline(GST_ELEMENT(gst_object_ref_sink(gst_pipeline_new("camd-pipeline"))));
  return pipeline;
}

void use_monotonic_clock(GstElement* pipeline) {
  GstClock* const clock = gst_system_clock_obtain();  // GST_CLOCK_TYPE_MONOTONIC, and nobody here changes that
  gst_pipeline_use_clock(GST_PIPELINE(pipeline), clock);
  gst_object_unref(clock);
}

// Adds `element` to the pipeline, which owns it from now on.
GstElement* add(GstElement* pipeline, GstElement* element) {
  gst_bin_add(GST_BIN(pipeline), element);
  return element;
}

void link(GstElement* from, GstElement* to) {
  if (gst_element_link(from, to) == FALSE) {
    throw Error(ErrorKind::kInternal,
                fmt::format("GStreamer cannot link {} to {}", GST_OBJECT_NAME(from), GST_OBJECT_NAME(to)));
  }
}

// Other streams than video come out as they are, nobody decodes them.
gboolean on_autoplug(GstElement*, GstPad*, GstCaps* caps, gpointer) {
  if (gst_caps_get_size(caps) == 0) return TRUE;
  const std::string_view name = gst_structure_get_name(gst_caps_get_structure(caps, 0));
  for (const std::string_view other : {"audio/", "text/", "subpicture/", "closedcaption/"}) {
    if (name.substr(0, other.size()) == other) return FALSE;
  }
  return TRUE;
}

void on_decoded_pad(GstElement*, GstPad* pad, gpointer converter) {
  const GstOwned<GstCaps> caps(gst_pad_query_caps(pad, nullptr));
  if (gst_caps_get_size(caps.get()) == 0) return;
  const GstStructure* const first = gst_caps_get_structure(caps.get(), 0);
  if (gst_structure_has_name(first, "video/x-raw") == FALSE) return;
  const GstOwned<GstPad> target(gst_element_get_static_pad(GST_ELEMENT(converter), "sink"));
  if (gst_pad_is_linked(target.get()) == FALSE) (void)gst_pad_link(pad, target.get());  // the first video wins
}

void on_no_more_pads(GstElement* decoder, gpointer converter) {
  const GstOwned<GstPad> target(gst_element_get_static_pad(GST_ELEMENT(converter), "sink"));
  if (gst_pad_is_linked(target.get()) != FALSE) return;
  gst_element_post_message(decoder,
                           gst_message_new_application(GST_OBJECT(decoder), gst_structure_new_empty(kNoVideoMessage)));
}

// ---- Compressed pictures, for the device's decoders

bool is_video(const GstCaps* caps) {
  const std::string_view media = gst_structure_get_name(gst_caps_get_structure(caps, 0));
  return media.starts_with("video/") || media.starts_with("image/");
}

// What the device decodes comes out before any parser, and other streams than video as they are.
gboolean on_parser_autoplug(GstElement* bin, GstPad* pad, GstCaps* caps, gpointer user) {
  return compressed_kind_of(caps) != nullptr ? FALSE : on_autoplug(bin, pad, caps, user);
}

// Links the pad of `from` with the sink, by a parser where its kind needs one. The first video wins.
void link_compressed(GstElement* from, GstPad* pad, GstElement* sink) {
  const GstOwned<GstPad> target(gst_element_get_static_pad(sink, "sink"));
  if (gst_pad_is_linked(target.get()) != FALSE) return;
  GstCaps* known = gst_pad_get_current_caps(pad);
  if (known == nullptr) known = gst_pad_query_caps(pad, nullptr);
  const GstOwned<GstCaps> caps(known);
  if (gst_caps_is_any(known) != FALSE || gst_caps_get_size(known) == 0 || !is_video(known)) return;
  const CompressedKind* const kind = compressed_kind_of(known);
  if (kind == nullptr) {
    const char* const media = gst_structure_get_name(gst_caps_get_structure(known, 0));
    gst_element_post_message(from, refused_message(from, fmt::format("the GPU has no decoder for {}", media)));
    return;
  }
  const GstOwned<GstCaps> wanted(gst_caps_from_string(kind->caps));
  g_object_set(sink, "caps", wanted.get(), nullptr);
  const char* const parser_name = kind->parser;
  if (parser_name == nullptr) {
    (void)gst_pad_link(pad, target.get());
    return;
  }
  GstElement* const parser = gst_element_factory_make(parser_name, nullptr);
  if (parser == nullptr) {
    gst_element_post_message(from, refused_message(from, fmt::format("GStreamer has no {}", parser_name)));
    return;
  }
  // Parameter sets with every key picture: a file that starts anew is a stream that begins.
  if (g_object_class_find_property(G_OBJECT_GET_CLASS(parser), "config-interval") != nullptr) {
    g_object_set(parser, "config-interval", -1, nullptr);
  }
  const GstOwned<GstObject> pipeline(gst_element_get_parent(sink));
  gst_bin_add(GST_BIN(pipeline.get()), parser);
  (void)gst_element_sync_state_with_parent(parser);
  const GstOwned<GstPad> input(gst_element_get_static_pad(parser, "sink"));
  if (gst_element_link(parser, sink) == FALSE || GST_PAD_LINK_FAILED(gst_pad_link(pad, input.get()))) {
    gst_element_post_message(from, refused_message(from, fmt::format("GStreamer cannot link {}", parser_name)));
  }
}

void on_parsed_pad(GstElement* bin, GstPad* pad, gpointer sink) { link_compressed(bin, pad, GST_ELEMENT(sink)); }

void on_no_more_parsed_pads(GstElement* bin, gpointer sink) {
  const GstOwned<GstPad> target(gst_element_get_static_pad(GST_ELEMENT(sink), "sink"));
  if (gst_pad_is_linked(target.get()) != FALSE) return;
  gst_element_post_message(bin, gst_message_new_application(GST_OBJECT(bin), gst_structure_new_empty(kNoVideoMessage)));
}

GstElement* add_compressed_sink(BuiltPipeline& built) {
  GstElement* const sink = add(built.pipeline.get(), make_element("appsink", kSinkName));
  g_object_set(sink, "sync", FALSE, "max-buffers", 1U, "drop", FALSE, "enable-last-sample", FALSE, "qos", FALSE,
               nullptr);
  built.compressed = true;
  built.sink.reset(GST_ELEMENT(gst_object_ref(sink)));
  return sink;
}

// Finds out what a stream is, and hands what the device decodes to the sink.
GstElement* add_parsebin(GstElement* pipeline, GstElement* sink) {
  GstElement* const parser = add(pipeline, make_element("parsebin", "parser"));
  g_signal_connect(parser, "autoplug-continue", G_CALLBACK(&on_parser_autoplug), nullptr);
  g_signal_connect(parser, "pad-added", G_CALLBACK(&on_parsed_pad), sink);
  g_signal_connect(parser, "no-more-pads", G_CALLBACK(&on_no_more_parsed_pads), sink);
  return parser;
}

// decodebin ! videoconvert ! appsink at the end of the pipeline, or what leaves the decoding to the device; returns the
// first of it.
GstElement* add_decoding_tail(BuiltPipeline& built, const PictureWish& wanted) {
  GstElement* const pipeline = built.pipeline.get();
  if (wanted.decoding.direct) return add_parsebin(pipeline, add_compressed_sink(built));
  GstElement* const decoder = add(pipeline, make_element("decodebin", "decoder"));
  GstElement* const converter = add(pipeline, make_element("videoconvert", "converter"));
  GstElement* const sink = add(pipeline, make_element("appsink", kSinkName));
  link(converter, sink);
  g_signal_connect(decoder, "autoplug-continue", G_CALLBACK(&on_autoplug), nullptr);
  g_signal_connect(decoder, "pad-added", G_CALLBACK(&on_decoded_pad), converter);
  g_signal_connect(decoder, "no-more-pads", G_CALLBACK(&on_no_more_pads), converter);
  set_up_sink(sink, false, wanted);
  use_decoders(wanted.decoding, pipeline, decoder);
  built.sink.reset(GST_ELEMENT(gst_object_ref(sink)));
  return decoder;
}

void avoid_frame_threads(GstElement* pipeline) {
  g_signal_connect(pipeline, "deep-element-added", G_CALLBACK(&on_deep_element), nullptr);
}

struct RtspLogin {
  std::string location;  // the URL without its login
  std::string user;
  std::string password;
};

std::string unescaped(const char* text) {
  const GstOwned<gchar> plain(g_uri_unescape_string(text, nullptr));
  return plain ? std::string(plain.get()) : std::string(text);
}

// rtspsrc writes its location into messages and logs: the login goes by its own properties.
RtspLogin split_login(const std::string& url) {
  RtspLogin login;
  login.location = url;
  const std::size_t authority = url.find("://");
  if (authority == std::string::npos) return login;
  const std::size_t start = authority + 3;
  const std::size_t end = std::min(url.find_first_of("/?#", start), url.size());
  const std::size_t at = url.substr(0, end).rfind('@');
  if (at == std::string::npos || at < start) return login;
  const std::string info = url.substr(start, at - start);
  const std::size_t colon = info.find(':');
  login.user = unescaped(info.substr(0, colon).c_str());
  if (colon != std::string::npos) login.password = unescaped(info.substr(colon + 1).c_str());
  login.location = url.substr(0, start) + url.substr(at + 1);
  return login;
}

gboolean on_select_stream(GstElement*, guint, GstCaps* caps, gpointer) {
  const GstStructure* const first = gst_caps_get_structure(caps, 0);
  const char* const media = gst_structure_get_string(first, "media");
  return static_cast<gboolean>(media == nullptr || g_str_equal(media, "video"));
}

// A stream's number (SSRC, RFC 5576) is another one for each session. rtspsrc (1.22) makes names of its attributes, and
// GLib keeps names for ever: two of them for each try at a camera.
void on_description(GstElement*, GstSDPMessage* description, gpointer) {
  for (guint i = 0; i < gst_sdp_message_medias_len(description); ++i) {
    // The signal is there so that the description may be changed.
    auto* const media = const_cast<GstSDPMedia*>(  // NOLINT(cppcoreguidelines-pro-type-const-cast)
        gst_sdp_message_get_media(description, i));
    for (guint each = gst_sdp_media_attributes_len(media); each > 0; --each) {
      const std::string_view key(gst_sdp_media_get_attribute(media, each - 1)->key);
      if (key == "ssrc" || key == "ssrc-group") (void)gst_sdp_media_remove_attribute(media, each - 1);
    }
  }
}

void link_if_free(GstPad* pad, GstElement* to) {
  const GstOwned<GstPad> target(gst_element_get_static_pad(to, "sink"));
  if (gst_pad_is_linked(target.get()) == FALSE) (void)gst_pad_link(pad, target.get());
}

void on_rtsp_pad(GstElement*, GstPad* pad, gpointer decoder) { link_if_free(pad, GST_ELEMENT(decoder)); }

const char* depayloader_of(GstPad* rtp) {
  const GstOwned<GstCaps> caps(gst_pad_get_current_caps(rtp));
  if (!caps) return nullptr;
  const char* const encoding = gst_structure_get_string(gst_caps_get_structure(caps.get(), 0), "encoding-name");
  if (encoding == nullptr) return nullptr;
  if (g_str_equal(encoding, "H264")) return "rtph264depay";
  if (g_str_equal(encoding, "H265")) return "rtph265depay";
  return nullptr;
}

// What the device decodes. A depayloader chooses how its pictures come when the stream's kind is told to it, by what
// follows it then. In a parsebin (1.22) nothing does, and it gives one NAL unit after the other. The parser then knows
// where a picture ends when the next one begins: each picture comes a period late.
void on_direct_rtsp_pad(GstElement* camera, GstPad* pad, gpointer sink_element) {
  constexpr const char* kFirst = "first";
  auto* const sink = GST_ELEMENT(sink_element);
  const GstOwned<GstObject> pipeline(gst_element_get_parent(camera));
  const GstOwned<GstElement> before(gst_bin_get_by_name(GST_BIN(pipeline.get()), kFirst));
  if (before) {  // of another pad, which may have gone: rtspsrc makes them anew for another transport
    link_if_free(pad, before.get());
    return;
  }
  const char* const name = depayloader_of(pad);
  GstElement* first = name == nullptr ? nullptr : gst_element_factory_make(name, kFirst);
  if (first != nullptr) {
    gst_bin_add(GST_BIN(pipeline.get()), first);
    const GstOwned<GstPad> depayed(gst_element_get_static_pad(first, "src"));
    link_compressed(first, depayed.get(), sink);
  } else {
    first = add_parsebin(GST_ELEMENT(pipeline.get()), sink);
    gst_object_set_name(GST_OBJECT(first), kFirst);
  }
  (void)gst_element_sync_state_with_parent(first);
  link_if_free(pad, first);
}

// True for an element that reads from a server: by its class ("Source/Network"), or by the address it was given.
bool reads_network(GstElement* element) {
  if (GstElementFactory* const factory = gst_element_get_factory(element)) {
    const gchar* const kind = gst_element_factory_get_metadata(factory, GST_ELEMENT_METADATA_KLASS);
    if (kind != nullptr && std::string_view(kind).find("Source") != std::string_view::npos &&
        std::string_view(kind).find("Network") != std::string_view::npos) {
      return true;
    }
  }
  GParamSpec* const property = g_object_class_find_property(G_OBJECT_GET_CLASS(element), "uri");
  if (property == nullptr || G_PARAM_SPEC_VALUE_TYPE(property) != G_TYPE_STRING) return false;
  if ((property->flags & G_PARAM_READABLE) == 0) return false;
  gchar* text = nullptr;
  g_object_get(element, "uri", &text, nullptr);
  const GstOwned<gchar> uri(text);
  if (!uri) return false;
  const std::string_view address(uri.get());
  const std::size_t scheme = address.find("://");
  return scheme != std::string_view::npos && address.substr(0, scheme) != "file" && scheme + 3 < address.size();
}

bool has_network_source(GstElement* pipeline) {
  bool network = false;
  GstIterator* const elements = gst_bin_iterate_recurse(GST_BIN(pipeline));
  const auto look = [](const GValue* value, gpointer found) {
    if (reads_network(static_cast<GstElement*>(g_value_get_object(value)))) *static_cast<bool*>(found) = true;
  };
  (void)gst_iterator_foreach(elements, look, &network);
  gst_iterator_free(elements);
  return network;
}

bool has_decoder(GstElement* pipeline) {
  bool decodes = false;
  GstIterator* const elements = gst_bin_iterate_recurse(GST_BIN(pipeline));
  const auto look = [](const GValue* value, gpointer found) {
    GstElementFactory* const factory = gst_element_get_factory(static_cast<GstElement*>(g_value_get_object(value)));
    if (factory == nullptr) return;
    if (gst_element_factory_list_is_type(factory, GST_ELEMENT_FACTORY_TYPE_DECODER) != FALSE) {
      *static_cast<bool*>(found) = true;
    }
  };
  (void)gst_iterator_foreach(elements, look, &decodes);
  gst_iterator_free(elements);
  return decodes;
}

// True when one of the pipeline's sources has its own pace.
bool has_live_source(GstElement* pipeline) {
  bool live = false;
  GstIterator* const sources = gst_bin_iterate_all_by_element_factory_name(GST_BIN(pipeline), "rtspsrc");
  GValue item = G_VALUE_INIT;
  if (gst_iterator_next(sources, &item) == GST_ITERATOR_OK) {
    live = true;
    g_value_unset(&item);
  }
  gst_iterator_free(sources);
  GstIterator* const elements = gst_bin_iterate_recurse(GST_BIN(pipeline));
  const auto look = [](const GValue* value, gpointer found) {
    auto* const element = static_cast<GstElement*>(g_value_get_object(value));
    if (GST_IS_BASE_SRC(element) && gst_base_src_is_live(GST_BASE_SRC(element)) != FALSE) {
      *static_cast<bool*>(found) = true;
    }
  };
  (void)gst_iterator_foreach(elements, look, &live);
  gst_iterator_free(elements);
  return live;
}

// Parses text as gst-launch does. Throws Error(kConfig) with GStreamer's own words.
GstOwned<GstElement> parse(const std::string& text) {
  GError* raised = nullptr;
  GstElement* const parsed = gst_parse_launch_full(text.c_str(), nullptr, GST_PARSE_FLAG_FATAL_ERRORS, &raised);
  const GstOwned<GError> error(raised);
  GstOwned<GstElement> owned(parsed != nullptr ? GST_ELEMENT(gst_object_ref_sink(parsed)) : nullptr);
  if (error || !owned) {
    throw Error(ErrorKind::kConfig, mask_credentials(error ? error->message : "it is empty"));
  }
  if (GST_IS_PIPELINE(owned.get())) return owned;
  GstOwned<GstElement> pipeline = new_pipeline();  // a single element
  gst_bin_add(GST_BIN(pipeline.get()), owned.get());
  return pipeline;
}

GstOwned<GstElement> find_sink(GstElement* pipeline) {
  GstOwned<GstElement> sink(gst_bin_get_by_name(GST_BIN(pipeline), kSinkName));
  if (sink && GST_IS_APP_SINK(sink.get()) == FALSE) {
    throw Error(ErrorKind::kConfig, "the element named \"camd\" must be an appsink");
  }
  return sink;
}

BuiltPipeline build(const config::FileSource& source, const PictureWish& wanted) {
  BuiltPipeline built;
  built.pipeline = new_pipeline();
  GstElement* const decoder = add_decoding_tail(built, wanted);
  GstElement* const file = add(built.pipeline.get(), make_element("filesrc", "file"));
  g_object_set(file, "location", source.path.c_str(), nullptr);
  link(file, decoder);
  use_monotonic_clock(built.pipeline.get());
  return built;
}

BuiltPipeline build(const config::V4l2Source& source, const PictureWish& wanted) {
  BuiltPipeline built;
  built.live = true;
  built.pipeline = new_pipeline();
  avoid_frame_threads(built.pipeline.get());
  GstElement* const decoder = add_decoding_tail(built, wanted);
  GstElement* const camera = add(built.pipeline.get(), make_element("v4l2src", "camera"));
  GstElement* const filter = add(built.pipeline.get(), make_element("capsfilter", "asked"));
  g_object_set(camera, "device", source.device.c_str(), nullptr);
  if (wanted.lender) MemoryLender::connect_driver(wanted.lender, camera);
  int rate = 0;
  int per = 1;
  gst_util_double_to_fraction(source.fps, &rate, &per);
  const std::string size =
      fmt::format("width=(int){}, height=(int){}, framerate=(fraction){}/{}", source.width, source.height, rate, per);
  const GstOwned<GstCaps> asked(
      gst_caps_from_string(fmt::format("video/x-raw, {}; image/jpeg, {}", size, size).c_str()));
  g_object_set(filter, "caps", asked.get(), nullptr);
  link(camera, filter);
  link(filter, decoder);
  use_monotonic_clock(built.pipeline.get());
  return built;
}

BuiltPipeline build(const config::RtspSource& source, const PictureWish& wanted) {
  BuiltPipeline built;
  built.live = true;
  built.pipeline = new_pipeline();
  avoid_frame_threads(built.pipeline.get());
  const bool direct = wanted.decoding.direct;
  GstElement* const tail = direct ? add_compressed_sink(built) : add_decoding_tail(built, wanted);
  GstElement* const camera = add(built.pipeline.get(), make_element("rtspsrc", "camera"));
  const RtspLogin login = split_login(source.url);
  const auto latency_ms = std::chrono::duration_cast<std::chrono::milliseconds>(source.latency).count();
  const auto silence_us = std::chrono::duration_cast<std::chrono::microseconds>(source.recovery.timeout).count();
  g_object_set(camera, "location", login.location.c_str(), "latency", static_cast<guint>(latency_ms), "tcp-timeout",
               static_cast<guint64>(silence_us), nullptr);
  if (!login.user.empty()) g_object_set(camera, "user-id", login.user.c_str(), nullptr);
  if (!login.password.empty()) g_object_set(camera, "user-pw", login.password.c_str(), nullptr);
  // Set with the scheme of the URL: rtsps and rtspt bring their own transport.
  gst_util_set_object_arg(G_OBJECT(camera), "protocols",
                          source.transport == config::RtspTransport::kTcp ? "tcp" : "udp-mcast+udp");
  g_signal_connect(camera, "on-sdp", G_CALLBACK(&on_description), nullptr);
  g_signal_connect(camera, "select-stream", G_CALLBACK(&on_select_stream), nullptr);
  g_signal_connect(camera, "pad-added", direct ? G_CALLBACK(&on_direct_rtsp_pad) : G_CALLBACK(&on_rtsp_pad), tail);
  use_monotonic_clock(built.pipeline.get());
  return built;
}

BuiltPipeline build(const config::GStreamerSource& source, const PictureWish& wanted) {
  BuiltPipeline built;
  // Text that brings its own sink is a pipeline by itself; other text may need our tail to be one ("... ! CAPS").
  if (source.pipeline.find("appsink") != std::string::npos) {
    built.pipeline = parse(source.pipeline);
    built.sink = find_sink(built.pipeline.get());
  }
  const bool ours = !built.sink;
  if (ours) {
    built.pipeline = parse(source.pipeline + " ! videoconvert name=camd-convert ! appsink name=camd");
    built.sink = find_sink(built.pipeline.get());
  }
  built.live = has_live_source(built.pipeline.get());
  built.network = has_network_source(built.pipeline.get());
  if (ours) {
    PictureWish here = wanted;
    if (!built.live || has_decoder(built.pipeline.get())) here.lender.reset();
    set_up_sink(built.sink.get(), !built.live, here);
  } else {
    g_object_set(built.sink.get(), "drop", FALSE, "emit-signals", FALSE, nullptr);  // drops are counted in our ring
  }
  use_decoders(wanted.decoding, built.pipeline.get(), nullptr);
  if (built.live) avoid_frame_threads(built.pipeline.get());
  use_monotonic_clock(built.pipeline.get());
  return built;
}

BuiltPipeline build(const config::TestSource&, const PictureWish&) {
  throw Error(ErrorKind::kInternal, "a test source has no pipeline");
}

}  // namespace

GstMessage* refused_message(GstElement* element, const std::string& reason) {
  return gst_message_new_application(
      GST_OBJECT(element), gst_structure_new(kRefusedMessage, "reason", G_TYPE_STRING, reason.c_str(), nullptr));
}

BuiltPipeline build_pipeline(const config::Camera& camera, unsigned held, const Decoding& decoding,
                             const std::shared_ptr<MemoryLender>& lender) {
  PictureWish wanted{held, decoding, nullptr};
  if (std::holds_alternative<config::V4l2Source>(camera.source) ||
      std::holds_alternative<config::GStreamerSource>(camera.source)) {
    wanted.lender = lender;
  }
  BuiltPipeline built = std::visit([&](const auto& source) { return build(source, wanted); }, camera.source);
  bound_pictures(built.pipeline.get(), built.sink.get(), camera.max_megapixels);
  return built;
}

std::string describe_v4l2(const std::filesystem::path& device) {
  GstElement* const made = gst_element_factory_make("v4l2src", nullptr);
  if (made == nullptr) return "";
  const GstOwned<GstElement> camera(GST_ELEMENT(gst_object_ref_sink(made)));
  g_object_set(camera.get(), "device", device.c_str(), nullptr);
  const base::Duration patience = std::chrono::seconds(1);
  StateWorker worker;
  std::set<std::string> sizes;
  if (worker.change(camera.get(), GST_STATE_READY, patience) == StateChange::kDone) {
    const GstOwned<GstPad> pad(gst_element_get_static_pad(camera.get(), "src"));
    const GstOwned<GstCaps> caps(gst_pad_query_caps(pad.get(), nullptr));
    for (guint i = 0; i < gst_caps_get_size(caps.get()) && sizes.size() < 8; ++i) {
      const GstStructure* const one = gst_caps_get_structure(caps.get(), i);
      int width = 0;
      int height = 0;
      if (gst_structure_get_int(one, "width", &width) == FALSE) continue;
      if (gst_structure_get_int(one, "height", &height) == FALSE) continue;
      const char* const format = gst_structure_get_string(one, "format");
      const GValue* const rates = gst_structure_get_value(one, "framerate");
      const GstOwned<gchar> rate(rates != nullptr ? gst_value_serialize(rates) : nullptr);
      sizes.insert(fmt::format("{} {}x{} at {}", format != nullptr ? format : gst_structure_get_name(one), width,
                               height, rate ? rate.get() : "?"));
    }
  }
  (void)worker.change(camera.get(), GST_STATE_NULL, patience);
  return sizes.empty() ? std::string() : fmt::format("{}", fmt::join(sizes, ", "));
}

}  // namespace camd::capture
