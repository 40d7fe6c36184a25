#include "plugins/zones/shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <utility>

#include "plugins/camd_plugin.h"

namespace camd::plugins {
namespace {

using Value = nlohmann::json;

// Twice the area of the triangle, positive where `c` is on the right of the way from `a` to `b` (y points down).
double cross(Place a, Place b, Place c) noexcept {
  return (static_cast<double>(b.x) - a.x) * (static_cast<double>(c.y) - a.y) -
         (static_cast<double>(b.y) - a.y) * (static_cast<double>(c.x) - a.x);
}

bool between(Place a, Place b, Place c) noexcept {
  return std::min(a.x, b.x) <= c.x && c.x <= std::max(a.x, b.x) && std::min(a.y, b.y) <= c.y &&
         c.y <= std::max(a.y, b.y);
}

bool same(Place a, Place b) noexcept { return a.x == b.x && a.y == b.y; }

// What the coordinates are measured in.
struct Scale {
  double width = 1.0, height = 1.0;
  bool pixels = false;
};

Scale read_scale(JsonObject& config) {
  const auto size = config.integers("picture", 1, 65535);
  if (!size) return {};
  if (size->size() != 2) {
    config.fail("picture", "must be [width, height] of the picture that the coordinates are pixels of");
    return {};
  }
  return {static_cast<double>((*size)[0]), static_cast<double>((*size)[1]), true};
}

// Throws std::invalid_argument when it is no place in the picture.
Place read_place(const Value& value, const Scale& scale) {
  if (!value.is_array() || value.size() != 2 || !value[0].is_number() || !value[1].is_number()) {
    throw std::invalid_argument("a place must be two numbers, [x, y]");
  }
  const double x = value[0].get<double>(), y = value[1].get<double>();
  if (!(x >= 0.0 && x <= scale.width && y >= 0.0 && y <= scale.height)) {
    throw std::invalid_argument(
        fmt::format("[{:.6g}, {:.6g}] lies outside the picture, which is {:.6g} wide and {:.6g} high{}", x, y,
                    scale.width, scale.height, scale.pixels ? "" : " (for pixels, set `picture: [width, height]`)"));
  }
  return {static_cast<float>(x / scale.width), static_cast<float>(y / scale.height)};
}

std::vector<Place> read_polygon(const Value& value, const Scale& scale) {
  if (!value.is_array() || value.size() < 3 || value.size() > kMostCorners) {
    throw std::invalid_argument(fmt::format("polygon: must be a list of 3 to {} places, [x, y] each", kMostCorners));
  }
  std::vector<Place> polygon;
  for (const Value& corner : value) {
    try {
      polygon.push_back(read_place(corner, scale));
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument(std::string("polygon: ") + e.what());
    }
  }
  const std::size_t n = polygon.size();
  for (std::size_t i = 0; i < n; ++i) {
    const Place a = polygon[i], b = polygon[(i + 1) % n], c = polygon[(i + 2) % n];
    if (same(a, b))
      throw std::invalid_argument(fmt::format("polygon: corners {} and {} are the same", i + 1, (i + 1) % n + 1));
    if (cross(a, b, c) == 0.0 && !between(a, c, b)) {
      throw std::invalid_argument(fmt::format("polygon: goes back on itself at corner {}", (i + 1) % n + 1));
    }
    for (std::size_t j = i + 2; j < n; ++j) {
      if (i == 0 && j == n - 1) continue;  // neighbours share a corner
      if (meet(a, b, polygon[j], polygon[(j + 1) % n])) {
        throw std::invalid_argument(fmt::format("polygon: crosses itself: its sides {} and {} meet", i + 1, j + 1));
      }
    }
  }
  return polygon;
}

std::string read_text(const Value& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || found->is_null()) return {};
  if (!found->is_string()) throw std::invalid_argument(std::string(key) + ": must be a text");
  return found->get<std::string>();
}

// Name and camera of a zone or a line, and that there are no other keys.
template <class Shape>
void read_common(const Value& entry, const std::vector<std::string>& known, Shape& shape) {
  if (!entry.is_object()) throw std::invalid_argument("must be a mapping of " + joined(known));
  shape.name = read_text(entry, "name");
  shape.camera = read_text(entry, "camera");
  if (shape.name.empty() || shape.name.size() >= CAMD_EVENT_NAME_BYTES) {
    throw std::invalid_argument(fmt::format("name: is needed, of at most {} bytes", CAMD_EVENT_NAME_BYTES - 1));
  }
  for (const auto& item : entry.items()) {
    if (std::find(known.begin(), known.end(), item.key()) == known.end()) {
      throw std::invalid_argument("'" + item.key() + "' is an unknown key, known are " + joined(known));
    }
  }
}

// Every entry of the list at `key`, each problem noted with the entry's place.
template <class Read>
void each_entry(JsonObject& config, const char* key, Read&& read) {
  const Value* list = config.raw(key);
  if (list == nullptr) return;
  if (!list->is_array()) {
    config.fail(key, "must be a list");
    return;
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    try {
      read((*list)[i]);
    } catch (const std::invalid_argument& e) {
      config.fail(fmt::format("{}.{}", key, i), e.what());
    }
  }
}

}  // namespace

