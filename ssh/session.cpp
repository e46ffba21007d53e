#include "ssh/session.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <system_error>

#include "core/output_buffer.h"
#include "ssh/detail_algorithms.h"
#include "ssh/detail_kexinit.h"

namespace termalin::ssh {
namespace {

/// What may come before a server's version line (RFC 4253 4.2 allows text, and gives no limit).
constexpr std::size_t kMaxPreamble = 64U * 1024U;
template <class Function>
libssh2_cb_generic* generic(Function* function)
{
    return reinterpret_cast<libssh2_cb_generic*>(function);
}

bool wouldBlock(int number)
{
    return number == EAGAIN || number == EINTR;
}

} // namespace

Result<std::unique_ptr<Session>> Session::create(UniqueFd stream)
{
    static std::once_flag once;
    std::call_once(once, [] { libssh2_init(0); });
    auto const flags = ::fcntl(stream.get(), F_GETFL);
    if (flags < 0 || ::fcntl(stream.get(), F_SETFL, flags | O_NONBLOCK) != 0)
        return std::unexpected(systemError(Errc::Internal, "preparing the connection's stream", errno));
    auto* const raw = libssh2_session_init();
    if (raw == nullptr)
        return fail(Errc::Internal, "The SSH library could not begin a session.", "libssh2");
    return std::unique_ptr<Session>(new Session(std::move(stream), raw));
}

Session::Session(UniqueFd stream, LIBSSH2_SESSION* raw) : m_stream(std::move(stream)), m_raw(raw)
{
    int one = 1;
    m_isTcp = ::setsockopt(m_stream.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0;
    *libssh2_session_abstract(m_raw) = this;
    libssh2_session_set_blocking(m_raw, 0);
    libssh2_session_callback_set2(m_raw, LIBSSH2_CALLBACK_RECV, generic(&Session::receive));
    libssh2_session_callback_set2(m_raw, LIBSSH2_CALLBACK_SEND, generic(&Session::send));
    libssh2_session_callback_set2(m_raw, LIBSSH2_CALLBACK_DEBUG, generic(&Session::debugMessage));
    preferAlgorithms(m_raw);
}

Session::~Session()
{
    libssh2_session_disconnect(m_raw, "closed");
    flush();
    m_going = true;
    libssh2_session_free(m_raw);
}

ssize_t Session::receive(libssh2_socket_t, void* buffer, std::size_t size, int, void** self)
{
    return static_cast<Session*>(*self)->take(static_cast<char*>(buffer), size);
}

ssize_t Session::send(libssh2_socket_t, void const* buffer, std::size_t size, int, void** self)
{
    auto* const session = static_cast<Session*>(*self);
    if (!session->m_sendFailed.empty())
        return static_cast<ssize_t>(size);
    if (session->waiting() + size > kMostUnread) {
        session->m_lost = session->m_sendFailed = "it does not read what it is sent, and 16 MiB wait for it. "
                                                  "Check the server, and what lies before it";
        session->m_out = {};
        session->m_outStart = 0;
        return static_cast<ssize_t>(size);
    }
    session->m_out.append(static_cast<char const*>(buffer), size);
    return static_cast<ssize_t>(size);
}

void Session::debugMessage(LIBSSH2_SESSION*, int, char const* text, int size, char const*, int, void** self)
{
    // OpenSSH tells what the options of the key that logged in are; auth.c, auth_log_authopts().
    std::string_view const message(text, static_cast<std::size_t>(std::max(size, 0)));
    auto const options = message.find("key options:");
    if (options != std::string_view::npos && message.find(" command", options) != std::string_view::npos)
        static_cast<Session*>(*self)->m_forcedCommand = true;
}

void Session::beginTurn()
{
    m_mayRead = kTurn;
    m_drained = false;
#ifdef LIBSSH2_TERMALIN_QUEUED
    if (!m_lost.empty() || m_received - m_measured < kTurn) // going through the queue takes time
        return;
    m_measured = m_received;
    if (termalin_libssh2_session_queued(m_raw) > kMostQueued)
        m_lost =
            "it sent more than 64 MiB of packets that nobody had asked for. Check the server, and what lies "
            "before it";
#endif
}

/// Reads ahead. False when nothing came.
bool Session::fill()
{
    auto const got = ::recv(m_stream.get(), m_in->data(), kReadAhead, 0);
    if (got > 0) {
        m_inStart = 0;
        m_inEnd = static_cast<std::size_t>(got);
        m_received += m_inEnd;
        m_drained = m_inEnd < kReadAhead;
        m_mayRead -= std::min(m_mayRead, m_inEnd);
        m_lastReceived = Deadline::Clock::now();
        if (m_handshaking && m_firstBytes.size() < kMaxPreamble)
            m_firstBytes.append(m_in->data(), std::min(m_inEnd, kMaxPreamble - m_firstBytes.size()));
        if (m_isTcp && m_hurry) { // the kernel forgets it after each use; tcp(7)
            int one = 1;
            ::setsockopt(m_stream.get(), IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
        }
        return true;
    }
    if (got == 0)
        m_lost = "the other side closed the connection";
    else if (!wouldBlock(errno))
        m_lost = std::generic_category().message(errno);
    else
        m_lost = m_sendFailed;
    return false;
}

/// What libssh2 reads with. The end of the stream is kept from it, since it would not hand out any more of
/// what has come before; lost() tells.
ssize_t Session::take(char* buffer, std::size_t size)
{
    if (m_going)
        return 0;
    if (m_inStart == m_inEnd && (!m_lost.empty() || m_mayRead == 0 || m_drained || !fill()))
        return -EAGAIN;
    auto const count = std::min(size, m_inEnd - m_inStart);
    std::memcpy(buffer, m_in->data() + m_inStart, count);
    m_inStart += count;
    return static_cast<ssize_t>(count);
}

bool Session::flush()
{
    while (waiting() > 0) {
        auto const put = ::send(m_stream.get(), m_out.data() + m_outStart, waiting(), MSG_NOSIGNAL);
        if (put < 0) {
            if (errno == EINTR)
                continue;
            if (wouldBlock(errno))
                break;
            m_sendFailed = std::generic_category().message(errno);
            m_out.clear();
            m_outStart = 0;
            return true;
        }
        m_sent += static_cast<std::uint64_t>(put);
        m_outStart += static_cast<std::size_t>(put);
    }
    if (waiting() == 0) {
        m_out.clear();
        m_outStart = 0;
        return true;
    }
    if (m_outStart > kCongestion) { // the part that has gone is dropped now and then only
        m_out.erase(0, m_outStart);
        m_outStart = 0;
    }
    return false;
}

Result<void> Session::readTransport()
{
#ifdef LIBSSH2_TERMALIN_SESSION_READ
    if (termalin_libssh2_session_read(m_raw) < 0)
        return std::unexpected(lastError(Errc::Unreachable, "reading from the server"));
#endif
    return {};
}

bool Session::rekeying() const noexcept
{
#ifdef LIBSSH2_TERMALIN_REKEYING
    return termalin_libssh2_session_rekeying(m_raw) != 0;
#else
    return false;
#endif
}

void Session::probe()
{
#ifdef LIBSSH2_TERMALIN_SESSION_READ
    termalin_libssh2_session_probe(m_raw);
#else
    int next = 0;
    libssh2_keepalive_config(m_raw, 1, 2);
    libssh2_keepalive_send(m_raw, &next);
#endif
}

Error Session::lastError(Errc code, std::string_view attempted) const
{
    char* text = nullptr;
    auto const number = libssh2_session_last_error(m_raw, &text, nullptr, 0);
    return Error{code, std::string(attempted) + ": " + visible(text == nullptr ? "" : text) + ".",
                 "libssh2 " + std::to_string(number)};
}

Result<void> Session::run(std::string_view attempted, Errc errc, Deadline deadline,
                          std::stop_token const& stop, std::function<int()> const& call)
{
    for (;;) {
        auto const before = m_received;
        beginTurn();
        auto const rc = call();
        flush();
        if (rc >= 0)
            return {};
        if (rc != LIBSSH2_ERROR_EAGAIN)
            return std::unexpected(lastError(errc, attempted));
        if (m_received > kMostQueued) // libssh2 keeps all of it; a login takes some KiB
            return fail(Errc::Unreachable, std::string(attempted) +
                                               ": it sends without end, 64 MiB and more, before the login. "
                                               "Check the server, and what lies before it.");
        if (stop.stop_requested())
            return fail(Errc::Cancelled, std::string(attempted) + ": cancelled.");
        if (deadline.passed()) {
            auto error = Error{Errc::Timeout, std::string(attempted) + ": no answer in time."};
            error.nothingWasSent = true;
            return std::unexpected(std::move(error));
        }
        if (m_inStart != m_inEnd || m_received != before)
            continue;
        if (!m_lost.empty())
            return fail(Errc::Unreachable, std::string(attempted) + ": " + m_lost + ".");
        auto const events = static_cast<short>(waiting() > 0 ? POLLIN | POLLOUT : POLLIN);
        pollfd ready{m_stream.get(), events, 0};
        ::poll(&ready, 1, std::min(deadline.pollTimeout(), 50)); // short, for the stop token
    }
}

void Session::preferKeyTypes(std::vector<std::string> const& preferred)
{
    if (preferred.empty())
        return;
    char const** known = nullptr;
    auto const count = libssh2_session_supported_algs(m_raw, LIBSSH2_METHOD_HOSTKEY, &known);
    if (count <= 0)
        return;
    std::vector<std::string> const all(known, known + count);
    libssh2_free(m_raw, static_cast<void*>(known));
    std::vector<std::string> order;
    // Signatures with SHA-1, and DSA, are not asked for even where there is nothing else, as in ssh.
    auto const isWeak = [](std::string const& type) {
        return type.starts_with("ssh-rsa") || type.starts_with("ssh-dss");
    };
    auto const add = [&](std::string const& type) {
        if (std::ranges::find(all, type) != all.end() && std::ranges::find(order, type) == order.end())
            order.push_back(type);
    };
    for (auto const& type : preferred)
        add(type);
    for (auto const& type : all)
        if (!isWeak(type))
            add(type);
    std::string list;
    for (auto const& type : order)
        list += (list.empty() ? "" : ",") + type;
    libssh2_session_method_pref(m_raw, LIBSSH2_METHOD_HOSTKEY, list.c_str());
}

Result<void> Session::handshake(std::string const& peer, std::vector<std::string> const& preferredKeyTypes,
                                Deadline deadline, std::stop_token const& stop)
{
    preferKeyTypes(preferredKeyTypes);
    m_handshaking = true;
    auto result = run("The SSH handshake with " + peer, Errc::Unreachable, deadline, stop, [this] {
        auto const rc = libssh2_session_handshake(m_raw, m_stream.get());
        if (rc == LIBSSH2_ERROR_EAGAIN && m_firstBytes.size() >= kMaxPreamble &&
            !findVersionLine(m_firstBytes))
            m_lost = "it sent 64 KiB that are not the SSH protocol; check the port";
        return rc;
    });
    m_handshaking = false;
    if (!result) {
        auto error = std::move(result).error();
        error.message += explainHandshake();
        return std::unexpected(std::move(error));
    }
    m_firstBytes = {};
    return {};
}

/// What a person needs to know beside libssh2's words.
std::string Session::explainHandshake() const
{
    if (m_firstBytes.empty())
        return " It sent nothing at all: check that an SSH server answers at this address and port, and that "
               "no firewall lies between.";
    if (!findVersionLine(m_firstBytes))
        return " It does not speak SSH; it began with \"" +
               visible(std::string_view(m_firstBytes).substr(0, 80)) + "\". Check the port.";
    auto const theirs = parseKexInit(m_firstBytes);
    if (!theirs)
        return {};
    static constexpr std::array kMethods{LIBSSH2_METHOD_KEX,      LIBSSH2_METHOD_HOSTKEY,
                                         LIBSSH2_METHOD_CRYPT_CS, LIBSSH2_METHOD_CRYPT_SC,
                                         LIBSSH2_METHOD_MAC_CS,   LIBSSH2_METHOD_MAC_SC};
    std::array<std::string, kMethods.size()> ours;
    for (std::size_t i = 0; i < kMethods.size(); ++i) {
        char const** names = nullptr;
        auto const count = libssh2_session_supported_algs(m_raw, kMethods[i], &names);
        for (int n = 0; n < count; ++n)
            ours[i] += (n == 0 ? "" : ",") + std::string(names[n]);
        if (count > 0)
            libssh2_free(m_raw, static_cast<void*>(names));
    }
    return explainKexInit(*theirs, ours);
}

Result<ServerKey> Session::serverKey() const
{
    std::size_t size = 0;
    int type = 0;
    auto const* const blob = libssh2_session_hostkey(m_raw, &size, &type);
    if (blob == nullptr || size < 4)
        return std::unexpected(lastError(Errc::Internal, "reading the server's key"));
    ServerKey key;
    key.blob.assign(blob, size);
    auto const byte = [&](std::size_t at) { return std::size_t{static_cast<unsigned char>(blob[at])}; };
    auto const length = byte(0) << 24U | byte(1) << 16U | byte(2) << 8U | byte(3);
    key.type = key.blob.substr(4, std::min(length, size - 4));
    return key;
}

} // namespace termalin::ssh
