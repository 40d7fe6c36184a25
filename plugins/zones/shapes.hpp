// Zones and lines: areas and gates of a picture by name, as a configuration defines them. Shared by `zones`, which
// counts with them, and `annotate`, which draws them.
//
// Threads: [setup]; the geometry [any].
// Invariants: coordinates are shares of the picture, 0 to 1 from its top left, so that they fit pictures of any size. A
//   polygon that read_shapes() has accepted lies in the picture and does not cross or touch itself.
#pragma once

#include <string>
#include <vector>

#include "plugins/json_object.hpp"

namespace camd::plugins {

struct Place {
  float x = 0.0F, y = 0.0F;
};

struct Zone {
  std::string name;
  std::string camera;  // empty: all
  std::vector<Place> polygon;
};

struct Gate {
  std::string name;
  std::string camera;
  Place from{}, to{};
};

struct Shapes {
  std::vector<Zone> zones;
  std::vector<Gate> lines;
};

constexpr std::size_t kMostShapes = 32;  // of both kinds together
constexpr std::size_t kMostCorners = 64;

// Reads the keys `zones`, `lines` and `picture` of `config`; notes there what is wrong.
[[nodiscard]] Shapes read_shapes(JsonObject& config);

// Whether `place` is inside; a place on the rim may count as either. Even-odd rule, as polygons do not cross
// themselves.
[[nodiscard]] bool contains(const std::vector<Place>& polygon, Place place) noexcept;
// On which side of the line through `from` and `to` a place lies, seen along it: 1 right, -1 left, 0 on it. y points
// down.
[[nodiscard]] int side_of(Place from, Place to, Place place) noexcept;
// Whether the way from `a` to `b` meets the line from `c` to `d`, ends included.
[[nodiscard]] bool meet(Place a, Place b, Place c, Place d) noexcept;

}  // namespace camd::plugins
