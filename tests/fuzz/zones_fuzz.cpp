// libFuzzer's target for definitions of zones and lines. Any end but shapes or std::invalid_argument is a bug, and
// shapes that were accepted keep what zones/shapes.hpp says of them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "plugins/json_object.hpp"
#include "plugins/zones/shapes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace camd::plugins;
  Shapes shapes;
  try {
    JsonObject config("config", std::string_view(reinterpret_cast<const char*>(data), size));
    shapes = read_shapes(config);
    config.finish();
  } catch (const std::invalid_argument&) {
    return 0;
  }
  const auto require = [](bool holds) {
    if (!holds) std::abort();
  };
  const auto in_picture = [](Place p) { return p.x >= 0.0F && p.x <= 1.0F && p.y >= 0.0F && p.y <= 1.0F; };
  require(shapes.zones.size() + shapes.lines.size() <= kMostShapes);
  for (const Zone& zone : shapes.zones) {
    require(!zone.name.empty() && zone.polygon.size() >= 3 && zone.polygon.size() <= kMostCorners);
    for (const Place corner : zone.polygon) require(in_picture(corner));
    // Outside of what surrounds all corners there is no inside.
    require(!contains(zone.polygon, {-0.5F, 0.5F}) && !contains(zone.polygon, {1.5F, 0.5F}));
  }
  for (const Gate& gate : shapes.lines) require(in_picture(gate.from) && in_picture(gate.to));
  return 0;
}
