#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/hosts.h"
#include "ssh/ssh_config.h"

namespace termalin::ssh {

/// A host that can be saved as it is: closed to agents, without an id.
struct ImportedHost {
    Host host;
    std::string where; ///< FILE:LINE of its alias; empty for a jump host that is no alias itself.
};

/// Something about one host that was left out, or why all of it was.
struct ImportNote {
    std::string name;
    std::string text; ///< With FILE:LINE where there is one.
};

/// What became of a configuration's aliases.
struct ImportReport {
    std::vector<ImportedHost> hosts; ///< Jump hosts before those that pass through them.
    std::vector<ImportNote> ignored; ///< Keywords that the host is imported without.
    std::vector<ImportNote> refused; ///< Not imported.
};

/// Makes hosts of all aliases of a configuration and of the jump hosts that they name. A ProxyJump of aliases
/// becomes their names, in the order in which they are passed through; of several, as in ssh, only the first
/// one's own ProxyJump counts. A jump host that is no alias, or is given another user or port than its alias
/// has, becomes a host of its own with the name that stands in the ProxyJump, such as "ops@gate:2222".
/// An alias that the store would not take, or whose jump host was refused, is refused with the reason.
/// Reads no file, runs nothing.
[[nodiscard]] ImportReport importHosts(SshConfig const& config, std::string_view localUser);

/// For people: a line for each host, note and refusal, safe to show. Ends with a line break unless empty.
[[nodiscard]] std::string toText(ImportReport const& report);

} // namespace termalin::ssh
