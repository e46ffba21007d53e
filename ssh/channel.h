#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/result.h"
#include "ssh/session.h"

namespace termalin::ssh {

/// What a libssh2 call that does not block gave. Empty: nothing yet; repeat the call, with the arguments as
/// they were.
template <class T>
using Attempt = std::optional<Result<T>>;

/// A channel of a Session, which has to outlive it; only the connection's thread may use it. Closing a
/// channel can take several turns of libssh2, so the destructor leaves the handle to Session::retire() and
/// returns.
class Channel {
public:
    enum class Turn : std::uint8_t { Queue, AtOnce };

    /// A session channel with a window of 8 MiB. `who`: the caller's identity, the same at each attempt; one
    /// that gives up calls abandon(). Queue: waits its turn and for room among the session channels. AtOnce:
    /// passes both by, and fails where the server refuses. A channel that is kept ready is given first.
    /// Errors: TooMany, Unreachable.
    static Attempt<Channel> openSession(Session& session, void const* who, Turn turn = Turn::Queue);
    /// A direct-tcpip channel (RFC 4254 7.2) with a window of 1 MiB; see widen(). Errors: Unreachable, with
    /// the server's reason.
    static Attempt<Channel> openDirectTcpip(Session& session, void const* who, std::string_view host,
                                            std::uint16_t port);
    /// Lets the session keep a session channel for the next one that opens one.
    static void keepReady(Session& session, Channel channel);
    /// Gives up an opening. False: libssh2 is in the middle of it; attempt it again until it answers.
    static bool abandon(Session& session, void const* who);

    Channel(Channel&& other) noexcept
        : m_session(other.m_session), m_raw(std::exchange(other.m_raw, nullptr)), m_counted(other.m_counted)
    {
    }
    Channel& operator=(Channel&& other) noexcept
    {
        std::swap(m_session, other.m_session);
        std::swap(m_raw, other.m_raw);
        std::swap(m_counted, other.m_counted);
        return *this;
    }
    Channel(Channel const&) = delete;
    Channel& operator=(Channel const&) = delete;
    ~Channel();

    [[nodiscard]] LIBSSH2_CHANNEL* raw() const noexcept { return m_raw; }

    /// Sets an environment variable if the server takes it; costs no round trip.
    Attempt<void> setEnvironment(std::string_view name, std::string_view value);
    /// Errors: Unsupported when the server refuses it, which alone says that nothing ran; Unreachable.
    Attempt<void> exec(std::string const& command);
    Attempt<void> subsystem(std::string const& name);
    Attempt<void> sendEof();
    /// Asks the server to signal the command: "INT". RFC 4254 6.9; there is no answer.
    Attempt<void> signal(std::string_view name);

    /// stderr comes in the order in which it was sent, among stdout.
    void mergeErrors();
    /// From now on the window is 8 MiB, for a server that is too far away for 1 MiB in each round trip.
    void widen();
    /// Takes at most `size` bytes of stdout. 0: the end of the stream (EOF or CLOSE).
    Attempt<std::size_t> read(char* buffer, std::size_t size);
    /// Gives at most `size` bytes; would block while the window is shut or the session congested.
    Attempt<std::size_t> write(char const* buffer, std::size_t size);

    /// The server has closed the channel, or has said that no more data comes.
    [[nodiscard]] bool atEnd() const;
    [[nodiscard]] bool closed() const; ///< The server has closed it, and all that came has been read.
    [[nodiscard]] std::optional<int> exitStatus() const;
    [[nodiscard]] std::string exitSignal() const; ///< Without "SIG"; empty: none.

private:
    Channel(Session& session, LIBSSH2_CHANNEL* raw, bool counted)
        : m_session(&session), m_raw(raw), m_counted(counted)
    {
    }
    Attempt<void> attempt(int rc, std::string_view attempted) const;

    Session* m_session;
    LIBSSH2_CHANNEL* m_raw;
    bool m_counted;
};

} // namespace termalin::ssh
