#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <climits>
#include <netdb.h>

#include "ssh/detail_ssh_config.h"

namespace termalin::ssh {

namespace {

std::string_view withoutBlanks(std::string_view text)
{
    text.remove_prefix(std::min(text.find_first_not_of(kConfigBlanks), text.size()));
    return text;
}

bool equalsIgnoringCase(std::string_view a, std::string_view b)
{
    return toLower(a) == toLower(b);
}

/// strtonum(3) as OpenSSH has it: blanks and a sign may stand before the digits.
std::optional<long long> numberUpTo(std::string_view text, long long most)
{
    text.remove_prefix(std::min(text.find_first_not_of(" \t\n\v\f\r"), text.size()));
    if (text.starts_with('+') && text.size() > 1 && text[1] != '-')
        text.remove_prefix(1);
    long long value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most)
        return std::nullopt;
    return value;
}

std::string_view withoutBrackets(std::string_view host)
{
    return host.size() >= 2 && host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2)
                                                                            : host;
}

/// "host", "host:port", "[host]:port". The rest after the colon is empty where there is none.
std::optional<std::pair<std::string_view, std::string_view>> splitHostPort(std::string_view text)
{
    auto end = text.find_first_of(":/");
    if (text.starts_with('[')) {
        end = text.find(']');
        if (end == std::string_view::npos)
            return std::nullopt;
        ++end;
        if (end < text.size() && text[end] != ':')
            return std::nullopt;
    }
    end = std::min(end, text.size());
    if (end == 0 || (end < text.size() && text[end] == '/'))
        return std::nullopt;
    return std::pair{withoutBrackets(text.substr(0, end)), text.substr(std::min(end + 1, text.size()))};
}

std::optional<std::string> decodeUri(std::string_view text)
{
    std::string decoded;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            decoded += text[i] == '+' ? ' ' : text[i];
            continue;
        }
        unsigned value = 0;
        auto const digits = text.substr(i + 1, 2);
        auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
        if (digits.size() != 2 || error != std::errc() || end != digits.data() + 2)
            return std::nullopt;
        decoded += static_cast<char>(value);
        i += 2;
    }
    return decoded;
}

bool isDomain(std::string_view name)
{
    auto const alphanumeric = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    return !name.empty() && alphanumeric(name.front()) && !name.contains("..") &&
           std::ranges::all_of(name,
                               [&](char c) { return alphanumeric(c) || c == '.' || c == '-' || c == '_'; });
}

std::optional<JumpHop> parseJumpUri(std::string_view text)
{
    JumpHop hop;
    if (auto const at = text.find('@'); at != std::string_view::npos) {
        auto const user = text.substr(0, std::min(at, text.substr(0, at).find(';')));
        hop.user = decodeUri(user);
        if (user.empty() || !hop.user)
            return std::nullopt;
        text.remove_prefix(at + 1);
    }
    if (auto const slash = text.find('/'); slash != std::string_view::npos) {
        if (slash + 1 < text.size())
            return std::nullopt; // a path
        text.remove_suffix(1);
    }
    auto const parts = splitHostPort(text);
    if (!parts || !isDomain(parts->first))
        return std::nullopt;
    hop.host = parts->first;
    if (hop.host.ends_with('.'))
        hop.host.pop_back();
    if (!parts->second.empty()) {
        hop.port = configPort(parts->second);
        if (!hop.port)
            return std::nullopt;
    }
    return hop;
}

} // namespace

std::string toLower(std::string_view text)
{
    std::string lower(text);
    for (auto& c : lower)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return lower;
}

std::optional<std::string> nextConfigWord(std::optional<std::string_view>& rest)
{
    if (!rest)
        return std::nullopt;
    auto const text = *rest;
    auto const end = text.find_first_of(" \t\r\n\"=");
    if (end == std::string_view::npos) {
        rest.reset();
        return std::string(text);
    }
    if (text[end] == '"') {
        auto const close = text.find('"', end + 1);
        if (close == std::string_view::npos) {
            rest.reset();
            return std::nullopt;
        }
        rest = withoutBlanks(text.substr(close + 1));
        return std::string(text.substr(0, end)).append(text.substr(end + 1, close - end - 1));
    }
    auto after = withoutBlanks(text.substr(end + 1));
    if (text[end] != '=' && after.starts_with('='))
        after = withoutBlanks(after.substr(1));
    rest = after;
    return std::string(text.substr(0, end));
}

std::optional<std::vector<std::string>> splitConfigArguments(std::string_view text)
{
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == ' ' || text[i] == '\t')
            continue;
        if (text[i] == '#')
            break;
        auto& argument = arguments.emplace_back();
        char quote = '\0';
        for (; i < text.size(); ++i) {
            auto const c = text[i];
            auto const next = i + 1 < text.size() ? text[i + 1] : '\0';
            if (c == '\\' &&
                (next == '\'' || next == '"' || next == '\\' || (quote == '\0' && next == ' '))) {
                argument += next;
                ++i;
            } else if (quote == '\0' && (c == ' ' || c == '\t')) {
                break;
            } else if (quote == '\0' && (c == '"' || c == '\'')) {
                quote = c;
            } else if (quote != '\0' && c == quote) {
                quote = '\0';
            } else {
                argument += c;
            }
        }
        if (quote != '\0')
            return std::nullopt;
    }
    return arguments;
}

