#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/deadline.h"
#include "core/hosts.h"
#include "core/result.h"
#include "mcp-stdio/cli/context.h"
#include "mcp-stdio/tunnel_ports.h"
#include "ssh/connection.h"
#include "ssh/route.h"

namespace termalin::cli {

/// A saved host with all that a login to it takes. Must not outlive the Context it came from.
struct SavedLogin {
    Host host;
    ssh::SavedRoute route;
    ssh::LoginContext context;
    std::filesystem::path runtimeDir;
};

/// Keeps an agent's tunnel from posing as the server, as long as it is held: to be taken before anything is
/// sent there. Errors: PortInUse when a tunnel is there already; Timeout.
Result<mcp::TunnelPorts::Hold> holdPort(SavedLogin const& login, Deadline deadline);

/// Errors: UnknownHost; Unsupported for this computer; what ssh::resolveRoute() answers.
Result<SavedLogin> findLogin(Context& context, std::string const& name);

/// The person's files for this server, then ours.
[[nodiscard]] std::vector<std::filesystem::path> knownHostsFiles(ssh::Target const& target,
                                                                 Paths const& paths);

} // namespace termalin::cli
