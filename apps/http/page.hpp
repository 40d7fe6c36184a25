// The live page, apps/http/page.html, which is compiled in: one file that loads nothing from elsewhere.
//
// Threads: functions without arguments, [any].
#pragma once

#include <string>
#include <string_view>

namespace camd::http {

[[nodiscard]] std::string_view page_html() noexcept;

// The header Content-Security-Policy for the page (w3.org/TR/CSP3): its own script and its own styles by their
// SHA-256, this server alone to ask, and no page of another site around it.
[[nodiscard]] const std::string& page_policy();

}  // namespace camd::http
