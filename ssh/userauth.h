#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "core/deadline.h"
#include "core/result.h"
#include "ssh/connection.h"
#include "ssh/session.h"

namespace termalin::ssh {

/// How a login succeeded.
struct LoggedIn {
    AuthType type{};           ///< The method that the server took in the end.
    bool neededPerson = false; ///< A touch, a code or an answer that cannot be had again without the person.
    std::string what;          ///< For LoginContext::onLoggedIn; tried first at the next login.
};

/// Logs in on a session whose server's key has been checked, by what `target` and the credentials offer.
/// Runs on the calling thread, before the connection's own thread. Errors: AuthFailed, VaultLocked, Timeout,
/// Cancelled, Unreachable, and what the credentials answer.
Result<LoggedIn> logIn(Session& session, Target const& target, LoginContext const& context, Deadline deadline,
                       std::stop_token const& stop);

/// Whether the server's key is trusted for this target. Called right after the handshake, before any
/// credential leaves. Errors: HostKeyUnknown, HostKeyChanged, HostKeyRevoked, PermissionDenied.
Result<void> checkHostKey(Session& session, Target const& target, LoginContext const& context);

/// Host key algorithms to offer first, best first, because the target's name is known by keys of these types;
/// empty where nothing is known. Names as in the key exchange ("ssh-ed25519", "rsa-sha2-512").
std::vector<std::string> preferredKeyTypes(Target const& target, LoginContext const& context);

} // namespace termalin::ssh
