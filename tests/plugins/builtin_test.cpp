// The registry of built-ins, and that each is also there as a shared library of its own.
#include "plugins/builtin.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>
#include "tests/support/paths.hpp"

namespace camd::plugins {
namespace CAMD_TEST_FILE {

TEST(Builtins, AreListedInAlphabeticalOrder) {
  EXPECT_EQ(builtin_names(),
            (std::vector<std::string_view>{"annotate", "coco", "codes", "detections", "jsonl", "kafka", "mot", "mqtt",
                                           "onvif", "record", "snapshot", "tensors", "track", "webhook", "zones"}));
}

TEST(Builtins, NameTheElementsThatFilmsLeanOn) {
  std::vector<std::string> names;
  for (const ElementFinding& element : builtin_elements()) names.push_back(element.element);
  EXPECT_EQ(names, (std::vector<std::string>{"x264enc", "mp4mux"}));
}

TEST(Builtins, AreFoundByName) {
  for (const std::string_view name : builtin_names()) {
    const camd_plugin* plugin = find_builtin(name);
    ASSERT_NE(plugin, nullptr);
    EXPECT_EQ(plugin->name, name);
    EXPECT_EQ(plugin->abi_version, CAMD_PLUGIN_ABI_VERSION);
    EXPECT_EQ(plugin->struct_size, sizeof(camd_plugin));
  }
  EXPECT_EQ(find_builtin("detection"), nullptr);
}

TEST(Builtins, AreAlsoSharedLibrariesWithOneSymbol) {
  for (const std::string_view name : builtin_names()) {
    const std::string path = test::binary_dir() + "/lib/camd_plugin_" + std::string(name) + ".so";
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    const auto entry = reinterpret_cast<camd_plugin_entry>(::dlsym(library, CAMD_PLUGIN_SYMBOL));
    ASSERT_NE(entry, nullptr) << ::dlerror();
    EXPECT_EQ(entry()->name, name);
    // Another copy of the code, not the one linked into this test.
    EXPECT_NE(entry(), find_builtin(name));
    ::dlclose(library);
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins
