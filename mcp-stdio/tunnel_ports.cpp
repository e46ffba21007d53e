#include "mcp-stdio/tunnel_ports.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <optional>
#include <set>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

#include "core/paths.h"
#include "ssh/lookup.h"

namespace termalin::mcp {
namespace {

struct FreeAddresses {
    void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};
struct FreeInterfaces {
    void operator()(ifaddrs* list) const noexcept { ::freeifaddrs(list); }
};

using Address = std::array<unsigned char, 16>; ///< IPv6; an IPv4 address is mapped (RFC 4291 2.5.5.2).

std::optional<Address> addressOf(sockaddr const* from)
{
    Address out{};
    if (from == nullptr)
        return std::nullopt;
    if (from->sa_family == AF_INET) {
        sockaddr_in in{};
        std::memcpy(&in, from, sizeof in);
        out[10] = out[11] = 0xff;
        std::memcpy(&out[12], &in.sin_addr, 4);
        return out;
    }
    if (from->sa_family == AF_INET6) {
        sockaddr_in6 in{};
        std::memcpy(&in, from, sizeof in);
        std::memcpy(out.data(), &in.sin6_addr, 16);
        return out;
    }
    return std::nullopt;
}

bool isLoopbackOrAny(Address const& address)
{
    static constexpr Address kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (std::memcmp(address.data(), kMapped.data(), 12) == 0)
        return address[12] == 127 ||
               (address[12] == 0 && address[13] == 0 && address[14] == 0 && address[15] == 0);
    for (std::size_t i = 0; i < 15; ++i)
        if (address[i] != 0)
            return false;
    return address[15] <= 1; // "::" connects to this computer too
}

bool isOurs(Address const& address)
{
    if (isLoopbackOrAny(address))
        return true;
    ifaddrs* raw = nullptr;
    if (::getifaddrs(&raw) != 0)
        return true; // not knowing is no reason to let it pass
    std::unique_ptr<ifaddrs, FreeInterfaces> const list(raw);
    for (auto const* entry = raw; entry != nullptr; entry = entry->ifa_next)
        if (addressOf(entry->ifa_addr) == address)
            return true;
    return false;
}

Result<void> lock(int fd, std::uint16_t port, short kind)
{
    struct flock range = {};
    range.l_type = kind;
    range.l_whence = SEEK_SET;
    range.l_start = port;
    range.l_len = 1;
    if (::fcntl(fd, F_OFD_SETLK, &range) == 0)
        return {};
    if (errno == EAGAIN || errno == EACCES)
        return fail(Errc::PortInUse, "");
    return std::unexpected(systemError(Errc::Internal, "Locking the list of tunnels' ports", errno));
}

bool isLocalName(std::string const& hostname)
{
    return hostname == "localhost" || hostname.ends_with(".localhost");
}

/// As isThisComputer, if that can be told without asking anybody for the name.
std::optional<bool> endsHere(std::string const& hostname)
{
    if (isLocalName(hostname))
        return true;
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST;
    addrinfo* raw = nullptr;
    if (::getaddrinfo(hostname.c_str(), nullptr, &hints, &raw) != 0)
        return std::nullopt;
    std::unique_ptr<addrinfo, FreeAddresses> const list(raw);
    for (auto const* entry = raw; entry != nullptr; entry = entry->ai_next)
        if (auto const address = addressOf(entry->ai_addr); address && isOurs(*address))
            return true;
    return false;
}

/// The numbers in a command that a port may have, each once.
std::set<std::uint16_t> portsIn(std::string_view command)
{
    std::set<std::uint16_t> ports;
    for (std::size_t at = 0; at < command.size();) {
        auto const end = std::min(command.find_first_not_of("0123456789", at), command.size());
        std::uint16_t port = 0;
        auto const [stopped, problem] = std::from_chars(command.data() + at, command.data() + end, port);
        if (problem == std::errc() && stopped == command.data() + end && port != 0)
            ports.insert(port);
        at = end + 1;
    }
    return ports;
}

} // namespace

Result<bool> isThisComputer(std::string const& hostname, Deadline deadline, std::stop_token const& stop)
{
    if (auto const known = endsHere(hostname))
        return *known;
    auto const found = ssh::lookUp(hostname, 0, ssh::AddressFamily::Any, deadline, stop);
    if (!found && found.error().code == Errc::Unreachable)
        return false; // what cannot be looked up cannot be connected to either
    if (!found)
        return std::unexpected(found.error());
    return std::ranges::any_of(*found, [](ssh::Address const& one) {
        auto const address = addressOf(reinterpret_cast<sockaddr const*>(&one.bytes));
        return address && isOurs(*address);
    });
}

Result<void> refuseSavedPort(std::vector<Host> const& hosts, std::uint16_t port, Deadline deadline,
                             std::stop_token const& stop)
{
    auto const refused =
        fail(Errc::PortInUse, fmt::format("Port {} of this computer belongs to a saved host, so "
                                          "a tunnel must not listen there. Leave localPort at 0 "
                                          "to get a free one.",
                                          port));
    std::set<std::string> names; // looked up last, each once
    for (auto const& host : hosts) {
        if (host.id == kLocalHostId)
            continue;
        if (host.proxyCommand != "none" && portsIn(host.proxyCommand).contains(port))
            return refused;
        if (host.port != port)
            continue;
        auto const known = endsHere(host.hostname);
        if (known && *known)
            return refused;
        if (!known)
            names.insert(host.hostname);
    }
    for (auto const& name : names) {
        auto const here = isThisComputer(name, deadline, stop);
        if (!here) // without the name: the host may be one that agents do not see
            return std::unexpected(Error{
                here.error().code,
                fmt::format("Whether port {} of this computer belongs to a saved host could not be found "
                            "out: looking up the host's name {}. Nothing was opened. Leave localPort at 0 "
                            "to get another port.",
                            port, here.error().code == Errc::Cancelled ? "was cancelled" : "took too long"),
                here.error().source, here.error().nothingWasSent});
        if (*here)
            return refused;
    }
    return {};
}

Result<std::uint16_t> findFreePort()
{
    UniqueFd const fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr const*>(&address), size) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
        return std::unexpected(systemError(Errc::PortInUse, "Finding a free local port", errno));
    return ntohs(address.sin_port);
}

