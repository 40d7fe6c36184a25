// Which pictures were overtaken, and how long damage lasts.
#include "capture/picture_losses.hpp"

#include <algorithm>

namespace camd::capture {

using base::Duration;

void PictureLosses::connect() noexcept {
  pictures_.fill({});
  begun_ = first_unsettled_ = 0;
  any_shown_ = hole_since_shown_ = damaged_ = has_key_ = has_driver_number_ = false;
  distance_ = Duration::zero();
}

void PictureLosses::driver_gave(std::uint64_t number) noexcept {
  constexpr std::uint64_t kMostLost = 100'000;  // half an hour; more is another beginning
  const std::uint64_t ahead = number - driver_number_;
  if (has_driver_number_ && ahead > 1 && ahead <= kMostLost) totals_.frames_missing += ahead - 1;
  has_driver_number_ = true;
  driver_number_ = number;
}

void PictureLosses::lost(std::uint64_t packets, bool from_open) noexcept {
  totals_.packets_lost += packets;
  hole_since_shown_ = true;
  if (from_open && begun_ > 0) at(begun_ - 1).holed = true;
}

void PictureLosses::begin(Name name, Duration stamp, bool holed) noexcept {
  at(begun_++) = {name, stamp, holed, false, false};
  if (begun_ - first_unsettled_ > kPictures) first_unsettled_ = begun_ - kPictures;
}

PictureLosses::Picture* PictureLosses::find(Name name) noexcept {
  const std::uint64_t oldest = begun_ > kPictures ? begun_ - kPictures : 0;
  for (std::uint64_t number = begun_; number > oldest; --number) {
    if (at(number - 1).name == name) return &at(number - 1);
  }
  return nullptr;
}

void PictureLosses::is_key(Name name) noexcept {
  if (Picture* const picture = find(name)) picture->key = true;
}

// How many pictures, of those that began, are given up because this one is shown; they are settled by that.
std::uint64_t PictureLosses::overtaken_by(Name name) noexcept {
  std::uint64_t count = 0;
  for (std::uint64_t number = first_unsettled_; number < begun_; ++number) {
    Picture& picture = at(number);
    if (picture.settled || picture.name >= name) continue;
    picture.settled = true;
    ++count;
  }
  while (first_unsettled_ < begun_ && at(first_unsettled_).settled) ++first_unsettled_;
  return count;
}

bool PictureLosses::shown(Name name, bool corrupted, base::TimePoint now) noexcept {
  Picture* const picture = find(name);
  if (picture == nullptr) return shown_unnamed(corrupted);
  const bool again = picture->settled;  // a second picture of that name, or one that comes late
  picture->settled = true;
  const std::uint64_t overtaken = overtaken_by(name);
  const Duration gap = picture->stamp - last_stamp_;
  std::uint64_t missing = any_shown_ ? overtaken : 0;
  if (any_shown_ && !again && gap > Duration::zero()) {
    if (!hole_since_shown_ && overtaken == 0) {
      distance_ = gap;
    } else if (hole_since_shown_ && distance_ > Duration::zero()) {
      const auto room = static_cast<std::uint64_t>((gap + distance_ / 2) / distance_);
      // A camera that was silent has taken no pictures.
      constexpr std::uint64_t kMostAtOnce = 100;
      if (room > 1) missing = std::max(missing, std::min(room - 1, kMostAtOnce));
    }
  }
  totals_.frames_missing += missing;
  if (picture->key) {
    if (has_key_) key_distance_ = std::max(key_distance_, now - last_key_);
    has_key_ = true;
    last_key_ = now;
  }
  if (corrupted || picture->holed) {
    damaged_ = true;
    damaged_since_ = now;
  } else if (picture->key) {
    damaged_ = false;
  } else if (missing > 0) {
    damaged_ = true;
    damaged_since_ = now;
  } else if (damaged_ && now - damaged_since_ > std::max(kMostDamage, 2 * key_distance_)) {
    damaged_ = false;
  }
  any_shown_ = true;
  hole_since_shown_ = false;
  last_stamp_ = picture->stamp;
  if (damaged_) ++totals_.frames_damaged;
  return damaged_;
}

bool PictureLosses::shown_unnamed(bool corrupted) noexcept {
  if (corrupted) ++totals_.frames_damaged;
  return corrupted;
}

}  // namespace camd::capture
