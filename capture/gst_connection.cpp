#include "capture/gst_connection.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "capture/frame_source.hpp"
#include "capture/gst_held.hpp"

namespace camd::capture {
namespace {

// For a session that is being opened and whose server's socket has been shut down.
constexpr base::Duration kOpeningPatience = std::chrono::milliseconds(250);
// Longer than the 100 ms that rtspsrc takes to say good-bye.
constexpr base::Duration kGoodByePatience = std::chrono::milliseconds(250);
// All three together are shorter than kStopPatience.
constexpr base::Duration kTearDownPatience = std::chrono::milliseconds(750);

// A description of a session has some kilobytes. rtspsrc reads so much of a header within 0.3 s.
constexpr std::uint64_t kMostAnswered = 256 * 1024;

GstMessageType operator|(GstMessageType a, GstMessageType b) {
  return static_cast<GstMessageType>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

}  // namespace

// Stands between the streaming thread and a taker that may be gone before a hung pipeline is.
struct GstConnection::Gate {
  base::Mutex mutex;
  base::CondVar left;
  SampleTaker* taker CAMD_GUARDED_BY(mutex) = nullptr;
  bool inside CAMD_GUARDED_BY(mutex) = false;
  GstElement* pipeline = nullptr;  // constant; alive as long as its sink calls

