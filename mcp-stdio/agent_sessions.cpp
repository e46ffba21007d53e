#include "mcp-stdio/agent_sessions.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "core/settings.h"
#include "core/store.h"
#include "mcp-stdio/app_link.h"
#include "mcp-stdio/authorize.h"
#include "mcp-stdio/iso_time.h"
#include "mcp-stdio/random_id.h"

namespace termalin::mcp {
namespace {

constexpr std::size_t kMostEpitaphs = 256;
/// The stop ladder's 4 s and a few round trips.
constexpr std::chrono::seconds kLadderTime{6};
/// At the end of the program only: the rest of its 3 s is the Server's.
constexpr std::chrono::milliseconds kLastLadderTime{500};

Error lost(std::string const& sessionId, std::string const& why)
{
    return {.code = Errc::NotConnected,
            .message =
                fmt::format("The connection of session {} was lost{}{}; the session is gone, and nothing was "
                            "run by this call. Open a new one with session_open.",
                            sessionId, why.empty() ? "" : ": ", why)};
}

Error unknown(std::string const& sessionId)
{
    return {.code = Errc::UnknownSession,
            .message = fmt::format("There is no open session {}. session_list shows those that there are; "
                                   "session_open opens one.",
                                   sessionId)};
}

/// What whoever asks for a session is told that was closed because of how its host is saved now.
Error whyClosed(std::string const& sessionId, Result<Host> const& host)
{
    if (host && host->policy == AgentPolicy::Blocked)
        return requireOpen(*host).error();
    if (!host && host.error().code != Errc::UnknownHost)
        return {.code = host.error().code,
                .message = fmt::format("Session {} was closed because it could not be read what the person "
                                       "allows now. {} Then open a new one with session_open.",
                                       sessionId, host.error().message),
                .source = host.error().source};
    return {.code = Errc::UnknownSession,
            .message = fmt::format(
                "Session {} was closed because the person {}. Look at hosts_list before "
                "you open another.",
                sessionId, host ? "changed where its host is, or the way to it" : "removed its host")};
}

} // namespace

AgentSessions::AgentSessions(Connector::Means means, AppLink* app)
    : m_app(app)
    , m_connector(std::move(means))
    , m_watch(m_connector.store(), m_connector.paths().settings,
              {.onChange = [this] { review(); },
               .onTick =
                   [this] {
                       m_spares.tick();
                       removeLost();
                   },
               .isIdle = [this] { return isIdle(); }})
{
}

AgentSessions::~AgentSessions()
{
    m_running.stopAll(StopReason::Shutdown, "Stopped because the agent's program ended.");
    m_running.waitForAll(Deadline::in(kLastLadderTime));
    m_spares.dropAll();
    for (auto& entry : takeTunnels([](TunnelEntry const&) { return true; }))
        entry.tunnel->close();
    std::map<std::string, Session> sessions;
    {
        std::scoped_lock const lock(m_mutex);
        sessions.swap(m_sessions);
    }
    for (auto& [id, session] : sessions) {
        tellEnded(id);
        m_closer.close(std::move(session.connection));
    }
}

void AgentSessions::tell(SessionInfo const& session)
{
    if (m_app != nullptr)
        m_app->began({.kind = Activity::Kind::Session,
                      .id = session.id,
                      .tool = "session_open",
                      .host = session.host,
                      .hostId = session.hostId,
                      .detail = {},
                      .since = isoTime(session.openedAt)});
}

void AgentSessions::tellEnded(std::string const& sessionId)
{
    if (m_app != nullptr)
        m_app->ended(Activity::Kind::Session, sessionId);
}

bool AgentSessions::isIdle()
{
    {
        std::scoped_lock const lock(m_mutex);
        if (!m_sessions.empty() || !m_tunnels.empty() || m_opening > 0)
            return false;
    }
    return m_spares.hostIds().empty() && m_running.hostIds().empty();
}

// -- sessions ---------------------------------------------------------------------------------

Result<SessionInfo> AgentSessions::open(Host const& host, Deadline deadline, std::stop_token const& stop)
{
    {
        std::scoped_lock const lock(m_mutex);
        if (m_sessions.size() + m_opening >= kMostSessions)
            return fail(Errc::TooMany, fmt::format("{} sessions are open, which is the most. Close one with "
                                                   "session_close; session_list shows them.",
                                                   kMostSessions));
        ++m_opening;
    }
    m_watch.wake();
    auto leased = lease(host, true, deadline, stop);
    auto const now = std::chrono::system_clock::now();
    SessionInfo info{
        .id = randomId(), .hostId = host.id, .host = host.name, .openedAt = now, .lastUsedAt = now};
    {
        std::scoped_lock const lock(m_mutex);
        --m_opening;
        if (leased)
            m_sessions.emplace(
                info.id,
                Session{.info = info, .routeRevision = host.routeRevision, .connection = leased->connection});
    }
    if (!leased)
        return std::unexpected(std::move(leased).error());
    tell(info);
    if (auto const same = stillTheSame(host.id, host.routeRevision); !same) {
        take(info.id, same.error());
        m_closer.close(std::move(leased->connection));
        return std::unexpected(same.error());
    }
    leased->connection->keepChannelReady();
    return info;
}

Result<AgentSessions::Session> AgentSessions::find(std::string const& sessionId)
{
    std::unique_lock lock(m_mutex);
    if (auto const found = m_sessions.find(sessionId); found != m_sessions.end()) {
        auto session = found->second;
        lock.unlock();
        if (session.connection->alive())
            return session;
        auto error = lost(sessionId, session.connection->whyClosed());
        if (auto taken = take(sessionId, error))
            m_closer.close(std::move(taken->connection));
        return std::unexpected(std::move(error));
    }
    auto const epitaph = std::ranges::find(m_epitaphs, sessionId, &std::pair<std::string, Error>::first);
    return std::unexpected(epitaph == m_epitaphs.end() ? unknown(sessionId) : epitaph->second);
}

Result<std::shared_ptr<ssh::Connection>> AgentSessions::use(std::string const& sessionId)
{
    TRY_LET(auto session, find(sessionId));
    std::scoped_lock const lock(m_mutex);
    if (auto const found = m_sessions.find(sessionId); found != m_sessions.end())
        found->second.info.lastUsedAt = std::chrono::system_clock::now();
    return std::move(session.connection);
}

Result<std::string> AgentSessions::hostOf(std::string const& sessionId)
{
    TRY_LET(auto session, find(sessionId));
    return std::move(session.info.hostId);
}

Result<std::int64_t> AgentSessions::routeOf(std::string const& sessionId)
{
    TRY_LET(auto const session, find(sessionId));
    return session.routeRevision;
}

std::optional<AgentSessions::Session> AgentSessions::take(std::string const& sessionId, Error epitaph)
{
    std::optional<Session> taken;
    {
        std::scoped_lock const lock(m_mutex);
        auto const found = m_sessions.find(sessionId);
        if (found == m_sessions.end())
            return std::nullopt;
        taken = std::move(found->second);
        m_sessions.erase(found);
        m_epitaphs.emplace_back(sessionId, std::move(epitaph));
        if (m_epitaphs.size() > kMostEpitaphs)
            m_epitaphs.pop_front();
    }
    tellEnded(sessionId);
    for (auto const& entry :
         takeTunnels([&](TunnelEntry const& one) { return one.info.sessionId == sessionId; }))
        entry.tunnel->close();
    return taken;
}

Result<void> AgentSessions::close(std::string const& sessionId, std::stop_token const& stop)
{
    TRY(find(sessionId));
    auto session = take(sessionId, unknown(sessionId));
    if (!session)
        return std::unexpected(unknown(sessionId));
    m_running.stopSession(sessionId, StopReason::Person, "Stopped because its session was closed.");
    m_running.waitForSession(sessionId, Deadline::in(kLadderTime), stop);
    m_closer.close(std::move(session->connection));
    return {};
}

std::vector<SessionInfo> AgentSessions::list()
{
    removeLost();
    std::vector<SessionInfo> all;
    {
        std::scoped_lock const lock(m_mutex);
        for (auto const& [id, session] : m_sessions)
            all.push_back(session.info);
    }
    std::ranges::sort(all, {}, &SessionInfo::openedAt);
    return all;
}

void AgentSessions::removeLost()
{
    std::vector<Session> dead;
    {
        std::scoped_lock const lock(m_mutex);
        for (auto const& [id, session] : m_sessions)
            if (!session.connection->alive())
                dead.push_back(session);
    }
    for (auto const& session : dead)
        if (auto taken = take(session.info.id, lost(session.info.id, session.connection->whyClosed())))
            m_closer.close(std::move(taken->connection));
    for (auto const& entry : takeTunnels([](TunnelEntry const& one) { return !one.tunnel->open(); }))
        entry.tunnel->close();
}

// -- connections for one piece of work ----------------------------------------------------------

Result<AgentSessions::Lease> AgentSessions::lease(Host const& host, bool spareWelcome, Deadline deadline,
                                                  std::stop_token const& stop)
{
    if (spareWelcome)
        if (auto spare = m_spares.take(host, deadline, stop))
            return Lease{.connection = std::move(spare), .wasSpare = true};
    TRY_LET(auto opened, m_connector.open(host, deadline, stop));
    return Lease{.connection = std::move(opened)};
}

void AgentSessions::giveBack(Lease lease, Host const& host, bool worked, AfterReply& afterReply)
{
    // Threads that begin would compete with the reply. The next call may come as soon as that is out: the
    // spare first.
    afterReply.add([this, host, worked, connection = std::move(lease.connection)]() mutable {
        if (worked)
            m_spares.prepare(host);
        m_closer.close(std::move(connection));
        if (worked)
            m_watch.wake();
    });
}

Running::Listed AgentSessions::listWork(Work work)
{
    auto listed = m_running.add(std::move(work));
    m_watch.wake();
    return listed;
}

Result<Host> AgentSessions::stillTheSame(std::string const& hostId, std::int64_t routeRevision) const
{
    TRY_LET(auto host, findOpenHost(store(), paths(), hostId));
    if (host.routeRevision != routeRevision)
        return fail(
            Errc::Cancelled,
            fmt::format("The person changed where host '{}' is, or the way to it, so this was given up and "
                        "nothing was run. Look at hosts_list, then try again.",
                        host.name));
    return host;
}

// -- changes ------------------------------------------------------------------------------------

void AgentSessions::endAside(Session session, StopReason reason, std::string const& why)
{
    m_background.run([this, session = std::move(session), reason, why](std::stop_token const& stop) mutable {
        m_running.stopSession(session.info.id, reason, why);
        m_running.waitForSession(session.info.id, Deadline::in(kLadderTime), stop);
        m_closer.close(std::move(session.connection));
    });
}

void AgentSessions::review()
{
    if (Settings::load(paths().settings).agentsStopped) {
        m_running.stopAll(StopReason::Person, "Stopped because the person stopped all agents.");
        m_spares.dropAll();
        for (auto const& entry : takeTunnels([](TunnelEntry const&) { return true; }))
            entry.tunnel->close();
    }
    auto ids = m_running.hostIds();
    ids.merge(m_spares.hostIds());
    {
        std::scoped_lock const lock(m_mutex);
        for (auto const& [id, session] : m_sessions)
            ids.insert(session.info.hostId);
        for (auto const& [id, entry] : m_tunnels)
            ids.insert(entry.hostId);
    }
    for (auto const& id : ids)
        judge(id);
}

void AgentSessions::judge(std::string const& hostId)
{
    auto const host = store().findHost(hostId);
    // A host that cannot be looked up gives no permission, whatever the reason.
    m_spares.judge(hostId, host ? std::optional<Host>(*host) : std::nullopt);
    for (auto const& entry : takeTunnels([&](TunnelEntry const& one) {
             return one.hostId == hostId &&
                    (!host || host->policy != AgentPolicy::Full || host->routeRevision != one.routeRevision);
         }))
        entry.tunnel->close();
    m_running.judge(hostId, host);
    judgeSessions(hostId, host);
}

void AgentSessions::judgeSessions(std::string const& hostId, Result<Host> const& host)
{
    std::vector<std::string> ending;
    {
        std::scoped_lock const lock(m_mutex);
        for (auto const& [id, session] : m_sessions)
            if (session.info.hostId == hostId && (!host || host->policy == AgentPolicy::Blocked ||
                                                  host->routeRevision != session.routeRevision))
                ending.push_back(id);
    }
    for (auto const& id : ending) {
        if (auto session = take(id, whyClosed(id, host)))
            endAside(*std::move(session), StopReason::PolicyChanged,
                     "Stopped because its session was closed: what agents may do on this host was changed.");
    }
}

} // namespace termalin::mcp
