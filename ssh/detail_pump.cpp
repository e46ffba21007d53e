#include "ssh/detail_pump.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/socket.h>

namespace termalin::ssh {
namespace {

constexpr std::size_t kPiece = 128U * 1024U; ///< one for each way of each connection
/// An answer that takes longer may come from where 1 MiB in a round trip is the limit: 200 MiB/s and less.
constexpr std::chrono::milliseconds kNear{5};
constexpr int kTurns = 32; ///< in one step, so that the other tasks get theirs

} // namespace

Pump::Pump(UniqueFd stream, std::string host, std::uint16_t port, PumpEvents events)
    : m_stream(std::move(stream)), m_host(std::move(host)), m_port(port), m_events(std::move(events))
{
    ::fcntl(m_stream.get(), F_SETFL, ::fcntl(m_stream.get(), F_GETFL) | O_NONBLOCK);
}

Pump::~Pump() = default;

bool Pump::finish(std::optional<Error> const& why)
{
    m_channel.reset();
    if (!std::exchange(m_over, true) && m_events.onEnded)
        m_events.onEnded(why);
    m_stream.reset(); // last: whoever sees the end of the stream finds the reason told
    return true;
}

void Pump::ended(Error const& why)
{
    finish(why);
}

bool Pump::step(Session& session)
{
    auto const stopped = m_events.stopped && m_events.stopped();
    if (!m_channel) {
        if (stopped && Channel::abandon(session, this))
            return finish(std::nullopt);
        if (!m_asked)
            m_asked = Deadline::Clock::now();
        auto opened = Channel::openDirectTcpip(session, this, m_host, m_port);
        if (!opened)
            return false;
        if (!*opened)
            return finish(opened->error());
        m_channel = **std::move(opened);
        if (Deadline::Clock::now() - *m_asked > kNear)
            m_channel->widen();
        if (!stopped && m_events.onOpened)
            m_events.onOpened();
    }
    if (stopped)
        return finish(std::nullopt);
    auto up = true;
    auto down = true;
    for (int turn = 0; (up || down) && !m_broken && turn < kTurns; ++turn) { // a way that stands still waits
        up = up && toServer();
        down = down && toStream();
    }
    m_more = up || down;
    if (m_broken || (m_up.passedOn && m_down.passedOn))
        return finish(std::nullopt);
    return false;
}

void Pump::fillFromStream()
{
    m_up.bytes.resize(kPiece); // once
    auto const got = ::recv(m_stream.get(), m_up.bytes.data(), kPiece, 0);
    auto const number = errno;
    m_up.hold(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0)
        m_up.ended = true;
    else if (got < 0 && number != EAGAIN && number != EINTR)
        m_broken = true;
}

/// True when something moved.
bool Pump::toServer()
{
    if (m_up.passedOn)
        return false;
    if (m_up.empty() && !m_up.ended)
        fillFromStream();
    if (m_up.empty()) {
        if (m_up.ended && m_channel->sendEof())
            m_up.passedOn = true;
        return m_up.passedOn;
    }
    auto const put = m_channel->write(m_up.data(), m_up.size());
    if (!put)
        return false;
    if (!*put) {
        m_broken = true;
        return false;
    }
    m_up.start += **put;
    if (m_events.onBytes)
        m_events.onBytes(0, **put);
    return true;
}

bool Pump::toStream()
{
    if (m_down.passedOn)
        return false;
    if (m_down.empty() && !m_down.ended) {
        m_down.bytes.resize(kPiece); // once
        auto const got = m_channel->read(m_down.bytes.data(), kPiece);
        m_broken = m_broken || (got && !*got);
        m_down.hold(got && *got ? **got : 0);
        m_down.ended = got && *got && **got == 0;
    }
    if (m_down.empty()) {
        if (m_down.ended) {
            ::shutdown(m_stream.get(), SHUT_WR);
            m_down.passedOn = true;
        }
        return m_down.passedOn;
    }
    auto const put = ::send(m_stream.get(), m_down.data(), m_down.size(), MSG_NOSIGNAL);
    if (put < 0) {
        m_broken = m_broken || (errno != EAGAIN && errno != EINTR);
        return false;
    }
    m_down.start += static_cast<std::size_t>(put);
    if (m_events.onBytes)
        m_events.onBytes(static_cast<std::uint64_t>(put), 0);
    return true;
}

Deadline Pump::wakeAt() const
{
    return m_more ? Deadline::in(std::chrono::milliseconds(0)) : Deadline::never();
}

/// Readiness that step() would not use is not asked for: it would turn the loop into a spin.
void Pump::polls(std::vector<pollfd>& out) const
{
    if (!m_stream)
        return;
    short events = 0;
    if (m_channel && m_up.empty() && !m_up.ended)
        events |= POLLIN;
    if (m_channel && !m_down.empty())
        events |= POLLOUT;
    if (events != 0)
        out.push_back({m_stream.get(), events, 0});
}

} // namespace termalin::ssh
