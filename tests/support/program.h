#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace termalin::test {

/// What another program answered.
struct Ran {
    int status = -1; ///< Its exit code; 128 and the signal if one ended it.
    std::string out; ///< stdout and stderr, as they came.

    [[nodiscard]] bool ok() const noexcept { return status == 0; }
};

/// Runs a program (found along PATH, no shell) to its end with empty input. `environment`: NAME=VALUE on top
/// of ours. Throws std::runtime_error when it cannot be started.
Ran run(std::vector<std::string> const& command, std::vector<std::string> const& environment = {},
        std::string_view input = {});

/// The same for a program that must succeed: throws with what it said otherwise. Gives its output.
std::string mustRun(std::vector<std::string> const& command, std::vector<std::string> const& environment = {},
                    std::string_view input = {});

} // namespace termalin::test
