#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>
#include <unistd.h>

#include "core/output_buffer.h"
#include "ssh/detail_ssh_config.h"

namespace termalin::ssh {

namespace {

constexpr std::size_t kMaxIdentities = 100; // and certificates, as in ssh
constexpr std::size_t kMaxKnownHosts = 32;  // files

/// ssh would give up, and says so with this sentence.
using Problem = std::optional<std::string>;

struct Jump {
    std::string before; ///< The hops before the last one, as written.
    JumpHop last;
};

/// What has been set so far; empty means that a later line may.
struct Values {
    std::optional<std::string> hostname, user, identityAgent, hostKeyAlias, proxyCommand, ignoreUnknown,
        family;
    std::optional<std::uint16_t> port;
    std::optional<int> connectTimeout, aliveInterval, aliveCountMax;
    std::optional<bool> identitiesOnly, batchMode, canonicalize;
    std::optional<Jump> jump; ///< {"", {.host = "none"}} for "none"
    std::vector<std::string> identities, certificates, userKnownHosts, globalKnownHosts;
    bool permittedCnames = false;
};

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

bool isNone(std::string_view text)
{
    return toLower(text) == "none";
}

/// Reads the lines for one alias, twice where ssh would.
class Resolver {
public:
    Resolver(std::vector<ConfigLine> const& lines, std::filesystem::path const& home, std::string_view alias,
             std::string_view localUser)
        : m_lines(lines), m_home(home), m_alias(alias), m_localUser(localUser), m_host(alias)
    {
    }

    ConfiguredHost run(SshConfig::Given const& given)
    {
        m_values.user = given.user;
        m_values.port = given.port;
        if (!isConfigDestination(m_alias))
            return refused("ssh takes no such name as a destination");
        if (auto problem = readLines())
            return refused(*problem);
        auto result = finish();
        if (!result.refused.empty() || !m_finalWhere)
            return result;
        // ssh reads it all again for Match final, with the host's final name. Where that makes no difference
        // it is no business of this alias.
        m_final = true;
        m_values.hostname = m_host = result.hostname;
        if (auto problem = readLines())
            return refused(*problem);
        auto again = finish();
        if (again.refused.empty() && !isSame(result, again))
            again.refused = fmt::format("Match final, or canonical, changes it ({})", *m_finalWhere);
        return again;
    }

private:
    enum class Answer : std::uint8_t { No, Yes, Unknown };

    [[nodiscard]] ConfiguredHost refused(std::string why) const
    {
        ConfiguredHost host;
        host.alias = m_alias;
        host.hostname = m_alias;
        host.refused = std::move(why);
        return host;
    }

    static bool isSame(ConfiguredHost const& a, ConfiguredHost const& b)
    {
        auto const all = [](ConfiguredHost const& h) {
            return std::tie(h.hostname, h.port, h.user, h.identityFiles, h.certificateFiles, h.identitiesOnly,
                            h.identityAgent, h.proxyJump, h.proxyCommand, h.hostKeyAlias,
                            h.userKnownHostsFiles, h.globalKnownHostsFiles, h.addressFamily, h.connectTimeout,
                            h.serverAliveInterval, h.serverAliveCountMax);
        };
        return all(a) == all(b);
    }

    Problem readLines()
    {
        struct Outer {
            bool active;
            bool never;
        };
        std::vector<Outer> outer;
        m_active = true;
        m_never = false;
        for (auto const& line : m_lines) {
            switch (line.kind) {
            case ConfigLine::Kind::IncludeBegin:
                outer.push_back({m_active, m_never});
                m_never = m_never || !m_active;
                break;
            case ConfigLine::Kind::IncludeEnd:
                m_active = outer.back().active;
                m_never = outer.back().never;
                outer.pop_back();
                break;
            case ConfigLine::Kind::Problem:
                return fmt::format("{}: {}, and ssh refuses it too", line.where, line.rest);
            case ConfigLine::Kind::Setting:
                if (auto const problem = readSetting(line))
                    return fmt::format("{}: {}, and ssh refuses it too", line.where, *problem);
                if (!m_execWhere.empty())
                    return fmt::format("Match exec decides about it, and no command is run to find out ({})",
                                       m_execWhere);
            }
        }
        return std::nullopt;
    }

