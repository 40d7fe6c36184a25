// GstConnection: owns one GStreamer pipeline. A source that reconnects makes a new one.
//
// Threads: all functions [control] (the camera's thread), wake() [any]; samples come on GStreamer's streaming thread.
// Invariants: the taker is called by one thread at a time, and never again once detach() or the destructor has
// returned. The destructor does not wait for ever: a pipeline that hangs while it is shut down has its server's sockets
// shut down under it (capture/rtsp_sockets.hpp), and if that does not help it is left to the worker, with a warning.
#pragma once

#include <memory>
#include <string>

#include "capture/gst_pipelines.hpp"
#include "capture/gst_support.hpp"
#include "capture/rtsp_sockets.hpp"
#include "capture/state_worker.hpp"

namespace camd::capture {

// Receives the samples.
class SampleTaker {
 public:
  virtual ~SampleTaker() = default;
  // [streaming] `pipeline` gives the base time. False: no more samples are wanted.
  virtual bool take_sample(GstSample* sample, GstElement* pipeline) noexcept = 0;
  // [streaming] The stream has ended, or its first round of several.
  virtual void take_end(GstElement* /*pipeline*/) noexcept {}
};

class GstConnection {
 public:
  // The worker outlives the connection, and makes its changes of state.
  GstConnection(BuiltPipeline built, std::string camera, SampleTaker& taker, StateWorker& worker);
  ~GstConnection();
  GstConnection(const GstConnection&) = delete;
  GstConnection& operator=(const GstConnection&) = delete;

  [[nodiscard]] bool comes_back() const noexcept { return built_.live || built_.network; }
  [[nodiscard]] GstElement* pipeline() const noexcept { return built_.pipeline.get(); }
  // True when the samples are compressed pictures.
  [[nodiscard]] bool is_compressed() const noexcept { return built_.compressed; }
  // True for the message with which rtspsrc says that its server has closed the connection. Where its pads are not
  // there yet, because no picture has come, nothing else follows: the end of the stream has no way to go.
  [[nodiscard]] static bool is_closed_by_server(GstMessage* message) noexcept;
  // True when an RTSP server has sent more than any answer can be, while `has_packets` says that none of it was RTP.
  [[nodiscard]] bool is_flooded(bool has_packets) const noexcept;
  // Whatever reads from an RTSP server fails from now on.
  void interrupt() noexcept { sockets_->shut_down(); }
  // True when the stream has ended and the sink has received all of it.
  [[nodiscard]] bool at_end() const noexcept;
  // [blocks] See StateWorker::change(). Remembers that the pipeline turned out to be live.
  [[nodiscard]] StateChange change(GstState state, base::Duration patience, bool (*give_up)(void*) = nullptr,
                                   void* argument = nullptr);
  // [blocks] The next message that camd looks at, or tells how far an RTSP session is; null after `patience`.
  [[nodiscard]] GstOwned<GstMessage> next_message(base::Duration patience);
  // Makes next_message() return, with an application message named `name`.
  void wake(const char* name) noexcept;
  // After the end of the stream: plays from its start again. False when this input cannot seek.
  [[nodiscard]] bool rewind() noexcept;
  // Ends threads of the pipeline that have nothing left to do, once pictures come. That which found out what a file is
  // would sleep to the end.
  void end_idle_threads() noexcept;
  // [blocks] until a call of the taker has returned.
  void detach() noexcept;

 private:
  struct Gate;
  static GstFlowReturn on_sample(GstAppSink* sink, gpointer gate) noexcept;
  static void on_end(GstAppSink* sink, gpointer gate) noexcept;
  void note_progress(GstMessage* message) noexcept;
  void end_opening() noexcept;

  BuiltPipeline built_;
  const std::string camera_;
  StateWorker& worker_;
  const std::shared_ptr<RtspSockets> sockets_;
  GstBus* bus_;
  std::shared_ptr<Gate> gate_;
  int opening_ = 0;  // RTSP sessions
};

}  // namespace camd::capture
