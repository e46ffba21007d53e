#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/hosts.h"
#include "core/result.h"
#include "core/unique_fd.h"
#include "mcp-stdio/app_link.h"
#include "mcp-stdio/services.h"

namespace termalin::mcp {

/// Connects to the running app's control socket. The socket must be this user's own, of mode 0600, in a
/// folder of theirs of mode 0700, and so must be the process that listens. Waits at most a second for it to
/// take the connection. Errors: AppNotRunning when nothing listens there, or what listens does not answer;
/// PermissionDenied when something is not as it must be; InvalidArgument for a path of 108 bytes or more
/// (unix(7)).
Result<UniqueFd> connectTo(std::filesystem::path const& socket);

/// What the app does for each termalin-mcp beside the nine rows of appTools(). Called from the threads of
/// the control socket, several at once.
class AppDesk {
public:
    virtual ~AppDesk() = default;

    struct Key {
        std::string publicKey; ///< Or certificate; SSH wire form.
        std::string name;      ///< For messages.
    };
    /// The keys that a login to this host may use. Errors: AppLocked, VaultLocked.
    virtual Result<std::vector<Key>> keys(Host const& host) = 0;
    /// Signs with one of them. It has been checked that agents may reach the host and that `data` is a
    /// userauth request for its user and this key. Returns the signature in SSH wire form (RFC 4253 6.6).
    virtual Result<std::string> sign(Host const& host, std::string_view publicKey, std::string_view algorithm,
                                     std::string_view data, std::stop_token const& stop) = 0;

    /// What the termalin-mcp with this number (never used again) does at the moment.
    virtual void began(std::uint64_t client, ClientInfo const& agent, Activity const& activity) = 0;
    virtual void ended(std::uint64_t client, Activity::Kind kind, std::string_view id) = 0;
    /// It has gone, and with it all that it did.
    virtual void left(std::uint64_t client) = 0;
};

/// The app's control socket: serves each termalin-mcp of this user the rows of appTools(), signing and the
/// report of what it does; nothing else. docs/control-socket.md
class Listener {
public:
    /// Makes the folder (0700) and the socket (0600); one that nobody listens on any more is replaced.
    /// `services` (with store, paths, gatekeeper and insideApp) and `desk` must outlive the listener.
    /// Errors: PortInUse when another process listens there; PermissionDenied for a folder that is not
    /// private; InvalidArgument for a path of 108 bytes or more; Internal.
    static Result<std::unique_ptr<Listener>> open(std::filesystem::path const& socket, Services& services,
                                                  AppDesk& desk);
    virtual ~Listener() = default; ///< Removes the socket, stops all calls and waits for them.

    /// Tells every client whose tool list is no longer right.
    virtual void toolsChanged() = 0;
};

} // namespace termalin::mcp
