#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "core/deadline.h"
#include "core/guarded.h"
#include "core/hosts.h"
#include "core/paths.h"
#include "core/result.h"
#include "mcp-stdio/tunnel_ports.h"
#include "ssh/connection.h"
#include "ssh/saved_credentials.h"

namespace termalin {
class Audit;
class Store;
class Vault;
} // namespace termalin

namespace termalin::mcp {

/// Lets at most `kMost` logins to one host go on at a time; the rest wait within their deadlines.
class Handshakes {
public:
    static constexpr int kMost = 8;

    class Slot {
    public:
        Slot(Slot&& other) noexcept : m_in(std::exchange(other.m_in, nullptr)), m_ids(std::move(other.m_ids))
        {
        }
        Slot& operator=(Slot&&) = delete;
        Slot(Slot const&) = delete;
        Slot& operator=(Slot const&) = delete;
        ~Slot();

    private:
        friend class Handshakes;
        Slot(Handshakes* in, std::vector<std::string> ids) : m_in(in), m_ids(std::move(ids)) {}
        Handshakes* m_in;
        std::vector<std::string> m_ids;
    };

    /// One of each host's places, all at once, so that two routes through the same jump hosts cannot wait for
    /// each other. Errors: Timeout, Cancelled; nothing was sent.
    Result<Slot> enter(std::vector<std::string> hostIds, Deadline deadline, std::stop_token const& stop);

private:
    std::mutex m_mutex;
    std::condition_variable_any m_fewer;
    std::map<std::string, int> m_busy; ///< guarded by m_mutex
};

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
