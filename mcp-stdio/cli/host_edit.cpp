#include "mcp-stdio/cli/host_edit.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/command_policy.h"
#include "core/path_policy.h"
#include "mcp-stdio/cli/address.h"
#include "mcp-stdio/cli/console.h"

namespace termalin::cli {

namespace {

using Texts = std::vector<std::string>;

Texts withoutEmpty(Texts list)
{
    std::erase_if(list, [](std::string const& text) { return text.empty(); });
    return list;
}

Result<void> checkText(std::string_view option, std::string_view value, bool lines = false)
{
    auto const* const bad = std::ranges::find_if(value, [&](char c) {
        return (static_cast<unsigned char>(c) < 0x20 && (!lines || (c != '\n' && c != '\t'))) || c == '\x7f';
    });
    if (bad != value.end())
        return fail(Errc::InvalidArgument, fmt::format("{} has a control character, which it cannot have: {}",
                                                       option, visible(value)));
    return {};
}

/// A program started by an agent has another current folder, so only absolute names are kept.
Result<std::string> absoluteFile(std::string_view option, std::string const& file,
                                 std::filesystem::path const& home)
{
    TRY(checkText(option, file));
    if (file.empty() || file == "none")
        return file;
    if (file == "~" || file.starts_with("~/"))
        return (home / file.substr(std::min<std::size_t>(2, file.size()))).lexically_normal().string();
    if (file.starts_with('~'))
        return fail(Errc::InvalidArgument,
                    fmt::format("{}: another user's home cannot be given as '{}'. Write the whole path.",
                                option, visible(file)));
    std::error_code error;
    auto const path = std::filesystem::absolute(file, error);
    if (error)
        return fail(Errc::InvalidArgument, fmt::format("{}: '{}' cannot be made an absolute path: {}", option,
                                                       visible(file), error.message()));
    return path.lexically_normal().string();
}

Result<Texts> absoluteFiles(std::string_view option, Texts const& files, std::filesystem::path const& home)
{
    Texts paths;
    for (auto const& file : withoutEmpty(files)) {
        TRY_LET(auto path, absoluteFile(option, file, home));
        paths.push_back(std::move(path));
    }
    return paths;
}

Result<void> applyPolicy(HostOptions const& options, Host& host)
{
    if (options.policy) {
        auto const policy = parseAgentPolicy(*options.policy);
        if (!policy)
            return fail(Errc::InvalidArgument,
                        fmt::format("--policy must be blocked, allowlist or full, not '{}'.",
                                    visible(*options.policy)));
        host.policy = *policy;
    }
    if (options.rules) {
        host.rules = withoutEmpty(*options.rules);
        for (auto const& rule : host.rules)
            TRY(CommandRule::parse(rule));
    }
    if (options.reads) {
        host.reads = withoutEmpty(*options.reads);
        for (auto const& pattern : host.reads)
            TRY(PathPattern::parse(pattern));
    }
    return {};
}

Result<void> applyLogin(HostOptions const& options, std::filesystem::path const& home, Host& host)
{
    if (options.address) {
        TRY_LET(auto const login, parseLogin(*options.address));
        host.username = login.user;
        host.hostname = login.address;
        host.port = login.port;
    }
    if (options.keys) {
        TRY_LET(host.keyFiles, absoluteFiles("--key", *options.keys, home));
    }
    if (options.certificates) {
        TRY_LET(host.certificateFiles, absoluteFiles("--certificate", *options.certificates, home));
    }
    if (options.agent) {
        // $NAME is a variable of the environment, as in IdentityAgent of ssh_config(5).
        TRY(checkText("--agent", *options.agent));
        if (options.agent->starts_with('$') || *options.agent == "SSH_AUTH_SOCK")
            host.agentSocket = *options.agent;
        else {
            TRY_LET(host.agentSocket, absoluteFile("--agent", *options.agent, home));
        }
    }
    if (options.knownHosts) {
        TRY_LET(auto file, absoluteFile("--known-hosts", *options.knownHosts, home));
        host.knownHostsFiles.clear();
        if (!file.empty())
            host.knownHostsFiles.push_back(std::move(file));
    }
    if (options.identitiesOnly) {
        if (*options.identitiesOnly != "yes" && *options.identitiesOnly != "no")
            return fail(Errc::InvalidArgument, fmt::format("--identities-only must be yes or no, not '{}'.",
                                                           visible(*options.identitiesOnly)));
        host.identitiesOnly = *options.identitiesOnly == "yes";
    }
    if (options.hostKeyAlias) {
        TRY(checkText("--host-key-alias", *options.hostKeyAlias));
        host.hostKeyAlias = *options.hostKeyAlias;
    }
    if (options.jumps)
        host.jump = withoutEmpty(*options.jumps);
    if (options.proxyCommand) {
        TRY(checkText("--proxy-command", *options.proxyCommand));
        host.proxyCommand = *options.proxyCommand;
    }
    return {};
}

/// How the login is expected to go, from what the host now has.
void chooseAuthType(HostOptions const& options, Host& host)
{
    if (options.askPassword)
        host.authType = AuthType::Password;
    else if (options.keys || options.certificates)
        host.authType = !host.certificateFiles.empty() ? AuthType::Certificate
                        : !host.keyFiles.empty()       ? AuthType::Key
                                                       : AuthType::Agent;
    else if (options.agent && host.keyFiles.empty() && host.certificateFiles.empty())
        host.authType = AuthType::Agent;
}

Texts newOnes(Texts const& before, Texts const& after)
{
    Texts added;
    std::ranges::copy_if(after, std::back_inserter(added), [&](std::string const& text) {
        return std::ranges::find(before, text) == before.end();
    });
    return added;
}

std::string quoted(Texts const& list)
{
    Texts safe;
    for (auto const& text : list)
        safe.push_back("'" + visible(text) + "'");
    return fmt::format("{}", fmt::join(safe, ", "));
}

std::string plainName(std::string name)
{
    std::ranges::transform(name, name.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (name.ends_with('.'))
        name.pop_back();
    return name == "localhost" || name == "::1" ? "127.0.0.1" : name;
}

bool sameServer(Host const& a, Host const& b)
{
    return plainName(a.hostname) == plainName(b.hostname) && a.port == b.port && a.jump == b.jump &&
           a.proxyCommand == b.proxyCommand;
}

} // namespace

Result<void> applyOptions(HostOptions const& options, std::filesystem::path const& home, Host& host)
{
    if (host.id == kLocalHostId &&
        (options.address || options.newName || options.keys || options.certificates || options.jumps ||
         options.agent || options.knownHosts || options.proxyCommand || options.hostKeyAlias ||
         options.identitiesOnly || options.askPassword || options.askPassphrase))
        return fail(Errc::InvalidArgument,
                    "'local' is this computer's own shell: it has no address and no login. Only "
                    "--policy, --allow, --allow-read, --tag and --note can be set.");
    if (options.newName)
        host.name = *options.newName;
    TRY(applyLogin(options, home, host));
    TRY(applyPolicy(options, host));
    if (options.tags) {
        host.tags = withoutEmpty(*options.tags);
        for (auto const& tag : host.tags)
            TRY(checkText("--tag", tag));
    }
    if (options.note) {
        TRY(checkText("--note", *options.note, /*lines=*/true));
        host.notes = *options.note;
    }
    if (options.askPassphrase && host.keyFiles.empty())
        return fail(Errc::InvalidArgument, "--ask-passphrase is for a key file: name it with --key FILE.");
    chooseAuthType(options, host);
    return {};
}

std::vector<std::string> widenings(Host const& before, Host const& after)
{
    Texts effects;
    auto const name = visible(after.name);
    if (after.policy > before.policy)
        effects.push_back(
            after.policy == AgentPolicy::Full
                ? fmt::format("Agents may then do anything on '{}' that {} may do there: run every "
                              "command, open tunnels, read and write files.",
                              name, after.username.empty() ? "you" : "'" + visible(after.username) + "'")
                : fmt::format("Agents may then run on '{}' the commands that its rules admit ({}) and "
                              "read the files that it lists ({}).",
                              name, after.rules.empty() ? "none yet" : quoted(after.rules),
                              after.reads.empty() ? "none" : quoted(after.reads)));
    // Whoever had everything gets nothing by a rule, and a new allowlist has been shown whole already.
    auto const hadAll = before.policy == AgentPolicy::Full;
    auto const shown = before.policy == AgentPolicy::Blocked && after.policy == AgentPolicy::Allowlist;
    if (auto const rules = newOnes(before.rules, after.rules); !rules.empty() && !hadAll && !shown)
        effects.push_back(
            fmt::format("New on '{}': commands that agents may run where its policy is allowlist: {}.", name,
                        quoted(rules)));
    if (auto const reads = newOnes(before.reads, after.reads); !reads.empty() && !hadAll && !shown)
        effects.push_back(
            fmt::format("New on '{}': files that agents may read where its policy is allowlist: {}.", name,
                        quoted(reads)));
    if (!before.id.empty() && before.policy != AgentPolicy::Blocked && after.policy != AgentPolicy::Blocked) {
        if (!sameRoute(before, after))
            effects.push_back(
                fmt::format("'{}' is open to agents ({}), who would then reach another place under its "
                            "name: {}@{}{}{}.",
                            name, toString(after.policy), visible(after.username), addressOf(after),
                            after.jump.empty() ? "" : " through " + quoted(after.jump),
                            after.proxyCommand.empty() ? "" : " by '" + visible(after.proxyCommand) + "'"));
        if (before.knownHostsFiles != after.knownHostsFiles || before.hostKeyAlias != after.hostKeyAlias)
            effects.push_back(
                fmt::format("'{}' is open to agents ({}), and other server keys would then be trusted "
                            "for it.",
                            name, toString(after.policy)));
    }
    return effects;
}

std::vector<std::string> ruleWarnings(Host const& host)
{
    Texts warnings;
    for (auto const& text : host.rules)
        if (auto const rule = CommandRule::parse(text)) {
            auto found = rule->warnings();
            std::ranges::move(rule->warningsWith(host.reads), std::back_inserter(found));
            for (auto const& warning : found)
                warnings.push_back(fmt::format("Rule '{}': {}", visible(text), visible(warning)));
        }
    return warnings;
}

std::vector<std::string> cautions(Host const& host, std::vector<Host> const& all)
{
    auto found = ruleWarnings(host);
    if (host.policy != AgentPolicy::Blocked &&
        (host.id == kLocalHostId ||
         (host.jump.empty() && host.proxyCommand.empty() && isThisComputer(host.hostname))))
        found.push_back(
            fmt::format("'{}' is this computer. An agent that can run commands here as you can also change "
                        "its own limits: your Termalin settings, your rules and your keys.",
                        visible(host.name)));
    for (auto const& other : all)
        if (other.id != host.id && other.id != kLocalHostId && other.policy != host.policy &&
            sameServer(other, host))
            found.push_back(fmt::format(
                "'{}' ({}) and '{}' ({}) are the same server: what one of them refuses, the "
                "other may allow.",
                visible(host.name), toString(host.policy), visible(other.name), toString(other.policy)));
    return found;
}

Json widenableFields(Host const& host)
{
    return {{"host", host.id},
            {"policy", toString(host.policy)},
            {"rules", host.rules},
            {"reads", host.reads},
            {"hostname", host.hostname},
            {"port", host.port},
            {"username", host.username},
            {"jump", host.jump},
            {"proxyCommand", host.proxyCommand},
            {"addressFamily", toString(host.addressFamily)},
            {"knownHostsFiles", host.knownHostsFiles},
            {"hostKeyAlias", host.hostKeyAlias}};
}

std::string addressOf(Host const& host)
{
    auto const address = visible(host.hostname);
    return address.contains(':') ? fmt::format("[{}]:{}", address, host.port)
                                 : fmt::format("{}:{}", address, host.port);
}

} // namespace termalin::cli
