#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <libssh2.h>
#include <memory>
#include <poll.h>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.h"
#include "core/result.h"
#include "core/unique_fd.h"
#include "ssh/known_hosts.h"

namespace termalin::ssh {

/// One stream (a TCP socket, a socket pair whose other end a jump host or a ProxyCommand serves) with one
/// LIBSSH2_SESSION on it. libssh2 is not thread safe per session: one thread at a time may touch it, which
/// is the connection's own once that runs.
///
/// libssh2 never sees a short write: what it sends is appended to a queue of ours, which flush() drains. So
/// no packet is ever half sent, which libssh2 does not survive while keys are exchanged anew.
class Session {
public:
    /// `stream`: connected; made non-blocking. Errors: Internal.
    static Result<std::unique_ptr<Session>> create(UniqueFd stream);
    ~Session(); ///< Says goodbye as far as the stream takes it at once. Never blocks.
    Session(Session const&) = delete;
    Session& operator=(Session const&) = delete;

    /// Version lines and key exchange. `preferredKeyTypes`: offered first. `peer`: how messages call the
    /// server. Errors: Unreachable (with both sides' offers where they have nothing in common), Timeout,
    /// Cancelled.
    Result<void> handshake(std::string const& peer, std::vector<std::string> const& preferredKeyTypes,
                           Deadline deadline, std::stop_token const& stop);

    /// The server's key as it came in the key exchange. Errors: Internal before the handshake.
    [[nodiscard]] Result<ServerKey> serverKey() const;

    [[nodiscard]] LIBSSH2_SESSION* raw() const noexcept { return m_raw; }
    [[nodiscard]] int descriptor() const noexcept { return m_stream.get(); }

    /// Calls `call` (a libssh2 function's answer) again until it is no longer LIBSSH2_ERROR_EAGAIN. Only for
    /// the time before the connection's thread runs. Errors: `errc` with libssh2's own words when the call
    /// fails (source "libssh2 -18"), Unreachable when the line is cut, Timeout, Cancelled.
    Result<void> run(std::string_view attempted, Errc errc, Deadline deadline, std::stop_token const& stop,
                     std::function<int()> const& call);

    /// An Error out of libssh2's last one: what was attempted, its text, and its number as the source.
    [[nodiscard]] Error lastError(Errc code, std::string_view attempted) const;

    /// Bytes taken off the stream, and given to it, so far.
    [[nodiscard]] std::uint64_t received() const noexcept { return m_received; }
    [[nodiscard]] std::uint64_t sent() const noexcept { return m_sent; }
    [[nodiscard]] Deadline::Clock::time_point lastReceived() const noexcept { return m_lastReceived; }

    /// Before each round of libssh2's calls on the stream: libssh2 reads as long as something comes, so a
    /// server that sends without end would keep it, and our thread with it, for ever. What is over the
    /// measure of one turn stays in the stream until the next. A session whose server has made more wait here
    /// than the two limits that follow is lost from then on.
    void beginTurn();

    /// The most memory in bytes that a server can take with packets that nobody asks for. What the windows of
    /// the channels allow comes on top.
    static constexpr std::size_t kMostQueued = 64U << 20U;
    /// And with what it is sent, answers to it included, and does not read. Whoever has much to send holds
    /// back long before; see congested().
    static constexpr std::size_t kMostUnread = 16U << 20U;

    /// Takes what has come into libssh2's queues, so that an idle session answers the server too. Errors:
    /// Unreachable when the line or the protocol is broken.
    Result<void> readTransport();
    /// Keys are being exchanged anew: no channel's data comes meanwhile.
    [[nodiscard]] bool rekeying() const noexcept;
    /// The stream has ended or failed; what came before can still be read. Empty: it has not.
    [[nodiscard]] std::string const& lost() const noexcept { return m_lost; }

    /// Gives the stream what it takes at once of what waits. False when bytes are left.
    bool flush();
    [[nodiscard]] std::size_t waiting() const noexcept { return m_out.size() - m_outStart; }
    /// More than 256 KiB wait: whoever sends more than requests holds back.
    [[nodiscard]] bool congested() const noexcept { return waiting() > kCongestion; }

    /// Asks the server whether it is still there; any answer counts.
    void probe();

    // Opening a channel keeps its state in libssh2's session: one open at a time, whatever its kind. Session
    // channels have a queue besides, first come, first served, and a limit.

