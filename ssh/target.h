#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/hosts.h"

namespace termalin::ssh {

using termalin::AddressFamily;

/// One server to log in to, with everything that is known before the line is opened. Plain data: it has been
/// resolved already (aliases, tokens, defaults), and nothing here is looked up in a configuration again.
struct Target {
    std::string name;     ///< What messages call it, such as the saved host's name.
    std::string hostname; ///< A name or a numeric address, IPv6 without brackets.
    std::uint16_t port = 22;
    std::string user;
    std::string
        hostKeyAlias; ///< The name looked up in known_hosts; empty: hostname. ssh_config(5) HostKeyAlias.

    std::vector<std::string> keyFiles;         ///< Absolute paths, tried in this order.
    std::vector<std::string> certificateFiles; ///< Beside KEY-cert.pub, which is found by itself.
    bool identitiesOnly =
        false; ///< Offer only keyFiles and certificateFiles, the agent's copies of them included.
    std::string agentSocket; ///< An ssh-agent's socket; empty: no agent.

    std::vector<std::string> knownHostsFiles; ///< The person's, read only; our own file comes on top.
    std::string proxyCommand; ///< Run in place of a TCP connection, tokens expanded already; empty: none.

    AddressFamily family = AddressFamily::Any;
    std::chrono::seconds connectTimeout{0}; ///< For the TCP connection alone; 0: the call's deadline only.
    std::chrono::seconds serverAliveInterval{15}; ///< 0: no probes. ssh_config(5) ServerAliveInterval.
    int serverAliveCountMax = 3;                  ///< Missed answers before the line is taken for dead.
};

/// The way to a server: the jump hosts in the order in which they are reached, then the server itself. Never
/// empty. At most kMaxHops long.
struct Route {
    std::vector<Target> hops;

    [[nodiscard]] Target const& destination() const { return hops.back(); }
};

inline constexpr std::size_t kMaxHops = 9; ///< Eight jump hosts and the destination.

} // namespace termalin::ssh
