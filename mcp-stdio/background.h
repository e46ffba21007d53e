#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <stop_token>
#include <thread>

namespace termalin::mcp {

/// Jobs on threads of their own, which end with this: its destruction requests a stop of all and joins them.
/// Thread safe.
class Background {
public:
    Background() = default;
    ~Background();
    Background(Background const&) = delete;
    Background& operator=(Background const&) = delete;

    void run(std::function<void(std::stop_token const&)> job);

private:
    struct Job {
        std::atomic<bool> done = false;
        std::jthread thread; ///< last: joined before the rest goes
    };
    std::mutex m_mutex;
    std::list<Job> m_jobs; ///< guarded by m_mutex
};

} // namespace termalin::mcp
