// Starvation: whether a camera runs and yet delivers nothing, and why.
//
// A camera is starved when frames were captured, none was delivered for a time, and at least one was dropped. Where
// nothing but newer frames took their place (`superseded`), a plug-in or the device may just be slow: that counts as
// starved after twice the time.
//
// To open the source anew can help against a backlog that does not drain, and against a decoder that lost its way. It
// cannot help against plug-ins or a device. It is tried after the camera's `timeout`, and less and less often.
//
// Threads: one at a time. Invariant: no clock is read.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/clock.hpp"

namespace camd::capture {

// What became of a camera's frames so far.
struct FrameFates {
  std::uint64_t captured = 0;
  std::uint64_t delivered = 0;
  std::uint64_t superseded = 0;
  std::uint64_t too_old = 0;
  std::uint64_t source_error = 0;
  std::uint64_t device_error = 0;
  std::uint64_t plugin_error = 0;
  std::uint64_t gated = 0;  // on purpose: nothing is wrong with them

  [[nodiscard]] std::uint64_t dropped() const noexcept {
    return superseded + too_old + source_error + device_error + plugin_error;
  }
};

class Starvation {
 public:
  // The longest wait between two tries to help by opening the source anew, unless `timeout` is longer.
  static constexpr base::Duration kMostPatience = std::chrono::minutes(1);

  // `timeout`: the camera's. It is starved after half of that.
  explicit Starvation(base::Duration timeout) noexcept : timeout_(timeout), patience_(timeout) {}

  // A source has been opened: what came before counts no more.
  void begin(base::TimePoint now, const FrameFates& fates) noexcept {
    base_ = fates;
    since_ = now;
    starved_ = false;
  }
  // `stopped`: for how long camd itself did not run since the last look (capture/silence.hpp): the backlog of that time
  // is too old, and no reason to open the source anew.
  void look(base::TimePoint now, const FrameFates& fates, base::Duration stopped) noexcept {
    if (fates.delivered != base_.delivered) {
      patience_ = timeout_;
      begin(now, fates);
    }
    if (fates.captured == base_.captured) since_ = now;
    lost_ = {fates.captured - base_.captured,         fates.delivered - base_.delivered,
             fates.superseded - base_.superseded,     fates.too_old - base_.too_old,
             fates.source_error - base_.source_error, fates.device_error - base_.device_error,
             fates.plugin_error - base_.plugin_error, fates.gated - base_.gated};
    if (lost_.gated > 0 && lost_.dropped() == 0) since_ = now;  // nothing moves, and nothing else is wrong
    since_ = std::min(now, since_ + stopped);
    hungry_ = now - since_;
    const bool only_newer = lost_.dropped() == lost_.superseded;
    starved_ = lost_.dropped() > 0 && hungry_ >= (only_newer ? timeout_ : timeout_ / 2);
  }

  // As of the last look.
  [[nodiscard]] bool starved() const noexcept { return starved_; }
  // True when the source shall be opened anew for it; the next time it will take longer.
  [[nodiscard]] bool wants_another_try() noexcept {
    const bool is_the_sources = lost_.too_old + lost_.source_error > 0 && lost_.device_error + lost_.plugin_error == 0;
    if (!starved_ || !is_the_sources || hungry_ < patience_) return false;
    patience_ = std::min(2 * patience_, std::max(kMostPatience, timeout_));
    return true;
  }
  // One line, the same as long as the cause is.
  [[nodiscard]] std::string reason() const {
    struct Cause {
      std::uint64_t frames;
      std::string_view name;
      std::string_view meaning;
    };
    const std::array<Cause, 5> causes = {
        {{lost_.too_old, "too_old", "all frames come later than `pipeline.max_age` allows"},
         {lost_.source_error, "source_error", "no picture can be used"},
         {lost_.plugin_error, "plugin_error", "the plug-ins fail with every frame"},
         {lost_.device_error, "device_error", "the device fails with every frame"},
         {lost_.superseded, "superseded", "an earlier frame does not come out of the device or the plug-ins"}}};
    const Cause& most = *std::max_element(causes.begin(), causes.end(),
                                          [](const Cause& a, const Cause& b) { return a.frames < b.frames; });
    return fmt::format("nothing is delivered: {} ({})", most.meaning, most.name);
  }

 private:
  const base::Duration timeout_;
  base::Duration patience_;
  FrameFates base_;  // when a frame was delivered last
  FrameFates lost_;  // since then
  base::TimePoint since_;
  base::Duration hungry_{0};
  bool starved_ = false;
};

}  // namespace camd::capture
