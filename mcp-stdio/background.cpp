#include "mcp-stdio/background.h"

#include <utility>

namespace termalin::mcp {

Background::~Background()
{
    std::list<Job> jobs;
    {
        std::scoped_lock const lock(m_mutex);
        jobs.swap(m_jobs);
    }
    for (auto& job : jobs)
        job.thread.request_stop();
}

void Background::run(std::function<void(std::stop_token const&)> job)
{
    std::list<Job> finished; // joined without the lock
    std::scoped_lock const lock(m_mutex);
    for (auto one = m_jobs.begin(); one != m_jobs.end();) {
        auto const next = std::next(one);
        if (one->done.load())
            finished.splice(finished.end(), m_jobs, one);
        one = next;
    }
    auto& added = m_jobs.emplace_back();
    added.thread = std::jthread([&added, job = std::move(job)](std::stop_token const& stop) {
        job(stop);
        added.done = true;
    });
}

} // namespace termalin::mcp
