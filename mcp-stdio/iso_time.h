#pragma once

#include <chrono>
#include <string>

namespace termalin::mcp {

/// "2026-01-31T09:05:00Z"
[[nodiscard]] std::string isoTime(std::chrono::system_clock::time_point time);

} // namespace termalin::mcp
