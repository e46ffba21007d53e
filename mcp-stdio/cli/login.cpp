#include "mcp-stdio/cli/login.h"

#include "ssh/saved_credentials.h"

namespace termalin::cli {

Result<SavedLogin> findLogin(Context& context, std::string const& name)
{
    TRY_LET(auto* const store, context.store());
    TRY_LET(auto host, store->findHost(name));
    TRY_LET(auto route, ssh::resolveRoute(host, *store, context.paths()));
    TRY_LET(auto* const vault, context.vault());
    ssh::LoginContext login;
    login.ownKnownHosts = context.paths().knownHosts;
    login.credentials = std::make_shared<ssh::SavedCredentials>(vault, route);
    return SavedLogin{.host = std::move(host),
                      .route = std::move(route),
                      .context = std::move(login),
                      .runtimeDir = context.paths().runtimeDir};
}

Result<mcp::TunnelPorts::Hold> holdPort(SavedLogin const& login, Deadline deadline)
{
    return mcp::TunnelPorts(login.runtimeDir).holdForLogin(login.route.route, deadline, {});
}

std::vector<std::filesystem::path> knownHostsFiles(ssh::Target const& target, Paths const& paths)
{
    std::vector<std::filesystem::path> files(target.knownHostsFiles.begin(), target.knownHostsFiles.end());
    files.push_back(paths.knownHosts);
    return files;
}

} // namespace termalin::cli