    Problem readSetting(ConfigLine const& line)
    {
        auto const* const keyword = findKeyword(line.keyword);
        if (keyword == nullptr) {
            if (!m_values.ignoreUnknown ||
                matchesConfigPatternList(line.keyword, *m_values.ignoreUnknown, Case::LowerPattern) != 1)
                return fmt::format("{} is no keyword that ssh knows", visible(line.keyword));
            noteIgnored(line);
            return std::nullopt;
        }
        if (m_active)
            m_places.emplace(keyword->name, line.where);
        switch (keyword->option) {
        case Option::Host: return readHost(line);
        case Option::Match: return readMatch(line);
        case Option::Ignored: noteIgnored(line); break;
        default: break;
        }
        return readValue(*keyword, line);
    }

    void noteIgnored(ConfigLine const& line)
    {
        if (m_active && m_noted.insert(line.keyword).second)
            m_ignored.push_back(fmt::format("{} ({})", visible(line.keyword), line.where));
    }

    Problem readHost(ConfigLine const& line)
    {
        m_active = false;
        for (auto const& word : line.arguments) {
            if (word.empty())
                return "Host has an empty argument";
            if (m_never)
                break;
            std::string_view const pattern = word;
            auto const negated = pattern.starts_with('!');
            if (!matchesConfigPattern(m_host, pattern.substr(negated ? 1 : 0)))
                continue;
            m_active = !negated;
            if (negated)
                break;
        }
        return std::nullopt;
    }

    Problem readMatch(ConfigLine const& line)
    {
        auto answer = Answer::Yes;
        std::optional<std::string_view> rest(line.rest);
        if (auto problem = judge(line, rest, answer))
            return problem;
        if (rest && !rest->empty() && !line.arguments.empty())
            return "something stands after the conditions of Match";
        if (answer == Answer::Unknown && !m_never)
            m_execWhere = line.where;
        m_active = answer == Answer::Yes && !m_never;
        return std::nullopt;
    }

    /// The conditions of one Match line. `rest` is emptied where all of it has been used.
    Problem judge(ConfigLine const& line, std::optional<std::string_view>& rest, Answer& answer)
    {
        int conditions = 0;
        for (auto word = nextConfigWord(rest); word && !word->empty(); word = nextConfigWord(rest)) {
            if (word->starts_with('#')) {
                rest.reset();
                break;
            }
            auto const negated = word->starts_with('!');
            auto const name = toLower(std::string_view(*word).substr(negated ? 1 : 0));
            if (name == "all") {
                auto const argument = nextConfigWord(rest);
                if (conditions > 1 || (argument && !argument->empty() && !argument->starts_with('#')))
                    return "Match all stands with other conditions";
                if (argument && argument->starts_with('#'))
                    rest.reset();
                if (negated)
                    answer = Answer::No;
                return std::nullopt;
            }
            ++conditions;
            if (name == "final" || name == "canonical") {
                if (name == "final" && !m_final && !m_finalWhere)
                    m_finalWhere = line.where;
                if (m_final == negated)
                    answer = Answer::No;
                continue;
            }
            auto const argument = nextConfigWord(rest);
            if (!argument || argument->empty() || argument->starts_with('#'))
                return fmt::format("Match {} has no argument", visible(name));
            if (name == "exec") {
                if (auto expanded = expandPercent(*argument, execTokens()); !expanded)
                    return expanded.error().message;
                if (answer == Answer::Yes)
                    answer = Answer::Unknown;
                continue;
            }
            Condition const match{name, *argument};
            auto const matched = matches(match);
            if (!matched)
                return fmt::format(
                    "Match has a condition {} that ssh does not know, or HostName has an unknown token",
                    visible(name));
            if (*matched == negated)
                answer = Answer::No;
        }
        if (conditions == 0)
            return "Match has no condition";
        return std::nullopt;
    }

