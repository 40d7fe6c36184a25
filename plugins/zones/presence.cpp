#include "plugins/zones/presence.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace camd::plugins::zones {
namespace {

std::size_t place_of(int class_id) noexcept {
  return std::min(kClasses - 1, static_cast<std::size_t>(std::max(0, class_id)));
}

}  // namespace

Presence::Presence(const Shapes& shapes, const char* camera, const Options& options)
    : shapes_(shapes),
      options_(options),
      inside_(shapes.zones.size(), 0),
      entered_(shapes.zones.size()),
      right_(shapes.lines.size()),
      left_(shapes.lines.size()) {
  const auto is_here = [&](const auto& shape) { return shape.camera.empty() || shape.camera == camera; };
  for (const Zone& zone : shapes.zones) has_zone_.push_back(is_here(zone) ? 1 : 0);
  for (const Gate& gate : shapes.lines) has_line_.push_back(is_here(gate) ? 1 : 0);
  people_.reserve(static_cast<std::size_t>(options.capacity));
  happenings_.reserve(static_cast<std::size_t>(options.capacity) * 2 * kMostShapes);
}

void Presence::see(std::int64_t now_ns, std::uint64_t track_id, int class_id, Place anchor) {
  auto found = std::find_if(people_.begin(), people_.end(), [&](const Person& p) { return p.track_id == track_id; });
  if (found == people_.end()) {
    if (people_.size() == static_cast<std::size_t>(options_.capacity)) {
      ++left_out_;
      return;
    }
    found = people_.emplace(people_.end());
    found->track_id = track_id;
    found->anchor = anchor;
  }
  Person& person = *found;
  person.class_id = class_id;
  person.seen_ns = now_ns;
  for (std::size_t z = 0; z < shapes_.zones.size(); ++z) {
    if (has_zone_[z] != 0) look_at_zone(person, z, contains(shapes_.zones[z].polygon, anchor), now_ns);
  }
  for (std::size_t l = 0; l < shapes_.lines.size(); ++l) {
    if (has_line_[l] != 0) look_at_line(person, l, anchor, now_ns);
  }
  person.anchor = anchor;
}

void Presence::look_at_zone(Person& person, std::size_t zone, bool inside, std::int64_t now_ns) {
  InZone& at = person.zones[zone];
  const int shape = static_cast<int>(zone);
  if (inside == at.inside) {
    at.other_since_ns = 0;
  } else {
    if (at.other_since_ns == 0) at.other_since_ns = now_ns;
    if (now_ns - at.other_since_ns >= options_.settle_ns) {
      // The change is from when it was first seen, not from when it was believed.
      const std::int64_t was_inside_ns = at.other_since_ns - at.since_ns;
      at.inside = inside;
      at.since_ns = at.other_since_ns;
      at.other_since_ns = 0;
      person.told_dwell[zone] = false;
      inside_[zone] += inside ? 1 : -1;
      if (inside) ++entered_[zone][place_of(person.class_id)];
      happenings_.push_back({inside ? Kind::kEntered : Kind::kLeft, shape, person.track_id, person.class_id,
                             inside ? 0 : was_inside_ns, false, 0});
    }
  }
  if (at.inside && options_.dwell_ns > 0 && !person.told_dwell[zone] && now_ns - at.since_ns >= options_.dwell_ns) {
    person.told_dwell[zone] = true;
    happenings_.push_back({Kind::kDwelt, shape, person.track_id, person.class_id, now_ns - at.since_ns, false, 0});
  }
}

void Presence::look_at_line(Person& person, std::size_t line, Place anchor, std::int64_t now_ns) {
  AtLine& at = person.lines[line];
  const Gate& gate = shapes_.lines[line];
  const int side = side_of(gate.from, gate.to, anchor);
  if (side == 0) return;  // on the line: it is not over yet
  if (at.side == 0) at.side = side;
  if (side == at.side) {
    at.other_since_ns = 0;
    at.through = false;
    return;
  }
  if (at.other_since_ns == 0) {
    at.other_since_ns = now_ns;
    at.through = meet(person.anchor, anchor, gate.from, gate.to);
  }
  if (now_ns - at.other_since_ns < options_.settle_ns) return;
  at.side = side;
  at.other_since_ns = 0;
  if (!at.through) return;
  at.through = false;
  ++(side > 0 ? right_ : left_)[line][place_of(person.class_id)];
  happenings_.push_back({Kind::kCrossed, static_cast<int>(line), person.track_id, person.class_id, 0, false, side});
}

void Presence::leave(Person& person, std::int64_t now_ns, bool out_of_sight) {
  for (std::size_t z = 0; z < shapes_.zones.size(); ++z) {
    InZone& at = person.zones[z];
    if (!at.inside) continue;
    at.inside = false;
    --inside_[z];
    happenings_.push_back(
        {Kind::kLeft, static_cast<int>(z), person.track_id, person.class_id, now_ns - at.since_ns, out_of_sight, 0});
  }
}

void Presence::forget(std::int64_t now_ns) {
  std::erase_if(people_, [&](Person& person) {
    if (now_ns - person.seen_ns <= options_.forget_ns) return false;
    leave(person, person.seen_ns, true);
    return true;
  });
}

void Presence::clear() {
  for (Person& person : people_) leave(person, person.seen_ns, true);
  people_.clear();
}

std::uint64_t Presence::count(bool line, int shape, int direction, int class_id) const {
  const auto& counts = (line ? (direction > 0 ? right_ : left_) : entered_)[static_cast<std::size_t>(shape)];
  return class_id >= 0 ? counts[place_of(class_id)] : std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

}  // namespace camd::plugins::zones
