#include "apps/http/zones.hpp"

#include <array>
#include <nlohmann/json.hpp>

namespace camd::http {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 3> kPlaces = {"polygon", "from", "to"};  // lists of places, and places

Json share_of(const Json& place, double width, double height) {
  return Json::array({place.at(0).get<double>() / width, place.at(1).get<double>() / height});
}

// A zone or a line with its places in shares. Throws nlohmann::json::exception: it is none.
Json in_shares(const Json& shape, double width, double height) {
  Json made{{"name", shape.at("name").get<std::string>()}};
  if (shape.contains("camera") && !shape.at("camera").is_null()) made["camera"] = shape.at("camera");
  for (const char* const key : kPlaces) {
    if (!shape.contains(key)) continue;
    const Json& places = shape.at(key);
    if (!places.at(0).is_array()) {
      made[key] = share_of(places, width, height);
      continue;
    }
    made[key] = Json::array();
    for (const Json& place : places) made[key].push_back(share_of(place, width, height));
  }
  return made;
}

}  // namespace

std::string zones_json(const std::vector<config::Postprocessor>& entries) {
  Json all{{"zones", Json::array()}, {"lines", Json::array()}};
  for (const config::Postprocessor& entry : entries) {
    if (entry.plugin != "zones") continue;
    try {
      const Json config = Json::parse(entry.config_json);
      const bool in_pixels = config.contains("picture") && config.at("picture").is_array();
      const double width = in_pixels ? config.at("picture").at(0).get<double>() : 1;
      const double height = in_pixels ? config.at("picture").at(1).get<double>() : 1;
      for (const char* const kind : {"zones", "lines"}) {
        for (const Json& shape : config.value(kind, Json::array()))
          all[kind].push_back(in_shares(shape, width, height));
      }
    } catch (const Json::exception&) {
      continue;
    }
  }
  return all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace camd::http
