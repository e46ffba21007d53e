#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/hosts.h"
#include "core/paths.h"
#include "core/result.h"
#include "ssh/target.h"

namespace termalin {
class Store;
}

namespace termalin::ssh {

/// What a saved host leaves to the person's account.
struct RouteDefaults {
    std::filesystem::path home;
    bool isolated = false;         ///< Neither ~/.ssh, /etc/ssh nor SSH_AUTH_SOCK unless a host names them.
    std::string environmentSocket; ///< The value of SSH_AUTH_SOCK.
    std::string localUser;         ///< For a host without a user name, as ssh does it.

    /// From this process's environment and the password database.
    static RouteDefaults of(Paths const& paths);
};

/// A route, and the saved host behind each of its hops.
struct SavedRoute {
    Route route;
    std::vector<std::string> hostIds; ///< As many as route.hops, in the same order.
};

/// Gives a saved host by id or name.
using FindHost = std::function<Result<Host>(std::string_view idOrName)>;

/// The way to a saved host, with everything resolved that is known before the line is opened: jump hosts,
/// key files, the agent's socket, known_hosts files, the ProxyCommand's tokens (%h %p %r %n %%). Of several
/// jumps only the first one's own jumps and ProxyCommand count, as with ProxyJump in ssh_config(5): the
/// others are reached through the one before. A jump host's policy for agents is not asked. Opens nothing
/// and looks up no name.
/// Errors: UnknownHost for a jump that is not saved; Unsupported for this computer's own shell;
/// InvalidArgument for a circle, more than kMaxHops hops, a ProxyCommand that cannot be expanded safely, or a
/// relative path; and what `find` answers.
Result<SavedRoute> resolveRoute(Host const& host, FindHost const& find, RouteDefaults const& defaults);

/// The same, out of the store and this process's environment.
Result<SavedRoute> resolveRoute(Host const& host, Store& store, Paths const& paths);

} // namespace termalin::ssh
