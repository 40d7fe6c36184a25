// A model card from memory: what `camd` proposes for models without one.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <string>
#include <string_view>

#include "config/model_card.hpp"

namespace camd::config {

// As load_model_card(), from memory; `name` is what messages call it.
[[nodiscard]] ModelCard parse_model_card(const std::string& name, std::string_view text, Table card_keys);

}  // namespace camd::config
