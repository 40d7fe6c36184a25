#include "capture/gst_interrupt.hpp"

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

// The socket that this thread has connected last. Weak: threads of a pool live long, connections shall not.
struct LastSocket {
  GWeakRef socket{};
  LastSocket() noexcept { g_weak_ref_init(&socket, nullptr); }
  ~LastSocket() { g_weak_ref_clear(&socket); }
  LastSocket(const LastSocket&) = delete;
  LastSocket& operator=(const LastSocket&) = delete;
};
thread_local LastSocket last_socket;

// Of GSocketClient's signal "event" (client, event, address, connection).
gboolean on_client_event(GSignalInvocationHint*, guint count, const GValue* values, gpointer) {
  if (count < 4 || g_value_get_enum(&values[1]) != G_SOCKET_CLIENT_CONNECTED) return TRUE;
  const gpointer connection = g_value_get_object(&values[3]);
  if (connection != nullptr && G_IS_SOCKET_CONNECTION(connection)) {
    g_weak_ref_set(&last_socket.socket, g_socket_connection_get_socket(G_SOCKET_CONNECTION(connection)));
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

RtspSockets::~RtspSockets() {
  for (GSocket* const socket : sockets_) g_object_unref(socket);
}

void RtspSockets::look_at(GstElement* element) {
  GstElementFactory* const factory = gst_element_get_factory(element);
  if (factory == nullptr || !g_str_equal(GST_OBJECT_NAME(factory), "rtspsrc")) return;
  g_signal_connect_data(element, "before-send", G_CALLBACK(&RtspSockets::on_send),
                        Held<RtspSockets>::make(std::shared_ptr<RtspSockets>(self_)), &Held<RtspSockets>::let_go_of,
                        static_cast<GConnectFlags>(0));
}

void RtspSockets::on_element(GstBin*, GstBin*, GstElement* element, gpointer user) noexcept {
  const Held<RtspSockets>::Use sockets(user);
  sockets->look_at(element);
}

gboolean RtspSockets::on_send(GstElement*, gpointer, gpointer user) noexcept {
  const Held<RtspSockets>::Use sockets(user);
  if (const gpointer socket = g_weak_ref_get(&last_socket.socket)) {
    sockets->add(static_cast<GSocket*>(socket));
    g_object_unref(socket);
  }
  return TRUE;  // send it
}

void RtspSockets::add(GSocket* socket) noexcept {
  const base::MutexLock lock(mutex_);
  std::erase_if(sockets_, [socket](GSocket* known) {
    const bool gone = known != socket && g_socket_is_closed(known) != FALSE;
    if (gone) g_object_unref(known);
    return gone;
  });
  if (std::find(sockets_.begin(), sockets_.end(), socket) == sockets_.end()) {
    sockets_.push_back(static_cast<GSocket*>(g_object_ref(socket)));
  }
  if (shut_) shut(socket);
}

void RtspSockets::shut_down() noexcept {
  const base::MutexLock lock(mutex_);
  shut_ = true;
  for (GSocket* const socket : sockets_) shut(socket);
}

std::uint64_t RtspSockets::read_bytes() const noexcept {
  const base::MutexLock lock(mutex_);
  std::uint64_t sum = 0;
  for (GSocket* const socket : sockets_) sum += read_from(socket);
  return sum;
}

}  // namespace camd::capture
