#pragma once

#include <cstdint>
#include <fmt/format.h>
#include <string_view>

namespace termalin {

enum class LogLevel : std::uint8_t { Debug, Info, Warn, Error };

/// Writes one line to stderr if `level` is at or above TERMALIN_LOG (debug|info|warn|error, default warn) or
/// what setLogLevel() chose. One write(2) a line; control characters are shown, not obeyed. Never a secret,
/// remote output or a command line. Thread safe.
void logLine(LogLevel level, std::string_view category, std::string_view text);
[[nodiscard]] bool logs(LogLevel level) noexcept;
void setLogLevel(LogLevel level) noexcept;
/// Gets every line that is logged as well, from the thread that logs it; empty: nobody. For the protocol's
/// own log messages.
void setLogListener(void (*listener)(LogLevel, std::string_view category, std::string_view text));

template <class... T>
void log(LogLevel level, std::string_view category, fmt::format_string<T...> format, T&&... arguments)
{
    if (logs(level))
        logLine(level, category, fmt::format(format, std::forward<T>(arguments)...));
}

} // namespace termalin
