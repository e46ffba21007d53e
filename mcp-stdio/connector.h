#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>

#include "core/deadline.h"
#include "core/guarded.h"
#include "core/hosts.h"
#include "core/paths.h"
#include "core/result.h"
#include "mcp-stdio/handshakes.h"
#include "mcp-stdio/tunnel_ports.h"
#include "ssh/connection.h"
#include "ssh/saved_credentials.h"

namespace termalin {
class Audit;
class Store;
class Vault;
} // namespace termalin

namespace termalin::mcp {

/// Logs in to saved hosts. Thread safe.
class Connector {
public:
    /// `vault` and `audit` may be null. All must outlive this.
    struct Means {
        Store& store;
        Vault* vault = nullptr;
        Audit* audit = nullptr;
        Paths paths = {};
        ssh::SignerFactory signers = {};
    };
    explicit Connector(Means means) : m_means(std::move(means)), m_ports(m_means.paths.runtimeDir) {}

    /// A new connection to `host` as it stands. Errors: as ssh::Connection::open and ssh::resolveRoute;
    /// PortInUse when an agent's tunnel poses as the host.
    Result<std::shared_ptr<ssh::Connection>> open(Host const& host, Deadline deadline,
                                                  std::stop_token const& stop);

    /// Whether a login to this revision of the host may be made without being asked for: the last one went
    /// well, and took nothing of a person.
    [[nodiscard]] bool mayRepeatLogin(Host const& host);

    [[nodiscard]] TunnelPorts const& tunnelPorts() const noexcept { return m_ports; }
    [[nodiscard]] Store& store() const noexcept { return m_means.store; }
    [[nodiscard]] Paths const& paths() const noexcept { return m_means.paths; }

private:
    ssh::LoginContext contextFor(ssh::SavedRoute const& route);
    void remember(Host const& host, bool repeatable);

    Means m_means;
    TunnelPorts m_ports;
    Handshakes m_handshakes;
    Guarded<std::map<std::string, std::string>> m_lastLogins;  ///< by the target's name
    Guarded<std::map<std::string, std::int64_t>> m_repeatable; ///< revision by host id
};

} // namespace termalin::mcp
