// Where tests find files: in the checkout they were built from, or, when they run elsewhere (a bundle), where the
// environment says.
//
// Threads: [any].
#pragma once

#include <string>

namespace camd::test {

// The checkout: $CAMD_TEST_SOURCE_DIR, or the folder that was built from.
[[nodiscard]] std::string source_dir();
// The build folder: $CAMD_TEST_BINARY_DIR, or the one that the test was built in.
[[nodiscard]] std::string binary_dir();
// Files that a user's checkout does not have: $CAMD_TEST_SHARED_DIR, or `shared` beside the checkout. Tests that need
// one skip, with a reason, where it is absent.
[[nodiscard]] std::string shared_dir();

}  // namespace camd::test
