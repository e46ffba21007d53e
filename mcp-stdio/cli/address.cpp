#include "mcp-stdio/cli/address.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>
#include <vector>

#include "mcp-stdio/cli/console.h"

namespace termalin::cli {

namespace {

constexpr std::string_view kForm =
    "Write it as USER@ADDRESS or USER@ADDRESS:PORT, an IPv6 address in brackets: "
    "root@[2001:db8::1]:22.";

Result<void> checkUser(std::string_view user)
{
    if (user.empty())
        return fail(Errc::InvalidArgument, fmt::format("The user is missing. {}", kForm));
    if (user.size() > 255)
        return fail(Errc::InvalidArgument, "The user's name is longer than 255 bytes.");
    if (user.front() == '-')
        return fail(Errc::InvalidArgument,
                    fmt::format("A user's name cannot begin with '-': {}", visible(user)));
    if (user.find(':') != std::string_view::npos || user.find('/') != std::string_view::npos)
        // "user:password@host" must not be repeated, and a link is not what is asked for.
        return fail(
            Errc::InvalidArgument,
            fmt::format("A user's name cannot contain ':' or '/'. {} A password does not belong here: "
                        "--ask-password asks for it.",
                        kForm));
    auto const bad = std::ranges::find_if(user, [](char c) {
        return static_cast<unsigned char>(c) <= ' ' || c == '\x7f' ||
               std::string_view("'`\";&<>|(){}$\\*?").find(c) != std::string_view::npos;
    });
    // A backslash parts domain and user on some directories; a shell would eat it, so only there it is let in
    // where letters stand on both sides.
    if (bad != user.end() &&
        !(*bad == '\\' && bad != user.begin() && bad + 1 != user.end() &&
          std::ranges::count(user, '\\') == 1 && std::all_of(bad + 1, user.end(), [](char c) {
              return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
          })))
        return fail(Errc::InvalidArgument,
                    fmt::format("A user's name cannot contain '{}': {}", visible({&*bad, 1}), visible(user)));
    return {};
}

bool isNumericV6(std::string const& address)
{
    auto const zone = address.find('%');
    in6_addr out{};
    return ::inet_pton(AF_INET6, address.substr(0, zone).c_str(), &out) == 1 &&
           (zone == std::string::npos ||
            (zone + 1 < address.size() &&
             std::all_of(address.begin() + static_cast<std::ptrdiff_t>(zone) + 1, address.end(), [](char c) {
                 return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
             })));
}

Result<void> checkName(std::string_view name)
{
    if (name.empty())
        return fail(Errc::InvalidArgument, fmt::format("The address is missing. {}", kForm));
    if (name.size() > 255)
        return fail(Errc::InvalidArgument, "The address is longer than 255 bytes.");
    if (name.find(':') != std::string_view::npos)
        return fail(Errc::InvalidArgument,
                    fmt::format("'{}' has more than one colon: it is not clear where the port begins. {}",
                                visible(name), kForm));
    auto const bad = std::ranges::find_if(name, [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-' && c != '_';
    });
    if (bad != name.end())
        return fail(
            Errc::InvalidArgument,
            fmt::format("An address consists of letters, digits, '.', '-' and '_', but here is '{}': {}. A "
                        "name in another script is written in its xn-- form.",
                        visible(name.substr(static_cast<std::size_t>(bad - name.begin()), 1)),
                        visible(name)));
    if (name.front() == '-' || name.front() == '.')
        return fail(Errc::InvalidArgument,
                    fmt::format("An address cannot begin with '{}': {}", name.front(), visible(name)));
    return {};
}

Result<std::uint16_t> parsePort(std::string_view text)
{
    std::uint32_t port = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (text.empty() || error != std::errc() || end != text.data() + text.size() || port == 0 ||
        port > 65'535)
        return fail(Errc::InvalidArgument,
                    fmt::format("The port must be a number from 1 to 65535, not '{}'.", visible(text)));
    return static_cast<std::uint16_t>(port);
}

/// The 16 bytes of an address, an IPv4 one as its mapped form, so that the two compare alike.
std::optional<in6_addr> bytesOf(sockaddr const* address)
{
    in6_addr out{};
    if (address != nullptr && address->sa_family == AF_INET6) {
        sockaddr_in6 v6{};
        std::memcpy(&v6, address, sizeof v6);
        return v6.sin6_addr;
    }
    if (address != nullptr && address->sa_family == AF_INET) {
        sockaddr_in v4{};
        std::memcpy(&v4, address, sizeof v4);
        out.s6_addr[10] = out.s6_addr[11] = 0xff;
        std::memcpy(&out.s6_addr[12], &v4.sin_addr, 4);
        return out;
    }
    return std::nullopt;
}

bool isLoopback(in6_addr const& a)
{
    if (IN6_IS_ADDR_V4MAPPED(&a))
        return a.s6_addr[12] == 127 ||
               (a.s6_addr[12] == 0 && a.s6_addr[13] == 0 && a.s6_addr[14] == 0 && a.s6_addr[15] == 0);
    return IN6_IS_ADDR_LOOPBACK(&a) || IN6_IS_ADDR_UNSPECIFIED(&a);
}

std::vector<in6_addr> ownAddresses()
{
    ifaddrs* list = nullptr;
    std::vector<in6_addr> own;
    if (::getifaddrs(&list) != 0)
        return own;
    for (auto const* at = list; at != nullptr; at = at->ifa_next)
        if (auto const bytes = bytesOf(at->ifa_addr))
            own.push_back(*bytes);
    ::freeifaddrs(list);
    return own;
}

} // namespace

Result<Login> parseLogin(std::string_view text)
{
    auto const at = text.rfind('@');
    if (at == std::string_view::npos)
        return fail(Errc::InvalidArgument,
                    fmt::format("'{}' does not say as which user to log in. {}", visible(text), kForm));
    Login login;
    login.user = text.substr(0, at);
    TRY(checkUser(login.user));
    auto rest = text.substr(at + 1);
    if (!rest.empty() && rest.front() == '[') {
        auto const close = rest.find(']');
        if (close == std::string_view::npos)
            return fail(Errc::InvalidArgument,
                        fmt::format("The bracket of '{}' is not closed. {}", visible(rest), kForm));
        login.address = rest.substr(1, close - 1);
        if (!isNumericV6(login.address))
            return fail(Errc::InvalidArgument,
                        fmt::format("'{}' is not an IPv6 address. {}", visible(login.address), kForm));
        rest.remove_prefix(close + 1);
        if (!rest.empty() && rest.front() != ':')
            return fail(Errc::InvalidArgument,
                        fmt::format("'{}' after the bracket is not a port. {}", visible(rest), kForm));
        if (!rest.empty()) {
            TRY_LET(login.port, parsePort(rest.substr(1)));
        }
        return login;
    }
    if (std::ranges::count(rest, ':') == 1) {
        auto const colon = rest.find(':');
        TRY_LET(login.port, parsePort(rest.substr(colon + 1)));
        rest = rest.substr(0, colon);
    }
    TRY(checkName(rest));
    login.address = rest;
    return login;
}

bool isThisComputer(std::string const& address)
{
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(address.c_str(), nullptr, &hints, &found) != 0)
        return false;
    std::unique_ptr<addrinfo, void (*)(addrinfo*)> const owner(found, ::freeaddrinfo);
    auto const own = ownAddresses();
    for (auto const* at = found; at != nullptr; at = at->ai_next) {
        auto const bytes = bytesOf(at->ai_addr);
        if (bytes && (isLoopback(*bytes) || std::ranges::any_of(own, [&](in6_addr const& mine) {
                          return std::memcmp(&mine, &*bytes, sizeof mine) == 0;
                      })))
            return true;
    }
    return false;
}

} // namespace termalin::cli