    /// True when `who` may open a channel now; then it must call the opening function to its end and
    /// release. `counted`: a session channel, which waits its turn and for room.
    [[nodiscard]] bool claimOpening(void const* who, bool counted);
    /// An urgent one: passes the queue and the limit, but not an opening that is under way.
    [[nodiscard]] bool claimOpeningAtOnce(void const* who);
    /// Gives up a claim or a place in the queue.
    void releaseOpening(void const* who) noexcept;
    /// The same for one that gives up; false: its opening is under way, so it must be attempted to its end.
    [[nodiscard]] bool dropClaim(void const* who) noexcept;
    void channelOpened(bool counted) noexcept;
    /// The server gave no further session channel. True: the caller waits its turn again, at the head of the
    /// queue; false: it gives none at all.
    bool channelRefused(void const* who);
    /// When a caller that waits after a refusal should be stepped again.
    [[nodiscard]] Deadline openingWakeAt() const;
    /// Lets no further session channel be opened from the queue until released as often.
    void holdOpenings(bool hold) noexcept
    {
        m_holds += hold ? 1 : -1;
        m_chances += hold ? 0 : 1;
    }
    /// Rises whenever one that waits for an opening may have its chance. Nothing need come from the server
    /// for that, so whoever steps those that wait must look at it.
    [[nodiscard]] std::uint64_t chancesToOpen() const noexcept { return m_chances; }
    /// Session channels that the server still counts, those given up included.
    [[nodiscard]] std::size_t openChannels() const noexcept { return m_open; }

    /// Session channels that were asked for and are not open yet, whoever asked.
    [[nodiscard]] bool openingWanted() const noexcept { return m_opener != nullptr || !m_queue.empty(); }

    // A session channel that is opened before anybody needs it saves the next command one round trip. It
    // counts as open, and whoever opens a session channel next gets it.

    void keepReady(LIBSSH2_CHANNEL* channel) noexcept { m_ready = channel; }
    [[nodiscard]] bool hasReady() const noexcept { return m_ready != nullptr; }
    /// Null: there is none, it is not the turn of `who`, or the server has closed it.
    [[nodiscard]] LIBSSH2_CHANNEL* takeReady(void const* who, bool queued);

    /// Takes over a channel whose owner is gone; sweep() frees it once the server has closed it too.
    void retire(LIBSSH2_CHANNEL* channel, bool counted);
    void sweep();

    /// A forced command is in force for the key that logged in, as the server told.
    [[nodiscard]] bool forcedCommand() const noexcept { return m_forcedCommand; }

private:
    Session(UniqueFd stream, LIBSSH2_SESSION* raw);
    static ssize_t receive(libssh2_socket_t, void* buffer, std::size_t size, int, void** self);
    static ssize_t send(libssh2_socket_t, void const* buffer, std::size_t size, int, void** self);
    static void debugMessage(LIBSSH2_SESSION*, int, char const* text, int size, char const*, int,
                             void** self);
    ssize_t take(char* buffer, std::size_t size);
    bool fill();
    void preferKeyTypes(std::vector<std::string> const& preferred);
    [[nodiscard]] std::string explainHandshake() const;

    static constexpr std::size_t kReadAhead = 256U * 1024U; ///< what a fast line brings between two turns
    static constexpr std::size_t kCongestion = 256U * 1024U;
    static constexpr std::size_t kMaxSessionChannels = 8;
    static constexpr std::size_t kTurn = 4U << 20U;

    UniqueFd m_stream;
    LIBSSH2_SESSION* m_raw;
    bool m_isTcp = false;
    bool m_hurry = true; ///< TCP_QUICKACK until the first channel is open
    std::string m_lost;

    /// Read ahead; bytes m_inStart..m_inEnd wait. Not cleared at first: touching all of it takes a
    /// millisecond.
    std::unique_ptr<std::array<char, kReadAhead>> m_in =
        std::make_unique_for_overwrite<std::array<char, kReadAhead>>();
    std::size_t m_inStart = 0, m_inEnd = 0;
    std::string m_out; ///< bytes from m_outStart on wait
    std::size_t m_outStart = 0;
    std::uint64_t m_received = 0, m_sent = 0;
    std::size_t m_mayRead = kTurn; ///< in this turn
    std::uint64_t m_measured = 0;  ///< m_received when the queue of packets was last measured
    bool m_drained = false;        ///< the stream gave less than was asked for in this turn
    Deadline::Clock::time_point m_lastReceived = Deadline::Clock::now();

    bool m_handshaking = false;
    std::string m_firstBytes; ///< the server's first bytes, to explain a failed handshake
    bool m_going = false;     ///< libssh2 is told that the stream has ended, so that it frees everything
    std::string m_sendFailed;

    void const* m_opener = nullptr;
    std::deque<void const*> m_queue;
    std::size_t m_open = 0;
    std::size_t m_limit = kMaxSessionChannels;
    Deadline::Clock::time_point m_retryAfter{};
    int m_retries = 0;
    int m_holds = 0;
    std::uint64_t m_chances = 0;
    Deadline::Clock::time_point m_lastFreed{};
    struct Retired {
        LIBSSH2_CHANNEL* channel;
        bool counted;
    };
    std::vector<Retired> m_retired;
    LIBSSH2_CHANNEL* m_ready = nullptr;
    bool m_forcedCommand = false;
};

} // namespace termalin::ssh
