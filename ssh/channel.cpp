#include "ssh/channel.h"

#include "core/output_buffer.h"

namespace termalin::ssh {
namespace {

constexpr unsigned kWindow = 8U << 20U;
/// Of a tunnel's channel whose server is near: what waits between the programs then stays in the processor's
/// caches.
constexpr unsigned kNearWindow = 1U << 20U;
constexpr unsigned kPacket = 32768;

void putNumber(std::string& to, std::uint32_t value)
{
    for (auto shift = 32U; shift > 0; shift -= 8)
        to.push_back(static_cast<char>(value >> (shift - 8) & 0xffU));
}

void putText(std::string& to, std::string_view text)
{
    putNumber(to, static_cast<std::uint32_t>(text.size()));
    to += text;
}

} // namespace

Attempt<Channel> Channel::openSession(Session& session, void const* who, Turn turn)
{
    auto const queued = turn == Turn::Queue;
    if (auto* const ready = session.takeReady(who, queued); ready != nullptr)
        return Channel(session, ready, true);
    if (queued ? !session.claimOpening(who, true) : !session.claimOpeningAtOnce(who))
        return std::nullopt;
    auto* const raw = libssh2_channel_open_ex(session.raw(), "session", 7, kWindow, kPacket, nullptr, 0);
    auto const number = raw == nullptr ? libssh2_session_last_errno(session.raw()) : 0;
    if (number == LIBSSH2_ERROR_EAGAIN)
        return std::nullopt;
    session.releaseOpening(who);
    if (raw != nullptr) {
        session.channelOpened(true);
        return Channel(session, raw, true);
    }
    auto error = session.lastError(Errc::TooMany, "The server opens no further channel");
    if (number != LIBSSH2_ERROR_CHANNEL_FAILURE)
        error.code = Errc::Unreachable;
    else if (queued && session.channelRefused(who))
        return std::nullopt;
    return std::unexpected(std::move(error));
}

Attempt<Channel> Channel::openDirectTcpip(Session& session, void const* who, std::string_view host,
                                          std::uint16_t port)
{
    if (!session.claimOpening(who, false))
        return std::nullopt;
    // RFC 4254 7.2: host and port to connect to, then the originator's address and port.
    std::string message;
    putText(message, host);
    putNumber(message, port);
    putText(message, "127.0.0.1");
    putNumber(message, 0);
    auto* const raw = libssh2_channel_open_ex(session.raw(), "direct-tcpip", 12, kNearWindow, kPacket,
                                              message.data(), static_cast<unsigned>(message.size()));
    if (raw == nullptr && libssh2_session_last_errno(session.raw()) == LIBSSH2_ERROR_EAGAIN)
        return std::nullopt;
    session.releaseOpening(who);
    if (raw == nullptr)
        return std::unexpected(session.lastError(Errc::Unreachable, "The server could not connect to " +
                                                                        visible(host) + " port " +
                                                                        std::to_string(port)));
    session.channelOpened(false);
    return Channel(session, raw, false);
}

void Channel::keepReady(Session& session, Channel channel)
{
    session.keepReady(std::exchange(channel.m_raw, nullptr));
}

bool Channel::abandon(Session& session, void const* who)
{
    return session.dropClaim(who);
}

Channel::~Channel()
{
    if (m_raw != nullptr)
        m_session->retire(m_raw, m_counted);
}

Attempt<void> Channel::attempt(int rc, std::string_view attempted) const
{
    if (rc == LIBSSH2_ERROR_EAGAIN)
        return std::nullopt;
    if (rc < 0)
        return std::unexpected(m_session->lastError(Errc::Unreachable, attempted));
    return Result<void>{};
}

Attempt<void> Channel::setEnvironment(std::string_view name, std::string_view value)
{
#ifdef LIBSSH2_TERMALIN_SESSION_READ
    auto const rc =
        termalin_libssh2_channel_setenv(m_raw, name.data(), name.size(), value.data(), value.size());
#else
    auto const rc = libssh2_channel_setenv_ex(m_raw, name.data(), static_cast<unsigned>(name.size()),
                                              value.data(), static_cast<unsigned>(value.size()));
#endif
    if (rc == LIBSSH2_ERROR_EAGAIN)
        return std::nullopt;
    return Result<void>{}; // a refusal is no failure
}

Attempt<void> Channel::exec(std::string const& command)
{
    auto started = attempt(libssh2_channel_process_startup(m_raw, "exec", 4, command.data(),
                                                           static_cast<unsigned>(command.size())),
                           "The server did not start the command");
    if (started && !*started &&
        libssh2_session_last_errno(m_session->raw()) == LIBSSH2_ERROR_CHANNEL_REQUEST_DENIED)
        started->error().code = Errc::Unsupported;
    return started;
}

Attempt<void> Channel::subsystem(std::string const& name)
{
    return attempt(libssh2_channel_process_startup(m_raw, "subsystem", 9, name.data(),
                                                   static_cast<unsigned>(name.size())),
                   "The server did not start its subsystem " + name);
}

Attempt<void> Channel::sendEof()
{
    return attempt(libssh2_channel_send_eof(m_raw), "Closing the input");
}

Attempt<void> Channel::signal(std::string_view name)
{
    return attempt(libssh2_channel_signal_ex(m_raw, name.data(), name.size()), "Sending a signal");
}

void Channel::mergeErrors()
{
    libssh2_channel_handle_extended_data2(m_raw, LIBSSH2_CHANNEL_EXTENDED_DATA_MERGE);
}

void Channel::widen()
{
#ifdef LIBSSH2_TERMALIN_WINDOW
    termalin_libssh2_channel_window(m_raw, kWindow);
#endif
}

Attempt<std::size_t> Channel::read(char* buffer, std::size_t size)
{
    auto const got = libssh2_channel_read_ex(m_raw, 0, buffer, size);
    if (got > 0)
        return static_cast<std::size_t>(got);
    if (got == LIBSSH2_ERROR_EAGAIN)
        return std::nullopt;
    if (got < 0)
        return std::unexpected(m_session->lastError(Errc::Unreachable, "Reading from the server"));
    if (!atEnd())
        return std::nullopt;
    return std::size_t{0};
}

Attempt<std::size_t> Channel::write(char const* buffer, std::size_t size)
{
    if (m_session->congested())
        return std::nullopt;
    auto const put = libssh2_channel_write_ex(m_raw, 0, buffer, size);
    if (put == LIBSSH2_ERROR_EAGAIN || put == 0)
        return std::nullopt;
    if (put < 0)
        return std::unexpected(m_session->lastError(Errc::Unreachable, "Writing to the server"));
    return static_cast<std::size_t>(put);
}

bool Channel::atEnd() const
{
    return libssh2_channel_eof(m_raw) != 0;
}

bool Channel::closed() const
{
    return atEnd() && libssh2_channel_wait_closed(m_raw) == 0;
}

std::optional<int> Channel::exitStatus() const
{
    auto const status = libssh2_channel_get_exit_status(m_raw);
#ifdef LIBSSH2_TERMALIN_PATCHES
    if (termalin_libssh2_channel_exit_status_received(m_raw) == 0)
        return std::nullopt;
#else
    if (!exitSignal().empty() || (status == 0 && !atEnd()))
        return std::nullopt;
#endif
    return status;
}

std::string Channel::exitSignal() const
{
    char* name = nullptr;
    std::size_t size = 0;
    if (libssh2_channel_get_exit_signal(m_raw, &name, &size, nullptr, nullptr, nullptr, nullptr) != 0 ||
        name == nullptr)
        return {};
    std::string text(name, size);
    libssh2_free(m_session->raw(), name);
    return text;
}

} // namespace termalin::ssh