Shapes read_shapes(JsonObject& config) {
  Shapes shapes;
  const Scale scale = read_scale(config);
  std::vector<std::pair<std::string, std::string>> names;
  const auto note_name = [&](const auto& shape) {
    const auto clashes = [&](const auto& other) {
      return other.first == shape.name &&
             (other.second == shape.camera || other.second.empty() || shape.camera.empty());
    };
    if (std::any_of(names.begin(), names.end(), clashes)) {
      throw std::invalid_argument("name: there is a '" + shape.name + "' already");
    }
    names.emplace_back(shape.name, shape.camera);
  };
  each_entry(config, "zones", [&](const Value& entry) {
    Zone zone;
    read_common(entry, {"name", "polygon", "camera"}, zone);
    zone.polygon = read_polygon(entry.value("polygon", Value()), scale);
    note_name(zone);
    shapes.zones.push_back(std::move(zone));
  });
  each_entry(config, "lines", [&](const Value& entry) {
    Gate gate;
    read_common(entry, {"name", "from", "to", "camera"}, gate);
    gate.from = read_place(entry.value("from", Value()), scale);
    gate.to = read_place(entry.value("to", Value()), scale);
    if (same(gate.from, gate.to)) throw std::invalid_argument("`from` and `to` are the same place");
    note_name(gate);
    shapes.lines.push_back(std::move(gate));
  });
  if (shapes.zones.size() + shapes.lines.size() > kMostShapes) {
    config.fail("zones", fmt::format("there are {} zones and lines, at most {} are possible",
                                     shapes.zones.size() + shapes.lines.size(), kMostShapes));
  }
  return shapes;
}

bool contains(const std::vector<Place>& polygon, Place place) noexcept {
  bool inside = false;
  for (std::size_t i = 0, j = polygon.size() - 1; i < polygon.size(); j = i++) {
    const Place a = polygon[i], b = polygon[j];
    if ((a.y > place.y) == (b.y > place.y)) continue;
    // The side crosses the height of the place: on its right?
    if (static_cast<double>(place.x) <
        (static_cast<double>(b.x) - a.x) * (static_cast<double>(place.y) - a.y) / (static_cast<double>(b.y) - a.y) +
            a.x) {
      inside = !inside;
    }
  }
  return inside;
}

int side_of(Place from, Place to, Place place) noexcept {
  const double turn = cross(from, to, place);
  return turn > 0.0 ? 1 : (turn < 0.0 ? -1 : 0);
}

bool meet(Place a, Place b, Place c, Place d) noexcept {
  const int abc = side_of(a, b, c), abd = side_of(a, b, d), cda = side_of(c, d, a), cdb = side_of(c, d, b);
  if (abc != abd && cda != cdb) return true;
  return (abc == 0 && between(a, b, c)) || (abd == 0 && between(a, b, d)) || (cda == 0 && between(c, d, a)) ||
         (cdb == 0 && between(c, d, b));
}

}  // namespace camd::plugins
