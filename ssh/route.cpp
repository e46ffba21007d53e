#include "ssh/route.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <system_error>

#include "core/account.h"
#include "core/store.h"

namespace termalin::ssh {
namespace {

std::string environment(char const* name)
{
    auto const* const value = std::getenv(name); // NOLINT(concurrency-mt-unsafe): nothing here sets any
    return value == nullptr ? std::string() : std::string(value);
}

/// `~` and `~/...` are the person's home; anything else has to be absolute, since a server of agents is
/// started in whatever folder.
Result<std::string> absolute(std::string const& path, std::string_view what, Host const& host,
                             RouteDefaults const& defaults)
{
    if (path == "~")
        return defaults.home.string();
    if (path.starts_with("~/"))
        return (defaults.home / path.substr(2)).string();
    if (path.starts_with('/'))
        return path;
    return fail(Errc::InvalidArgument,
                fmt::format("The {} '{}' of host '{}' is not an absolute path. Set it again with a path that "
                            "begins with / or ~/.",
                            what, path, host.name));
}

Result<std::vector<std::string>> keyFiles(Host const& host, RouteDefaults const& defaults)
{
    std::vector<std::string> files;
    for (auto const& file : host.keyFiles) {
        TRY_LET(auto path, absolute(file, "key file", host, defaults));
        files.push_back(std::move(path));
    }
    // A host that is logged in to by password is not bothered with keys that nobody named: each one offered
    // counts against the server's limit of attempts.
    if (!files.empty() || defaults.isolated || host.authType == AuthType::Password)
        return files;
    for (auto const* const name : {"id_ed25519", "id_ecdsa", "id_rsa"}) {
        auto const path = defaults.home / ".ssh" / name;
        std::error_code ignored;
        if (std::filesystem::exists(path, ignored))
            files.push_back(path.string());
    }
    return files;
}

/// IdentityAgent of ssh_config(5): a path, "none", "SSH_AUTH_SOCK" or "$NAME".
Result<std::string> agentSocket(Host const& host, RouteDefaults const& defaults)
{
    auto const& named = host.agentSocket;
    if (named == "none")
        return std::string();
    if (named.empty()) {
        auto const usable = !defaults.isolated && host.authType != AuthType::Password;
        return usable ? defaults.environmentSocket : std::string();
    }
    if (named == "SSH_AUTH_SOCK" || named == "$SSH_AUTH_SOCK")
        return defaults.environmentSocket;
    if (named.starts_with('$'))
        return environment(named.c_str() + 1);
    return absolute(named, "agent socket", host, defaults);
}

Result<std::vector<std::string>> knownHostsFiles(Host const& host, RouteDefaults const& defaults)
{
    std::vector<std::string> files;
    if (!host.knownHostsFiles.empty() && host.knownHostsFiles.front() == "none")
        return files;
    for (auto const& named : host.knownHostsFiles) {
        TRY_LET(auto file, absolute(named, "known_hosts file", host, defaults));
        files.push_back(std::move(file));
    }
    if (!files.empty() || defaults.isolated)
        return files;
    return std::vector<std::string>{(defaults.home / ".ssh/known_hosts").string(),
                                    (defaults.home / ".ssh/known_hosts2").string(),
                                    "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"};
}

/// A shell reads the ProxyCommand, so what is put into it must not be able to mean something there.
bool isHarmlessInShell(std::string_view text)
{
    constexpr std::string_view kMeaningful = "\"'`$\\;&<>|(){}[]*?!#~ ";
    return !text.empty() && text.front() != '-' && std::ranges::all_of(text, [&](char c) {
        return static_cast<unsigned char>(c) > 0x20 && c != 0x7f && !kMeaningful.contains(c);
    });
}

Result<std::string> expandProxyCommand(Host const& host, Target const& target)
{
    std::string out;
    for (std::size_t i = 0; i < host.proxyCommand.size(); ++i) {
        if (host.proxyCommand[i] != '%') {
            out += host.proxyCommand[i];
            continue;
        }
        auto const letter = ++i < host.proxyCommand.size() ? host.proxyCommand[i] : '\0';
        std::string value;
        switch (letter) {
        case '%': out += '%'; continue;
        case 'h': value = target.hostname; break;
        case 'p': value = std::to_string(target.port); break;
        case 'r': value = target.user; break;
        case 'n': value = host.name; break;
        default:
            return fail(
                Errc::InvalidArgument,
                fmt::format("The ProxyCommand of host '{}' has a '%' that is not one of %h %p %r %n %%; "
                            "write %% for a percent sign.",
                            host.name));
        }
        if (!isHarmlessInShell(value))
            return fail(
                Errc::InvalidArgument,
                fmt::format("The ProxyCommand of host '{}' uses %{}, whose value has characters that a "
                            "shell would act on. Write the value into the command yourself, quoted.",
                            host.name, letter));
        out += value;
    }
    return out;
}

Result<Target> makeTarget(Host const& host, bool first, RouteDefaults const& defaults)
{
    Target target;
    target.name = host.name;
    target.hostname = host.hostname;
    target.port = host.port;
    target.user = host.username.empty() ? defaults.localUser : host.username;
    target.hostKeyAlias = host.hostKeyAlias;
    TRY_LET(target.keyFiles, keyFiles(host, defaults));
    for (auto const& file : host.certificateFiles) {
        TRY_LET(auto path, absolute(file, "certificate file", host, defaults));
        target.certificateFiles.push_back(std::move(path));
    }
    target.identitiesOnly = host.identitiesOnly;
    TRY_LET(target.agentSocket, agentSocket(host, defaults));
    TRY_LET(target.knownHostsFiles, knownHostsFiles(host, defaults));
    target.family = host.addressFamily;
    target.connectTimeout = std::chrono::seconds(host.connectTimeout.value_or(0));
    if (host.serverAliveInterval)
        target.serverAliveInterval = std::chrono::seconds(*host.serverAliveInterval);
    target.serverAliveCountMax = host.serverAliveCountMax.value_or(target.serverAliveCountMax);
    if (first && !host.proxyCommand.empty() && host.proxyCommand != "none") {
        TRY_LET(target.proxyCommand, expandProxyCommand(host, target));
    }
    return target;
}

struct Walk {
    FindHost const& find;
    RouteDefaults const& defaults;
    std::vector<std::string> underWay; ///< Ids of the hosts whose way is being resolved.
    SavedRoute route;

