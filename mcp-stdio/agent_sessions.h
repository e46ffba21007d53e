#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "core/deadline.h"
#include "core/hosts.h"
#include "core/result.h"
#include "mcp-stdio/background.h"
#include "mcp-stdio/closer.h"
#include "mcp-stdio/connector.h"
#include "mcp-stdio/policy_watch.h"
#include "mcp-stdio/running.h"
#include "mcp-stdio/spare.h"
#include "ssh/connection.h"
#include "ssh/tunnel.h"

namespace termalin::mcp {

class AppLink;

struct SessionInfo {
    std::string id;
    std::string hostId;
    std::string host; ///< Its name.
    std::chrono::system_clock::time_point openedAt;
    std::chrono::system_clock::time_point lastUsedAt;
};

struct TunnelInfo {
    std::string id;
    std::string sessionId;
    ssh::TunnelKind kind = ssh::TunnelKind::Local;
    std::uint16_t localPort = 0;
    std::string target; ///< "HOST:PORT", "[V6]:PORT"; empty for a dynamic one.
    ssh::Tunnel::Counts counts;
};

/// What one agent holds on servers: sessions, tunnels, a spare connection a host, and what runs. Each belongs
/// to the revision of the host that it was opened under, and a watch over the store and the settings ends
/// what the person no longer allows, within a second and with no call arriving. Thread safe.
class AgentSessions {
public:
    static constexpr std::size_t kMostSessions = 32;
    static constexpr std::size_t kMostTunnels = 64;

    /// `app` may be null; it is told of sessions and tunnels, and must outlive this.
    explicit AgentSessions(Connector::Means means, AppLink* app = nullptr);
    /// Stops what runs, closes everything, and waits for it: about a second at most.
    ~AgentSessions();
    AgentSessions(AgentSessions const&) = delete;
    AgentSessions& operator=(AgentSessions const&) = delete;

    /// Errors: TooMany; as Connector::open; what the policy says when it was changed meanwhile.
    Result<SessionInfo> open(Host const& host, Deadline deadline, std::stop_token const& stop);
    /// The session's connection, and when it was last used becomes now. Errors: UnknownSession; NotConnected
    /// when the line was lost, each time that it is asked for; or what else became of the session.
    Result<std::shared_ptr<ssh::Connection>> use(std::string const& sessionId);
    /// The id of the session's host. Errors: as use().
    Result<std::string> hostOf(std::string const& sessionId);
    /// The route revision that the session was opened under. Errors: as use().
    Result<std::int64_t> routeOf(std::string const& sessionId);
    /// Its tunnels close with it, and its commands are stopped first. Errors: UnknownSession and as use().
    Result<void> close(std::string const& sessionId, std::stop_token const& stop = {});
    [[nodiscard]] std::vector<SessionInfo> list();

    struct TunnelWish {
        ssh::TunnelKind kind = ssh::TunnelKind::Local;
        std::string remoteHost;
        std::uint16_t remotePort = 0;
        std::uint16_t localPort = 0; ///< 0: a free one that no saved host names.
    };
    /// Errors: as use(); TooMany, PortInUse, InvalidArgument, NeedsFullAccess, BlockedByPolicy; Timeout,
    /// Cancelled.
    Result<TunnelInfo> openTunnel(std::string const& sessionId, TunnelWish const& wish, Deadline deadline,
                                  std::stop_token const& stop);
    Result<void> closeTunnel(std::string const& tunnelId); ///< Errors: UnknownTunnel.
    /// The id of the host that the tunnel leads through. Errors: UnknownTunnel.
    Result<std::string> hostOfTunnel(std::string const& tunnelId);
    [[nodiscard]] std::vector<TunnelInfo> tunnels();

    /// A connection for one piece of work, to be given back and never used for another.
    struct Lease {
        std::shared_ptr<ssh::Connection> connection;
        bool wasSpare =
            false; ///< If its line turns out to be lost before anything ran, a new one may be tried.
    };
    /// Errors: as Connector::open.
    Result<Lease> lease(Host const& host, bool spareWelcome, Deadline deadline, std::stop_token const& stop);
    /// Closes it after the reply. `worked`: the host is in use, so a spare is made for the next call.
    void giveBack(Lease lease, Host const& host, bool worked, AfterReply& afterReply);

    /// Lists work that runs. Follow it with stillTheSame(), so that no change falls between.
    [[nodiscard]] Running::Listed listWork(Work work);
    /// The host as it is now, if agents are not stopped, it is open to them, and it is still reached as it
    /// was under `routeRevision`. Errors: ConsentRequired, BlockedByPolicy, UnknownHost; Cancelled when the
    /// way to it was changed.
    [[nodiscard]] Result<Host> stillTheSame(std::string const& hostId, std::int64_t routeRevision) const;

    [[nodiscard]] Store& store() const noexcept { return m_connector.store(); }
    [[nodiscard]] Paths const& paths() const noexcept { return m_connector.paths(); }

private:
    struct Session {
        SessionInfo info;
        std::int64_t routeRevision = 0;
        std::shared_ptr<ssh::Connection> connection;
    };
    struct TunnelEntry {
        TunnelInfo info;
        std::string hostId;
        std::int64_t routeRevision = 0;
        std::shared_ptr<ssh::Tunnel> tunnel;
        TunnelPorts::Hold hold;
    };
    using Tunnels = std::vector<TunnelEntry>;

    Result<Session> find(std::string const& sessionId);
    Result<TunnelEntry> makeTunnel(Session const& session, TunnelWish const& wish, Deadline deadline,
                                   std::stop_token const& stop);
    Result<TunnelEntry> tryTunnel(Session const& session, TunnelWish const& wish, std::uint16_t port,
                                  Deadline deadline, std::stop_token const& stop);
    Tunnels takeTunnels(std::function<bool(TunnelEntry const&)> const& which);
    /// Takes the session out with its tunnels and leaves `epitaph` for whoever asks for it.
    std::optional<Session> take(std::string const& sessionId, Error epitaph);
    void endAside(Session session, StopReason reason, std::string const& why);
    void removeLost();
    void review();
    void judge(std::string const& hostId);
    void judgeSessions(std::string const& hostId, Result<Host> const& host);
    bool isIdle();
    void tell(SessionInfo const& session);
    void tell(TunnelInfo const& tunnel, std::string const& hostId);
    void tellEnded(std::string const& sessionId);
    void tellEnded(Tunnels const& tunnels);

    std::mutex m_mutex;
    std::map<std::string, Session> m_sessions;            ///< by id; guarded by m_mutex
    std::map<std::string, TunnelEntry> m_tunnels;         ///< by id; guarded by m_mutex
    std::size_t m_opening = 0;                            ///< sessions being opened; guarded by m_mutex
    std::size_t m_openingTunnels = 0;                     ///< guarded by m_mutex
    std::deque<std::pair<std::string, Error>> m_epitaphs; ///< of sessions that ended; guarded by m_mutex

    AppLink* m_app;
    Connector m_connector;
    Running m_running;
    Closer m_closer;
    Spares m_spares{m_connector, m_closer};
    Background m_background;
    PolicyWatch m_watch; ///< last: it looks at all of the above
};

} // namespace termalin::mcp
