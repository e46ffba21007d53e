#include "core/log.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string>
#include <unistd.h>
#include <utility>

#include "core/output_buffer.h"

namespace termalin {

namespace {

constexpr std::array<std::pair<std::string_view, LogLevel>, 4> kLevels = {{{"debug", LogLevel::Debug},
                                                                           {"info", LogLevel::Info},
                                                                           {"warn", LogLevel::Warn},
                                                                           {"error", LogLevel::Error}}};

LogLevel levelOfEnvironment() noexcept
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): read once, and nothing of ours changes the environment
    auto const* const wanted = std::getenv("TERMALIN_LOG");
    for (auto const& [name, level] : kLevels)
        if (wanted != nullptr && name == wanted)
            return level;
    return LogLevel::Warn;
}

std::atomic<LogLevel>& currentLevel() noexcept
{
    static std::atomic<LogLevel> level = levelOfEnvironment();
    return level;
}

using Listener = void (*)(LogLevel, std::string_view, std::string_view);
std::atomic<Listener>& currentListener() noexcept
{
    static std::atomic<Listener> listener = nullptr;
    return listener;
}

std::string_view nameOf(LogLevel level) noexcept
{
    for (auto const& [name, value] : kLevels)
        if (value == level)
            return name;
    return "error";
}

std::string timeNow()
{
    auto const now = std::chrono::system_clock::now();
    auto const seconds = std::chrono::system_clock::to_time_t(now);
    auto const milliseconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
    std::tm utc{};
    (void)gmtime_r(&seconds, &utc); // fails only where the year is no int
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                       utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, milliseconds);
}

} // namespace

bool logs(LogLevel level) noexcept
{
    return level >= currentLevel().load(std::memory_order_relaxed);
}

void setLogLevel(LogLevel level) noexcept
{
    currentLevel().store(level, std::memory_order_relaxed);
}

void setLogListener(void (*listener)(LogLevel, std::string_view, std::string_view))
{
    currentListener().store(listener, std::memory_order_release);
}

void logLine(LogLevel level, std::string_view category, std::string_view text)
{
    if (!logs(level))
        return;
    auto const line =
        fmt::format("{} {} {}: {}\n", timeNow(), nameOf(level), visible(category), visible(text));
    // One write, so that lines of several threads and processes do not mix. There is nobody to tell when
    // stderr cannot be written.
    [[maybe_unused]] auto const written = ::write(STDERR_FILENO, line.data(), line.size());
    if (auto* const listener = currentListener().load(std::memory_order_acquire); listener != nullptr)
        listener(level, category, text);
}

} // namespace termalin
