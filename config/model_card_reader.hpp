// The model card with the places of its keys, for the loader, which reports its problems with its own.
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

// The tree of the card, checked; nothing (and problems) when it cannot be used.
[[nodiscard]] std::optional<TreeNode> read_card_tree(const std::filesystem::path& path, std::vector<Problem>& problems);
[[nodiscard]] ModelCard to_model_card(const std::filesystem::path& path, const TreeNode& tree);
// What `input` maps of the configuration and of cards have in common.
[[nodiscard]] ModelInput read_input(const Reader& input);

}  // namespace camd::config
