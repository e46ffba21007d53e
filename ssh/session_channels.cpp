// Who may open a channel, and what becomes of channels that nobody owns any more.
#include <algorithm>
#include <utility>

#include "ssh/session.h"

namespace termalin::ssh {

using namespace std::chrono_literals;

bool Session::claimOpening(void const* who, bool counted)
{
    if (m_opener == who)
        return true;
    if (!counted)
        return claimOpeningAtOnce(who);
    if (std::ranges::find(m_queue, who) == m_queue.end())
        m_queue.push_back(who);
    if (m_holds > 0 || m_opener != nullptr || m_queue.front() != who || m_open >= m_limit ||
        Deadline::Clock::now() < m_retryAfter)
        return false;
    m_queue.pop_front();
    m_opener = who;
    return true;
}

bool Session::claimOpeningAtOnce(void const* who)
{
    if (m_opener == nullptr)
        m_opener = who;
    return m_opener == who;
}

void Session::releaseOpening(void const* who) noexcept
{
    if (m_opener == who)
        m_opener = nullptr;
    std::erase(m_queue, who);
    ++m_chances;
}

bool Session::dropClaim(void const* who) noexcept
{
    if (m_opener == who)
        return false;
    if (std::erase(m_queue, who) > 0)
        ++m_chances;
    return true;
}

void Session::channelOpened(bool counted) noexcept
{
    m_hurry = false;
    m_retries = 0;
    if (counted)
        ++m_open;
}

/// sshd counts a session until both sides have closed it and its loop has come round once more, so right
/// after a close a refusal need not mean much.
bool Session::channelRefused(void const* who)
{
    auto const now = Deadline::Clock::now();
    if (m_open > 0)
        m_limit = m_open;
    else if (m_retries >= 20 || now - m_lastFreed > 2s)
        return false;
    else {
        ++m_retries;
        m_retryAfter = now + 10ms * m_retries;
    }
    m_queue.push_front(who);
    return true;
}

Deadline Session::openingWakeAt() const
{
    auto const now = Deadline::Clock::now();
    if (m_retryAfter <= now)
        return Deadline::never();
    return Deadline::in(std::chrono::ceil<std::chrono::milliseconds>(m_retryAfter - now));
}

LIBSSH2_CHANNEL* Session::takeReady(void const* who, bool queued)
{
    if (m_ready == nullptr || m_opener == who)
        return nullptr;
    if (queued && (m_holds > 0 || (!m_queue.empty() && m_queue.front() != who)))
        return nullptr;
    auto* const ready = std::exchange(m_ready, nullptr);
    if (libssh2_channel_eof(ready) != 0) { // the server closes what is idle (sshd_config(5), ChannelTimeout)
        retire(ready, true);
        return nullptr;
    }
    if (std::erase(m_queue, who) > 0)
        ++m_chances;
    return ready;
}

void Session::retire(LIBSSH2_CHANNEL* channel, bool counted)
{
    m_retired.push_back({channel, counted});
}

void Session::sweep()
{
    std::erase_if(m_retired, [this](Retired const& retired) {
        if (libssh2_channel_free(retired.channel) == LIBSSH2_ERROR_EAGAIN)
            return false;
        if (retired.counted) {
            --m_open;
            ++m_chances;
            m_lastFreed = Deadline::Clock::now();
        }
        return true;
    });
}

} // namespace termalin::ssh
