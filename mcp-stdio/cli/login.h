#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/hosts.h"
#include "core/result.h"
#include "mcp-stdio/cli/context.h"
#include "ssh/connection.h"
#include "ssh/route.h"

namespace termalin::cli {

/// A saved host with all that a login to it takes. Must not outlive the Context it came from.
struct SavedLogin {
    Host host;
    ssh::SavedRoute route;
    ssh::LoginContext context;
};

/// Errors: UnknownHost; Unsupported for this computer; what ssh::resolveRoute() answers.
Result<SavedLogin> findLogin(Context& context, std::string const& name);

/// The person's files for this server, then ours.
[[nodiscard]] std::vector<std::filesystem::path> knownHostsFiles(ssh::Target const& target,
                                                                 Paths const& paths);

} // namespace termalin::cli
