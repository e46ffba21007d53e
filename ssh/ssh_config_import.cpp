#include "ssh/ssh_config_import.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>

#include "core/host_checks.h"
#include "core/output_buffer.h"
#include "ssh/detail_ssh_config.h"
#include "ssh/target.h"

namespace termalin::ssh {

namespace {

class Importer {
public:
    Importer(SshConfig const& config, std::string_view localUser) : m_config(config), m_localUser(localUser)
    {
        for (auto const& alias : config.aliases())
            m_aliases.insert(alias);
    }

    ImportReport run()
    {
        for (auto const& alias : m_config.aliases())
            import(alias, alias, {});
        return std::move(m_report);
    }

private:
    /// What became of one name. `hops`: how many servers a connection to it passes through, itself included.
    struct Outcome {
        bool imported = false;
        std::size_t hops = 1;
    };

    Outcome refuse(std::string const& name, std::string why)
    {
        m_report.refused.push_back({name, std::move(why)});
        return m_done[name] = {};
    }

    /// Imports `destination` under `name`, its jump hosts first.
    Outcome import(std::string const& name, std::string const& destination, SshConfig::Given const& given)
    {
        if (auto const done = m_done.find(name); done != m_done.end())
            return done->second;
        auto const configured = m_config.resolve(destination, m_localUser, given);
        if (!configured.refused.empty())
            return refuse(name, configured.refused);
        Host host;
        host.name = name;
        host.hostname = configured.hostname;
        host.port = configured.port;
        host.username = configured.user;
        host.hostKeyAlias = configured.hostKeyAlias;
        host.identitiesOnly = configured.identitiesOnly;
        Notes notes;
        addKeys(configured, host, notes);
        addAgent(configured, host, notes);
        addKnownHosts(configured, host, notes);
        addTimes(configured, host);
        notes.insert(notes.end(), configured.ignored.begin(), configured.ignored.end());
        if (auto why = addProxyCommand(configured, host))
            return refuse(name, *why);
        Outcome outcome{.imported = true};
        m_underWay.push_back(name);
        auto why = addJumps(configured, host, outcome.hops);
        m_underWay.pop_back();
        if (why)
            return refuse(name, *why);
        if (auto const checked = checkHost(host); !checked)
            return refuse(name, checked.error().message);
        m_report.hosts.push_back({std::move(host), m_aliases.contains(name) ? m_config.whereIs(name) : ""});
        for (auto& note : notes)
            m_report.ignored.push_back({name, std::move(note)});
        return m_done[name] = outcome;
    }

    using Notes = std::vector<std::string>;
    using Why = std::optional<std::string>;

    static std::string placed(ConfiguredHost const& configured, std::string const& keyword,
                              std::string_view text)
    {
        auto const place = configured.places.find(keyword);
        return place == configured.places.end() ? fmt::format("{}: {}", keyword, text)
                                                : fmt::format("{} ({}): {}", keyword, place->second, text);
    }

    /// An absolute path; empty, with a note, where there is none.
    std::string path(ConfiguredHost const& configured, std::string const& keyword, std::string const& text,
                     Notes& notes)
    {
        auto const expanded = expandTokens(text, configured.tokens, m_config.home());
        if (!expanded)
            notes.push_back(placed(configured, keyword, expanded.error().message));
        else if (!expanded->starts_with('/'))
            notes.push_back(
                placed(configured, keyword,
                       fmt::format("'{}' is relative to the folder in which ssh is started", text)));
        else
            return *expanded;
        return {};
    }

    void addKeys(ConfiguredHost const& configured, Host& host, Notes& notes)
    {
        auto const add = [&](std::string const& keyword, std::vector<std::string> const& from,
                             std::vector<std::string>& to) {
            for (auto const& text : from) {
                if (toLower(text) == "none") {
                    notes.push_back(placed(configured, keyword, "none"));
                    continue;
                }
                auto file = path(configured, keyword, text, notes);
                if (!file.empty() && std::ranges::find(to, file) == to.end())
                    to.push_back(std::move(file));
            }
        };
        add("identityfile", configured.identityFiles, host.keyFiles);
        add("certificatefile", configured.certificateFiles, host.certificateFiles);
        if (!host.certificateFiles.empty())
            host.authType = AuthType::Certificate;
        else if (!host.keyFiles.empty())
            host.authType = AuthType::Key;
    }

    void addAgent(ConfiguredHost const& configured, Host& host, Notes& notes)
    {
        auto const& agent = configured.identityAgent;
        if (agent.empty() || agent == "none" || agent == "SSH_AUTH_SOCK" || agent.starts_with('$') ||
            agent.starts_with('/'))
            host.agentSocket = agent;
        else
            notes.push_back(
                placed(configured, "identityagent", fmt::format("'{}' is no absolute path", agent)));
    }

