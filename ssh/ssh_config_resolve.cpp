#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>
#include <unistd.h>

#include "core/output_buffer.h"
#include "ssh/detail_ssh_config.h"

namespace termalin::ssh {

namespace {

using Problem = ConfigProblem;

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
        return m_values.read(*keyword, line, m_active);
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
        else if (auto const problem = finishProxy(host).or_else([&] { return finishPaths(host); }))
            host.refused = *problem + ", and ssh refuses it too";
        return host;
    }

    Problem finishProxy(ConfiguredHost& host) const
    {
        auto const command = m_values.proxyCommand.value_or("none");
        if (!isConfigNone(command))
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
            if (isConfigNone(file)) {
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
    ConfigValues m_values;
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
