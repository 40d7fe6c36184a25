#include "plugins/track/tracker.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace camd::plugins::track {
namespace {

float seconds(std::int64_t ns) noexcept { return static_cast<float>(ns) * 1e-9F; }

// How far a box may be from where it is expected, in shares of its sides: grows with the time since the frame before,
// and less with the time for which nobody has seen the object. Up to a tenth of a second the filter knows better.
float growth(std::int64_t step_ns, std::int64_t away_ns) noexcept {
  constexpr float kFrom = 0.1F;
  const float step = std::clamp(2.5F * (seconds(step_ns) - kFrom), 0.0F, 0.3F);
  const float away = std::clamp(0.5F * (seconds(away_ns) - kFrom), 0.0F, 0.2F);
  return std::max(step, away);
}

// The same for a track that has found nothing and a box that nobody else wants. What comes out from behind something is
// seen in part at first, and its track has learned a wrong speed from the part that was seen last.
float reach(std::int64_t step_ns, std::int64_t away_ns) noexcept {
  return std::max(growth(step_ns, away_ns), std::min(0.5F, 2.0F * seconds(away_ns)));
}

struct Shift {
  float x = 0.0F, y = 0.0F;
};

// From the middle of one box to that of another.
Shift shift_of(const Box& from, const Box& to) noexcept {
  return {to.x - from.x + (to.width - from.width) / 2, to.y - from.y + (to.height - from.height) / 2};
}

}  // namespace

Tracker::Tracker(const Options& options) : options_(options), assignment_(options.capacity) {
  const auto size = static_cast<std::size_t>(options.capacity);
  tracks_.reserve(size);
  taken_.reserve(size);
  rows_.reserve(size);
  columns_.reserve(size);
  cost_.reserve(size * size);
  happenings_.reserve(3 * size);
}

// Pairs the tracks that `wanted` holds for with the free boxes that `able` holds for, so that the sum of `gain` is
// largest; pairs with less than `least` are none.
template <class Wanted, class Able, class Gain>
void Tracker::pair(Wanted&& wanted, Able&& able, Gain&& gain, float least) {
  rows_.clear();
  columns_.clear();
  cost_.clear();
  const int boxes = static_cast<int>(taken_.size());
  for (int t = 0; t < static_cast<int>(tracks_.size()); ++t) {
    const Track& track = tracks_[static_cast<std::size_t>(t)];
    if (!track.matched && wanted(track)) rows_.push_back(t);
  }
  for (int b = 0; b < boxes; ++b) {
    if (taken_[static_cast<std::size_t>(b)] == 0 && able((*seen_)[static_cast<std::size_t>(b)])) columns_.push_back(b);
  }
  if (rows_.empty() || columns_.empty()) return;
  for (const int row : rows_) {
    const Track& track = tracks_[static_cast<std::size_t>(row)];
    for (const int column : columns_) {
      const Seen& seen = (*seen_)[static_cast<std::size_t>(column)];
      const bool fits = !options_.by_class || seen.class_id == track.class_id;
      const float value = fits ? gain(track, seen) : 0.0F;
      // What cannot be a pair counts nothing, whatever it would gain: it shall not keep others from theirs.
      cost_.push_back(value >= least ? -value : 0.0F);
    }
  }
  assignment_.solve(cost_.data(), static_cast<int>(rows_.size()), static_cast<int>(columns_.size()));
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const int c = assignment_.column_of(static_cast<int>(r));
    if (c < 0 || cost_[r * columns_.size() + static_cast<std::size_t>(c)] >= 0.0F) continue;
    const auto box = static_cast<std::size_t>(columns_[static_cast<std::size_t>(c)]);
    taken_[box] = 1;
    found(tracks_[static_cast<std::size_t>(rows_[r])], (*seen_)[box]);
  }
}

// Most of the tracks that were in sight are nowhere near a box: perhaps the camera has moved, and a shift that many of
// them share shows by how much. Two boxes show a shift when they are of one class and of nearly the same size.
void Tracker::follow_camera() {
  constexpr std::size_t kMost = 16;  // tracks and boxes that are asked, so that a full picture costs no more
  constexpr int kFewest = 3;         // that share a shift: fewer may do so by chance
  constexpr float kNear = 0.25F;     // of the side, within which two shifts are the same
  rows_.clear();
  columns_.clear();
  for (std::size_t t = 0; t < tracks_.size() && rows_.size() < kMost; ++t) {
    if (tracks_[t].is_confirmed && tracks_[t].in_sight) rows_.push_back(static_cast<int>(t));
  }
  for (std::size_t b = 0; b < taken_.size() && columns_.size() < kMost; ++b) {
    if ((*seen_)[b].score >= options_.high) columns_.push_back(static_cast<int>(b));
  }
  const auto fits = [&](const Track& track, const Seen& seen) {
    const float ratio = seen.box.width * seen.box.height / (track.expected.width * track.expected.height);
    return ratio > 0.5F && ratio < 2.0F && (!options_.by_class || track.class_id == seen.class_id);
  };
  // Tracks that have a box where a shift by x and y would put them.
  const auto met = [&](float x, float y) {
    return static_cast<int>(std::count_if(rows_.begin(), rows_.end(), [&](int row) {
      const Track& track = tracks_[static_cast<std::size_t>(row)];
      const float side = kNear * std::sqrt(track.expected.width * track.expected.height);
      return std::any_of(columns_.begin(), columns_.end(), [&](int column) {
        const Seen& seen = (*seen_)[static_cast<std::size_t>(column)];
        const Shift off = shift_of(track.expected, seen.box);
        return std::abs(off.x - x) <= side && std::abs(off.y - y) <= side && fits(track, seen);
      });
    }));
  };
  const int tracks = static_cast<int>(rows_.size());
  if (std::min(tracks, static_cast<int>(columns_.size())) < kFewest) return;
  int most = met(0, 0);
  if (2 * most >= tracks) return;  // the common case, and all that it costs
  most = std::max({most, kFewest - 1, tracks / 2 - 1});
  Shift best{};
  for (const int row : rows_) {
    for (const int column : columns_) {
      const Track& track = tracks_[static_cast<std::size_t>(row)];
      const Seen& seen = (*seen_)[static_cast<std::size_t>(column)];
      if (!fits(track, seen)) continue;
      const Shift shift = shift_of(track.expected, seen.box);
      if (const int shared = met(shift.x, shift.y); shared > most) {
        most = shared;
        best = shift;
      }
    }
  }
  if (best.x == 0.0F && best.y == 0.0F) return;
  for (Track& track : tracks_) {
    track.motion.shift(best.x, best.y);
    track.expected = track.motion.box();
  }
}

