#include "mcp-stdio/running.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>
#include <vector>

namespace termalin::mcp {

Running::Listed Running::add(Work work)
{
    std::scoped_lock const lock(m_mutex);
    m_entries.emplace(++m_last, Entry{.work = std::move(work), .why = {}});
    return {this, m_last};
}

void Running::remove(std::int64_t number)
{
    Entry gone; // destroyed without the lock: its predicate may hold anything
    {
        std::scoped_lock const lock(m_mutex);
        auto const found = m_entries.find(number);
        gone = std::move(found->second);
        m_entries.erase(found);
    }
    m_fewer.notify_all();
}

std::string Running::why(std::int64_t number)
{
    std::scoped_lock const lock(m_mutex);
    return m_entries.at(number).why;
}

std::set<std::string> Running::hostIds()
{
    std::scoped_lock const lock(m_mutex);
    std::set<std::string> ids;
    for (auto const& [number, entry] : m_entries)
        ids.insert(entry.work.hostId);
    return ids;
}

void Running::stopThose(StopReason reason, std::function<std::string(Work const&)> const& reasonTo)
{
    std::vector<std::pair<std::int64_t, Work>> all;
    {
        std::scoped_lock const lock(m_mutex);
        for (auto const& [number, entry] : m_entries)
            all.emplace_back(number, entry.work);
    }
    for (auto const& [number, work] : all) { // judged and ended without the lock: both call out
        auto why = reasonTo(work);
        if (why.empty())
            continue;
        {
            std::scoped_lock const lock(m_mutex);
            if (auto const found = m_entries.find(number);
                found != m_entries.end() && found->second.why.empty())
                found->second.why = std::move(why);
        }
        work.control->request(reason);
    }
}

void Running::stopAll(StopReason reason, std::string const& why)
{
    stopThose(reason, [&](Work const&) { return why; });
}

void Running::judge(std::string const& hostId, Result<Host> const& host)
{
    stopThose(StopReason::PolicyChanged, [&](Work const& work) -> std::string {
        if (work.hostId != hostId)
            return {};
        if (!host && host.error().code == Errc::UnknownHost)
            return "Stopped because the person removed this host.";
        if (!host)
            return "Stopped because it could not be read what the person allows now. " + host.error().message;
        if (host->routeRevision != work.routeRevision)
            return "Stopped because the person changed where this host is, or the way to it.";
        if (host->policy == AgentPolicy::Blocked)
            return "Stopped because the person closed this host to agents.";
        if (!work.admitted(*host))
            return "Stopped because what the person allows on this host no longer admits it.";
        return {};
    });
}

void Running::stopSession(std::string const& sessionId, StopReason reason, std::string const& why)
{
    stopThose(reason, [&](Work const& work) { return work.sessionId == sessionId ? why : std::string(); });
}

bool Running::waitForSession(std::string const& sessionId, Deadline deadline, std::stop_token const& stop)
{
    std::unique_lock lock(m_mutex);
    return m_fewer.wait_until(lock, stop, deadline.at(), [&] {
        return std::ranges::none_of(m_entries,
                                    [&](auto const& one) { return one.second.work.sessionId == sessionId; });
    });
}

bool Running::waitForAll(Deadline deadline)
{
    std::unique_lock lock(m_mutex);
    return m_fewer.wait_until(lock, deadline.at(), [&] { return m_entries.empty(); });
}

} // namespace termalin::mcp
