#include "apps/camd/new_plugin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "base/error.hpp"

namespace camd::app {
namespace {

using base::Error;
using base::ErrorKind;

constexpr std::string_view kName = "@NAME@";

constexpr std::string_view kC =
    R"(/* @NAME@: a postprocessor of camd. camd_plugin.h says what each function may do, and who calls it when. */
#include <camd/camd_plugin.h>
#include <stdlib.h>
#include <string.h>

typedef struct @NAME@ {
  const camd_host* host;
} @NAME@;

static int32_t create(const camd_host* host, const char* config_json, void** instance, camd_error* error) {
  @NAME@* self = calloc(1, sizeof(*self));
  (void)config_json;
  if (self == NULL) {
    strcpy(error->message, "no memory");
    return CAMD_ERROR_FAILED;
  }
  self->host = host;
  *instance = self;
  return CAMD_OK;
}

/* What process() reads: of each output CAMD_NEED_NONE, _SHAPE or _HOST. */
static int32_t outputs(void* instance, const camd_model* model, camd_needs* needs, camd_error* error) {
  (void)instance, (void)model, (void)needs, (void)error;
  return CAMD_OK;
}

/* One frame: here detections with a score below a half are removed. */
static int32_t process(void* instance, const camd_frame* frame, const camd_tensors* tensors, camd_results* results,
                       camd_error* error) {
  int32_t kept = 0;
  (void)instance, (void)frame, (void)tensors, (void)error;
  for (int32_t i = 0; i < results->count; ++i) {
    if (results->items[i].score >= 0.5F) results->items[kept++] = results->items[i];
  }
  results->count = kept;
  return CAMD_OK;
}

static int32_t destroy(void* instance, camd_error* error) {
  (void)error;
  free(instance);
  return CAMD_OK;
}

CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void) {
  static const camd_plugin table = {CAMD_PLUGIN_ABI_VERSION, sizeof(camd_plugin), "@NAME@", "0.1.0",
                                    "keeps detections with a score of a half or more",
                                    &create, &outputs, &process, &destroy, NULL};
  return &table;
}
)";

constexpr std::string_view kCpp =
    R"(// @NAME@: a postprocessor of camd. camd_plugin.hpp says what each function may do, and who calls it when.
#include <camd/camd_plugin.hpp>
#include <string_view>

class Plugin final : public camd::plugin::Postprocessor {
 public:
  // `config_json` is the entry's `config:`. What is thrown here refuses the start, with its text.
  Plugin(camd::plugin::Host host, std::string_view config_json) : removed_(host.counter("removed")) {
    static_cast<void>(config_json);
  }

  // What process() reads: needs.output(0, CAMD_NEED_HOST), needs.picture(CAMD_NEED_HOST), ...
  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    static_cast<void>(model);
    static_cast<void>(needs);
  }

  // One frame: here detections with a score below a half are removed.
  void process(const camd_frame&, const camd::plugin::Tensors&, camd::plugin::Results& results) override {
    const int before = results.size();
    results.remove_if([](const camd_detection& d) { return d.score < 0.5F; });
    removed_.add(static_cast<std::uint64_t>(before - results.size()));
  }

 private:
  camd::plugin::Counter removed_;
};

CAMD_PLUGIN(Plugin, "@NAME@", "0.1.0", "keeps detections with a score of a half or more")
)";

// Both tests call the table as camd does.
constexpr std::string_view kTest = R"(/* Calls the plug-in as camd does. */
#include <camd/camd_plugin.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C"
#endif
const camd_plugin* camd_plugin_v1(void);

static void log_line(const camd_host* host, camd_log_level level, const char* message) {
  (void)host, (void)level;
  fprintf(stderr, "%s\n", message);
}
static int64_t now(const camd_host* host) {
  (void)host;
  return 0;
}
static const void* no_extension(const camd_host* host, const char* id) {
  (void)host, (void)id;
  return NULL;
}

int main(void) {
  const camd_plugin* plugin = camd_plugin_v1();
  const camd_host host = {sizeof(camd_host), "test", &log_line, &now, &no_extension, 0};
  camd_error error = {sizeof(camd_error), ""};
  camd_detection items[4];
  camd_results results = {sizeof(camd_results), 4, 2, items};
  camd_frame frame;
  camd_tensors tensors;
  void* instance = NULL;
  memset(items, 0, sizeof(items));
  memset(&frame, 0, sizeof(frame));
  memset(&tensors, 0, sizeof(tensors));
  frame.struct_size = sizeof(frame);
  tensors.struct_size = sizeof(tensors);
  items[0].score = 0.4F;
  items[1].score = 0.6F;
  if (plugin->create(&host, "{}", &instance, &error) != CAMD_OK ||
      plugin->process(instance, &frame, &tensors, &results, &error) != CAMD_OK ||
      plugin->destroy(instance, &error) != CAMD_OK) {
    fprintf(stderr, "failed: %s\n", error.message);
    return 1;
  }
  if (results.count != 1 || items[0].score != 0.6F) {
    fprintf(stderr, "expected the second detection alone, got %d\n", (int)results.count);
    return 1;
  }
  puts("ok");
  return 0;
}
)";