Result<UniqueFd> TunnelPorts::openFile() const
{
    TRY(makePrivateDir(m_dir));
    auto const file = m_dir / "agent-tunnels";
    UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd)
        return std::unexpected(systemError(Errc::PermissionDenied, "Opening " + file.string(), errno));
    return fd;
}

Result<TunnelPorts::Hold> TunnelPorts::holdForTunnel(std::uint16_t port) const
{
    TRY_LET(auto fd, openFile());
    if (auto const locked = lock(fd.get(), port, F_WRLCK); !locked) {
        if (locked.error().code != Errc::PortInUse)
            return std::unexpected(locked.error());
        return fail(Errc::PortInUse,
                    fmt::format("Another tunnel holds local port {}, or a login to it is under "
                                "way. Leave localPort at 0 to get a free one.",
                                port));
    }
    return Hold(std::move(fd));
}

/// That program connects, not we. What it connects to is its own affair, but for what its text tells.
Result<TunnelPorts::Hold> TunnelPorts::holdForProxyCommand(ssh::Target const& first) const
{
    TRY_LET(auto fd, openFile());
    for (auto const port : portsIn(first.proxyCommand)) {
        auto const locked = lock(fd.get(), port, F_RDLCK);
        if (locked)
            continue;
        if (locked.error().code != Errc::PortInUse)
            return std::unexpected(locked.error());
        return fail(
            Errc::PortInUse,
            fmt::format("The ProxyCommand of '{}' names {}, and that port of this computer is held by an "
                        "agent's tunnel, so the command was not run. Close the tunnel first.",
                        first.name, port));
    }
    return Hold(std::move(fd));
}

Result<TunnelPorts::Hold> TunnelPorts::holdForLogin(ssh::Route const& route, Deadline deadline,
                                                    std::stop_token const& stop) const
{
    auto const& first = route.hops.front();
    if (!first.proxyCommand.empty())
        return holdForProxyCommand(first);
    TRY_LET(auto fd, openFile());
    auto const locked = lock(fd.get(), first.port, F_RDLCK);
    if (locked)
        // Only a login to this computer has to keep the port: another must not be in a tunnel's way.
        return endsHere(first.hostname).value_or(false) ? Hold(std::move(fd)) : Hold();
    if (locked.error().code != Errc::PortInUse)
        return std::unexpected(locked.error());
    TRY_LET(bool const here, isThisComputer(first.hostname, deadline, stop));
    if (!here)
        return Hold();
    return fail(Errc::PortInUse,
                fmt::format("Port {} of this computer, where '{}' is saved, is held by an agent's "
                            "tunnel, so nothing was sent there. Close the tunnel first.",
                            first.port, first.name));
}

} // namespace termalin::mcp
