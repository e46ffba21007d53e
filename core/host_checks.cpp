#include "core/host_checks.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <sys/un.h>

#include "core/command_policy.h"
#include "core/path_policy.h"
#include "core/unicode.h"

namespace termalin {
namespace {

constexpr std::size_t kNameBytes = 255;
constexpr std::size_t kPathBytes = 4096;
constexpr std::size_t kCommandBytes = 8192;
constexpr std::size_t kNotesBytes = 8192;
constexpr std::size_t kTagBytes = 64;
constexpr std::size_t kTags = 64;
constexpr std::size_t kFiles = 64;
constexpr std::size_t kJumps = 16;
constexpr std::size_t kRules = 1000;

std::unexpected<Error> wrong(std::string_view field, std::string_view why)
{
    return fail(Errc::InvalidArgument, fmt::format("{}: {}", field, why));
}

enum class Lines : std::uint8_t { One, Many };

/// Text that a person can see whole: UTF-8 without control, bidirectional and invisible characters.
Result<void> checkText(std::string_view field, std::string_view text, std::size_t most,
                       Lines lines = Lines::One)
{
    if (text.size() > most)
        return wrong(field, fmt::format("has {} bytes, and at most {} are allowed", text.size(), most));
    for (std::size_t at = 0; at < text.size();) {
        auto const character = decodeCharacter(text, at);
        auto const allowed = lines == Lines::Many && (text[at] == '\n' || text[at] == '\t');
        if (!character.valid)
            return wrong(field, fmt::format("is not UTF-8 at byte {}", at + 1));
        if (!allowed && isInvisible(character.codePoint))
            return wrong(
                field, fmt::format("has the control or invisible character U+{:04X} at byte {}; leave it out",
                                   static_cast<std::uint32_t>(character.codePoint), at + 1));
        at += character.length;
    }
    return {};
}

Result<void> checkName(std::string_view name)
{
    TRY(checkText("name", name, kNameBytes));
    if (name.empty())
        return wrong("name", "must not be empty");
    if (name.front() == ' ' || name.back() == ' ')
        return wrong("name", "must not begin or end with a space");
    if (name == kLocalHostId || looksLikeHostId(name))
        return wrong("name", fmt::format("'{}' has the form of an id; choose another", name));
    return {};
}

/// A host name and a user name end up in a ProxyCommand, which a shell reads, and beside options.
Result<void> checkAddressPart(std::string_view field, std::string_view text, std::string_view refused)
{
    TRY(checkText(field, text, kNameBytes));
    if (text.starts_with('-'))
        return wrong(field, "must not begin with '-'");
    if (auto const at = text.find_first_of(refused); at != std::string_view::npos)
        return wrong(field, fmt::format("must not contain '{}'", text[at]));
    return {};
}

Result<void> checkList(std::string_view field, std::vector<std::string> const& list, std::size_t mostItems,
                       std::size_t mostBytes)
{
    if (list.size() > mostItems)
        return wrong(field,
                     fmt::format("has {} entries, and at most {} are allowed", list.size(), mostItems));
    std::set<std::string_view> seen;
    for (auto const& item : list) {
        TRY(checkText(field, item, mostBytes));
        if (item.empty())
            return wrong(field, "has an empty entry");
        if (!seen.insert(item).second)
            return wrong(field, fmt::format("has '{}' twice", item));
    }
    return {};
}

Result<void> checkRules(Host const& host)
{
    TRY(checkList("rules", host.rules, kRules, kCommandBytes));
    for (auto const& rule : host.rules)
        if (auto const parsed = CommandRule::parse(rule); !parsed)
            return wrong("rules", parsed.error().message);
    TRY(checkList("reads", host.reads, kRules, kPathBytes));
    for (auto const& pattern : host.reads)
        if (auto const parsed = PathPattern::parse(pattern); !parsed)
            return wrong("reads", parsed.error().message);
    return {};
}

Result<void> checkWay(Host const& host)
{
    TRY(checkAddressPart("hostname", host.hostname, " '`\"$\\;&<>|(){}[]@/#?*,"));
    if (host.hostname.empty())
        return wrong("hostname", "must not be empty; give a name or an address");
    if (host.port == 0)
        return wrong("port", "must be between 1 and 65535");
    TRY(checkAddressPart("username", host.username, "'`\";&<>|(){}"));
    if (host.username.contains(" -") || host.username.starts_with(' ') || host.username.ends_with(' ') ||
        host.username.ends_with('\\'))
        return wrong("username",
                     "must not begin or end with a space, end with a backslash, or have '-' after a space");
    TRY(checkList("jump", host.jump, kJumps, kNameBytes));
    TRY(checkText("proxyCommand", host.proxyCommand, kCommandBytes));
    if (!host.jump.empty() && !host.proxyCommand.empty() && host.proxyCommand != "none")
        return wrong("proxyCommand",
                     "cannot be combined with jump hosts; give it to the first jump host instead");
    return {};
}

Result<void> checkTimes(Host const& host)
{
    for (auto const& [field, value] : {std::pair("connectTimeout", host.connectTimeout),
                                       std::pair("serverAliveInterval", host.serverAliveInterval),
                                       std::pair("serverAliveCountMax", host.serverAliveCountMax)})
        if (value.value_or(0) < 0)
            return wrong(field, "must not be negative");
    return {};
}

} // namespace

bool looksLikeHostId(std::string_view text) noexcept
{
    constexpr std::size_t kLength = 25; // as newHostId() in store.cpp makes them
    return text.size() == kLength && text.front() == 'h' && std::ranges::all_of(text.substr(1), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           });
}

Result<void> checkHost(Host const& host)
{
    TRY(checkName(host.name));
    TRY(checkWay(host));
    TRY(checkList("keyFiles", host.keyFiles, kFiles, kPathBytes));
    TRY(checkList("certificateFiles", host.certificateFiles, kFiles, kPathBytes));
    TRY(checkText("agentSocket", host.agentSocket, kPathBytes));
    if (host.agentSocket.starts_with('/') && host.agentSocket.size() >= sizeof(sockaddr_un::sun_path))
        return wrong("agentSocket", fmt::format("has {} bytes, and a socket's path has at most {}",
                                                host.agentSocket.size(), sizeof(sockaddr_un::sun_path) - 1));
    TRY(checkList("knownHostsFiles", host.knownHostsFiles, kFiles, kPathBytes));
    TRY(checkTimes(host));
    TRY(checkAddressPart("hostKeyAlias", host.hostKeyAlias, " ,*?!|\"'"));
    return checkForAgents(host);
}

Result<void> checkForAgents(Host const& host)
{
    TRY(checkList("tags", host.tags, kTags, kTagBytes));
    TRY(checkText("notes", host.notes, kNotesBytes, Lines::Many));
    return checkRules(host);
}

} // namespace termalin
