#include "capture/rtsp_sockets.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>

#include "capture/gst_held.hpp"
#include "capture/gst_support.hpp"

namespace camd::capture {
namespace {

constexpr int kMostReads = 1024;  // 64 MB: more than a socket's buffer

thread_local WeakSocket last_socket;  // that this thread has connected; threads of a pool live long

// Of GSocketClient's signal "event" (client, event, address, connection).
gboolean on_client_event(GSignalInvocationHint*, guint count, const GValue* values, gpointer) {
  if (count < 4 || g_value_get_enum(&values[1]) != G_SOCKET_CLIENT_CONNECTED) return TRUE;
  const gpointer connection = g_value_get_object(&values[3]);
  if (connection != nullptr && G_IS_SOCKET_CONNECTION(connection)) {
    last_socket.set(g_socket_connection_get_socket(G_SOCKET_CONNECTION(connection)));
  }
  return TRUE;  // stays
}

void catch_sockets() {
  static std::once_flag once;
  std::call_once(once, [] {
    const gpointer type = g_type_class_ref(G_TYPE_SOCKET_CLIENT);  // kept: its signals exist from now on
    (void)g_signal_add_emission_hook(g_signal_lookup("event", G_TYPE_FROM_CLASS(type)), 0, &on_client_event, nullptr,
                                     nullptr);
  });
}

// What has been received already could still be read after the shutdown. rtspsrc reads megabytes of it byte by byte.
void shut(GSocket* socket) noexcept {
  if (g_socket_is_closed(socket) != FALSE) return;
  (void)g_socket_shutdown(socket, TRUE, TRUE, nullptr);
  std::array<char, 65536> bytes{};
  for (int i = 0; i < kMostReads; ++i) {
    if (g_socket_receive_with_blocking(socket, bytes.data(), bytes.size(), FALSE, nullptr, nullptr) <= 0) return;
  }
}

std::uint64_t read_from(GSocket* socket) noexcept {
  if (g_socket_is_closed(socket) != FALSE) return 0;
  const int descriptor = g_socket_get_fd(socket);
  tcp_info info{};
  socklen_t size = sizeof info;
  int waiting = 0;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  if (size < offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received) return 0;  // before Linux 4.1
  if (ioctl(descriptor, FIONREAD, &waiting) != 0) return 0;
  const auto unread = static_cast<std::uint64_t>(std::max(0, waiting));
  return info.tcpi_bytes_received > unread ? info.tcpi_bytes_received - unread : 0;
}

}  // namespace

std::shared_ptr<RtspSockets> RtspSockets::watch(GstElement* pipeline) {
  catch_sockets();
  const std::shared_ptr<RtspSockets> sockets(new RtspSockets);
  sockets->self_ = sockets;
  g_signal_connect_data(pipeline, "deep-element-added", G_CALLBACK(&RtspSockets::on_element),
                        Held<RtspSockets>::make(sockets), &Held<RtspSockets>::let_go_of, static_cast<GConnectFlags>(0));
  GstIterator* const elements = gst_bin_iterate_recurse(GST_BIN(pipeline));
  const auto look = [](const GValue* value, gpointer self) {
    static_cast<RtspSockets*>(self)->look_at(static_cast<GstElement*>(g_value_get_object(value)));
  };
  (void)gst_iterator_foreach(elements, look, sockets.get());
  gst_iterator_free(elements);
  return sockets;
}

void RtspSockets::look_at(GstElement* element) {
  GstElementFactory* const factory = gst_element_get_factory(element);
  if (factory == nullptr) return;
  if (g_str_equal(GST_OBJECT_NAME(factory), "rtpjitterbuffer") && tcp_) {
    GstPad* const pad = gst_element_get_static_pad(element, "sink");
    const auto packets = static_cast<GstPadProbeType>(static_cast<unsigned>(GST_PAD_PROBE_TYPE_BUFFER) |
                                                      static_cast<unsigned>(GST_PAD_PROBE_TYPE_BUFFER_LIST));
    gst_pad_add_probe(pad, packets, &RtspSockets::on_packet,
                      Held<RtspSockets>::make(std::shared_ptr<RtspSockets>(self_)), &Held<RtspSockets>::let_go);
    gst_object_unref(pad);
  }
  if (!g_str_equal(GST_OBJECT_NAME(factory), "rtspsrc")) return;
  guint protocols = 0;  // GstRTSPLowerTrans
  g_object_get(element, "protocols", &protocols, nullptr);
  constexpr guint kTcp = 1U << 2U;
  if ((protocols & kTcp) != 0) tcp_ = true;
  g_signal_connect_data(element, "before-send", G_CALLBACK(&RtspSockets::on_send),
                        Held<RtspSockets>::make(std::shared_ptr<RtspSockets>(self_)), &Held<RtspSockets>::let_go_of,
                        static_cast<GConnectFlags>(0));
}

void RtspSockets::on_element(GstBin*, GstBin*, GstElement* element, gpointer user) noexcept {
  const Held<RtspSockets>::Use sockets(user);
  sockets->look_at(element);
}

// On the thread that has just read the packet from its socket.
GstPadProbeReturn RtspSockets::on_packet(GstPad*, GstPadProbeInfo*, gpointer user) noexcept {
  const Held<RtspSockets>::Use sockets(user);
  sockets->acknowledge();
  return GST_PAD_PROBE_OK;
}

gboolean RtspSockets::on_send(GstElement*, gpointer, gpointer user) noexcept {
  const Held<RtspSockets>::Use sockets(user);
  if (const auto socket = last_socket.get()) sockets->add(socket.get());
  return TRUE;  // send it
}

void RtspSockets::add(GSocket* socket) noexcept {
  const base::MutexLock lock(mutex_);
  bool known = false;
  sockets_.remove_if([&](const WeakSocket& each) {
    const auto held = each.get();
    known = known || held.get() == socket;
    return held == nullptr || (held.get() != socket && g_socket_is_closed(held.get()) != FALSE);
  });
  if (!known) sockets_.emplace_back(socket);
  if (shut_) shut(socket);
}

void RtspSockets::acknowledge() noexcept {
  const base::MutexLock lock(mutex_);
  for (const WeakSocket& each : sockets_) {
    const auto socket = each.get();
    if (socket == nullptr || g_socket_is_closed(socket.get()) != FALSE) continue;
    (void)g_socket_set_option(socket.get(), IPPROTO_TCP, TCP_QUICKACK, 1, nullptr);
  }
}

void RtspSockets::shut_down() noexcept {
  const base::MutexLock lock(mutex_);
  shut_ = true;
  for (const WeakSocket& each : sockets_) {
    if (const auto socket = each.get()) shut(socket.get());
  }
}

std::uint64_t RtspSockets::read_bytes() const noexcept {
  const base::MutexLock lock(mutex_);
  std::uint64_t sum = 0;
  for (const WeakSocket& each : sockets_) {
    if (const auto socket = each.get()) sum += read_from(socket.get());
  }
  return sum;
}

}  // namespace camd::capture
