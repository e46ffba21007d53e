#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>

#include "core/command_policy.h"
#include "core/output_buffer.h"
#include "ssh/public_key.h"
#include "ssh/userauth.h"

namespace termalin::ssh {
namespace {

Result<KnownHosts> loadKnownHosts(Target const& target, LoginContext const& context)
{
    std::vector<std::filesystem::path> files(target.knownHostsFiles.begin(), target.knownHostsFiles.end());
    if (!context.ownKnownHosts.empty())
        files.push_back(context.ownKnownHosts);
    return KnownHosts::load(files);
}

Error changed(Target const& target, HostKeyAnswer const& answer, std::string const& shown)
{
    std::string recorded;
    for (auto const& print : answer.knownFingerprints)
        recorded += (recorded.empty() ? "" : ", ") + print;
    return {
        Errc::HostKeyChanged,
        fmt::format(
            "The key of {0} has changed: it shows {1}, and {2} has {3}. Either the server was set up anew, "
            "or "
            "something between is posing as it. Nothing was sent to it. If a person knows that the new key "
            "is right, they can say so with \"termalin-mcp host trust {4}\".",
            visible(target.name), shown, answer.where, recorded, asArgument(target.name))};
}

Error unknown(Target const& target, HostKeyAnswer const& answer, std::string const& shown)
{
    std::string why;
    if (answer.verdict == HostKeyVerdict::NewType)
        why = fmt::format("{} is known by other kinds of keys only ({}), and shows {}", visible(target.name),
                          answer.where, shown);
    else if (answer.verdict == HostKeyVerdict::BadCertificate)
        why = fmt::format(
            "The host certificate of {} does not hold{}: {}. Its key, {}, is not trusted by itself",
            visible(target.name), answer.where.empty() ? "" : " (" + answer.where + ")",
            visible(answer.detail), shown);
    else
        why = fmt::format("{} is not known yet; its key is {}", visible(target.name), shown);
    return {Errc::HostKeyUnknown, fmt::format("{}. Nothing was sent to it. A person can compare the "
                                              "fingerprint with the server's own and trust "
                                              "it with \"termalin-mcp host trust {}\".",
                                              why, asArgument(target.name))};
}

} // namespace

Result<void> checkHostKey(Session& session, Target const& target, LoginContext const& context)
{
    TRY_LET(auto const key, session.serverKey());
    TRY_LET(auto const known, loadKnownHosts(target, context));
    auto const name = knownHostsName(target);
    auto const now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    auto const answer = known.check(name.host, name.port, key, now);
    auto const shown = fmt::format("{} ({})", fingerprint(key.blob), visible(plainType(key.type)));
    switch (answer.verdict) {
    case HostKeyVerdict::Trusted: return {};
    case HostKeyVerdict::Changed: return std::unexpected(changed(target, answer, shown));
    case HostKeyVerdict::Revoked:
        return fail(
            Errc::HostKeyRevoked,
            fmt::format(
                "The key of {}, {}, or the authority that vouches for it, is marked as revoked in {}. "
                "Nothing was sent to it.",
                visible(target.name), shown, answer.where));
    case HostKeyVerdict::NewHost:
    case HostKeyVerdict::NewType:
    case HostKeyVerdict::BadCertificate: break;
    }
    return std::unexpected(unknown(target, answer, shown));
}

std::vector<std::string> preferredKeyTypes(Target const& target, LoginContext const& context)
{
    static constexpr std::array<std::string_view, 5> kUsual{
        "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa"};
    std::vector<std::string> types;
    auto const name = knownHostsName(target);
    if (auto const known = loadKnownHosts(target, context)) // an unreadable file is told by checkHostKey
        types = known->knownTypes(name.host, name.port);
    types.insert(types.end(), kUsual.begin(), kUsual.end());
    std::vector<std::string> algorithms;
    for (auto const& type : types) {
        if (!type.starts_with("ssh-rsa")) {
            algorithms.push_back(type);
            continue;
        }
        for (std::string const hash : {"rsa-sha2-512", "rsa-sha2-256"}) // RFC 8332
            algorithms.push_back(hash + type.substr(std::string_view("ssh-rsa").size()));
    }
    std::vector<std::string> once;
    for (auto& algorithm : algorithms)
        if (std::ranges::find(once, algorithm) == once.end())
            once.push_back(std::move(algorithm));
    return once;
}

} // namespace termalin::ssh
