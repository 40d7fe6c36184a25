// What camd itself reads of a request: the headers `Authorization` and `Host`, the path and its parameters. The rest is
// the library's. An input is a line for each: path, host, authorization, then `name=value` for each parameter.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "apps/http/access.hpp"
#include "apps/http/service.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::string_view kToken = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

void expect(bool holds) {
  if (!holds) std::abort();
}

std::string next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  // As the library has it: a text ends with its first NUL.
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(text.size(), end + 1));
  return std::string(line.substr(0, line.find('\0')));
}

camd::http::HttpService& service() {
  using camd::pipeline::Snapshot;
  static camd::http::HttpService one("1", {}, camd::base::system_clock());
  static const bool attached = [] {
    one.tap().make_room(1);
    one.attach({[] { return std::optional<Snapshot>(Snapshot()); }, [] { return camd::pipeline::Progress(); },
                [](std::string_view name) {
                  return name == "door" ? std::optional<camd::capture::CameraIndex>(0) : std::nullopt;
                }});
    return true;
  }();
  (void)attached;
  return one;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  // A text that was not made from the token does not bring it.
  (void)camd::http::names_this_machine(text);
  if (camd::http::brings_token(text, kToken)) {
    expect(text.find(kToken) != std::string_view::npos || text.starts_with("B") || text.starts_with("b"));
  }

  const std::string path = next_line(text), host = next_line(text), authorization = next_line(text);
  std::map<std::string, std::string, std::less<>> parameters;
  while (!text.empty()) {
    const std::string line = next_line(text);
    const std::size_t equals = std::min(line.find('='), line.size());
    parameters[line.substr(0, equals)] = line.substr(std::min(line.size(), equals + 1));
  }
  camd::http::Request request;
  request.path = path;
  request.host = host;
  request.authorization = authorization;
  request.parameter = [&parameters](const char* name) {
    const auto found = parameters.find(std::string_view(name));
    return found == parameters.end() ? std::string_view() : std::string_view(found->second);
  };
  const camd::http::Reply open = service().answer(request, "");
  expect(open.later || open.stream != nullptr || (open.status >= 200 && open.status < 600));
  // A camera that is not there has no picture.
  if (open.later) expect(path == "/api/v1/cameras/door/latest.jpg");
  const camd::http::Reply closed = service().answer(request, std::string(kToken));
  if (!camd::http::brings_token(authorization, kToken)) {
    expect(closed.status == 401 || path == "/healthz" || path == "/readyz");
    expect(!closed.later && closed.stream == nullptr);
  }
  return 0;
}
