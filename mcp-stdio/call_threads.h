#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace termalin::mcp {

/// Threads for calls. A few that have done their job wait for the next: starting a thread, with a new stack
/// to be mapped and touched, takes longer than many a call. Thread safe.
class CallThreads {
public:
    /// So many wait at most; more only run while there is work.
    static constexpr std::size_t kMostIdle = 8;

    CallThreads() = default;
    ~CallThreads(); ///< Waits for the jobs that run.
    CallThreads(CallThreads const&) = delete;
    CallThreads& operator=(CallThreads const&) = delete;

    /// Runs `job`, which must not throw, at once on a thread of its own. Throws std::system_error when the
    /// system has no thread left; nothing was run then.
    void run(std::function<void()> job);

private:
    void work(std::list<std::thread>::iterator self, std::function<void()> job);

    std::mutex m_mutex; ///< guards all
    std::condition_variable m_changed;
    std::deque<std::function<void()>> m_handed; ///< Each to one that is idle.
    std::size_t m_idle = 0;                     ///< Of these, m_handed.size() have a job coming.
    std::list<std::thread> m_threads;
    std::list<std::thread> m_ended; ///< To be joined.
    bool m_ending = false;
};

} // namespace termalin::mcp