constexpr std::string_view kCMake = R"(cmake_minimum_required(VERSION 3.16)
project(@NAME@ LANGUAGES @LANGUAGES@)
set(CMAKE_CXX_STANDARD 17)

# camd_plugin.h is all that it takes: `cmake --install BUILD --component plugin_headers --prefix ...` installs it.
find_path(CAMD_INCLUDE camd/camd_plugin.h REQUIRED)

add_library(@NAME@ MODULE @NAME@.@EXTENSION@)
target_include_directories(@NAME@ PRIVATE ${CAMD_INCLUDE})
set_target_properties(@NAME@ PROPERTIES PREFIX "")

enable_testing()
add_executable(@NAME@_test test_@NAME@.@EXTENSION@ @NAME@.@EXTENSION@)
target_include_directories(@NAME@_test PRIVATE ${CAMD_INCLUDE})
add_test(NAME @NAME@ COMMAND @NAME@_test)
)";

constexpr std::string_view kPython = R"("""@NAME@: a postprocessor of camd.

  postprocess:
    - plugin: detections
    - plugin: ./@NAME@.py
      config: {score: 0.5}
"""

score = 0.5


def setup(config, model):
    """Once, with the entry's `config:`. What is raised here refuses the start, with its text."""
    global score
    score = config.get("score", score)


def outputs(model):
    """What process() reads: names or numbers of the model's outputs; here none."""
    return []


def process(frame, tensors, results):
    """One frame: here detections with a lower score are removed."""
    results.keep(results.array["score"] >= score)
)";

constexpr std::string_view kPythonTest = R"("""python3 -m unittest test_@NAME@.py"""

import unittest

import numpy as np

import @NAME@


class Results:
    """As much of camd's list as the plug-in uses."""

    def __init__(self, scores):
        self.array = np.zeros(len(scores), [("score", np.float32)])
        self.array["score"] = scores

    def keep(self, which):
        self.array = self.array[which]


class Test(unittest.TestCase):
    def test_keeps_what_scores_enough(self):
        results = Results([0.25, 0.75])
        @NAME@.setup({"score": 0.5}, None)
        @NAME@.process(None, None, results)
        self.assertEqual(list(results.array["score"]), [0.75])


if __name__ == "__main__":
    unittest.main()
)";

std::string filled(std::string_view text, std::string_view what, const std::string& by) {
  std::string result(text);
  for (std::size_t at = result.find(what); at != std::string::npos; at = result.find(what, at + by.size())) {
    result.replace(at, what.size(), by);
  }
  return result;
}

void write(const std::filesystem::path& path, std::string_view text, const std::string& name) {
  std::ofstream file(path);
  file << filled(text, kName, name);
  file.close();
  if (!file) throw Error(ErrorKind::kUsage, fmt::format("{}: cannot be written", path.string()));
}

bool good_name(const std::string& name) {
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  return !name.empty() && name.size() <= 40 && lower(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return lower(c) || (c >= '0' && c <= '9') || c == '_'; });
}

}  // namespace

std::vector<std::string> plugin_languages() { return {"c", "c++", "python"}; }

std::string new_plugin(const std::string& name, const std::string& language) {
  if (!good_name(name)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("--new {}: a name is a lower case letter, then lower case letters, digits and '_'", name));
  }
  const std::filesystem::path folder = name;
  std::error_code error;
  if (std::filesystem::exists(folder, error)) {
    throw Error(ErrorKind::kUsage, fmt::format("--new {}: {}/ is there already", name, name));
  }
  if (!std::filesystem::create_directory(folder, error)) {
    throw Error(ErrorKind::kUsage, fmt::format("--new {}: {}", name, error.message()));
  }
  if (language == "python") {
    write(folder / (name + ".py"), kPython, name);
    write(folder / ("test_" + name + ".py"), kPythonTest, name);
    return fmt::format(
        "{0}/{0}.py and its test are there. Next:\n"
        "  cd {0} && python3 -m unittest test_{0}.py\n"
        "  camd plugin ./{0}.py\n",
        name);
  }
  const std::string extension = language == "c" ? "c" : "cpp";
  write(folder / (name + "." + extension), language == "c" ? kC : kCpp, name);
  write(folder / ("test_" + name + "." + extension), kTest, name);
  write(folder / "CMakeLists.txt",
        filled(filled(kCMake, "@LANGUAGES@", language == "c" ? "C" : "C CXX"), "@EXTENSION@", extension), name);
  return fmt::format(
      "{0}/{0}.{1}, its test and CMakeLists.txt are there. Next:\n"
      "  cd {0} && cmake -B build && cmake --build build && ctest --test-dir build\n"
      "  camd plugin ./build/{0}.so\n",
      name, extension);
}

}  // namespace camd::app