    struct Condition {
        std::string_view name;
        std::string_view argument;
    };
    /// Empty: there is no such condition.
    [[nodiscard]] std::optional<bool> matches(Condition const& match) const
    {
        if (match.name == "host") {
            auto const host = hostForMatch();
            if (!host)
                return std::nullopt;
            return matchesConfigPatternList(toLower(*host), match.argument, Case::LowerPattern) == 1;
        }
        if (match.name == "originalhost")
            return matchesConfigPatternList(toLower(m_alias), match.argument, Case::LowerPattern) == 1;
        if (match.name == "user")
            return matchesConfigPatternList(m_values.user.value_or(m_localUser), match.argument,
                                            Case::Keep) == 1;
        if (match.name == "localuser")
            return matchesConfigPatternList(m_localUser, match.argument, Case::Keep) == 1;
        return std::nullopt;
    }

    [[nodiscard]] std::optional<std::string> hostForMatch() const
    {
        if (m_final || !m_values.hostname)
            return m_final ? m_values.hostname : m_host;
        auto const expanded = expandPercent(*m_values.hostname, {{'h', m_host}});
        return expanded ? std::optional(*expanded) : std::nullopt;
    }

    /// Only their letters matter: nothing is run.
    static std::map<char, std::string> execTokens()
    {
        std::map<char, std::string> tokens;
        for (char const letter : std::string_view("CLdhklnprui"))
            tokens[letter] = "";
        return tokens;
    }

