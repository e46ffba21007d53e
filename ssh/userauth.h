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

/// What one opening of a connection has offered already. Servers hang up after a few refused keys
/// (MaxAuthTries of sshd_config(5)), so a second connection goes on with the rest.
struct LoginAttempts {
    std::vector<std::string> refused; ///< Not offered again.
    std::vector<std::string> notes;   ///< For the message if nothing succeeds.
    bool hungUp = false;              ///< The server had enough while there was more to offer.
    int connections = 0;

    /// After logIn() failed: whether a new connection, with this object, may get further.
    [[nodiscard]] bool worthAnother() const noexcept { return hungUp && connections < 2; }
};

/// Logs in on a session whose server's key has been checked, by what `target` and the credentials offer: keys
/// first (of agents, files and signers, the last one that worked and the configured ones before others), then
/// keyboard-interactive, then password; any number of them where the server wants several (RFC 4252 5.1).
/// Runs on the calling thread, before the connection's own thread. Errors: AuthFailed, VaultLocked, Timeout,
/// Cancelled, Unreachable, and what the credentials answer. No message holds a secret.
Result<LoggedIn> logIn(Session& session, Target const& target, LoginContext const& context, Deadline deadline,
                       std::stop_token const& stop, LoginAttempts& attempts);
/// The same on one connection only.
Result<LoggedIn> logIn(Session& session, Target const& target, LoginContext const& context, Deadline deadline,
                       std::stop_token const& stop);

/// Whether the server's key is trusted for this target. Called right after the handshake, before any
/// credential leaves. Errors: HostKeyUnknown (also a host certificate that does not hold), HostKeyChanged,
/// HostKeyRevoked, PermissionDenied.
Result<void> checkHostKey(Session& session, Target const& target, LoginContext const& context);

/// Host key algorithms in the order in which to offer them: first those of keys that are known for the
/// target, so that a server with several shows one that is trusted. Names as in the key exchange
/// ("ssh-ed25519", "rsa-sha2-512").
std::vector<std::string> preferredKeyTypes(Target const& target, LoginContext const& context);

} // namespace termalin::ssh