    Result<void> add(Host const& host)
    {
        if (route.route.hops.size() >= kMaxHops)
            return fail(Errc::InvalidArgument,
                        fmt::format("The way to host '{}' has more than {} jump hosts. Shorten its list of "
                                    "jumps.",
                                    host.name, kMaxHops - 1));
        TRY_LET(auto target, makeTarget(host, route.route.hops.empty(), defaults));
        route.route.hops.push_back(std::move(target));
        route.hostIds.push_back(host.id);
        return {};
    }

    Result<void> addWithJumps(Host const& host)
    {
        if (host.id == kLocalHostId)
            return fail(Errc::Unsupported, "This computer's own shell is not reached over SSH; use a saved "
                                           "host.");
        if (std::ranges::find(underWay, host.id) != underWay.end() || underWay.size() >= kMaxHops)
            return fail(Errc::InvalidArgument,
                        fmt::format("The jumps of host '{}' go in a circle, or through more than {} hosts. "
                                    "Change its list of jumps.",
                                    host.name, kMaxHops - 1));
        underWay.push_back(host.id);
        for (std::size_t i = 0; i < host.jump.size(); ++i) {
            TRY_LET(auto const jump, find(host.jump[i]));
            if (jump.id == host.id || jump.id == kLocalHostId)
                return fail(Errc::InvalidArgument,
                            fmt::format("Host '{}' jumps through '{}', which cannot be a jump host for it. "
                                        "Change its list of jumps.",
                                        host.name, jump.name));
            if (i == 0)
                TRY(addWithJumps(jump));
            else
                TRY(add(jump));
        }
        underWay.pop_back();
        return add(host);
    }
};

} // namespace

RouteDefaults RouteDefaults::of(Paths const& paths)
{
    return {.home = paths.home,
            .isolated = paths.isolated,
            .environmentSocket = environment("SSH_AUTH_SOCK"),
            .localUser = ownAccount()};
}

Result<SavedRoute> resolveRoute(Host const& host, FindHost const& find, RouteDefaults const& defaults)
{
    Walk walk{.find = find, .defaults = defaults, .underWay = {}, .route = {}};
    TRY(walk.addWithJumps(host));
    return std::move(walk.route);
}

Result<SavedRoute> resolveRoute(Host const& host, Store& store, Paths const& paths)
{
    return resolveRoute(
        host, [&](std::string_view name) { return store.findHost(name); }, RouteDefaults::of(paths));
}

} // namespace termalin::ssh
