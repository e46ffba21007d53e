#include "ssh/agent_client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "ssh/public_key.h"
#include "ssh/wire.h"

namespace termalin::ssh {
namespace {

constexpr std::uint8_t kFailure = 5;
constexpr std::uint8_t kRequestIdentities = 11;
constexpr std::uint8_t kIdentitiesAnswer = 12;
constexpr std::uint8_t kSignRequest = 13;
constexpr std::uint8_t kSignResponse = 14;
constexpr std::uint8_t kExtensionFailure = 28;
constexpr std::uint32_t kRsaSha256 = 2;
constexpr std::uint32_t kRsaSha512 = 4;
constexpr std::size_t kLargestMessage = 256UL * 1024; // MAX_AGENT_REPLY_LEN of OpenSSH
constexpr std::uint32_t kMostIdentities = 2048;       // MAX_AGENT_IDENTITIES of OpenSSH
constexpr int kLook = 50;                             // ms between two looks at the stop token

std::string agentAt(std::string const& socket)
{
    return fmt::format("the ssh-agent at \"{}\"", socket);
}

Error notOne(std::string const& socket)
{
    return {Errc::Unsupported,
            fmt::format("{} answered with something that is not the agent protocol", agentAt(socket))};
}

} // namespace

Result<std::unique_ptr<AgentClient>> AgentClient::connect(std::string const& socket, Deadline deadline,
                                                          std::stop_token const& stop)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (socket.size() >= sizeof address.sun_path)
        return fail(
            Errc::InvalidArgument,
            fmt::format("the path of the ssh-agent's socket \"{}\" is too long ({} bytes; at most {})",
                        socket, socket.size(), sizeof address.sun_path - 1));
    socket.copy(static_cast<char*>(address.sun_path), socket.size());
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd)
        return std::unexpected(systemError(Errc::Internal, "making a socket", errno));
    for (;;) {
        if (::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0)
            return std::unique_ptr<AgentClient>(new AgentClient(socket, std::move(fd)));
        if (errno == EACCES || errno == EPERM)
            return fail(Errc::PermissionDenied,
                        fmt::format("{} may not be used by this account", agentAt(socket)));
        if (errno != EAGAIN && errno != EINTR) // EAGAIN: its queue of callers is full
            return fail(Errc::NotConnected,
                        fmt::format("{} does not answer ({}); start one, or name another with --agent",
                                    agentAt(socket),
                                    errno == ENOENT ? "there is no such socket" : "nobody listens there"),
                        fmt::format("errno {}", errno));
        if (stop.stop_requested())
            return fail(Errc::Cancelled, "asking the ssh-agent: cancelled");
        if (deadline.passed())
            return fail(Errc::Timeout, fmt::format("{} took no call in time", agentAt(socket)));
        ::poll(nullptr, 0, std::min(deadline.pollTimeout(), kLook)); // such a socket cannot be waited for
    }
}

/// Sends all of `out`, then takes `count` bytes into `in`.
Result<void> AgentClient::transfer(std::string_view out, std::string* in, std::size_t count,
                                   std::string_view attempted, Deadline deadline, std::stop_token const& stop)
{
    while (!out.empty() || (in != nullptr && in->size() < count)) {
        ssize_t moved = 0;
        std::array<char, 4096> piece; // NOLINT(cppcoreguidelines-pro-type-member-init): recv() fills it
        if (!out.empty())
            moved = ::send(m_fd.get(), out.data(), out.size(), MSG_NOSIGNAL);
        else
            moved = ::recv(m_fd.get(), piece.data(), std::min(piece.size(), count - in->size()), 0);
        if (moved > 0) {
            if (!out.empty())
                out.remove_prefix(static_cast<std::size_t>(moved));
            else
                in->append(piece.data(), static_cast<std::size_t>(moved));
            continue;
        }
        if (moved == 0 || (errno != EAGAIN && errno != EINTR))
            return fail(Errc::NotConnected, fmt::format("{} hung up while {}", agentAt(m_socket), attempted));
        if (stop.stop_requested())
            return fail(Errc::Cancelled, fmt::format("{}: cancelled", attempted));
        if (deadline.passed())
            return fail(Errc::Timeout,
                        fmt::format("{} did not answer in time while {}; it may be waiting for a person",
                                    agentAt(m_socket), attempted));
        pollfd ready{m_fd.get(), static_cast<short>(out.empty() ? POLLIN : POLLOUT), 0};
        ::poll(&ready, 1, std::min(deadline.pollTimeout(), kLook));
    }
    return {};
}

