#include "mcp-stdio/handshakes.h"

#include <algorithm>
#include <fmt/format.h>

namespace termalin::mcp {

Handshakes::Slot::~Slot()
{
    if (m_in == nullptr)
        return;
    {
        std::scoped_lock const lock(m_in->m_mutex);
        for (auto const& id : m_ids)
            if (auto const found = m_in->m_busy.find(id); --found->second == 0)
                m_in->m_busy.erase(found);
    }
    m_in->m_fewer.notify_all();
}

Result<Handshakes::Slot> Handshakes::enter(std::vector<std::string> hostIds, Deadline deadline,
                                           std::stop_token const& stop)
{
    std::ranges::sort(hostIds);
    hostIds.erase(std::ranges::unique(hostIds).begin(), hostIds.end());
    std::unique_lock lock(m_mutex);
    auto const free = [&] {
        return std::ranges::all_of(hostIds, [&](std::string const& id) {
            auto const found = m_busy.find(id);
            return found == m_busy.end() || found->second < kMost;
        });
    };
    if (!m_fewer.wait_until(lock, stop, deadline.at(), free)) {
        if (stop.stop_requested())
            return fail(Errc::Cancelled,
                        "Stopped while waiting for other logins to this host; nothing was sent.");
        return std::unexpected(
            Error{.code = Errc::Timeout,
                  .message = fmt::format("The time ran out while {} other logins to this host "
                                         "were under way; nothing was sent. Try again, or use "
                                         "session_open once and session_exec after it.",
                                         kMost),
                  .source = {},
                  .nothingWasSent = true});
    }
    for (auto const& id : hostIds)
        ++m_busy[id];
    return Slot(this, std::move(hostIds));
}

} // namespace termalin::mcp
