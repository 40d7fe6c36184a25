// References in the texts of a configuration: ${NAME} is the variable NAME of the environment or, where there is none,
// the file NAME in the folder $CREDENTIALS_DIRECTORY (systemd's credentials); ${file:PATH} is the text of a file.
// "$${" stands for "${".
//
// Threads: functions of their arguments, of the environment and of files, [any]; [blocks] on files.
// Invariant: what a reference was replaced by is hidden (base/secrets.hpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/check.hpp"
#include "config/yaml_tree.hpp"

namespace camd::config {

// Replaces the references in `cameras[].source`, in `postprocess[].config` and in `http.token`, and `http.token_file`
// by `http.token` with the file's text; those anywhere else, and what cannot be read, are problems. In a URL's login
// what is not plain is percent-encoded. With `files.must_exist` off nothing is read: every reference stands for the
// word "secret".
void replace_references(TreeNode& root, const FileRules& files, std::vector<Problem>& problems);

// The text that is read as `text`.
[[nodiscard]] std::string without_references(std::string_view text);

}  // namespace camd::config
