// The JSON Schema accepts what the loader accepts and refuses what it refuses, judged by the few keywords it uses.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "config/describe.hpp"
#include "tests/config/helpers.hpp"

namespace camd::config {
namespace CAMD_TEST_FILE {

using nlohmann::json;

bool has_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "integer") return value.is_number_integer();
  return type == "number" && value.is_number();
}

// Draft 2020-12, the keywords that the schema uses.
// NOLINTNEXTLINE(misc-no-recursion)
bool valid(const json& schema, const json& value) {
  const auto any = [&value](const json& schemas) {
    return std::count_if(schemas.begin(), schemas.end(), [&value](const json& s) { return valid(s, value); });
  };
  for (const auto& [keyword, rule] : schema.items()) {
    if (keyword == "type") {
      const json types = rule.is_array() ? rule : json::array({rule});
      if (std::none_of(types.begin(), types.end(), [&](const json& type) { return has_type(value, type); }))
        return false;
    } else if (keyword == "enum") {
      if (std::find(rule.begin(), rule.end(), value) == rule.end()) return false;
    } else if (keyword == "const") {
      if (rule != value) return false;
    } else if (keyword == "pattern") {
      if (value.is_string() && !std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>())))
        return false;
    } else if (keyword == "minLength") {
      if (value.is_string() && value.get<std::string>().size() < rule.get<std::size_t>()) return false;
    } else if (keyword == "minimum") {
      if (value.is_number() && value.get<double>() < rule.get<double>()) return false;
    } else if (keyword == "maximum") {
      if (value.is_number() && value.get<double>() > rule.get<double>()) return false;
    } else if (keyword == "minItems") {
      if (value.is_array() && value.size() < rule.get<std::size_t>()) return false;
    } else if (keyword == "maxItems") {
      if (value.is_array() && value.size() > rule.get<std::size_t>()) return false;
    } else if (keyword == "required") {
      for (const json& name : rule) {
        if (value.is_object() && !value.contains(name.get<std::string>())) return false;
      }
    } else if (keyword == "additionalProperties") {
      for (const auto& [name, ignored] : value.items()) {
        if (value.is_object() && !schema.at("properties").contains(name)) return false;
      }
    } else if (keyword == "properties") {
      for (const auto& [name, sub] : rule.items()) {
        if (value.is_object() && value.contains(name) && !valid(sub, value.at(name))) return false;
      }
    } else if (keyword == "items") {
      for (const json& item : value) {
        if (value.is_array() && !valid(rule, item)) return false;
      }
    } else if (keyword == "oneOf") {
      if (any(rule) != 1) return false;
    } else if (keyword == "anyOf") {
      if (any(rule) == 0) return false;
    } else if (keyword != "$schema" && keyword != "title" && keyword != "description" && keyword != "default") {
      ADD_FAILURE() << "keyword " << keyword << " is not judged by this test";
    }
  }
  return true;
}

TEST(Schema, IsJsonOfDraft202012) {
  const json schema = json::parse(json_schema());
  EXPECT_EQ(schema.at("$schema"), "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema.at("required"), json::array({"model", "cameras"}));
  EXPECT_EQ(schema.at("properties").at("pipeline").at("properties").at("slots").at("default"), 3);
}

TEST(Schema, AcceptsTheDefaultConfigurationAndEverySource) {
  const json schema = json::parse(json_schema());
  EXPECT_TRUE(valid(schema, json::parse(effective_text(load_yaml(default_config_text())))));
  for (const char* source :
       {"{type: v4l2}", "{type: rtsp, url: \"rtsp://h\"}", "{type: gstreamer, pipeline: a}", "{type: test}"}) {
    EXPECT_TRUE(valid(schema, json::parse(effective_text(load_yaml(with_source(source)))))) << source;
  }
}

TEST(Schema, RefusesWhatTheLoaderRefuses) {
  const json schema = json::parse(json_schema());
  for (const char* change : {"device=gpu",
                             "model.engine=x",
                             "model.input.mean=[1, 2]",
                             "model.input.scale=[1]",
                             "model.input.scale=0",
                             "pipeline.slots=1",
                             "pipeline.slots=65",
                             "pipeline.slots=3.5",
                             "pipeline.max_age=200",
                             "pipeline.slot=3",
                             "cameras=[]",
                             "cameras.0.name=\"a b\"",
                             "cameras.0.source.latency=1s",
                             "cameras.0.source.type=dir",
                             "cameras.0.source.loop=1",
                             "cameras.0.source={type: file}",
                             "cameras.0.source={type: rtsp, url: \"http://h\"}",
                             "metrics.period=1",
                             "nothing=1",
                             "postprocess=[{}]",
                             "postprocess.0.config=3"}) {
    EXPECT_EQ(problems_of(default_config_text(), {change}).size(), 1U) << change;
    // The same change to the effective configuration, as a loader without checks would make it.
    const std::string text(change);
    json config = json::parse(effective_text(load_yaml(default_config_text())));
    std::string pointer = "/" + text.substr(0, text.find('='));
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    const Config wrapper = load_yaml(std::string(kSmallest) + "postprocess: [{plugin: a, config: {value: " +
                                     text.substr(text.find('=') + 1) + "}}]\n");
    config[json::json_pointer(pointer)] = json::parse(wrapper.postprocess[0].config_json).at("value");
    EXPECT_FALSE(valid(schema, config)) << change;
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::config