    static void addKnownHosts(ConfiguredHost const& configured, Host& host, Notes& notes)
    {
        auto const isNothing = [](std::string const& file) {
            return toLower(file) == "none" || file == "/dev/null";
        };
        for (auto const& file : configured.userKnownHostsFiles)
            if (file.starts_with('/') && !isNothing(file)) {
                if (std::ranges::find(host.knownHostsFiles, file) == host.knownHostsFiles.end())
                    host.knownHostsFiles.push_back(file);
            } else if (!isNothing(file))
                notes.push_back(
                    placed(configured, "userknownhostsfile", fmt::format("'{}' is no absolute path", file)));
        if (host.knownHostsFiles.empty() && std::ranges::any_of(configured.userKnownHostsFiles, isNothing))
            host.knownHostsFiles = {"none"};
        if (!configured.globalKnownHostsFiles.empty())
            notes.push_back(placed(configured, "globalknownhostsfile", "is not kept"));
    }

    /// What is not said is left to our own defaults, which are not all ssh's.
    static void addTimes(ConfiguredHost const& configured, Host& host)
    {
        host.addressFamily = parseAddressFamily(configured.addressFamily).value_or(AddressFamily::Any);
        host.connectTimeout = configured.connectTimeout;
        if (configured.places.contains("serveraliveinterval") || configured.serverAliveInterval > 0)
            host.serverAliveInterval = configured.serverAliveInterval;
        if (configured.places.contains("serveralivecountmax"))
            host.serverAliveCountMax = configured.serverAliveCountMax;
    }

    /// %h %n %p %r are left for the moment of connecting; %k is known.
    static Why addProxyCommand(ConfiguredHost const& configured, Host& host)
    {
        if (configured.proxyCommand.empty())
            return std::nullopt;
        if (configured.proxyCommand == "-")
            return placed(configured, "proxycommand", "- (standard input and output) is not supported");
        std::string command;
        for (std::size_t i = 0; i < configured.proxyCommand.size(); ++i) {
            auto const c = configured.proxyCommand[i];
            auto const letter =
                i + 1 < configured.proxyCommand.size() ? configured.proxyCommand[i + 1] : '\0';
            if (c != '%') {
                command += c;
            } else if (letter == 'k') {
                for (auto const k : configured.tokens.at('k'))
                    command += k == '%' ? std::string("%%") : std::string(1, k);
                ++i;
            } else if (letter != '\0' && std::string_view("%hnpr").contains(letter)) {
                command += {c, letter};
                ++i;
            } else {
                return placed(configured, "proxycommand", "it has a token that ssh does not know there");
            }
        }
        host.proxyCommand = std::move(command);
        return std::nullopt;
    }

    Why addJumps(ConfiguredHost const& configured, Host& host, std::size_t& hops)
    {
        std::string_view rest = configured.proxyJump;
        while (!rest.empty()) {
            auto const comma = std::min(rest.find(','), rest.size());
            auto const hop = parseJumpHop(rest.substr(0, comma));
            rest.remove_prefix(std::min(comma + 1, rest.size()));
            if (!hop || !isConfigDestination(hop->host))
                return placed(configured, "proxyjump", "it names no host that ssh would take");
            auto const name = nameOf(*hop);
            if (std::ranges::find(m_underWay, name) != m_underWay.end())
                return placed(configured, "proxyjump",
                              fmt::format("the way through '{}' goes in a circle", name));
            auto const via = import(name, hop->host, {.user = hop->user, .port = hop->port});
            if (!via.imported)
                return placed(configured, "proxyjump",
                              fmt::format("its jump host '{}' cannot be imported", name));
            hops += host.jump.empty() ? via.hops : 1;
            host.jump.push_back(name);
        }
        if (hops > kMaxHops)
            return placed(configured, "proxyjump",
                          fmt::format("it passes through more than {} hosts", kMaxHops - 1));
        return std::nullopt;
    }

    /// The alias, where the hop is just that; else as in the ProxyJump.
    [[nodiscard]] std::string nameOf(JumpHop const& hop) const
    {
        if (!hop.user && !hop.port)
            return hop.host;
        if (m_aliases.contains(hop.host)) {
            auto const alone = m_config.resolve(hop.host, m_localUser);
            auto const given = m_config.resolve(hop.host, m_localUser, {.user = hop.user, .port = hop.port});
            if (alone.refused.empty() && alone.user == given.user && alone.port == given.port)
                return hop.host;
        }
        return toString(hop);
    }

    SshConfig const& m_config;
    std::string m_localUser;
    std::set<std::string> m_aliases;
    std::map<std::string, Outcome> m_done;
    std::vector<std::string> m_underWay; ///< Whose jump hosts are being imported, outermost first.
    ImportReport m_report;
};

} // namespace

ImportReport importHosts(SshConfig const& config, std::string_view localUser)
{
    return Importer(config, localUser).run();
}

std::string toText(ImportReport const& report)
{
    std::string text;
    for (auto const& [host, where] : report.hosts) {
        std::string way;
        for (auto const& jump : host.jump)
            way += (way.empty() ? " through " : ", ") + jump;
        text += visible(fmt::format("found     {}{}: {}@{} port {}{}", host.name,
                                    where.empty() ? "" : " (" + where + ")", host.username, host.hostname,
                                    host.port, way)) +
                '\n';
    }
    for (auto const& [name, what] : report.ignored)
        text += visible(fmt::format("left out  {}: {}", name, what)) + '\n';
    for (auto const& [name, why] : report.refused)
        text += visible(fmt::format("refused   {}: {}", name, why)) + '\n';
    return text;
}

} // namespace termalin::ssh