bool matchesConfigPattern(std::string_view text, std::string_view pattern)
{
    constexpr auto kNone = std::string_view::npos;
    std::size_t t = 0;
    std::size_t p = 0;
    std::size_t star = kNone;
    std::size_t runEnd = 0;
    while (t < text.size() || p < pattern.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            runEnd = t;
        } else if (p < pattern.size() && t < text.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
            ++p;
            ++t;
        } else if (star != kNone && runEnd < text.size()) {
            t = ++runEnd;
            p = star + 1;
        } else {
            return false;
        }
    }
    return true;
}

int matchesConfigPatternList(std::string_view text, std::string_view list, Case patternCase)
{
    constexpr std::size_t kLongest = 1022; // of one pattern, as in ssh
    bool matched = false;
    while (!list.empty()) {
        auto const negated = list.starts_with('!');
        if (negated)
            list.remove_prefix(1);
        auto const end = std::min(list.find(','), list.size());
        auto const pattern = list.substr(0, end);
        if (pattern.size() > kLongest)
            return 0;
        if (matchesConfigPattern(text, patternCase == Case::LowerPattern ? toLower(pattern)
                                                                         : std::string(pattern))) {
            if (negated)
                return -1;
            matched = true;
        }
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return matched ? 1 : 0;
}

std::optional<int> configNumber(std::string_view text)
{
    auto const value = numberUpTo(text, INT_MAX);
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::optional<int> configTime(std::string_view text)
{
    constexpr std::array<std::pair<char, long long>, 5> kUnits = {
        {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86'400}, {'w', 604'800}}};
    if (text.empty())
        return std::nullopt;
    long long total = 0;
    while (!text.empty()) {
        auto const digits =
            std::min(text.find_first_not_of("0123456789", text.find_first_of("0123456789")), text.size());
        auto const value = numberUpTo(text.substr(0, digits), INT_MAX);
        if (!value)
            return std::nullopt;
        long long unit = 1;
        if (digits < text.size()) {
            auto const letter = static_cast<char>(std::tolower(static_cast<unsigned char>(text[digits])));
            auto const* const found = std::ranges::find(kUnits, letter, &std::pair<char, long long>::first);
            if (found == kUnits.end())
                return std::nullopt;
            unit = found->second;
        }
        if (*value > INT_MAX / unit)
            return std::nullopt;
        total += *value * unit;
        if (total > INT_MAX)
            return std::nullopt;
        text.remove_prefix(std::min(digits + 1, text.size()));
    }
    return static_cast<int>(total);
}

std::optional<bool> configFlag(std::string_view text)
{
    if (equalsIgnoringCase(text, "yes") || equalsIgnoringCase(text, "true"))
        return true;
    if (equalsIgnoringCase(text, "no") || equalsIgnoringCase(text, "false"))
        return false;
    return std::nullopt;
}

std::optional<std::uint16_t> configPort(std::string_view text)
{
    if (auto const number = numberUpTo(text, 65'535))
        return *number > 0 ? std::optional(static_cast<std::uint16_t>(*number)) : std::nullopt;
    std::array<char, 4096> buffer{};
    servent entry{};
    servent* found = nullptr;
    if (::getservbyname_r(std::string(text).c_str(), "tcp", &entry, buffer.data(), buffer.size(), &found) !=
            0 ||
        found == nullptr)
        return std::nullopt;
    return ntohs(static_cast<std::uint16_t>(found->s_port));
}

std::optional<JumpHop> parseJumpHop(std::string_view text)
{
    if (text.starts_with("ssh://"))
        return parseJumpUri(text.substr(6));
    JumpHop hop;
    if (auto const at = text.rfind('@'); at != std::string_view::npos) {
        if (at == 0)
            return std::nullopt;
        hop.user = text.substr(0, at);
        text.remove_prefix(at + 1);
    }
    auto const parts = splitHostPort(text);
    if (!parts)
        return std::nullopt;
    hop.host = parts->first;
    if (!parts->second.empty()) {
        hop.port = configPort(parts->second);
        if (!hop.port)
            return std::nullopt;
    }
    return hop;
}

std::string toString(JumpHop const& hop)
{
    auto const address =
        hop.host.contains(':') || hop.host.find_first_not_of("1234567890.") == std::string::npos;
    return (hop.user ? *hop.user + '@' : std::string()) + (address ? '[' + hop.host + ']' : hop.host) +
           (hop.port ? ':' + std::to_string(*hop.port) : std::string());
}

} // namespace termalin::ssh
