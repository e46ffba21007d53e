#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "core/output_buffer.h"
#include "ssh/detail_ssh_config.h"

namespace termalin::ssh {

namespace {

using Problem = ConfigProblem;

constexpr std::size_t kMaxIdentities = 100; // and certificates, as in ssh
constexpr std::size_t kMaxKnownHosts = 32;  // files

void setOnce(auto& place, auto const& value)
{
    if (!place)
        place = value;
}

void addOnce(std::vector<std::string>& list, std::string const& value)
{
    if (std::ranges::find(list, value) == list.end())
        list.push_back(value);
}

Result<std::string> expandVariables(std::string const& word)
{
    // expandTokens() expands tokens as well, which only come later: keep them out of its sight.
    std::string doubled;
    for (char const c : word)
        doubled += c == '%' ? std::string("%%") : std::string(1, c);
    return expandTokens("./" + doubled, {}, {});
}

/// A variable that IdentityAgent names has to be there, or to have a name at least.
Problem checkAgent(std::string const& word)
{
    if (auto const expanded = expandVariables(word); !expanded)
        return expanded.error().message;
    auto const name = std::string_view(word).substr(1);
    if (word.starts_with('$') && !word.starts_with("${") &&
        (name.empty() || !std::ranges::all_of(name, [](char c) {
             return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
         })))
        return fmt::format("'{}' names no variable", visible(word));
    return std::nullopt;
}

} // namespace

bool isConfigNone(std::string_view text)
{
    return toLower(text) == "none";
}

ConfigProblem ConfigValues::read(Keyword const& keyword, ConfigLine const& line, bool active)
{
    auto const& words = line.arguments;
    switch (keyword.takes) {
    case Takes::Anything:
        if (keyword.option == Option::CanonicalizePermittedCnames && active && !words.empty() &&
            !isConfigNone(words[0]))
            permittedCnames = true;
        return std::nullopt;
    case Takes::Texts: return readTexts(keyword, words, active);
    case Takes::Command:
    case Takes::Jump: {
        auto const start = line.rest.find_first_not_of(" \t\r\n=");
        auto const text = std::string_view(line.rest).substr(std::min(start, line.rest.size()));
        if (keyword.takes == Takes::Jump)
            return readJump(text, active);
        if (keyword.option == Option::ProxyCommand && active)
            setOnce(proxyCommand, std::string(text));
        return std::nullopt;
    }
    default: break;
    }
    if (words.empty() || words[0].empty())
        return fmt::format("{} has no argument", keyword.name);
    if (words.size() > 1)
        return fmt::format("{} has more than one argument", keyword.name);
    auto const& word = words[0];
    switch (keyword.takes) {
    case Takes::Flag: return readFlag(keyword, word, active);
    case Takes::Number:
    case Takes::Time: return readNumber(keyword, word, active);
    case Takes::Port: {
        auto const given = configPort(word);
        if (given && active)
            setOnce(port, *given);
        return given ? Problem() : fmt::format("'{}' is no port", visible(word));
    }
    default: return readText(keyword, word, active);
    }
}

ConfigProblem ConfigValues::readFlag(Keyword const& keyword, std::string const& word, bool active)
{
    auto const flag = configFlag(word);
    if (!flag)
        return fmt::format("{} is yes or no, not '{}'", keyword.name, visible(word));
    if (active && keyword.option == Option::IdentitiesOnly)
        setOnce(identitiesOnly, *flag);
    if (active && keyword.option == Option::BatchMode)
        setOnce(batchMode, *flag);
    return std::nullopt;
}

ConfigProblem ConfigValues::readNumber(Keyword const& keyword, std::string const& word, bool active)
{
    if (keyword.takes == Takes::Time && word == "none")
        return std::nullopt; // ssh leaves it unset, so that a later line can set it
    auto const number = keyword.takes == Takes::Time ? configTime(word) : configNumber(word);
    if (!number)
        return fmt::format("{} cannot be '{}'", keyword.name, visible(word));
    if (!active)
        return std::nullopt;
    if (keyword.option == Option::ConnectTimeout)
        setOnce(connectTimeout, *number);
    else if (keyword.option == Option::ServerAliveInterval)
        setOnce(aliveInterval, *number);
    else if (keyword.option == Option::ServerAliveCountMax)
        setOnce(aliveCountMax, *number);
    return std::nullopt;
}

ConfigProblem ConfigValues::readText(Keyword const& keyword, std::string const& word, bool active)
{
    if (keyword.takes == Takes::Family) {
        auto const given = toLower(word);
        if (given != "any" && given != "inet" && given != "inet6")
            return fmt::format("AddressFamily is any, inet or inet6, not '{}'", visible(word));
        if (active)
            setOnce(family, given);
        return std::nullopt;
    }
    if (keyword.takes == Takes::Agent)
        if (auto problem = checkAgent(word))
            return problem;
    if (keyword.option == Option::CanonicalizeHostname && !configFlag(word) && toLower(word) != "always")
        return fmt::format("CanonicalizeHostname cannot be '{}'", visible(word));
    if (!active)
        return std::nullopt;
    switch (keyword.option) {
    case Option::HostName: setOnce(hostname, word); break;
    case Option::User: setOnce(user, word); break;
    case Option::HostKeyAlias: setOnce(hostKeyAlias, word); break;
    case Option::IdentityAgent: setOnce(identityAgent, word); break;
    case Option::IgnoreUnknown: setOnce(ignoreUnknown, word); break;
    case Option::CanonicalizeHostname: setOnce(canonicalize, configFlag(word).value_or(true)); break;
    case Option::IdentityFile:
    case Option::CertificateFile: {
        auto& list = keyword.option == Option::IdentityFile ? identities : certificates;
        if (list.size() >= kMaxIdentities)
            return fmt::format("there are more than {} of {}", kMaxIdentities, keyword.name);
        addOnce(list, word);
        break;
    }
    default: break;
    }
    return std::nullopt;
}

ConfigProblem ConfigValues::readTexts(Keyword const& keyword, std::vector<std::string> const& words,
                                      bool active)
{
    auto& list = keyword.option == Option::UserKnownHostsFile ? userKnownHosts : globalKnownHosts;
    auto const open = active && list.empty();
    for (auto const& word : words) {
        if (word.empty())
            return fmt::format("{} has an empty argument", keyword.name);
        if (isConfigNone(word) && words.size() > 1)
            return fmt::format("none stands with other files of {}", keyword.name);
        if (!open)
            continue;
        if (list.size() >= kMaxKnownHosts)
            return fmt::format("there are more than {} files of {}", kMaxKnownHosts, keyword.name);
        list.push_back(word);
    }
    return std::nullopt;
}

ConfigProblem ConfigValues::readJump(std::string_view text, bool active)
{
    if (isConfigNone(text)) {
        if (active)
            setOnce(jump, ConfigJump{.before = {}, .last = {.user = {}, .host = "none", .port = {}}});
        return std::nullopt;
    }
    auto const whole = text;
    text = text.substr(0, text.find('#'));
    text = text.substr(0, text.find_first_of(" \t\r\n\v\f", 1)); // what follows a blank is lost in ssh
    std::optional<JumpHop> last;
    for (auto rest = text;;) {
        auto const comma = rest.rfind(',');
        auto hop = parseJumpHop(rest.substr(comma + 1)); // npos + 1 is 0
        if (!hop)
            return fmt::format("'{}' is no ProxyJump", visible(whole));
        if (!last)
            last = std::move(hop);
        if (comma == std::string_view::npos)
            break;
        rest = rest.substr(0, comma);
    }
    if (active && !proxyCommand && !jump) {
        auto const comma = text.rfind(',');
        jump = ConfigJump{.before = std::string(comma == std::string_view::npos ? "" : text.substr(0, comma)),
                          .last = *std::move(last)};
        proxyCommand = "none";
    }
    return std::nullopt;
}

} // namespace termalin::ssh
