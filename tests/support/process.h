#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace termalin::test {

/// The pids of processes, zombies left out, whose command line holds `marker`, as ps(1) shows them.
std::vector<pid_t> processesWith(std::string_view marker);
/// A word that no other process has in its command line, such as a number of seconds for sleep(1).
std::string uniqueSeconds();

/// Looks again and again, for at most `limit`, whether something has become true.
bool eventually(std::function<bool()> const& condition,
                std::chrono::milliseconds limit = std::chrono::seconds(20));

} // namespace termalin::test
