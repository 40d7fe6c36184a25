#include "pipeline/run/card_keys.hpp"

#include <vector>

#include "plugins/builtin.hpp"

namespace camd::pipeline {
namespace {

config::ValueType value_type(plugins::CardKeyType type) noexcept {
  switch (type) {
    case plugins::CardKeyType::kAny: return config::ValueType::kAny;
    case plugins::CardKeyType::kText: return config::ValueType::kText;
    case plugins::CardKeyType::kWord: return config::ValueType::kWord;
    case plugins::CardKeyType::kInteger: return config::ValueType::kInteger;
    case plugins::CardKeyType::kNumber: return config::ValueType::kNumber;
    case plugins::CardKeyType::kBool: return config::ValueType::kBool;
    case plugins::CardKeyType::kList: return config::ValueType::kList;
  }
  return config::ValueType::kAny;
}

std::vector<config::KeyRow> join() {
  const config::Table own = config::model_card_keys();
  std::vector<config::KeyRow> rows(own.begin(), own.end());
  for (const plugins::CardKey& key : plugins::detections_keys()) {
    rows.push_back({.path = key.path,
                    .type = value_type(key.type),
                    .example = key.example,
                    .min = key.min,
                    .max = key.max,
                    .unit = key.unit,
                    .words = key.words,
                    .same_length_as = key.same_length_as,
                    .help = key.help});
  }
  return rows;
}

}  // namespace

config::Table card_keys() {
  static const std::vector<config::KeyRow> rows = join();
  return rows;
}

}  // namespace camd::pipeline
