#include "ssh/detail_ready.h"

#include <algorithm>
#include <chrono>

#include "ssh/channel.h"
#include "ssh/detail_connection.h"

namespace termalin::ssh {
namespace {

constexpr std::chrono::seconds kLongestPause{60};

} // namespace

bool ReadyTask::step(Session& session)
{
    if (m_notBefore.at() != Deadline::never().at()) {
        if (!m_notBefore.passed())
            return false;
        m_notBefore = Deadline::never(); // what it waits for from now on wakes it by itself
    }
    if (!m_opening && (session.hasReady() || session.openChannels() > 0 || session.openingWanted()))
        return false;
    m_opening = true; // from here on nobody else opens one until the server has answered
    auto opened = Channel::openSession(session, this, Channel::Turn::AtOnce);
    if (!opened)
        return false;
    m_opening = false;
    if (!*opened) {
        m_notBefore = Deadline::in(m_pause);
        m_pause = std::min(2 * m_pause, kLongestPause);
        return false;
    }
    Channel::keepReady(session, **std::move(opened));
    return false;
}

void ConnectionImpl::keepChannelReady()
{
    if (!m_keepsReady.exchange(true))
        post(std::make_shared<ReadyTask>());
}

} // namespace termalin::ssh