    Problem readValue(Keyword const& keyword, ConfigLine const& line)
    {
        auto const& words = line.arguments;
        switch (keyword.takes) {
        case Takes::Anything:
            if (keyword.option == Option::CanonicalizePermittedCnames && m_active && !words.empty() &&
                !isNone(words[0]))
                m_values.permittedCnames = true;
            return std::nullopt;
        case Takes::Texts: return readTexts(keyword, words);
        case Takes::Command:
        case Takes::Jump: {
            auto const start = line.rest.find_first_not_of(" \t\r\n=");
            auto const text = std::string_view(line.rest).substr(std::min(start, line.rest.size()));
            if (keyword.takes == Takes::Jump)
                return readJump(text);
            if (keyword.option == Option::ProxyCommand && m_active)
                setOnce(m_values.proxyCommand, std::string(text));
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
        case Takes::Flag: return readFlag(keyword, word);
        case Takes::Number:
        case Takes::Time: return readNumber(keyword, word);
        case Takes::Port: {
            auto const port = configPort(word);
            if (port && m_active)
                setOnce(m_values.port, *port);
            return port ? Problem() : fmt::format("'{}' is no port", visible(word));
        }
        default: return readText(keyword, word);
        }
    }

    Problem readFlag(Keyword const& keyword, std::string const& word)
    {
        auto const flag = configFlag(word);
        if (!flag)
            return fmt::format("{} is yes or no, not '{}'", keyword.name, visible(word));
        if (m_active && keyword.option == Option::IdentitiesOnly)
            setOnce(m_values.identitiesOnly, *flag);
        if (m_active && keyword.option == Option::BatchMode)
            setOnce(m_values.batchMode, *flag);
        return std::nullopt;
    }

    Problem readNumber(Keyword const& keyword, std::string const& word)
    {
        if (keyword.takes == Takes::Time && word == "none")
            return std::nullopt; // ssh leaves it unset, so that a later line can set it
        auto const number = keyword.takes == Takes::Time ? configTime(word) : configNumber(word);
        if (!number)
            return fmt::format("{} cannot be '{}'", keyword.name, visible(word));
        if (!m_active)
            return std::nullopt;
        if (keyword.option == Option::ConnectTimeout)
            setOnce(m_values.connectTimeout, *number);
        else if (keyword.option == Option::ServerAliveInterval)
            setOnce(m_values.aliveInterval, *number);
        else if (keyword.option == Option::ServerAliveCountMax)
            setOnce(m_values.aliveCountMax, *number);
        return std::nullopt;
    }

    Problem readText(Keyword const& keyword, std::string const& word)
    {
        if (keyword.takes == Takes::Family) {
            auto const family = toLower(word);
            if (family != "any" && family != "inet" && family != "inet6")
                return fmt::format("AddressFamily is any, inet or inet6, not '{}'", visible(word));
            if (m_active)
                setOnce(m_values.family, family);
            return std::nullopt;
        }
        if (keyword.takes == Takes::Agent)
            if (auto problem = checkAgent(word))
                return problem;
        if (keyword.option == Option::CanonicalizeHostname && !configFlag(word) && toLower(word) != "always")
            return fmt::format("CanonicalizeHostname cannot be '{}'", visible(word));
        if (!m_active)
            return std::nullopt;
        switch (keyword.option) {
        case Option::HostName: setOnce(m_values.hostname, word); break;
        case Option::User: setOnce(m_values.user, word); break;
        case Option::HostKeyAlias: setOnce(m_values.hostKeyAlias, word); break;
        case Option::IdentityAgent: setOnce(m_values.identityAgent, word); break;
        case Option::IgnoreUnknown: setOnce(m_values.ignoreUnknown, word); break;
        case Option::CanonicalizeHostname:
            setOnce(m_values.canonicalize, configFlag(word).value_or(true));
            break;
        case Option::IdentityFile:
        case Option::CertificateFile: {
            auto& list = keyword.option == Option::IdentityFile ? m_values.identities : m_values.certificates;
            if (list.size() >= kMaxIdentities)
                return fmt::format("there are more than {} of {}", kMaxIdentities, keyword.name);
            addOnce(list, word);
            break;
        }
        default: break;
        }
        return std::nullopt;
    }

    /// A variable that IdentityAgent names has to be there, or to have a name at least.
    [[nodiscard]] Problem checkAgent(std::string const& word) const
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

    Problem readTexts(Keyword const& keyword, std::vector<std::string> const& words)
    {
        auto& list = keyword.option == Option::UserKnownHostsFile ? m_values.userKnownHosts
                                                                  : m_values.globalKnownHosts;
        auto const open = m_active && list.empty();
        for (auto const& word : words) {
            if (word.empty())
                return fmt::format("{} has an empty argument", keyword.name);
            if (isNone(word) && words.size() > 1)
                return fmt::format("none stands with other files of {}", keyword.name);
            if (!open)
                continue;
            if (list.size() >= kMaxKnownHosts)
                return fmt::format("there are more than {} files of {}", kMaxKnownHosts, keyword.name);
            list.push_back(word);
        }
        return std::nullopt;
    }

    Problem readJump(std::string_view text)
    {
        if (isNone(text)) {
            if (m_active)
                setOnce(m_values.jump, Jump{.before = {}, .last = {.user = {}, .host = "none", .port = {}}});
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
        if (m_active && !m_values.proxyCommand && !m_values.jump) {
            auto const comma = text.rfind(',');
            m_values.jump =
                Jump{.before = std::string(comma == std::string_view::npos ? "" : text.substr(0, comma)),
                     .last = *std::move(last)};
            m_values.proxyCommand = "none";
        }
        return std::nullopt;
    }

    static Result<std::string> expandVariables(std::string const& word)
    {
        // expandTokens() expands tokens as well, which only come later: keep them out of its sight.
        std::string doubled;
        for (char const c : word)
            doubled += c == '%' ? std::string("%%") : std::string(1, c);
        return expandTokens("./" + doubled, {}, {});
    }

    /// What ssh does once the lines have been read.
    ConfiguredHost finish()
    {
        ConfiguredHost host;
        host.alias = m_alias;
        host.ignored = m_ignored;
        host.places = m_places;
        host.addressFamily = m_values.family.value_or("any");
        host.hostname = m_host;
        if (m_values.hostname) {
            auto const expanded = expandPercent(*m_values.hostname, {{'h', m_host}});
            if (!expanded)
                return refused(expanded.error().message + ", and ssh refuses it too");
            host.hostname = *expanded;
        }
        host.hostname = canonicalHostname(host.hostname, host.addressFamily);
        host.port = m_values.port.value_or(22);
        host.user = m_values.user.value_or(m_localUser);
        host.identityFiles = m_values.identities;
        host.certificateFiles = m_values.certificates;
        host.identitiesOnly = m_values.identitiesOnly.value_or(false);
        host.hostKeyAlias = toLower(m_values.hostKeyAlias.value_or(""));
        host.connectTimeout = m_values.connectTimeout;
        // Debian's ssh probes every five minutes in batch mode.
        host.serverAliveInterval =
            m_values.aliveInterval.value_or(m_values.batchMode.value_or(false) ? 300 : 0);
        host.serverAliveCountMax = m_values.aliveCountMax.value_or(3);
        if (m_values.canonicalize.value_or(false) || m_values.permittedCnames)
            host.refused =
                "CanonicalizeHostname, or CanonicalizePermittedCNAMEs, would have to look up its name";
        else if (auto problem = finishProxy(host))
            host.refused = *problem + ", and ssh refuses it too";
        else if ((problem = finishPaths(host)))
            host.refused = *problem + ", and ssh refuses it too";
        return host;
    }

    Problem finishProxy(ConfiguredHost& host) const
    {
        auto const command = m_values.proxyCommand.value_or("none");
        if (!isNone(command))
            host.proxyCommand = command;
        auto const& jump = m_values.jump;
        if (!jump || (jump->last.host == "none" && !jump->last.user && !jump->last.port))
            return std::nullopt;
        if (jump->last.host == host.hostname && host.port == jump->last.port.value_or(22) &&
            host.user == jump->last.user.value_or(host.user))
            return "its ProxyJump leads to itself";
        host.proxyJump = (jump->before.empty() ? "" : jump->before + ",") + toString(jump->last);
        return std::nullopt;
    }

    Problem finishPaths(ConfiguredHost& host) const
    {
        host.tokens = tokensOf(host);
        auto const expandInto = [&](std::string const& text, std::string& into) -> Problem {
            auto expanded = expandTokens(text, host.tokens, m_home);
            if (!expanded)
                return expanded.error().message;
            into = *std::move(expanded);
            return std::nullopt;
        };
        if (m_values.identityAgent)
            if (auto problem = expandInto(*m_values.identityAgent, host.identityAgent))
                return problem;
        host.globalKnownHostsFiles = m_values.globalKnownHosts;
        for (auto const& file : m_values.userKnownHosts) {
            if (isNone(file)) {
                host.userKnownHostsFiles.push_back(file);
                continue;
            }
            if (auto problem = expandInto(file, host.userKnownHostsFiles.emplace_back()))
                return problem;
        }
        return std::nullopt;
    }

    [[nodiscard]] std::map<char, std::string> tokensOf(ConfiguredHost const& host) const
    {
        std::array<char, 256> name{};
        ::gethostname(name.data(), name.size() - 1);
        std::string const localName = name.data();
        auto const port = std::to_string(host.port);
        return {{'C', connectionHash(localName, host.hostname, port, host.user)},
                {'L', localName.substr(0, localName.find('.'))},
                {'i', std::to_string(::getuid())},
                {'k', host.hostKeyAlias.empty() ? m_alias : host.hostKeyAlias},
                {'l', localName},
                {'n', m_alias},
                {'p', port},
                {'d', m_home.string()},
                {'h', host.hostname},
                {'r', host.user},
                {'u', m_localUser}};
    }

    std::vector<ConfigLine> const& m_lines;
    std::filesystem::path const& m_home;
    std::string m_alias;
    std::string m_localUser;
    std::string m_host; ///< What Host lines are compared with.
    bool m_final = false;
    bool m_active = true;
    bool m_never = false; ///< In a file that a block includes which does not apply.
    Values m_values;
    std::vector<std::string> m_ignored;
    std::set<std::string> m_noted;
    std::map<std::string, std::string> m_places;
    std::string m_execWhere;
    std::optional<std::string> m_finalWhere;
};

} // namespace

ConfiguredHost SshConfig::resolve(std::string_view alias, std::string_view localUser) const
{
    return resolve(alias, localUser, Given());
}

ConfiguredHost SshConfig::resolve(std::string_view alias, std::string_view localUser,
                                  Given const& given) const
{
    return Resolver(m_lines, m_home, alias, localUser).run(given);
}

} // namespace termalin::ssh
