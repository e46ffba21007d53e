#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "core/deadline.h"
#include "core/hosts.h"
#include "core/result.h"
#include "core/unique_fd.h"
#include "ssh/route.h"

namespace termalin::mcp {

/// Which ports of this computer agents' tunnels hold, over all processes of this user: one byte of a file in
/// the runtime folder stands for each port, and is locked by whoever holds it. The locks belong to open file
/// descriptions (fcntl(2), F_OFD_SETLK), so that they end with the process, however it ends.
///
/// It keeps a tunnel from posing as a saved host: a tunnel holds its port before it listens, and a login to
/// an address of this computer holds the port that it connects to as a reader. Where a ProxyCommand connects,
/// its text is all that is known: every number in it that can be a port counts as one of this computer. A
/// port that the command finds elsewhere, in a script or another program's settings, is not seen.
class TunnelPorts {
public:
    explicit TunnelPorts(std::filesystem::path runtimeDir) : m_dir(std::move(runtimeDir)) {}

    /// Held until it is destroyed.
    class Hold {
    public:
        Hold() = default;

    private:
        friend class TunnelPorts;
        explicit Hold(UniqueFd fd) : m_fd(std::move(fd)) {}
        UniqueFd m_fd;
    };

    /// For a tunnel that is going to listen on `port`. Errors: PortInUse while another tunnel holds it, or a
    /// login to it is under way; PermissionDenied.
    Result<Hold> holdForTunnel(std::uint16_t port) const;

    /// For a login along `route`, held while it connects. Errors: PortInUse when the first hop is, or its
    /// ProxyCommand names, a port of this computer that an agent's tunnel holds, in any process; Timeout and
    /// Cancelled when a name had to be looked up to know that.
    Result<Hold> holdForLogin(ssh::Route const& route, Deadline deadline, std::stop_token const& stop) const;

private:
    [[nodiscard]] Result<UniqueFd> openFile() const;
    [[nodiscard]] Result<Hold> holdForProxyCommand(ssh::Target const& first) const;

    std::filesystem::path m_dir;
};

/// Errors: PortInUse when one of `hosts` is reached over `port` of this computer, or its ProxyCommand names
/// the port: a tunnel there would be taken for that host. Timeout, Cancelled when that could not be found
/// out.
Result<void> refuseSavedPort(std::vector<Host> const& hosts, std::uint16_t port, Deadline deadline,
                             std::stop_token const& stop);

/// Whether connecting to `hostname` ends at an address of this computer. A name is looked up; one that has no
/// address ends nowhere. Errors: Timeout, Cancelled.
Result<bool> isThisComputer(std::string const& hostname, Deadline deadline, std::stop_token const& stop);

/// A port of 127.0.0.1 that nothing listens on at this moment. Errors: PortInUse when there is none.
Result<std::uint16_t> findFreePort();

} // namespace termalin::mcp
