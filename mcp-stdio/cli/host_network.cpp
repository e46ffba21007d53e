#include <algorithm>
#include <chrono>
#include <ctime>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mcp-stdio/cli/commands.h"
#include "mcp-stdio/cli/console.h"
#include "mcp-stdio/cli/login.h"
#include "ssh/sftp.h"

namespace termalin::cli {

namespace {

using namespace std::chrono_literals;

std::string typeName(ssh::ServerKey const& key)
{
    return visible(key.type);
}

/// A fingerprint as a person may have it: with or without "SHA256:", and with the padding that other tools
/// print.
Result<std::string> normalFingerprint(std::string text)
{
    if (text.starts_with("SHA256:"))
        text.erase(0, 7);
    while (text.ends_with('='))
        text.pop_back();
    auto const base64 = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
               c == '/';
    };
    if (text.size() != 43 || !std::ranges::all_of(text, base64))
        return fail(Errc::InvalidArgument, "--fingerprint must be the SHA256 fingerprint that ssh-keygen -l "
                                           "prints on the server: SHA256: and "
                                           "43 characters.");
    return "SHA256:" + text;
}

struct Seen {
    Host host;
    ssh::Target target;
    ssh::ServerKey key;
    ssh::HostKeyAnswer answer;

    [[nodiscard]] std::string const& lookedUpAs() const
    {
        return target.hostKeyAlias.empty() ? target.hostname : target.hostKeyAlias;
    }
};

/// Whether the line that decided is in our own file; the person's files are never written.
bool isOurs(Seen const& seen, std::filesystem::path const& own)
{
    return seen.answer.where.starts_with(own.string() + ":");
}

Error changedElsewhere(Seen const& seen)
{
    auto const colon = seen.answer.where.rfind(':');
    return {
        Errc::HostKeyChanged,
        fmt::format(
            "Another {} key of this server is recorded at {}, a file of yours that Termalin only reads. If "
            "you know that the server's key has changed, remove the old one there: ssh-keygen -R '{}' -f "
            "{}",
            typeName(seen.key), seen.answer.where,
            seen.target.port == 22 ? seen.lookedUpAs()
                                   : fmt::format("[{}]:{}", seen.lookedUpAs(), seen.target.port),
            seen.answer.where.substr(0, colon))};
}

/// What stands against trusting the key, before anybody is asked.
Result<void> refuseBadKeys(Seen const& seen, TrustOptions const& options, std::filesystem::path const& own)
{
    using enum ssh::HostKeyVerdict;
    switch (seen.answer.verdict) {
    case Trusted:
    case NewHost:
    case NewType: return {};
    case Revoked:
        return fail(
            Errc::HostKeyRevoked,
            fmt::format(
                "This key is marked @revoked at {}: whoever holds it is not to be believed. Nothing was "
                "changed. Only removing that line by hand takes the mark away.",
                seen.answer.where));
    case BadCertificate:
        return fail(
            Errc::HostKeyUnknown,
            fmt::format(
                "The server shows a host certificate that does not hold: {}. Nothing was changed. Have "
                "it renewed, or add its authority to your known_hosts as @cert-authority.",
                seen.answer.detail));
    case Changed:
        if (!isOurs(seen, own))
            return std::unexpected(changedElsewhere(seen));
        if (!options.replace)
            return fail(
                Errc::HostKeyChanged,
                fmt::format(
                    "The server's key is not the one that was trusted before: known is {} ({}), and it "
                    "now shows {}. Either the server was set up anew, or somebody stands between you "
                    "and it. Ask whoever runs it; if the key did change, say so: termalin-mcp host "
                    "trust {} --replace",
                    fmt::join(seen.answer.knownFingerprints, ", "), seen.answer.where,
                    ssh::fingerprint(seen.key.blob), visible(options.name)));
        return {};
    }
    return {};
}

Result<int> trustSeen(Context& context, Seen const& seen, TrustOptions const& options)
{
    auto const& own = context.paths().knownHosts;
    auto const print = ssh::fingerprint(seen.key.blob);
    say("{} shows this {} key: {}", visible(seen.host.name), typeName(seen.key), print);
    auto matched = false;
    if (!options.fingerprint.empty()) {
        TRY_LET(auto const wanted, normalFingerprint(options.fingerprint));
        if (wanted != print)
            return fail(Errc::HostKeyUnknown,
                        fmt::format("That is not the key that you named ({}). Nothing was "
                                    "changed. If the server has keys of several types, give "
                                    "the fingerprint of its {} key.",
                                    wanted, typeName(seen.key)));
        matched = true;
    }
    TRY(refuseBadKeys(seen, options, own));
    if (seen.answer.verdict == ssh::HostKeyVerdict::Trusted) {
        say("It is trusted already ({}).", seen.answer.where);
        return kDone;
    }
    WideningPlan plan{.command = "host trust",
                      .host = seen.host.name,
                      .effects = {fmt::format("The key {} {} would then be trusted for {}.",
                                              typeName(seen.key), print, addressOf(seen.host))},
                      .cautions = {},
                      .before = {{"host", seen.host.id},
                                 {"knownHosts", seen.lookedUpAs()},
                                 {"port", seen.target.port},
                                 {"fingerprint", print}}};
    if (seen.answer.verdict == ssh::HostKeyVerdict::NewType)
        plan.cautions.emplace_back(
            "this server is known by keys of other types only. A server that is set up anew has "
            "all its keys changed; one that only gained a type still has the old ones.");
    if (seen.answer.verdict == ssh::HostKeyVerdict::Changed)
        plan.cautions.push_back(
            fmt::format("it takes the place of {}.", fmt::join(seen.answer.knownFingerprints, ", ")));
    auto consent = Consent::Fingerprint;
    if (!matched) {
        note("Compare it with what the server itself says: ssh-keygen -lf /etc/ssh/ssh_host_{}_key.pub",
             seen.key.type == "ssh-ed25519"       ? "ed25519"
             : seen.key.type.starts_with("ecdsa") ? "ecdsa"
                                                  : "rsa");
        TRY_LET(consent, askToWiden(plan, options.yes));
    }
    TRY_LET(auto recorded, RecordedWidening::record(context, plan, consent));
    auto const done = seen.answer.verdict == ssh::HostKeyVerdict::Changed
                          ? ssh::replaceHostKey(own, seen.lookedUpAs(), seen.target.port, seen.key)
                          : ssh::trustHostKey(own, seen.lookedUpAs(), seen.target.port, seen.key);
    if (!done) {
        recorded.undo();
        return std::unexpected(done.error());
    }
    say("Trusted, in {}.", own.string());
    return kDone;
}

} // namespace