  // The taker, who is not let go until leave(); null: he is gone.
  SampleTaker* enter() noexcept {
    const base::MutexLock lock(mutex);
    inside = taker != nullptr;
    return taker;
  }
  void leave() noexcept {
    const base::MutexLock lock(mutex);
    inside = false;
    left.notify_all();
  }
};

GstConnection::GstConnection(BuiltPipeline built, std::string camera, SampleTaker& taker, StateWorker& worker)
    : built_(std::move(built)),
      camera_(std::move(camera)),
      worker_(worker),
      sockets_(RtspSockets::watch(built_.pipeline.get())),
      bus_(gst_element_get_bus(built_.pipeline.get())),
      gate_(std::make_shared<Gate>()) {
  {
    const base::MutexLock lock(gate_->mutex);
    gate_->taker = &taker;
    gate_->pipeline = built_.pipeline.get();
  }
  GstAppSinkCallbacks callbacks{};
  callbacks.new_sample = &GstConnection::on_sample;
  callbacks.eos = &GstConnection::on_end;
  gst_app_sink_set_callbacks(GST_APP_SINK(built_.sink.get()), &callbacks, Held<Gate>::make(gate_), &Held<Gate>::let_go);
}

GstConnection::~GstConnection() {
  detach();
  end_opening();
  gst_bus_set_flushing(bus_, TRUE);  // nobody reads what comes now
  const StateChange closed = worker_.change(built_.pipeline.get(), GST_STATE_NULL, kGoodByePatience);
  if (closed == StateChange::kHung) {
    sockets_->shut_down();
    if (!worker_.wait_idle(kTearDownPatience)) {
      note_left_behind();
      base::log().warn("camera {}: the source hangs while it is closed, it is left behind", camera_);
    }
  }
  if (closed == StateChange::kFailed) {
    sockets_->shut_down();
    base::log().warn("camera {}: the source cannot be closed, it is left behind", camera_);
  }
  gst_object_unref(bus_);
}

void GstConnection::note_progress(GstMessage* message) noexcept {
  GstProgressType type = GST_PROGRESS_TYPE_START;
  gchar* said = nullptr;
  gst_message_parse_progress(message, &type, &said, nullptr);
  const GstOwned<gchar> code(said);
  if (code == nullptr || !g_str_equal(code.get(), "open") || type == GST_PROGRESS_TYPE_CONTINUE) return;
  opening_ = std::max(0, opening_ + (type == GST_PROGRESS_TYPE_START ? 1 : -1));
}

// rtspsrc (1.22) that fails to open a session frees its streams in its own thread, and walks through them without a
// lock where it is asked to stop meanwhile: one in 10000 tries crashed. So it is made to fail first, and is asked then.
void GstConnection::end_opening() noexcept {
  auto deadline = std::chrono::steady_clock::now();
  for (bool asked = false;;) {
    const base::Duration left = deadline - std::chrono::steady_clock::now();
    const auto wait_ns = static_cast<GstClockTime>(std::max<std::int64_t>(0, left.count()));
    const GstOwned<GstMessage> message(gst_bus_timed_pop_filtered(bus_, wait_ns, GST_MESSAGE_PROGRESS));
    if (message) note_progress(message.get());
    if (message && !(asked && opening_ == 0)) continue;
    if (asked || opening_ == 0) return;
    asked = true;
    sockets_->shut_down();
    deadline = std::chrono::steady_clock::now() + kOpeningPatience;
  }
}

GstFlowReturn GstConnection::on_sample(GstAppSink* sink, gpointer user) noexcept {
  const Held<Gate>::Use use(user);
  const GstOwned<GstSample> sample(gst_app_sink_pull_sample(sink));
  if (!sample) return GST_FLOW_EOS;
  SampleTaker* const taker = use->enter();
  if (taker == nullptr) return GST_FLOW_FLUSHING;
  const bool more = taker->take_sample(sample.get(), use->pipeline);
  use->leave();
  return more ? GST_FLOW_OK : GST_FLOW_FLUSHING;
}

void GstConnection::on_end(GstAppSink*, gpointer user) noexcept {
  const Held<Gate>::Use use(user);
  SampleTaker* const taker = use->enter();
  if (taker == nullptr) return;
  taker->take_end(use->pipeline);
  use->leave();
}

void GstConnection::detach() noexcept {
  const base::MutexLock lock(gate_->mutex);
  gate_->taker = nullptr;
  while (gate_->inside) gate_->left.wait(gate_->mutex);
}

void GstConnection::end_idle_threads() noexcept {
  GstIterator* const finders = gst_bin_iterate_all_by_element_factory_name(GST_BIN(built_.pipeline.get()), "typefind");
  const auto end = [](const GValue* value, gpointer) {
    GstPad* const pad = gst_element_get_static_pad(static_cast<GstElement*>(g_value_get_object(value)), "sink");
    // One that runs moves the data itself, because what follows does not fetch it.
    if (gst_pad_get_task_state(pad) == GST_TASK_PAUSED) (void)gst_pad_stop_task(pad);
    gst_object_unref(pad);
  };
  (void)gst_iterator_foreach(finders, end, nullptr);
  gst_iterator_free(finders);
}

bool GstConnection::is_closed_by_server(GstMessage* message) noexcept {
  if (GST_MESSAGE_TYPE(message) != GST_MESSAGE_WARNING || GST_IS_ELEMENT(GST_MESSAGE_SRC(message)) == FALSE)
    return false;
  GstElementFactory* const factory = gst_element_get_factory(GST_ELEMENT(GST_MESSAGE_SRC(message)));
  if (factory == nullptr || !g_str_equal(GST_OBJECT_NAME(factory), "rtspsrc")) return false;
  GError* raised = nullptr;
  gst_message_parse_warning(message, &raised, nullptr);
  const GstOwned<GError> error(raised);
  return g_error_matches(error.get(), GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ) != FALSE;
}

bool GstConnection::is_flooded(bool has_packets) const noexcept {
  return !has_packets && sockets_->read_bytes() > kMostAnswered;
}

bool GstConnection::at_end() const noexcept { return gst_app_sink_is_eos(GST_APP_SINK(built_.sink.get())) != FALSE; }

StateChange GstConnection::change(GstState state, base::Duration patience, bool (*give_up)(void*), void* argument) {
  const StateChange change = worker_.change(built_.pipeline.get(), state, patience, give_up, argument);
  if (change == StateChange::kLive) built_.live = true;
  return change;
}

GstOwned<GstMessage> GstConnection::next_message(base::Duration patience) {
  const auto wait_ns = static_cast<GstClockTime>(std::max<std::int64_t>(0, patience.count()));
  GstOwned<GstMessage> message(gst_bus_timed_pop_filtered(
      bus_, wait_ns,
      GST_MESSAGE_ERROR | GST_MESSAGE_WARNING | GST_MESSAGE_EOS | GST_MESSAGE_ASYNC_DONE | GST_MESSAGE_ELEMENT |
          GST_MESSAGE_LATENCY | GST_MESSAGE_APPLICATION | GST_MESSAGE_PROGRESS));
  if (message && GST_MESSAGE_TYPE(message.get()) == GST_MESSAGE_PROGRESS) note_progress(message.get());
  return message;
}

void GstConnection::wake(const char* name) noexcept {
  gst_bus_post(bus_, gst_message_new_application(nullptr, gst_structure_new_empty(name)));
}

bool GstConnection::rewind() noexcept {
  const auto flags = static_cast<GstSeekFlags>(static_cast<unsigned>(GST_SEEK_FLAG_FLUSH) |
                                               static_cast<unsigned>(GST_SEEK_FLAG_KEY_UNIT));
  return gst_element_seek_simple(built_.pipeline.get(), GST_FORMAT_TIME, flags, 0) != FALSE;
}

}  // namespace camd::capture
