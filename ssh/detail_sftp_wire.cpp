#include "ssh/detail_sftp_wire.h"

#include "ssh/sftp_codec.h"

namespace termalin::ssh {

void SftpMessage::GiveBack::operator()(char* bytes) const
{
    std::unique_ptr<char[]> owned(bytes); // NOLINT(modernize-avoid-c-arrays): see Pool
    if (pool == nullptr)
        return;
    std::lock_guard const lock(pool->mutex);
    if (pool->free.size() < kMaxFree)
        pool->free.push_back(std::move(owned));
}

SftpMessage::SftpMessage(std::shared_ptr<Pool> const& pool, std::size_t size) : m_size(size)
{
    if (size < kPooled / 8 || size > kPooled) {
        m_bytes = {new char[size], GiveBack{}};
        return;
    }
    std::lock_guard const lock(pool->mutex);
    if (pool->free.empty()) {
        m_bytes = {new char[kPooled], GiveBack{pool}};
        return;
    }
    m_bytes = {pool->free.back().release(), GiveBack{pool}};
    pool->free.pop_back();
}

void SftpWire::send(std::string message)
{
    std::lock_guard const lock(m_mutex);
    if (!m_failure)
        m_out.push_back(std::move(message));
}

Result<SftpMessage> SftpWire::receive(CallLimits const& limits)
{
    std::unique_lock lock(m_mutex);
    m_changed.wait_until(lock, limits.stop, limits.deadline.at(), [&] { return !m_in.empty() || m_failure; });
    // The limits bind a server that always has one more answer, too.
    auto const over = limits.stop.stop_requested() || limits.deadline.passed();
    if (!m_in.empty() && !over) {
        auto message = std::move(m_in.front());
        m_in.pop_front();
        m_inBytes -= message.m_size;
        return message;
    }
    if (m_failure)
        return std::unexpected(*m_failure);
    if (limits.stop.stop_requested())
        return ::termalin::fail(Errc::Cancelled, "The file transfer with " + m_server + " was stopped.");
    return ::termalin::fail(Errc::Timeout,
                            m_server + " did not answer in time; try again with a longer timeout.");
}

void SftpWire::unsend()
{
    std::lock_guard const lock(m_mutex);
    m_out.clear();
}

void SftpWire::shut(Error why)
{
    std::lock_guard const lock(m_mutex);
    if (!m_failure)
        m_failure = std::move(why);
    m_out.clear();
    m_changed.notify_all();
}

bool SftpWire::broken()
{
    std::lock_guard const lock(m_mutex);
    return m_failure.has_value();
}

void SftpWire::ended(Error const& why)
{
    m_channel.reset();
    fail(why);
}

bool SftpWire::step(Session& session)
{
    if (broken())
        return giveUp(session);
    if (!m_started && !open(session))
        return broken() && giveUp(session);
    write();
    auto const before = [&] {
        std::lock_guard const lock(m_mutex);
        return m_inBytes <= kMaxQueued;
    };
    if (before())
        read();
    return broken() && giveUp(session);
}

bool SftpWire::giveUp(Session& session)
{
    if (!m_channel && !Channel::abandon(session, this)) {
        auto opened = Channel::openSession(session, this); // libssh2 must be let through to the end
        if (!opened)
            return false;
        if (*opened)
            m_channel = std::move(**opened);
    }
    m_channel.reset();
    return true;
}

bool SftpWire::open(Session& session)
{
    if (!m_channel) {
        auto opened = Channel::openSession(session, this);
        m_wakeAt = opened ? Deadline::never() : session.openingWakeAt();
        if (!opened)
            return false;
        if (!*opened) {
            fail(std::move(*opened).error());
            return false;
        }
        m_channel = std::move(**opened);
        // Nobody reads its stderr, behind which the end of the stream would stay hidden.
        libssh2_channel_handle_extended_data2(m_channel->raw(), LIBSSH2_CHANNEL_EXTENDED_DATA_IGNORE);
    }
    auto const started = m_channel->subsystem("sftp");
    if (!started)
        return false;
    if (!*started) {
        fail(noSftp(session.lost().empty() ? "it refused the sftp subsystem" : session.lost()));
        return false;
    }
    m_started = true;
    return true;
}

void SftpWire::write()
{
    for (;;) {
        if (m_sent == m_sending.size()) {
            m_sent = 0;
            m_sending.clear();
            std::lock_guard const lock(m_mutex);
            if (m_out.empty())
                return;
            m_sending = std::move(m_out.front());
            m_out.pop_front();
            // Small ones go together, in one packet of the transport.
            while (!m_out.empty() && m_sending.size() + m_out.front().size() <= 32U * 1024U) {
                m_sending += m_out.front();
                m_out.pop_front();
            }
        }
        auto const given = m_channel->write(m_sending.data() + m_sent, m_sending.size() - m_sent);
        if (!given)
            return;
        if (!*given) {
            fail(given->error());
            return;
        }
        m_sent += **given;
    }
}

void SftpWire::read()
{
    for (;;) {
        auto const inHeader = !m_coming;
        auto* const to = inHeader ? m_header.data() : m_coming->m_bytes.get();
        auto const got =
            m_channel->read(to + m_have, (inHeader ? m_header.size() : m_coming->m_size) - m_have);
        if (!got)
            return;
        if (!*got) {
            fail(got->error());
            return;
        }
        if (**got == 0) {
            fail(m_answered ? Error{Errc::Unreachable,
                                    m_server + " ended its SFTP program; what was under way may or may "
                                               "not have been done."}
                            : noSftp("its SFTP program ended before it said a word"));
            return;
        }
        m_have += **got;
        if (!inHeader && m_have == m_coming->m_size) {
            gotMessage();
            continue;
        }
        if (!inHeader || m_have < m_header.size())
            continue;
        std::size_t size = 0;
        for (char const c : m_header)
            size = size << 8U | static_cast<unsigned char>(c);
        if (size == 0 || size > sftp::kMaxMessage) {
            // Four letters are more than a million: a start-up file that prints something.
            fail(noSftp(m_answered
                            ? "it sent a message of impossible length"
                            : "what it sent is not SFTP; a start-up file of the account may print text"));
            return;
        }
        m_coming = SftpMessage(m_pool, size);
        m_have = 0;
    }
}

void SftpWire::gotMessage()
{
    m_answered = true;
    m_have = 0;
    std::lock_guard const lock(m_mutex);
    m_inBytes += m_coming->m_size;
    m_in.push_back(*std::move(m_coming));
    m_coming.reset();
    m_changed.notify_all();
}

Error SftpWire::noSftp(std::string_view what) const
{
    return {Errc::Unsupported,
            m_server + " has no SFTP for this login (" + std::string(what) +
                "). Run a command there instead: \"cat FILE\" or \"base64 FILE\" reads a file, "
                "\"printf\" or \"base64 -d\" into a file writes one."};
}

} // namespace termalin::ssh
