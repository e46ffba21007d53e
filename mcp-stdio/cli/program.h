#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"

namespace termalin::cli {

/// An executable of this name in PATH, as an absolute path.
[[nodiscard]] std::optional<std::filesystem::path> findInPath(std::string const& name);

struct ProgramOutcome {
    int status = 0;     ///< Exit code; 128 + the signal's number where one ended it.
    std::string output; ///< stdout and stderr together, the first 64 KiB.
};

/// Runs a program, without a shell, with an empty input, and waits for it. It is ended after `limit`.
/// Errors: NotFound when it cannot be started; Timeout.
Result<ProgramOutcome> runProgram(std::vector<std::string> const& words, std::chrono::seconds limit);

/// The words as a person would type them in a shell: quoted where need be.
[[nodiscard]] std::string asTyped(std::vector<std::string> const& words);

} // namespace termalin::cli
