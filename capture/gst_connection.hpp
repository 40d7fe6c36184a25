// GstConnection: one life of a GStreamer pipeline, from built to gone. A source that reconnects makes a new one.
//
// Threads: all functions [control] (the camera's thread), wake() [any]; samples come on GStreamer's streaming thread.
// Invariants: the taker is called by one thread at a time, and never again once detach() or the destructor has
// returned. Destruction is bounded: a pipeline that hangs while it is being shut down is left to its helper thread,
// with a warning.
#pragma once

#include <memory>
#include <string>

#include "capture/gst_pipelines.hpp"
#include "capture/gst_support.hpp"

namespace camd::capture {

// Receives the samples.
class SampleTaker {
 public:
  virtual ~SampleTaker() = default;
  // [streaming] `pipeline` gives the base time. False: no more samples are wanted.
  virtual bool take_sample(GstSample* sample, GstElement* pipeline) noexcept = 0;
};

class GstConnection {
 public:
  GstConnection(BuiltPipeline built, std::string camera, SampleTaker& taker);
  ~GstConnection();
  GstConnection(const GstConnection&) = delete;
  GstConnection& operator=(const GstConnection&) = delete;

  [[nodiscard]] bool live() const noexcept { return built_.live; }
  [[nodiscard]] GstElement* pipeline() const noexcept { return built_.pipeline.get(); }
  // True when the sink has got everything there was.
  [[nodiscard]] bool at_end() const noexcept;
  // [blocks] See capture::change_state(). Remembers that the pipeline turned out to be live.
  [[nodiscard]] StateChange change(GstState state, base::Duration patience, bool (*give_up)(void*) = nullptr,
                                   void* argument = nullptr);
  // [blocks] The next message that camd looks at; null after `patience`.
  [[nodiscard]] GstOwned<GstMessage> next_message(base::Duration patience);
  // Makes next_message() return, with an application message named `name`.
  void wake(const char* name) noexcept;
  // After the end of the stream: plays from its start again. False when this input cannot seek.
  [[nodiscard]] bool rewind() noexcept;
  // [blocks] until a call of the taker has returned.
  void detach() noexcept;

 private:
  struct Gate;
  static GstFlowReturn on_sample(GstAppSink* sink, gpointer gate) noexcept;

  BuiltPipeline built_;
  const std::string camera_;
  GstBus* bus_;
  std::shared_ptr<Gate> gate_;
};

}  // namespace camd::capture
