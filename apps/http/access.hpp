// Who may ask. What a client sends is looked at here before anything else of it.
//
// Threads: functions of their arguments, [any]. The texts may hold any bytes.
#pragma once

#include <string_view>

namespace camd::http {

// Whether the header `Authorization` brings the token: "Bearer TOKEN", or "Basic" with any user and the token as its
// password (RFC 6750, RFC 7617). How long this takes does not depend on how much of it is right.
[[nodiscard]] bool brings_token(std::string_view authorization, std::string_view token);

// Whether the header `Host` is a numeric address or localhost. A page of another site can make a browser ask a server
// of this machine, but then it is asked under that site's name ("DNS rebinding").
[[nodiscard]] bool names_this_machine(std::string_view host);

}  // namespace camd::http
