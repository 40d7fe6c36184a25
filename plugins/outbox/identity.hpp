// Identities: of two outboxes to the same place one runs at a time in a process. A reload makes the second beside the
// first.
//
// Threads: [any].
// Invariants: an identity that was taken is given back once.
#pragma once

#include <functional>
#include <string>

namespace camd::plugins {

// [blocks] until nobody has it. False: `stopping` said so, and it was not taken. `waits` is called once when it takes
// longer than two seconds.
[[nodiscard]] bool take_identity(const std::string& identity, const std::function<bool()>& stopping,
                                 const std::function<void()>& waits);
void give_identity(const std::string& identity);
// Lets those that wait ask `stopping` again.
void wake_identities();

}  // namespace camd::plugins
