#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace termalin {

/// The point in time at which an operation gives up. It is handed down unchanged, so that all the steps of
/// one call share one budget.
class Deadline {
public:
    using Clock = std::chrono::steady_clock;

    static Deadline in(std::chrono::milliseconds budget) { return Deadline(Clock::now() + budget); }
    /// For waits that only a stop token may end. Never passes.
    static Deadline never() { return Deadline(Clock::time_point::max()); }
    static Deadline earlier(Deadline a, Deadline b) { return a.m_at < b.m_at ? a : b; }

    [[nodiscard]] Clock::time_point at() const noexcept { return m_at; }
    [[nodiscard]] bool passed() const { return Clock::now() >= m_at; }

    /// What is left, rounded up, as poll(2) takes it: 0 once passed, at most one minute, so that a caller in
    /// a loop looks again.
    [[nodiscard]] int pollTimeout() const
    {
        auto const now = Clock::now();
        if (m_at <= now)
            return 0;
        if (m_at - now > std::chrono::minutes(1))
            return 60'000;
        return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(m_at - now).count());
    }

private:
    explicit Deadline(Clock::time_point at) : m_at(at) {}
    Clock::time_point m_at;
};

} // namespace termalin
