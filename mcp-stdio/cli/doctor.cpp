#include "mcp-stdio/cli/doctor.h"

#include <algorithm>
#include <fmt/format.h>
#include <future>
#include <set>

#include "core/command_policy.h"
#include "core/settings.h"
#include "mcp-stdio/cli/commands.h"
#include "mcp-stdio/cli/console.h"

namespace termalin::cli {

namespace {

/// Servers that are tried at one time.
constexpr std::size_t kAtOnce = 8;

void append(Findings& all, Findings more)
{
    std::ranges::move(more, std::back_inserter(all));
}

Finding cannotResolve(std::string const& name, Error const& error)
{
    return {Fault::Other, name, error.message,
            "Change the host: termalin-mcp host set " + asArgument(name) + " ..."};
}

/// What can be seen of a host without a connection.
Findings checkHostOffline(Context& context, SavedLogin const& login)
{
    Findings found;
    auto const& hops = login.route.route.hops;
    for (auto const& target : hops) {
        auto const last = &target == &hops.back();
        append(found, checkAgent(target.name, target, last ? login.host.authType : AuthType::Key));
        append(found, checkKeyFiles(target.name, target));
    }
    if (auto const vault = context.vault())
        append(found, checkVault(login.host, **vault));
    return found;
}

Findings checkServers(std::vector<SavedLogin> const& logins)
{
    Findings found;
    for (std::size_t first = 0; first < logins.size(); first += kAtOnce) {
        std::vector<std::future<Findings>> running;
        for (auto i = first; i < std::min(first + kAtOnce, logins.size()); ++i)
            running.push_back(std::async(std::launch::async, checkServer, std::cref(logins[i])));
        for (auto& one : running)
            append(found, one.get());
    }
    return found;
}

Result<std::vector<Host>> chosenHosts(Context& context, std::string const& name)
{
    TRY_LET(auto* const store, context.store());
    if (!name.empty()) {
        TRY_LET(auto host, store->findHost(name));
        return std::vector{std::move(host)};
    }
    TRY_LET(auto hosts, store->hosts());
    std::erase_if(hosts, [](Host const& host) { return host.id == kLocalHostId; });
    return hosts;
}

void show(Findings const& found)
{
    std::set<std::string> seen; // two hosts may go through one jump host
    for (auto const& finding : found) {
        auto const text = fmt::format("{}: {}: {}\n    {}\n", toString(finding.fault), visible(finding.where),
                                      visible(finding.what), visible(finding.todo));
        if (seen.insert(text).second)
            print(text);
    }
}

void showLimits()
{
    say("What Termalin does not protect against: a hostile program that runs as you, outside its tools. It "
        "can read "
        "your keys, change the store and the settings, and type into your terminals. What the command line "
        "widened "
        "is in the audit (termalin-mcp audit list), and the app shows it.");
}

} // namespace

std::string_view toString(Fault fault) noexcept
{
    switch (fault) {
    case Fault::AgentDead: return "agent-dead";
    case Fault::KeyFileMode: return "key-file-mode";
    case Fault::VaultLocked: return "vault-locked";
    case Fault::KeyUnknown: return "key-unknown";
    case Fault::KeyChanged: return "key-changed";
    case Fault::NoSftp: return "no-sftp";
    case Fault::MaxSessions: return "max-sessions";
    case Fault::ShellNotPosix: return "shell-not-posix";
    case Fault::StaleSocket: return "stale-socket";
    case Fault::ClientConfiguration: return "client-configuration";
    case Fault::Other: return "other";
    }
    return "other";
}

Result<int> doctor(Context& context, DoctorOptions const& options)
{
    TRY_LET(auto const hosts, chosenHosts(context, options.name));
    Findings found;
    std::vector<SavedLogin> logins;
    for (auto const& host : hosts) {
        auto login = findLogin(context, host.id);
        if (!login) {
            found.push_back(cannotResolve(host.name, login.error()));
            continue;
        }
        append(found, checkHostOffline(context, *login));
        logins.push_back(*std::move(login));
    }
    if (!options.offline)
        append(found, checkServers(logins));
    if (options.name.empty()) {
        append(found, checkSocket(context.paths().controlSocket, "the app"));
        append(found, checkSocket(context.paths().vaultSocket, "the vault's holder"));
        append(found, checkClients());
        auto const settings = Settings::load(context.paths().settings);
        if (!settings.problem.empty())
            found.push_back({Fault::Other, context.paths().settings.string(), settings.problem,
                             "Until it is repaired, everything that widens counts as off."});
        if (settings.agentsStopped)
            note("Agents are stopped: every call of theirs is refused until you say: termalin-mcp agents "
                 "resume");
    }
    show(found);
    if (found.empty())
        say("No fault found ({} host{} looked at{}).", hosts.size(), hosts.size() == 1 ? "" : "s",
            options.offline ? ", none connected to" : "");
    showLimits();
    return found.empty() ? kDone : kFailed;
}

} // namespace termalin::cli
