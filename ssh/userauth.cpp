#include "ssh/userauth.h"

#include <chrono>
#include <filesystem>

namespace termalin::ssh {
namespace {

std::string_view lookedUpAs(Target const& target)
{
    return target.hostKeyAlias.empty() ? target.hostname : target.hostKeyAlias;
}

Result<KnownHosts> loadKnownHosts(Target const& target, LoginContext const& context)
{
    std::vector<std::filesystem::path> files(target.knownHostsFiles.begin(), target.knownHostsFiles.end());
    if (!context.ownKnownHosts.empty())
        files.push_back(context.ownKnownHosts);
    return KnownHosts::load(files);
}

} // namespace

Result<LoggedIn> logIn(Session& session, Target const& target, LoginContext const&, Deadline deadline,
                       std::stop_token const& stop)
{
    Error last{Errc::AuthFailed, "There is no key file to log in with."};
    for (auto const& file : target.keyFiles) {
        auto const tried = session.run(
            "Logging in as " + target.user + " with " + file, Errc::AuthFailed, deadline, stop, [&] {
                return libssh2_userauth_publickey_fromfile_ex(session.raw(), target.user.c_str(),
                                                              static_cast<unsigned>(target.user.size()),
                                                              nullptr, file.c_str(), nullptr);
            });
        if (tried)
            return LoggedIn{AuthType::Key, false, file};
        last = tried.error();
        if (last.code != Errc::AuthFailed)
            break;
    }
    return std::unexpected(last);
}

Result<void> checkHostKey(Session& session, Target const& target, LoginContext const& context)
{
    TRY_LET(auto const key, session.serverKey());
    TRY_LET(auto const known, loadKnownHosts(target, context));
    auto const now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    auto const answer = known.check(lookedUpAs(target), target.port, key, now);
    auto const print = fingerprint(key.blob);
    switch (answer.verdict) {
    case HostKeyVerdict::Trusted: return {};
    case HostKeyVerdict::Revoked:
        return fail(Errc::HostKeyRevoked,
                    "The key of " + target.name + " (" + print + ") is revoked by " + answer.where + ".");
    case HostKeyVerdict::Changed:
        return fail(Errc::HostKeyChanged, "The key of " + target.name + " is now " + print + "; " +
                                              answer.where + " has another one.");
    default:
        return fail(Errc::HostKeyUnknown, "The key of " + target.name + " (" + print + ") is not known.");
    }
}

std::vector<std::string> preferredKeyTypes(Target const& target, LoginContext const& context)
{
    auto const known = loadKnownHosts(target, context);
    return known ? known->knownTypes(lookedUpAs(target), target.port) : std::vector<std::string>();
}

} // namespace termalin::ssh
