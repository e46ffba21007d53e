#include "mcp-stdio/call_threads.h"

#include <utility>

namespace termalin::mcp {

CallThreads::~CallThreads()
{
    std::unique_lock lock(m_mutex);
    m_ending = true;
    m_changed.notify_all();
    m_changed.wait(lock, [this] { return m_threads.empty(); });
    for (auto& thread : m_ended) // they have left the mutex, or wait for it no more
        thread.join();
}

void CallThreads::run(std::function<void()> job)
{
    std::list<std::thread> ended; // joined without the lock
    std::unique_lock lock(m_mutex);
    ended.swap(m_ended);
    if (m_idle > m_handed.size()) {
        m_handed.push_back(std::move(job));
        lock.unlock(); // so that who wakes finds it free
        m_changed.notify_one();
    } else {
        auto const self = m_threads.emplace(m_threads.end());
        try {
            *self =
                std::thread([this, self, first = std::move(job)]() mutable { work(self, std::move(first)); });
        } catch (...) {
            m_threads.erase(self);
            m_ended.splice(m_ended.end(), ended);
            throw;
        }
        lock.unlock();
    }
    for (auto& thread : ended)
        thread.join();
}

void CallThreads::work(std::list<std::thread>::iterator self, std::function<void()> job)
{
    for (;;) {
        std::exchange(job, nullptr)(); // and what it holds is let go before the wait
        std::unique_lock lock(m_mutex);
        if (m_idle < kMostIdle && !m_ending) {
            ++m_idle;
            m_changed.wait(lock, [this] { return !m_handed.empty() || m_ending; });
            --m_idle;
            if (!m_handed.empty()) {
                job = std::move(m_handed.front());
                m_handed.pop_front();
                continue;
            }
        }
        m_ended.splice(m_ended.end(), m_threads, self);
        m_changed.notify_all();
        return;
    }
}

} // namespace termalin::mcp
