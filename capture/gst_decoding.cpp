#include "capture/gst_decoding.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "base/error.hpp"
#include "base/mutex.hpp"
#include "capture/gst_held.hpp"
#include "capture/gst_picture.hpp"

namespace camd::capture {
namespace {

using config::DecodeMode;

constexpr const char* kNeedsGpu = "`decode: gpu` needs a GPU, but `device` is the host";

// From gst/cuda/gstcudaloader.h, gstcudacontext.h and gstcudautils.h of GStreamer 1.22. A CUcontext is a pointer, a
// CUdevice an int, a GstCudaContext a GstObject.
struct CudaLibrary {
  gboolean (*load)() = nullptr;
  gpointer (*wrap)(void* context, int device) = nullptr;
  GstContext* (*context_of)(gpointer cuda_context) = nullptr;

  CudaLibrary() noexcept {
    void* const library = dlopen("libgstcuda-1.0.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) return;
    find(library, "gst_cuda_load_library", load);
    find(library, "gst_cuda_context_new_wrapped", wrap);
    find(library, "gst_context_new_cuda_context", context_of);
  }
  [[nodiscard]] bool usable() const noexcept {
    return load != nullptr && wrap != nullptr && context_of != nullptr && load() != FALSE;
  }

 private:
  template <class Function>
  static void find(void* library, const char* name, Function& function) noexcept {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }
};

// Of two decoders for one codec, GStreamer 1.22 tries the one that leaves parsing to NVIDIA's library first. Each of
// those also opens a display for OpenGL, which nobody here wants, and which is not safe with many at a time. The other
// ("stateless") goes first here, before the CPU's.
void prefer_stateless_decoders() {
  GstRegistry* const registry = gst_registry_get();
  GList* const features = gst_registry_get_feature_list_by_plugin(registry, "nvcodec");
  for (const GList* one = features; one != nullptr; one = one->next) {
    auto* const feature = static_cast<GstPluginFeature*>(one->data);
    const std::string name = gst_plugin_feature_get_name(feature);
    const std::size_t end = name.find("device") != std::string::npos ? name.find("device") : name.rfind("dec");
    if (end == std::string::npos || end < 2) continue;
    if (name.compare(end - 2, 2, "sl") == 0) {
      gst_plugin_feature_set_rank(feature, GST_RANK_PRIMARY + 1);
      continue;
    }
    std::string stateless = name;
    stateless.insert(end, "sl");
    if (GstPluginFeature* const twin = gst_registry_lookup_feature(registry, stateless.c_str())) {
      gst_plugin_feature_set_rank(feature, GST_RANK_NONE);
      gst_object_unref(twin);
    }
  }
  gst_plugin_feature_list_free(features);
}

// One for each CUDA context, kept: GStreamer compares them, and looks for peers of every new one.
GstContext* shared_context(void* cuda_context, int ordinal) {
  static base::Mutex mutex;
  static std::map<void*, GstContext*> known;
  static const CudaLibrary library;
  const base::MutexLock lock(mutex);
  if (const auto found = known.find(cuda_context); found != known.end()) return found->second;
  GstContext* made = nullptr;
  if (library.usable()) {
    if (known.empty()) prefer_stateless_decoders();
    if (const gpointer wrapped = library.wrap(cuda_context, ordinal)) {
      made = library.context_of(wrapped);
      gst_object_unref(wrapped);
    }
  }
  known.emplace(cuda_context, made);
  return made;
}

bool is_video_decoder(GstElementFactory* factory) {
  return gst_element_factory_list_is_type(factory, GST_ELEMENT_FACTORY_TYPE_DECODER |
                                                       GST_ELEMENT_FACTORY_TYPE_MEDIA_VIDEO |
                                                       GST_ELEMENT_FACTORY_TYPE_MEDIA_IMAGE) != FALSE;
}

bool is_hardware(GstElementFactory* factory) {
  return gst_element_factory_list_is_type(factory, GST_ELEMENT_FACTORY_TYPE_HARDWARE) != FALSE;
}

// Whether a decoder of the GPU gives these pictures as NV12, which is all that the network's first kernels read there:
// 8 bits, 4:2:0. What the parsers do not say is so.
bool gives_nv12(GstCaps* caps) {
  if (gst_caps_get_size(caps) == 0) return true;
  const GstStructure* const first = gst_caps_get_structure(caps, 0);
  guint bits = 8;
  if (gst_structure_get_uint(first, "bit-depth-luma", &bits) != FALSE && bits != 8) return false;
  const char* const chroma = gst_structure_get_string(first, "chroma-format");
  if (chroma != nullptr && std::string_view(chroma) != "4:2:0") return false;
  const char* const profile = gst_structure_get_string(first, "profile");
  if (profile == nullptr || gst_structure_has_name(first, "video/x-vp9") == FALSE) return true;
  return std::string_view(profile) == "0";
}

// Of decodebin's signal "autoplug-select"; its enumeration has no public header.
enum Choice { kTry = 0, kSkip = 2 };

// nvcodec registers a decoder for each GPU: nvh264sldec, nvh264sldevice1dec and so on.
int gpu_of(GstElementFactory* factory) {
  const std::string_view name = GST_OBJECT_NAME(factory);
  constexpr std::string_view kDevice = "device";
  const std::size_t at = name.find(kDevice);
  return at == std::string_view::npos ? 0 : std::atoi(name.data() + at + kDevice.size());
}

gint no_gpu(GstElement*, GstPad*, GstCaps*, GstElementFactory* factory, gpointer) {
  return is_video_decoder(factory) && is_hardware(factory) ? kSkip : kTry;
}

gint this_gpu_alone(GstElement*, GstPad*, GstCaps* caps, GstElementFactory* factory, gpointer ordinal) {
  if (!is_video_decoder(factory)) return kTry;
  const bool fits = is_hardware(factory) && gpu_of(factory) == GPOINTER_TO_INT(ordinal) && gives_nv12(caps);
  return fits ? kTry : kSkip;
}

gint this_gpu_where_it_fits(GstElement* bin, GstPad* pad, GstCaps* caps, GstElementFactory* factory, gpointer ordinal) {
  return is_hardware(factory) ? this_gpu_alone(bin, pad, caps, factory, ordinal) : kTry;
}

// Each kind of decoder has its own word for it: FFmpeg's, libvpx's, dav1d's.
void limit_threads(GstBin*, GstBin*, GstElement* element, gpointer threads) {
  GstElementFactory* const factory = gst_element_get_factory(element);
  if (factory == nullptr || GST_IS_BIN(element) || !is_video_decoder(factory)) return;
  for (const char* const name : {"max-threads", "threads", "n-threads"}) {
    if (g_object_class_find_property(G_OBJECT_GET_CLASS(element), name) == nullptr) continue;
    gst_util_set_object_arg(G_OBJECT(element), name, std::to_string(GPOINTER_TO_UINT(threads)).c_str());
    return;
  }
}

// A decoder asks what follows it before anything does.
gboolean on_query(GstElement*, GstPad*, GstElement* element, GstQuery* query, gpointer) {
  if (GST_QUERY_TYPE(query) != GST_QUERY_CAPS) return FALSE;
  GstElementFactory* const factory = gst_element_get_factory(element);
  if (factory == nullptr || !is_video_decoder(factory)) return FALSE;
  GstCaps* filter = nullptr;
  gst_query_parse_caps(query, &filter);
  GstOwned<GstCaps> caps = accepted_caps(true);
  if (filter != nullptr) caps.reset(gst_caps_intersect_full(filter, caps.get(), GST_CAPS_INTERSECT_FIRST));
  gst_query_set_caps_result(query, caps.get());
  return TRUE;
}

}  // namespace

Decoding decoding_of(const config::Camera& camera, DecodeMode mode, device::Device& device) {
  Decoding decoding;
  decoding.mode = mode;
  decoding.ordinal = device.info().index;
  if (mode == DecodeMode::kCpu) return decoding;
  if (std::holds_alternative<config::FileSource>(camera.source) ||
      std::holds_alternative<config::RtspSource>(camera.source)) {
    std::string why;
    decoding.direct = !device.video_support(&why).empty();
    if (!decoding.direct && mode == DecodeMode::kGpu) {
      const bool host = device.info().works_in_host_memory;
      if (why.empty()) why = "this GPU decodes no video";
      throw base::Error(base::ErrorKind::kSource, host ? std::string(kNeedsGpu) : "`decode: gpu`: " + why);
    }
    return decoding;
  }
  if (void* const context = device.native_context()) {
    decoding.context = shared_context(context, device.info().index);
    if (decoding.context == nullptr && mode == DecodeMode::kGpu) {
      throw base::Error(base::ErrorKind::kSource,
                        "`decode: gpu` needs libgstcuda of GStreamer 1.22 (apt install gstreamer1.0-plugins-bad)");
    }
  } else if (mode == DecodeMode::kGpu) {
    throw base::Error(base::ErrorKind::kSource, kNeedsGpu);
  }
  return decoding;
}

void use_decoders(const Decoding& decoding, GstElement* pipeline, GstElement* decodebin) {
  if (decoding.threads > 0 && decodebin != nullptr) {
    g_signal_connect(pipeline, "deep-element-added", G_CALLBACK(&limit_threads), GUINT_TO_POINTER(decoding.threads));
  }
  if (decoding.on_device()) gst_element_set_context(pipeline, decoding.context);
  if (decodebin == nullptr) return;
  if (decoding.on_device()) g_signal_connect(decodebin, "autoplug-query", G_CALLBACK(&on_query), nullptr);
  const gpointer gpu = GINT_TO_POINTER(decoding.ordinal);
  switch (decoding.mode) {
    case DecodeMode::kCpu: g_signal_connect(decodebin, "autoplug-select", G_CALLBACK(&no_gpu), nullptr); break;
    case DecodeMode::kGpu: g_signal_connect(decodebin, "autoplug-select", G_CALLBACK(&this_gpu_alone), gpu); break;
    case DecodeMode::kAuto:
      if (decoding.on_device()) {
        g_signal_connect(decodebin, "autoplug-select", G_CALLBACK(&this_gpu_where_it_fits), gpu);
      }
      break;
  }
}

unsigned decoder_threads(std::size_t cameras, unsigned processors) noexcept {
  if (cameras <= 1) return 0;
  return static_cast<unsigned>(std::max<std::size_t>(1, processors / cameras));
}

void DecoderNote::watch(const std::shared_ptr<DecoderNote>& note, GstElement* pipeline) {
  note->set({});
  if (pipeline == nullptr) return;
  g_signal_connect_data(pipeline, "deep-element-added", G_CALLBACK(&DecoderNote::on_element),
                        Held<DecoderNote>::make(note), &Held<DecoderNote>::let_go_of, GConnectFlags{});
}

void DecoderNote::on_element(GstBin*, GstBin*, GstElement* element, gpointer user) {
  const Held<DecoderNote>::Use note(user);
  GstElementFactory* const factory = gst_element_get_factory(element);
  if (factory == nullptr || GST_IS_BIN(element) || !is_video_decoder(factory)) return;
  note->set({GST_OBJECT_NAME(factory),
             is_hardware(factory) ? "cuda:" + std::to_string(gpu_of(factory)) : std::string("cpu")});
}

void DecoderNote::set(DecoderStatus status) {
  const base::MutexLock lock(mutex_);
  status_ = std::move(status);
}

DecoderStatus DecoderNote::status() const {
  const base::MutexLock lock(mutex_);
  return status_;
}

}  // namespace camd::capture
