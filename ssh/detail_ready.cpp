#include "ssh/detail_ready.h"

#include "ssh/channel.h"
#include "ssh/detail_connection.h"

namespace termalin::ssh {

bool ReadyTask::step(Session& session)
{
    if (!m_opening && (session.hasReady() || session.openChannels() > 0 || session.openingWanted()))
        return false;
    m_opening = true; // from here on nobody else opens one until the server has answered
    auto opened = Channel::openSession(session, this, Channel::Turn::AtOnce);
    if (!opened)
        return false;
    m_opening = false;
    if (!*opened)
        return true;
    Channel::keepReady(session, **std::move(opened));
    return false;
}

void ConnectionImpl::keepChannelReady()
{
    if (!m_keepsReady.exchange(true))
        post(std::make_shared<ReadyTask>());
}

} // namespace termalin::ssh
