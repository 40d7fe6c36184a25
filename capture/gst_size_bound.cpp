#include "capture/gst_size_bound.hpp"

#include <fmt/format.h>

#include <string_view>

#include "capture/gst_support.hpp"

namespace camd::capture {
namespace {

constexpr std::int64_t kMegapixel = 1'000'000;

// Caps that no video element takes.
constexpr const char* kRefusedCaps = "application/x-camd-refused";

GstPadProbeReturn on_event(GstPad* pad, GstPadProbeInfo* info, gpointer most_megapixels) {
  GstEvent* const event = GST_PAD_PROBE_INFO_EVENT(info);
  if (GST_EVENT_TYPE(event) != GST_EVENT_CAPS) return GST_PAD_PROBE_OK;
  GstCaps* caps = nullptr;
  gst_event_parse_caps(event, &caps);
  int width = 0;
  int height = 0;
  const GstStructure* const first = gst_caps_get_structure(caps, 0);
  if (gst_structure_get_int(first, "width", &width) == FALSE) return GST_PAD_PROBE_OK;
  if (gst_structure_get_int(first, "height", &height) == FALSE) return GST_PAD_PROBE_OK;
  const std::string problem = size_problem(width, height, GPOINTER_TO_INT(most_megapixels));
  if (problem.empty()) return GST_PAD_PROBE_OK;
  const GstOwned<GstElement> element(gst_pad_get_parent_element(pad));
  if (element) {
    GError* const error = g_error_new_literal(GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, problem.c_str());
    gst_element_post_message(element.get(), gst_message_new_error(GST_OBJECT(element.get()), error, nullptr));
    g_error_free(error);
  }
  // The event goes on with caps that the next element refuses, because that is the one answer on which an element
  // gives up before it allocates. A dropped event would look like an accepted one.
  const GstOwned<GstCaps> refused(gst_caps_new_empty_simple(kRefusedCaps));
  gst_event_unref(event);
  GST_PAD_PROBE_INFO_DATA(info) = gst_event_new_caps(refused.get());
  return GST_PAD_PROBE_OK;
}

void watch(GstElement* element, const char* pad_name, gpointer most_megapixels) {
  const GstOwned<GstPad> pad(gst_element_get_static_pad(element, pad_name));
  if (!pad) return;
  gst_pad_add_probe(pad.get(), GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, &on_event, most_megapixels, nullptr);
}

void look_at(GstElement* element, gpointer most_megapixels) {
  GstElementFactory* const factory = gst_element_get_factory(element);
  constexpr GstElementFactoryListType kPictureDecoder =
      GST_ELEMENT_FACTORY_TYPE_DECODER | GST_ELEMENT_FACTORY_TYPE_MEDIA_VIDEO | GST_ELEMENT_FACTORY_TYPE_MEDIA_IMAGE;
  if (factory == nullptr || gst_element_factory_list_is_type(factory, kPictureDecoder) == FALSE) return;
  if (GST_IS_BIN(element)) return;  // what is in it is looked at by itself
  watch(element, "sink", most_megapixels);
  watch(element, "src", most_megapixels);
}

void bound_new_element(GstBin*, GstBin*, GstElement* element, gpointer most_megapixels) {
  look_at(element, most_megapixels);
}

}  // namespace

std::string size_problem(int width, int height, int most_megapixels) {
  const std::int64_t area = static_cast<std::int64_t>(width) * height;
  if (width >= 1 && height >= 1 && width <= kMostPixelsASide && height <= kMostPixelsASide &&
      area <= most_megapixels * kMegapixel) {
    return "";
  }
  return fmt::format(
      "pictures of {}x{} pixels are refused: 1 to {} pixels a side and {} megapixels (max_megapixels) "
      "are allowed",
      width, height, kMostPixelsASide, most_megapixels);
}

void bound_pictures(GstElement* pipeline, GstElement* sink, int most_megapixels) {
  const gpointer most = GINT_TO_POINTER(most_megapixels);
  g_signal_connect(pipeline, "deep-element-added", G_CALLBACK(&bound_new_element), most);
  GstIterator* const elements = gst_bin_iterate_recurse(GST_BIN(pipeline));
  const auto look = [](const GValue* value, gpointer argument) {
    look_at(static_cast<GstElement*>(g_value_get_object(value)), argument);
  };
  (void)gst_iterator_foreach(elements, look, most);
  gst_iterator_free(elements);
  watch(sink, "sink", most);
}

}  // namespace camd::capture
