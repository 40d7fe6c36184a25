// Reads a model card together with the places of its keys. The loader reports the card's problems with those of the
// configuration.
//
// Threads: functions of their arguments, [any]. Private to the room.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/model_card.hpp"
#include "config/reader.hpp"
#include "config/yaml_tree.hpp"

namespace camd::config {

// The tree of the card, checked. Empty when it cannot be used; `problems` then says why.
[[nodiscard]] std::optional<TreeNode> read_card_tree(const std::filesystem::path& path, Table card_keys,
                                                     std::vector<Problem>& problems);
[[nodiscard]] ModelCard to_model_card(const std::filesystem::path& path, const TreeNode& tree, Table card_keys);
// The keys that the `input` maps of a configuration and of a card share.
[[nodiscard]] ModelInput read_input(const Reader& input);

}  // namespace camd::config
