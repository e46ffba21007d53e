#include "mcp-stdio/cli/address.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <fmt/format.h>

#include "mcp-stdio/cli/console.h"
#include "mcp-stdio/tunnel_ports.h"
#include "ssh/lookup.h"

namespace termalin::cli {

namespace {

constexpr std::string_view kForm =
    "Write it as USER@ADDRESS or USER@ADDRESS:PORT, an IPv6 address in brackets: "
    "root@[2001:db8::1]:22.";
constexpr std::chrono::seconds kLookupTime{10};

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
    auto const* const bad = std::ranges::find_if(user, [](char c) {
        return static_cast<unsigned char>(c) <= ' ' || c == '\x7f' ||
               std::string_view("'`\";&<>|(){}$\\*?").find(c) != std::string_view::npos;
    });
    // A backslash parts domain and user on some directories; a shell would eat it, so only there it is let in
    // where letters stand on both sides.
    if (bad != user.end() &&
        (*bad != '\\' || bad == user.begin() || bad + 1 == user.end() ||
         std::ranges::count(user, '\\') != 1 || !std::all_of(bad + 1, user.end(), [](char c) {
             return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
         })))
        return fail(Errc::InvalidArgument,
                    fmt::format("A user's name cannot contain '{}': {}", visible({&*bad, 1}), visible(user)));
    return {};
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
    auto const* const bad = std::ranges::find_if(name, [](char c) {
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
        if (!ssh::isIpv6Address(login.address))
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
    // What cannot be told in time is treated as what asks for more care.
    return mcp::isThisComputer(address, Deadline::in(kLookupTime), {}).value_or(true);
}

} // namespace termalin::cli