Result<int> hostTrust(Context& context, TrustOptions const& options)
{
    if (!options.fingerprint.empty())
        TRY(normalFingerprint(options.fingerprint)); // before any network
    TRY_LET(auto const way, findLogin(context, options.name));
    auto const deadline = Deadline::in(30s);
    TRY_LET(auto const hold, holdPort(way, deadline));
    Seen seen{.host = way.host, .target = way.route.route.destination(), .key = {}, .answer = {}};
    TRY_LET(seen.key, ssh::fetchServerKey(way.route.route, way.context, deadline, {}));
    TRY_LET(auto const known, ssh::KnownHosts::load(knownHostsFiles(seen.target, context.paths())));
    seen.answer = known.check(seen.lookedUpAs(), seen.target.port, seen.key, std::time(nullptr));
    return trustSeen(context, seen, options);
}

Result<int> hostTest(Context& context, std::string const& name)
{
    TRY_LET(auto const way, findLogin(context, name));
    auto const start = std::chrono::steady_clock::now();
    auto const deadline = Deadline::in(60s);
    TRY_LET(auto const hold, holdPort(way, deadline));
    TRY_LET(auto const connection, ssh::Connection::open(way.route.route, way.context, deadline, {}));
    auto const took =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
    std::vector<std::string> through;
    for (auto const& hop : way.route.route.hops)
        through.push_back(visible(hop.name));
    through.pop_back();
    say("Connected to {} as {}@{} in {} ms.", visible(way.host.name), visible(way.host.username),
        addressOf(way.host), took.count());
    if (!through.empty())
        say("Through:      {}", fmt::join(through, " > "));
    if (!way.route.route.hops.front().proxyCommand.empty())
        say("By:           {}", visible(way.route.route.hops.front().proxyCommand));
    say("Server:       {}", visible(connection->serverVersion()));
    say("Server's key: {} {}", typeName(connection->serverKey()),
        ssh::fingerprint(connection->serverKey().blob));
    say("Logged in by: {}{}", toString(connection->authType()),
        connection->neededPerson() ? " (a person had to act, so agents' calls will wait for one too)" : "");
    TRY_LET(auto const shell, connection->loginShell(deadline, {}));
    say("Login shell:  {}",
        shell == LoginShell::Posix ? "POSIX" : "not a POSIX shell: rules admit only plain words");
    auto const sftp = ssh::Sftp::open(connection, deadline, {});
    say("SFTP:         {}", sftp ? std::string("yes") : "no: " + sftp.error().message);
    say("Agents:       {}", toString(way.host.policy));
    return kDone;
}

} // namespace termalin::cli
