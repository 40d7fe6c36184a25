#include "capture/failure_reason.hpp"

#include <fmt/format.h>
#include <gio/gio.h>

#include <chrono>
#include <memory>
#include <variant>

#include "base/clock.hpp"
#include "capture/gst_pipelines.hpp"
#include "capture/gst_support.hpp"

namespace camd::capture {
namespace {

constexpr int kRtspPort = 554;
constexpr base::Duration kPatience = std::chrono::seconds(1);
constexpr unsigned kGlanceMs = 20;  // between two questions whether the camera is stopped

std::string explain_v4l2(const config::V4l2Source& v4l2, const std::string& said) {
  if (said.find("negotiat") == std::string::npos) return said;
  std::string reason =
      fmt::format("{} does not do {}x{} at {:g} frames/s", v4l2.device.string(), v4l2.width, v4l2.height, v4l2.fps);
  const std::string offers = describe_v4l2(v4l2.device);
  if (!offers.empty()) reason += fmt::format("; it offers {}", offers);
  return reason;
}

struct UnrefObject {
  void operator()(gpointer object) const noexcept { g_object_unref(object); }
};
template <class T>
using Object = std::unique_ptr<T, UnrefObject>;
struct UnrefContext {
  void operator()(GMainContext* context) const noexcept { g_main_context_unref(context); }
};
struct UnrefUri {
  void operator()(GUri* uri) const noexcept { g_uri_unref(uri); }
};

// A try to connect, by GIO as rtspsrc does it.
struct Try {
  bool over = false;
  bool connected = false;
  GstOwned<GError> error;
};

void on_end(GObject* client, GAsyncResult* result, gpointer user) {
  auto& tried = *static_cast<Try*>(user);
  GError* error = nullptr;
  const Object<GSocketConnection> connection(
      g_socket_client_connect_to_host_finish(G_SOCKET_CLIENT(client), result, &error));
  tried.error.reset(error);
  tried.connected = connection != nullptr;
  tried.over = true;
}

gboolean go_on(gpointer) { return G_SOURCE_CONTINUE; }

// [blocks] until it is connected or not, `gives_up` says so, or kPatience is over: then neither connected nor error.
Try try_to_connect(const char* host, int port, const std::function<bool()>& gives_up) {
  const std::unique_ptr<GMainContext, UnrefContext> context(g_main_context_new());
  g_main_context_push_thread_default(context.get());
  const Object<GSocketClient> client(g_socket_client_new());
  g_socket_client_set_enable_proxy(client.get(), FALSE);
  const Object<GCancellable> cancel(g_cancellable_new());
  GSource* const glance = g_timeout_source_new(kGlanceMs);  // so that the loop comes round
  g_source_set_callback(glance, &go_on, nullptr, nullptr);
  g_source_attach(glance, context.get());
  Try tried;
  g_socket_client_connect_to_host_async(client.get(), host, static_cast<guint16>(port), cancel.get(), &on_end, &tried);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!tried.over && !gives_up() && std::chrono::steady_clock::now() < deadline) {
    g_main_context_iteration(context.get(), TRUE);
  }
  const bool cut_short = !tried.over;
  if (cut_short) g_cancellable_cancel(cancel.get());
  while (!tried.over) g_main_context_iteration(context.get(), TRUE);  // a try that was cancelled ends at once
  if (cut_short) tried = {true, false, nullptr};
  g_source_destroy(glance);
  g_source_unref(glance);
  g_main_context_pop_thread_default(context.get());
  return tried;
}

std::string explain_rtsp(const config::RtspSource& rtsp, const std::string& said,
                         const std::function<bool()>& gives_up) {
  if (said.find("Failed to connect") == std::string::npos) return said;
  const std::unique_ptr<GUri, UnrefUri> uri(g_uri_parse(rtsp.url.c_str(), G_URI_FLAGS_NONE, nullptr));
  const char* const host = uri ? g_uri_get_host(uri.get()) : nullptr;
  if (host == nullptr) return said;
  const int port = g_uri_get_port(uri.get()) > 0 ? g_uri_get_port(uri.get()) : kRtspPort;
  const Try tried = try_to_connect(host, port, gives_up);
  if (tried.connected || gives_up()) return said;
  const GError* const error = tried.error.get();
  if (error == nullptr)
    return fmt::format("{} port {} does not answer: is the camera on, and the address right?", host, port);
  if (error->domain == G_RESOLVER_ERROR) {
    return fmt::format("the host {} is not known: is its name right? ({})", host, error->message);
  }
  if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_CONNECTION_REFUSED)) {
    return fmt::format("nothing listens on port {} of {} (connection refused): is the port right?", port, host);
  }
  if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_HOST_UNREACHABLE) ||
      g_error_matches(error, G_IO_ERROR, G_IO_ERROR_NETWORK_UNREACHABLE)) {
    return fmt::format("no way to {}: is the address right, and the network there? ({})", host, error->message);
  }
  return fmt::format("cannot connect to port {} of {}: {}", port, host, error->message);
}

}  // namespace

std::string explain_failure(const config::Source& source, const std::string& said,
                            const std::function<bool()>& gives_up) {
  if (const auto* const v4l2 = std::get_if<config::V4l2Source>(&source)) return explain_v4l2(*v4l2, said);
  if (const auto* const rtsp = std::get_if<config::RtspSource>(&source)) return explain_rtsp(*rtsp, said, gives_up);
  return said;
}

}  // namespace camd::capture
