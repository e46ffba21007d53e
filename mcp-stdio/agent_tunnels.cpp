// The tunnels of AgentSessions.
#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "core/store.h"
#include "mcp-stdio/agent_sessions.h"
#include "mcp-stdio/app_link.h"
#include "mcp-stdio/authorize.h"
#include "mcp-stdio/iso_time.h"
#include "mcp-stdio/random_id.h"

namespace termalin::mcp {
namespace {

std::string targetOf(AgentSessions::TunnelWish const& wish)
{
    if (wish.kind == ssh::TunnelKind::Dynamic)
        return {};
    return wish.remoteHost.contains(':') ? fmt::format("[{}]:{}", wish.remoteHost, wish.remotePort)
                                         : fmt::format("{}:{}", wish.remoteHost, wish.remotePort);
}

std::unexpected<Error> unknown(std::string const& tunnelId)
{
    return fail(Errc::UnknownTunnel,
                fmt::format("There is no open tunnel {}. tunnel_list shows those that there are.", tunnelId));
}

} // namespace

AgentSessions::Tunnels AgentSessions::takeTunnels(std::function<bool(TunnelEntry const&)> const& which)
{
    Tunnels taken;
    {
        std::scoped_lock const lock(m_mutex);
        for (auto one = m_tunnels.begin(); one != m_tunnels.end();) {
            auto const next = std::next(one);
            if (which(one->second)) {
                taken.push_back(std::move(one->second));
                m_tunnels.erase(one);
            }
            one = next;
        }
    }
    tellEnded(taken);
    return taken;
}

void AgentSessions::tell(TunnelInfo const& tunnel, std::string const& hostId)
{
    if (m_app == nullptr)
        return;
    auto const found = store().findHost(hostId);
    m_app->began({.kind = Activity::Kind::Tunnel,
                  .id = tunnel.id,
                  .tool = "tunnel_open",
                  .host = found ? found->name : std::string(),
                  .hostId = hostId,
                  .detail = fmt::format("127.0.0.1:{} {}", tunnel.localPort,
                                        tunnel.target.empty() ? "SOCKS5" : tunnel.target),
                  .since = isoTime(std::chrono::system_clock::now())});
}

void AgentSessions::tellEnded(Tunnels const& tunnels)
{
    if (m_app != nullptr)
        for (auto const& entry : tunnels)
            m_app->ended(Activity::Kind::Tunnel, entry.info.id);
}

Result<AgentSessions::TunnelEntry> AgentSessions::tryTunnel(Session const& session, TunnelWish const& wish,
                                                            std::uint16_t port, Deadline deadline,
                                                            std::stop_token const& stop)
{
    // Held before it is looked for among the hosts and before anything listens: whoever saves or connects to
    // a host there afterwards finds it held.
    TRY_LET(auto hold, m_connector.tunnelPorts().holdForTunnel(port));
    TRY_LET(auto const hosts, store().hosts());
    TRY(refuseSavedPort(hosts, port, deadline, stop));
    auto const admit = [this, hostId = session.info.hostId, route = session.routeRevision]() -> Result<void> {
        TRY_LET(auto const host, stillTheSame(hostId, route));
        return requireFull(host, "A connection through a tunnel");
    };
    TRY_LET(auto tunnel, ssh::Tunnel::open(session.connection, {.kind = wish.kind,
                                                                .remoteHost = wish.remoteHost,
                                                                .remotePort = wish.remotePort,
                                                                .localPort = port,
                                                                .admit = admit}));
    return TunnelEntry{.info = {.id = randomId(),
                                .sessionId = session.info.id,
                                .kind = wish.kind,
                                .localPort = port,
                                .target = targetOf(wish),
                                .counts = {}},
                       .hostId = session.info.hostId,
                       .routeRevision = session.routeRevision,
                       .tunnel = std::move(tunnel),
                       .hold = std::move(hold)};
}

Result<AgentSessions::TunnelEntry> AgentSessions::makeTunnel(Session const& session, TunnelWish const& wish,
                                                             Deadline deadline, std::stop_token const& stop)
{
    if (wish.localPort != 0)
        return tryTunnel(session, wish, wish.localPort, deadline, stop);
    constexpr int kTries = 20; // another program may take the port, or a saved host may name it
    for (int i = 1;; ++i) {
        TRY_LET(auto const port, findFreePort());
        auto made = tryTunnel(session, wish, port, deadline, stop);
        if (made || made.error().code != Errc::PortInUse || i == kTries)
            return made;
    }
}

Result<TunnelInfo> AgentSessions::openTunnel(std::string const& sessionId, TunnelWish const& wish,
                                             Deadline deadline, std::stop_token const& stop)
{
    TRY_LET(auto const session, find(sessionId));
    {
        std::scoped_lock const lock(m_mutex);
        if (m_tunnels.size() + m_openingTunnels >= kMostTunnels)
            return fail(Errc::TooMany, fmt::format("{} tunnels are open, which is the most. Close one with "
                                                   "tunnel_close; tunnel_list shows them.",
                                                   kMostTunnels));
        ++m_openingTunnels;
    }
    auto made = makeTunnel(session, wish, deadline, stop);
    TunnelInfo info;
    auto lostMeanwhile = false;
    {
        std::scoped_lock const lock(m_mutex);
        --m_openingTunnels;
        if (!made)
            return std::unexpected(std::move(made).error());
        info = made->info;
        lostMeanwhile = !m_sessions.contains(sessionId);
        if (!lostMeanwhile) {
            m_sessions.at(sessionId).info.lastUsedAt = std::chrono::system_clock::now();
            m_tunnels.emplace(info.id, *std::move(made));
        }
    }
    if (lostMeanwhile) {
        made->tunnel->close(); // NOLINT(bugprone-use-after-move): it was moved only if the session is there
        TRY(find(sessionId));
        return fail(Errc::UnknownSession, "The session was closed while its tunnel was being opened.");
    }
    tell(info, session.info.hostId);
    m_watch.wake();
    auto const host = stillTheSame(session.info.hostId, session.routeRevision);
    auto const allowed = host ? requireFull(*host, "Opening a tunnel") : std::unexpected(host.error());
    if (!allowed) {
        static_cast<void>(closeTunnel(info.id));
        return std::unexpected(allowed.error());
    }
    return info;
}

Result<void> AgentSessions::closeTunnel(std::string const& tunnelId)
{
    auto const taken = takeTunnels([&](TunnelEntry const& one) { return one.info.id == tunnelId; });
    if (taken.empty())
        return unknown(tunnelId);
    taken.front().tunnel->close();
    return {};
}

Result<std::string> AgentSessions::hostOfTunnel(std::string const& tunnelId)
{
    std::scoped_lock const lock(m_mutex);
    auto const found = m_tunnels.find(tunnelId);
    if (found == m_tunnels.end())
        return unknown(tunnelId);
    return found->second.hostId;
}

std::vector<TunnelInfo> AgentSessions::tunnels()
{
    removeLost();
    std::vector<TunnelInfo> all;
    std::scoped_lock const lock(m_mutex);
    for (auto const& [id, entry] : m_tunnels) {
        all.push_back(entry.info);
        all.back().counts = entry.tunnel->counts();
    }
    return all;
}

} // namespace termalin::mcp
