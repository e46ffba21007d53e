#include "ssh/tunnel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <fcntl.h>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <thread>

#include "core/output_buffer.h"
#include "ssh/detail_connection.h"
#include "ssh/detail_pump.h"
#include "ssh/lookup.h"
#include "ssh/socks5.h"

namespace termalin::ssh {

namespace {

using namespace std::chrono_literals;

constexpr int kMaxConnections = 256;
constexpr auto kHandshakeLimit = 20s;
/// After an accept(2) that failed for want of something: the listener would be reported ready all the time.
constexpr auto kPause = 200ms;

/// What a tunnel, its listener and its connections share.
struct State {
    TunnelRequest request;
    std::atomic<bool> closed = false;
    std::atomic<std::uint64_t> made = 0, bytesIn = 0, bytesOut = 0;
    std::atomic<int> now = 0; ///< connections that live, the ones that are still asking included

    std::mutex mutex; ///< guards what follows
    std::condition_variable changed;
    std::string problem;
    bool listening = true;

    void note(std::string text)
    {
        std::lock_guard const lock(mutex);
        problem = std::move(text);
    }
    void listenerGone()
    {
        closed = true;
        std::lock_guard const lock(mutex);
        listening = false;
        changed.notify_all();
    }
    /// Empty: go on.
    [[nodiscard]] std::optional<Error> refusal() const
    {
        if (!request.admit)
            return std::nullopt;
        auto const admitted = request.admit();
        return admitted ? std::nullopt : std::optional(admitted.error());
    }
};

/// Counts one connection for as long as it lives.
class Counted {
public:
    explicit Counted(std::shared_ptr<State> state) : m_state(std::move(state)) { ++m_state->now; }
    ~Counted() { --m_state->now; }
    Counted(Counted const&) = delete;
    Counted& operator=(Counted const&) = delete;
    [[nodiscard]] State& state() const { return *m_state; }

private:
    std::shared_ptr<State> m_state;
};

/// Lets the other end see a reset, not an orderly end: nothing was at the far side.
void resetOnClose(int fd)
{
    linger const now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

void sendAtOnce(int fd, std::string_view bytes)
{
    // A dozen bytes into an empty buffer always fit; a client that is gone will be noticed by the next step.
    [[maybe_unused]] auto const sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

Socks5::Answer answerTo(Error const& why)
{
    if (why.message.find("prohibited") != std::string::npos)
        return Socks5::Answer::NotAllowed;
    // SSH does not say whether the target refused or could not be reached, and the first is the usual case.
    return why.message.find("connect failed") != std::string::npos ? Socks5::Answer::ConnectionRefused
                                                                   : Socks5::Answer::GeneralFailure;
}

void pump(ConnectionImpl& connection, std::shared_ptr<Counted> counted, UniqueFd stream, std::string host,
          std::uint16_t port)
{
    // Until the server has answered, a second descriptor stays at hand to tell the client what it said.
    auto const answer = std::make_shared<UniqueFd>(::fcntl(stream.get(), F_DUPFD_CLOEXEC, 0));
    auto const socks = counted->state().request.kind == TunnelKind::Dynamic;
    PumpEvents events;
    events.onOpened = [counted, answer, socks] {
        ++counted->state().made;
        if (socks)
            sendAtOnce(answer->get(), Socks5::reply(Socks5::Answer::Succeeded));
        answer->reset();
    };
    events.onEnded = [counted, answer, socks](std::optional<Error> const& why) {
        if (why)
            counted->state().note(why->message);
        if (!*answer)
            return;
        if (!socks || !why)
            resetOnClose(answer->get());
        else
            sendAtOnce(answer->get(), Socks5::reply(answerTo(*why)));
        answer->reset();
    };
    events.onBytes = [counted](std::uint64_t in, std::uint64_t out) {
        counted->state().bytesIn += in;
        counted->state().bytesOut += out;
    };
    events.stopped = [counted = std::move(counted)] { return counted->state().closed.load(); };
    connection.post(std::make_shared<Pump>(std::move(stream), std::move(host), port, std::move(events)));
}

/// One client of a SOCKS tunnel until it has said where to.
class SocksClient final : public Task {
public:
    SocksClient(ConnectionImpl& connection, std::shared_ptr<Counted> counted, UniqueFd stream)
        : m_connection(connection), m_counted(std::move(counted)), m_stream(std::move(stream))
    {
    }

    bool step(Session&) override
    {
        auto& state = m_counted->state();
        while (!state.closed && m_talk.state() == Socks5::State::Talking) {
            std::array<char, 512> bytes{};
            auto const got = ::recv(m_stream.get(), bytes.data(), std::min(bytes.size(), m_talk.wants()), 0);
            if (got < 0 && (errno == EAGAIN || errno == EINTR) && !m_limit.passed())
                return false;
            if (got <= 0) {
                if (got < 0 && errno == EAGAIN)
                    state.note("A client of the proxy did not say in time where to connect to.");
                return leave();
            }
            auto const answer = m_talk.take({bytes.data(), static_cast<std::size_t>(got)});
            if (!answer.empty())
                sendAtOnce(m_stream.get(), answer);
        }
        if (m_talk.state() == Socks5::State::Refused)
            state.note(m_talk.problem());
        if (state.closed || m_talk.state() != Socks5::State::Asked)
            return leave();
        if (auto const refused = state.refusal()) {
            state.note(refused->message);
            sendAtOnce(m_stream.get(), Socks5::reply(Socks5::Answer::NotAllowed));
            return leave();
        }
        pump(m_connection, std::move(m_counted), std::move(m_stream), m_talk.host(), m_talk.port());
        return true;
    }

    void ended(Error const&) override { leave(); }
    [[nodiscard]] Deadline wakeAt() const override { return m_limit; }
    void polls(std::vector<pollfd>& out) const override
    {
        if (m_stream)
            out.push_back({m_stream.get(), POLLIN, 0});
    }
    [[nodiscard]] bool minds() const override { return true; }

private:
    bool leave()
    {
        m_stream.reset();
        m_counted.reset();
        return true;
    }

    ConnectionImpl& m_connection;
    std::shared_ptr<Counted> m_counted;
    UniqueFd m_stream;
    Socks5 m_talk;
    Deadline m_limit = Deadline::in(kHandshakeLimit);
};

/// Takes in the clients of a tunnel.
class Listener final : public Task {
public:
    Listener(ConnectionImpl& connection, std::shared_ptr<State> state, UniqueFd socket)
        : m_connection(connection), m_state(std::move(state)), m_socket(std::move(socket))
    {
    }
    Listener(Listener const&) = delete;
    Listener& operator=(Listener const&) = delete;
    ~Listener() override { gone(); }

    bool step(Session&) override
    {
        if (m_state->closed)
            return gone();
        if (!m_pause.passed() && m_paused)
            return false;
        m_paused = false;
        for (;;) {
            UniqueFd client(::accept4(m_socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (client) {
                admit(std::move(client));
                if (m_state->closed) // by whoever was asked
                    return gone();
                continue;
            }
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            if (errno != EAGAIN) {
                m_state->note(
                    systemError(Errc::TooMany, "A connection to the tunnel could not be taken", errno)
                        .message);
                m_paused = true;
                m_pause = Deadline::in(kPause);
            }
            return false;
        }
    }

    void ended(Error const&) override { gone(); }
    [[nodiscard]] Deadline wakeAt() const override { return m_paused ? m_pause : Deadline::never(); }
    void polls(std::vector<pollfd>& out) const override
    {
        if (m_socket && !m_paused)
            out.push_back({m_socket.get(), POLLIN, 0});
    }
    [[nodiscard]] bool minds() const override { return true; }

private:
    void admit(UniqueFd client)
    {
        int const on = 1;
        ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        auto& request = m_state->request;
        if (m_state->now >= kMaxConnections) {
            m_state->note("The tunnel carries " + std::to_string(kMaxConnections) +
                          " connections already; close some of them.");
            resetOnClose(client.get());
            return;
        }
        auto counted = std::make_shared<Counted>(m_state);
        if (request.kind == TunnelKind::Dynamic) {
            m_connection.post(
                std::make_shared<SocksClient>(m_connection, std::move(counted), std::move(client)));
            return;
        }
        if (auto const refused = m_state->refusal()) {
            m_state->note(refused->message);
            resetOnClose(client.get());
            return;
        }
        pump(m_connection, std::move(counted), std::move(client), request.remoteHost, request.remotePort);
    }

    bool gone()
    {
        m_socket.reset();
        m_state->listenerGone();
        return true;
    }

    ConnectionImpl& m_connection;
    std::shared_ptr<State> m_state;
    UniqueFd m_socket;
    bool m_paused = false;
    Deadline m_pause = Deadline::never();
};

class TunnelImpl final : public Tunnel {
public:
    TunnelImpl(std::shared_ptr<Connection> connection, std::shared_ptr<State> state, std::uint16_t port)
        : m_connection(std::move(connection)), m_state(std::move(state)), m_port(port)
    {
    }
    ~TunnelImpl() override { end(); }
    TunnelImpl(TunnelImpl const&) = delete;
    TunnelImpl& operator=(TunnelImpl const&) = delete;

    [[nodiscard]] std::uint16_t localPort() const override { return m_port; }
    [[nodiscard]] bool open() const override { return !m_state->closed; }
    [[nodiscard]] Counts counts() const override
    {
        return {m_state->made, m_state->bytesIn, m_state->bytesOut};
    }
    [[nodiscard]] std::string lastProblem() const override
    {
        std::lock_guard const lock(m_state->mutex);
        return m_state->problem;
    }
    void close() override { end(); }

private:
    /// The port is free when this returns, unless the connection's own thread calls it or is stuck.
    void end()
    {
        m_state->closed = true;
        auto& connection = impl(*m_connection);
        connection.wake();
        if (connection.onItsThread())
            return;
        std::unique_lock lock(m_state->mutex);
        m_state->changed.wait_for(lock, 1s, [&] { return !m_state->listening; });
    }

    std::shared_ptr<Connection> m_connection;
    std::shared_ptr<State> m_state;
    std::uint16_t m_port;
};

/// A host name (RFC 952 and 1123, and '_' as some have it) or a bare IPv4 or IPv6 address with or without a
/// zone: what stands in a direct-tcpip request goes to the server's getaddrinfo(3) as it is.
bool namesAHost(std::string const& text)
{
    auto const plain = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
    };
    if (text.empty() || text.size() > 255 || text.front() == '-')
        return false;
    return std::ranges::all_of(text, plain) || isIpv6Address(text);
}

Result<void> check(TunnelRequest const& request)
{
    if (request.kind == TunnelKind::Dynamic)
        return {};
    if (!namesAHost(request.remoteHost))
        return fail(Errc::InvalidArgument,
                    "A tunnel needs the name or address of the host that it leads to, without brackets or a "
                    "port, not \"" +
                        visible(request.remoteHost) + "\".");
    if (request.remotePort == 0)
        return fail(Errc::InvalidArgument, "A tunnel needs the port that it leads to, 1 to 65535.");
    return {};
}

Result<std::pair<UniqueFd, std::uint16_t>> listenOn(std::uint16_t port)
{
    auto const wanted = "Port " + std::to_string(port) + " of 127.0.0.1";
    UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int const on = 1;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); // past connections do not hold it
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (!listener || ::bind(listener.get(), raw, size) != 0 || ::listen(listener.get(), SOMAXCONN) != 0 ||
        ::getsockname(listener.get(), raw, &size) != 0) {
        auto const number = errno;
        if (number == EADDRINUSE)
            return fail(Errc::PortInUse, wanted + " is in use; choose another one, or 0 for a free one.",
                        "errno " + std::to_string(number));
        if (number == EACCES)
            return fail(Errc::InvalidArgument,
                        wanted +
                            " may not be used by this account; choose one from 1024 on, or 0 for a free one.",
                        "errno " + std::to_string(number));
        return std::unexpected(systemError(Errc::TooMany, wanted + " could not be listened on", number));
    }
    return std::pair{std::move(listener), ntohs(address.sin_port)};
}

} // namespace

Result<std::shared_ptr<Tunnel>> Tunnel::open(std::shared_ptr<Connection> connection, TunnelRequest request)
{
    TRY(check(request));
    if (!connection->alive())
        return fail(Errc::NotConnected, "The connection has ended: " + connection->whyClosed());
    TRY_LET(auto listener, listenOn(request.localPort));
    auto state = std::make_shared<State>();
    state->request = std::move(request);
    auto& on = impl(*connection);
    auto tunnel = std::make_shared<TunnelImpl>(std::move(connection), state, listener.second);
    on.post(std::make_shared<Listener>(on, state, std::move(listener.first)));
    return tunnel;
}

} // namespace termalin::ssh