/// The body of an answer of the expected type.
Result<std::string> AgentClient::ask(std::string const& request, std::uint8_t expected,
                                     std::string_view attempted, Deadline deadline,
                                     std::stop_token const& stop)
{
    if (!m_fd)
        return fail(Errc::NotConnected, fmt::format("{} is no longer connected", agentAt(m_socket)));
    auto const exchange = [&]() -> Result<std::string> {
        std::string head;
        std::string body;
        TRY(transfer(WireWriter().string(request).bytes(), &head, 4, attempted, deadline, stop));
        auto const size = WireReader(head).u32().value_or(0);
        if (size == 0 || size > kLargestMessage)
            return std::unexpected(notOne(m_socket));
        TRY(transfer({}, &body, size, attempted, deadline, stop));
        auto const type = static_cast<std::uint8_t>(body.front());
        if (type != expected && type != kFailure && type != kExtensionFailure)
            return std::unexpected(notOne(m_socket));
        return body;
    };
    auto body = exchange();
    if (!body) {
        m_fd.reset(); // what is left of the exchange would be taken for the next one's answer
        return body;
    }
    if (static_cast<std::uint8_t>(body->front()) != expected)
        return fail(Errc::PermissionDenied, fmt::format("{} refused while {}", agentAt(m_socket), attempted));
    return body->substr(1);
}

Result<std::vector<AgentIdentity>> AgentClient::identities(Deadline deadline, std::stop_token const& stop)
{
    TRY_LET(auto const body, ask(WireWriter().byte(kRequestIdentities).bytes(), kIdentitiesAnswer,
                                 "listing its keys", deadline, stop));
    WireReader in(body);
    auto const count = in.u32();
    if (!count || *count > kMostIdentities)
        return std::unexpected(notOne(m_socket));
    std::vector<AgentIdentity> list;
    for (std::uint32_t i = 0; i < *count; ++i) {
        auto const blob = in.string();
        auto const comment = in.string();
        if (in.failed())
            return std::unexpected(notOne(m_socket));
        list.push_back({std::string(*blob), std::string(*comment)});
    }
    return list;
}

Result<std::string> AgentClient::sign(std::string_view blob, std::string_view data,
                                      std::string_view algorithm, Deadline deadline,
                                      std::stop_token const& stop)
{
    auto const flags = algorithm == "rsa-sha2-512"   ? kRsaSha512
                       : algorithm == "rsa-sha2-256" ? kRsaSha256
                                                     : 0U;
    auto const request = WireWriter().byte(kSignRequest).string(blob).string(data).u32(flags).bytes();
    TRY_LET(auto const body, ask(request, kSignResponse, "signing", deadline, stop));
    WireReader in(body);
    auto const signature = in.string();
    if (!in.done())
        return std::unexpected(notOne(m_socket));
    if (blobType(*signature) != algorithm)
        return fail(Errc::Unsupported,
                    fmt::format("{} made another kind of signature than {}; a newer agent may do better",
                                agentAt(m_socket), algorithm));
    auto const plain = plainKey(blob);
    if (!plain || !verifySignature(*plain, *signature, data))
        return fail(Errc::Unsupported, fmt::format("{} gave a signature that is wrong", agentAt(m_socket)));
    return std::string(*signature);
}

} // namespace termalin::ssh