void Tracker::update(std::int64_t step_ns, std::vector<Seen>& seen, std::uint64_t& next_id) {
  step_ns = std::max<std::int64_t>(0, step_ns);
  now_ns_ += step_ns;
  happenings_.clear();
  seen_ = &seen;
  const auto room = static_cast<std::size_t>(options_.capacity);
  if (seen.size() > room) left_out_ += seen.size() - room;
  taken_.assign(std::min(seen.size(), room), 0);
  for (Seen& one : seen) one.track_id = 0;

  // What has been away for too long ends before it could be found again.
  std::erase_if(tracks_, [&](const Track& track) {
    if (now_ns_ - track.seen_ns <= options_.keep_ns) return false;
    end(track);
    return true;
  });
  for (Track& track : tracks_) {
    track.motion.predict(seconds(step_ns));
    track.expected = track.motion.box();
    track.matched = false;
  }
  follow_camera();

  const auto is_high = [&](const Seen& s) { return s.score >= options_.high; };
  const auto is_low = [&](const Seen& s) { return s.score < options_.high && s.score >= options_.low; };
  const auto near = [&](const Track& t, const Seen& s) {
    return overlap(t.expected, s.box, growth(step_ns, now_ns_ - t.seen_ns));
  };
  const auto near_and_sure = [&near](const Track& t, const Seen& s) { return near(t, s) * s.score; };
  pair([](const Track& t) { return t.is_confirmed; }, is_high, near_and_sure, options_.overlap);
  pair([](const Track& t) { return t.is_confirmed && t.in_sight; }, is_low, near, options_.low_overlap);
  pair([](const Track& t) { return !t.is_confirmed; }, is_high, near_and_sure, options_.overlap);
  pair([](const Track& t) { return t.is_confirmed; }, [&](const Seen& s) { return s.score >= options_.start; },
       [&](const Track& t, const Seen& s) { return overlap(t.expected, s.box, reach(step_ns, now_ns_ - t.seen_ns)); },
       options_.far_overlap);

  std::erase_if(tracks_, [&](Track& track) {
    if (track.matched) return false;
    if (!track.is_confirmed) {  // seen once and not again: it was nothing
      end(track);
      return true;
    }
    if (track.in_sight) {
      track.in_sight = false;
      // What goes behind something is seen in part at last; it was the part that shrank.
      track.motion.stop_shrinking();
      note(Change::kLost, track);
    }
    return false;
  });
  for (std::size_t b = 0; b < taken_.size(); ++b) {
    Seen& one = seen[b];
    if (taken_[b] != 0 || one.score < options_.start) continue;
    if (tracks_.size() == room) {
      ++left_out_;
      continue;
    }
    Track& track = tracks_.emplace_back();
    track.id = next_id++;
    track.class_id = one.class_id;
    track.born_ns = track.seen_ns = now_ns_;
    track.motion = Motion(one.box);
    note(Change::kStarted, track);
    found(track, one);
  }
}

void Tracker::found(Track& track, Seen& seen) {
  const bool was_away = track.hits > 0 && !track.in_sight;
  if (track.hits > 0) track.motion.correct(seen.box);
  ++track.hits;
  track.matched = true;
  if (!track.is_confirmed && (track.hits >= options_.confirm || seen.score >= options_.sure)) {
    track.is_confirmed = true;
    note(Change::kConfirmed, track);
  }
  if (was_away) note(Change::kFound, track);
  track.in_sight = true;
  track.seen_ns = now_ns_;
  seen.track_id = track.is_confirmed ? track.id : 0;
}

void Tracker::end(const Track& track) { note(Change::kEnded, track); }

void Tracker::note(Change change, const Track& track) {
  happenings_.push_back(
      {change, track.id, track.class_id, now_ns_ - track.born_ns, now_ns_ - track.seen_ns, track.is_confirmed});
}

int Tracker::confirmed() const noexcept {
  return static_cast<int>(std::count_if(tracks_.begin(), tracks_.end(), [](const Track& t) { return t.is_confirmed; }));
}

const std::vector<Happening>& Tracker::clear() {
  happenings_.clear();
  for (const Track& track : tracks_) end(track);
  tracks_.clear();
  return happenings_;
}

}  // namespace camd::plugins::track
