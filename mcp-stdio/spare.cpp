#include "mcp-stdio/spare.h"

#include <utility>
#include <vector>

#include "core/log.h"
#include "mcp-stdio/authorize.h"

namespace termalin::mcp {
namespace {

constexpr std::chrono::seconds kLoginTime{20};
/// A server that cuts idle connections at once must not be logged in to over and over.
constexpr std::chrono::seconds kWorthReplacing{5};
/// A handshake is much work for both ends: the reply of the call that used up the last spare goes first.
constexpr std::chrono::milliseconds kAfterTheReply{30};

} // namespace

Spares::~Spares()
{
    dropAll();
}

void Spares::letGo(std::map<std::string, Spare>::iterator spare)
{
    spare->second.stop.request_stop();
    m_closer.close(std::move(spare->second.connection));
    m_spares.erase(spare);
    m_changed.notify_all();
}

std::shared_ptr<ssh::Connection> Spares::take(Host const& host, Deadline deadline,
                                              std::stop_token const& stop)
{
    std::unique_lock lock(m_mutex);
    auto const found = m_spares.find(host.id);
    if (found == m_spares.end())
        return nullptr;
    if (found->second.host.revision != host.revision) {
        letGo(found);
        return nullptr;
    }
    auto const number = found->second.number;
    if (!found->second.connection) {
        auto const until = deadline.at() - kLoginTime;
        if (until <= Clock::now() || std::exchange(found->second.wanted, true))
            return nullptr;
        m_changed.notify_all();
        m_changed.wait_until(lock, stop, until, [&] {
            auto const now = m_spares.find(host.id);
            return now == m_spares.end() || now->second.number != number || now->second.connection;
        });
    }
    auto const now = m_spares.find(host.id);
    if (now == m_spares.end() || now->second.number != number)
        return nullptr;
    if (!now->second.connection) { // the time ran out, or a stop came: another may wait for it
        now->second.wanted = false;
        return nullptr;
    }
    auto connection = std::move(now->second.connection);
    m_spares.erase(now);
    if (!connection->alive()) {
        m_closer.close(std::move(connection));
        return nullptr;
    }
    return connection;
}

void Spares::prepare(Host const& host)
{
    if (m_connector.mayRepeatLogin(host))
        start(host, false);
}

void Spares::start(Host const& host, bool second)
{
    std::stop_token stop;
    std::int64_t number = 0;
    {
        std::scoped_lock const lock(m_mutex);
        if (m_spares.contains(host.id) || m_spares.size() >= kMost)
            return;
        number = ++m_last;
        auto& spare = m_spares[host.id];
        spare.host = host;
        spare.number = number;
        spare.second = second;
        spare.made = Clock::now();
        stop = spare.stop.get_token();
    }
    m_background.run([this, host, number, stop](std::stop_token const& ending) {
        std::stop_source either;
        std::stop_callback const dropped(stop, [&] { either.request_stop(); });
        std::stop_callback const ended(ending, [&] { either.request_stop(); });
        make(host, number, either.get_token());
    });
}

void Spares::make(Host const& host, std::int64_t number, std::stop_token const& stop)
{
    {
        std::unique_lock lock(m_mutex);
        m_changed.wait_for(lock, stop, kAfterTheReply, [&] {
            auto const now = m_spares.find(host.id);
            return now == m_spares.end() || now->second.number != number || now->second.wanted;
        });
    }
    auto const deadline = Deadline::in(kLoginTime);
    auto const open = findOpenHost(m_connector.store(), m_connector.paths(), host.id);
    auto opened = open ? m_connector.open(host, deadline, stop) : std::unexpected(open.error());
    if (!opened)
        log(LogLevel::Debug, "spare", "No spare connection for this host: {}", opened.error().message);
    else if (host.policy == AgentPolicy::Allowlist)
        static_cast<void>((*opened)->loginShell(deadline, stop)); // known by the time that a command comes
    // A change that came while this was being made has been looked at without it.
    auto const now = findOpenHost(m_connector.store(), m_connector.paths(), host.id);
    auto const fit = opened && (*opened)->alive() && now && now->revision == host.revision;

    std::unique_lock lock(m_mutex);
    auto const found = m_spares.find(host.id);
    if (found == m_spares.end() || found->second.number != number) {
        lock.unlock();
        if (opened)
            m_closer.close(*std::move(opened));
        return;
    }
    if (opened) {
        (*opened)->keepChannelReady();
        found->second.connection = *std::move(opened);
    }
    found->second.made = Clock::now();
    if (fit)
        m_changed.notify_all();
    else
        letGo(found);
}

std::set<std::string> Spares::hostIds()
{
    std::scoped_lock const lock(m_mutex);
    std::set<std::string> ids;
    for (auto const& [id, spare] : m_spares)
        ids.insert(id);
    return ids;
}

void Spares::judge(std::string const& hostId, std::optional<Host> const& host)
{
    std::scoped_lock const lock(m_mutex);
    auto const found = m_spares.find(hostId);
    if (found == m_spares.end())
        return;
    if (!host || host->policy == AgentPolicy::Blocked || host->revision != found->second.host.revision)
        letGo(found);
}

void Spares::dropAll()
{
    std::scoped_lock const lock(m_mutex);
    while (!m_spares.empty())
        letGo(m_spares.begin());
}

void Spares::tick()
{
    std::vector<Host> again;
    {
        std::scoped_lock const lock(m_mutex);
        auto const now = Clock::now();
        for (auto one = m_spares.begin(); one != m_spares.end();) {
            auto const next = std::next(one);
            auto const& spare = one->second;
            if (spare.connection && !spare.connection->alive()) {
                if (!spare.second && now - spare.made >= kWorthReplacing && now - spare.made < kKept)
                    again.push_back(spare.host);
                letGo(one);
            } else if (spare.connection && now - spare.made >= kKept) {
                letGo(one);
            }
            one = next;
        }
    }
    for (auto const& host : again)
        if (m_connector.mayRepeatLogin(host))
            start(host, true);
}

} // namespace termalin::mcp
