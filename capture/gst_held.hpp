// Held: an object of ours that GLib or GStreamer keeps for a callback, as the callback's user data.
//
//   gst_pad_add_probe(pad, type, &on_packet, Held<Tap>::make(tap), &Held<Tap>::let_go);
//   on_packet(..., gpointer user) { const Held<Tap>::Use tap(user); tap->... }
//
// The libraries hand it from thread to thread by means that the thread sanitizer cannot see: futexes and atomics inside
// libraries that it has not built. So each callback begins with an acquire and ends with a release of the object's own.
// They order what the libraries have ordered already, and cost two uncontended atomics for each call.
//
// Threads: make() [any]; Use [any], as the library calls; let_go() [any], once, after the last call.
#pragma once

#include <glib-object.h>

#include <atomic>
#include <memory>
#include <utility>

namespace camd::capture {

template <typename T>
class Held {
 public:
  // User data that owns a share of the object until let_go().
  [[nodiscard]] static gpointer make(std::shared_ptr<T> object) {
    auto* const held = new Held(std::move(object));
    held->order_.fetch_add(1, std::memory_order_release);
    return held;
  }
  // As a GDestroyNotify.
  static void let_go(gpointer user) noexcept {
    auto* const held = static_cast<Held*>(user);
    (void)held->order_.load(std::memory_order_acquire);
    delete held;
  }
  // As a GClosureNotify.
  static void let_go_of(gpointer user, GClosure* /*closure*/) noexcept { let_go(user); }

  // One call: from its first look at the object to its last.
  class Use {
   public:
    explicit Use(gpointer user) noexcept : held_(*static_cast<Held*>(user)) {
      (void)held_.order_.load(std::memory_order_acquire);
    }
    ~Use() { held_.order_.fetch_add(1, std::memory_order_release); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    [[nodiscard]] T& operator*() const noexcept { return *held_.object_; }
    [[nodiscard]] T* operator->() const noexcept { return held_.object_.get(); }
    [[nodiscard]] const std::shared_ptr<T>& share() const noexcept { return held_.object_; }

   private:
    Held& held_;
  };

 private:
  explicit Held(std::shared_ptr<T> object) noexcept : object_(std::move(object)) {}

  const std::shared_ptr<T> object_;
  std::atomic<unsigned> order_{0};
};

}  // namespace camd::capture
