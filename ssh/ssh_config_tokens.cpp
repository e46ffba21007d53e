#include <algorithm>
#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <netdb.h>
#include <openssl/evp.h>
#include <pwd.h>
#include <sys/socket.h>

#include "core/output_buffer.h"
#include "ssh/detail_ssh_config.h"

namespace termalin::ssh {

namespace {

std::unexpected<Error> cannotExpand(std::string_view text, std::string const& why)
{
    return fail(Errc::InvalidArgument, fmt::format("'{}' cannot be expanded: {}", visible(text), why));
}

/// ${NAME}. `at` is at the dollar and is moved to the brace that closes.
Result<std::string> variableAt(std::string_view text, std::size_t& at)
{
    auto const end = text.find('}', at + 2);
    if (end == std::string_view::npos || end == at + 2)
        return cannotExpand(text, "${ begins no name of a variable");
    std::string const name(text.substr(at + 2, end - at - 2));
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing of ours changes the environment
    auto const* const value = std::getenv(name.c_str());
    if (value == nullptr)
        return cannotExpand(text, "the environment has no variable " + visible(name));
    at = end;
    return std::string(value);
}

enum class Variables : std::uint8_t { Keep, Expand };

Result<std::string> expand(std::string_view text, std::map<char, std::string> const& tokens,
                           Variables variables)
{
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (variables == Variables::Expand && text.substr(i).starts_with("${")) {
            TRY_LET(auto const value, variableAt(text, i));
            out += value;
        } else if (text[i] != '%') {
            out += text[i];
        } else if (++i == text.size()) {
            return cannotExpand(text, "it ends in %");
        } else if (text[i] == '%') {
            out += '%';
        } else if (auto const token = tokens.find(text[i]); token != tokens.end()) {
            out += token->second;
        } else {
            return cannotExpand(text, "there is no token %" + visible(text.substr(i, 1)));
        }
    }
    return out;
}

/// The numeric form of a numeric address; empty: it is none.
std::optional<std::string> numericAddress(std::string const& name, std::string_view family)
{
    addrinfo hints{};
    hints.ai_family = family == "inet" ? AF_INET : family == "inet6" ? AF_INET6 : AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo* list = nullptr;
    if (::getaddrinfo(name.c_str(), "22", &hints, &list) != 0)
        return std::nullopt;
    std::unique_ptr<addrinfo, void (*)(addrinfo*)> const owned(list, ::freeaddrinfo);
    std::array<char, NI_MAXHOST> address{};
    if (list == nullptr || list->ai_next != nullptr ||
        ::getnameinfo(list->ai_addr, list->ai_addrlen, address.data(), address.size(), nullptr, 0,
                      NI_NUMERICHOST) != 0)
        return std::nullopt;
    return address.data();
}

} // namespace

std::optional<std::filesystem::path> homeOfUser(std::string const& user)
{
    std::array<char, 16 * 1024> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
        return std::nullopt;
    return found->pw_dir;
}

Result<std::string> expandTilde(std::string_view text, std::filesystem::path const& home)
{
    if (!text.starts_with('~'))
        return std::string(text);
    auto const slash = std::min(text.find('/'), text.size());
    auto folder = home;
    if (slash > 1) {
        std::string const user(text.substr(1, slash - 1));
        auto const theirs = homeOfUser(user);
        if (!theirs)
            return cannotExpand(text, "there is no user " + visible(user));
        folder = *theirs;
    }
    auto path = folder.string();
    if (!path.ends_with('/'))
        path += '/';
    auto const rest = text.substr(slash);
    return path.append(rest.substr(std::min(rest.find_first_not_of('/'), rest.size())));
}

Result<std::string> expandPercent(std::string_view text, std::map<char, std::string> const& tokens)
{
    return expand(text, tokens, Variables::Keep);
}

Result<std::string> expandTokens(std::string_view text, std::map<char, std::string> const& tokens,
                                 std::filesystem::path const& home)
{
    TRY_LET(auto const path, expandTilde(text, home));
    return expand(path, tokens, Variables::Expand);
}

std::string canonicalHostname(std::string_view name, std::string_view family)
{
    std::string const asGiven(name);
    auto const looksNumeric = name.find_first_of("%:") != std::string_view::npos ||
                              name.find_first_not_of("0123456789.") == std::string_view::npos;
    auto const address = numericAddress(asGiven, family);
    if (!address)
        return looksNumeric ? asGiven : toLower(name);
    return toLower(*address) == toLower(name) ? asGiven : *address;
}

bool isConfigDestination(std::string_view name)
{
    constexpr std::string_view kForbidden = "'`\"$\\;&<>|(){},";
    return !name.empty() && !name.starts_with('-') && !name.starts_with("ssh://") && !name.contains('@') &&
           std::ranges::none_of(name, [&](char c) {
               auto const byte = static_cast<unsigned char>(c);
               return byte <= 0x20 || byte == 0x7F || kForbidden.contains(c);
           });
}

std::string connectionHash(std::string_view localName, std::string_view host, std::string_view port,
                           std::string_view user)
{
    auto const text = fmt::format("{}{}{}{}", localName, host, port, user);
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned length = 0;
    if (EVP_Digest(text.data(), text.size(), digest.data(), &length, EVP_sha1(), nullptr) != 1)
        return {};
    std::string hex;
    for (unsigned i = 0; i < length; ++i)
        hex += fmt::format("{:02x}", digest.at(i));
    return hex;
}

} // namespace termalin::ssh
