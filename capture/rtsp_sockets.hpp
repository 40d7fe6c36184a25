// The sockets of an rtspsrc, which it does not give away: they are caught where GIO connects them, on rtspsrc's own
// thread, and claimed at the first request that this rtspsrc sends on the same thread.
//
// An rtspsrc that hangs on its server is interrupted. GStreamer cannot: once the first byte of an answer is there, its
// receive loop looks at nothing but the socket, and a server that sends a header without end holds it, and whoever
// wants to close it, for ever. So the socket is shut down under it.
//
// A server can also answer without end. rtspsrc reads headers byte by byte and for ever, so what it has read is counted
// where the kernel knows it (tcp(7), TCP_INFO).
//
// What a server sends over TCP is acknowledged as soon as it is read. A server that leaves Nagle's algorithm (RFC 896)
// on, as GStreamer's does, holds back the end of a picture until all before it is acknowledged. Receivers may delay
// that (RFC 1122, 4.2.3.2), and Linux does, by 40 ms. So each packet asks it not to (tcp(7), TCP_QUICKACK does not
// last).
//
// Threads: watch() [control]; shut_down(), read_bytes() [any]; packets on the thread that reads them, which a lock and
// a call of the kernel hold up, once for each packet.
#pragma once

#include <gio/gio.h>
#include <gst/gst.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>

#include "base/mutex.hpp"

namespace camd::capture {

// A socket that others hold. One that is held here would stay open when rtspsrc lets go of it, and a server that
// redirects for ever had hundreds of them open at a time.
class WeakSocket {
 public:
  struct Unref {
    void operator()(GSocket* socket) const noexcept { g_object_unref(socket); }
  };
  explicit WeakSocket(GSocket* socket = nullptr) noexcept { g_weak_ref_init(&socket_, socket); }
  ~WeakSocket() { g_weak_ref_clear(&socket_); }
  WeakSocket(const WeakSocket&) = delete;
  WeakSocket& operator=(const WeakSocket&) = delete;

  void set(GSocket* socket) noexcept { g_weak_ref_set(&socket_, socket); }
  // Null once nobody holds it.
  [[nodiscard]] std::unique_ptr<GSocket, Unref> get() const noexcept {
    return std::unique_ptr<GSocket, Unref>(static_cast<GSocket*>(g_weak_ref_get(&socket_)));
  }

 private:
  mutable GWeakRef socket_{};
};

class RtspSockets {
 public:
  // Watches every rtspsrc that the pipeline has or will have. The pipeline's elements keep what they need of it.
  [[nodiscard]] static std::shared_ptr<RtspSockets> watch(GstElement* pipeline);
  ~RtspSockets() = default;
  RtspSockets(const RtspSockets&) = delete;
  RtspSockets& operator=(const RtspSockets&) = delete;

  // Every read and write on the sockets fails from now on, also those that have begun and those of later sockets.
  void shut_down() noexcept;
  // How much has been read from the sockets that are open: received, and no longer waiting in the kernel.
  [[nodiscard]] std::uint64_t read_bytes() const noexcept;

 private:
  RtspSockets() = default;
  static gboolean on_send(GstElement* source, gpointer request, gpointer sockets) noexcept;
  static GstPadProbeReturn on_packet(GstPad*, GstPadProbeInfo*, gpointer sockets) noexcept;
  static void on_element(GstBin* pipeline, GstBin* bin, GstElement* element, gpointer sockets) noexcept;
  void look_at(GstElement* element);
  void add(GSocket* socket) noexcept;
  void acknowledge() noexcept;

  mutable base::Mutex mutex_;
  std::list<WeakSocket> sockets_ CAMD_GUARDED_BY(mutex_);  // of connections that may be open
  bool shut_ CAMD_GUARDED_BY(mutex_) = false;
  std::atomic<bool> tcp_{false};  // packets may come by the sockets
  std::weak_ptr<RtspSockets> self_;
};

}  // namespace camd::capture
