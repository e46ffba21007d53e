#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/eventfd.h>

#include "ssh/detail_connection.h"

namespace termalin::ssh {

using namespace std::chrono_literals;

std::string_view toString(Completion completion) noexcept
{
    switch (completion) {
    case Completion::Exit: return "exit";
    case Completion::Timeout: return "timeout";
    case Completion::Cancelled: return "cancelled";
    case Completion::Disconnected: return "disconnected";
    }
    return "exit";
}

ConnectionImpl::ConnectionImpl(Parts parts)
    : m_parts(std::move(parts)), m_wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
    m_thread = std::thread([this] { loop(); });
}

ConnectionImpl::~ConnectionImpl()
{
    close();
    m_thread.join();
}

void ConnectionImpl::close()
{
    m_closing = true;
    wake();
}

bool ConnectionImpl::alive() const
{
    std::lock_guard const lock(m_mutex);
    return !m_ended && !m_closing;
}

std::string ConnectionImpl::whyClosed() const
{
    std::lock_guard const lock(m_mutex);
    if (m_ended)
        return m_why.message;
    return m_closing ? "The connection to " + name() + " was closed." : "";
}

void ConnectionImpl::onClosed(std::function<void()> callback)
{
    {
        std::lock_guard const lock(m_mutex);
        if (!m_ended) {
            m_onClosed.push_back(std::move(callback));
            return;
        }
    }
    callback();
}

Connection::Traffic ConnectionImpl::traffic() const
{
    return {m_bytesIn, m_bytesOut};
}

void ConnectionImpl::post(std::shared_ptr<Task> task)
{
    Error why;
    {
        std::lock_guard const lock(m_mutex);
        if (!m_ended) {
            m_posted.push_back(std::move(task));
            wake();
            return;
        }
        why = m_why;
    }
    task->ended(why);
}

void ConnectionImpl::wake() const noexcept
{
    ::eventfd_write(m_wake.get(), 1);
}

std::size_t ConnectionImpl::countCommand(std::string const& text)
{
    std::lock_guard const lock(m_mutex);
    return ++m_commands[std::hash<std::string>()(text)];
}

std::size_t ConnectionImpl::timesUsed(std::string const& text) const
{
    std::lock_guard const lock(m_mutex);
    auto const found = m_commands.find(std::hash<std::string>()(text));
    return found == m_commands.end() ? 0 : found->second;
}

/// Steps every task, again while bytes came in, room came free or a channel may be opened: each may concern a
/// task that already had its turn, and poll(2) reports none of them.
void ConnectionImpl::pass(std::list<std::shared_ptr<Task>>& tasks)
{
    auto& session = *m_parts.session;
    std::uint64_t before = 0;
    std::uint64_t chances = 0;
    auto roomAgain = false;
    do {
        before = session.received();
        chances = session.chancesToOpen();
        session.beginTurn();
        {
            std::lock_guard const lock(m_mutex);
            tasks.splice(tasks.end(), m_posted);
        }
        for (auto it = tasks.begin(); it != tasks.end();) {
            auto const held = session.congested() && !(*it)->minds();
            it = !held && (*it)->step(session) ? tasks.erase(it) : std::next(it);
            session.sweep(); // a channel given up is closed in the same breath
        }
        auto const wasCongested = session.congested();
        session.flush();
        roomAgain = wasCongested && !session.congested(); // whoever held back can go on
    } while ((roomAgain || session.received() != before || session.chancesToOpen() != chances) && !m_closing);
}

/// False when the server has not answered for too long.
bool ConnectionImpl::keepAlive()
{
    auto const& target = m_parts.route.destination();
    if (target.serverAliveInterval <= 0s)
        return true;
    auto& session = *m_parts.session;
    auto const now = Deadline::Clock::now();
    if (session.lastReceived() >= m_lastProbe)
        m_unanswered = 0;
    if (now < std::max(session.lastReceived(), m_lastProbe) + target.serverAliveInterval)
        return true;
    if (m_unanswered >= std::max(target.serverAliveCountMax, 1))
        return false;
    ++m_unanswered;
    m_lastProbe = now;
    session.probe();
    session.flush();
    return true;
}

void ConnectionImpl::wait(std::list<std::shared_ptr<Task>> const& tasks)
{
    auto& session = *m_parts.session;
    auto const events = static_cast<short>(session.waiting() > 0 ? POLLIN | POLLOUT : POLLIN);
    std::vector<pollfd> fds{{session.descriptor(), events, 0}, {m_wake.get(), POLLIN, 0}};
    auto until = Deadline::never();
    for (auto const& task : tasks) {
        task->polls(fds);
        until = Deadline::earlier(until, task->wakeAt());
    }
    auto const interval = m_parts.route.destination().serverAliveInterval;
    auto timeout = until.pollTimeout();
    if (interval > 0s) {
        auto const next = std::max(session.lastReceived(), m_lastProbe) + interval - Deadline::Clock::now();
        auto const ms = std::chrono::ceil<std::chrono::milliseconds>(next).count();
        timeout = std::clamp(static_cast<int>(std::min<std::int64_t>(ms, 60'000)), 0, timeout);
    }
    ::poll(fds.data(), fds.size(), timeout);
    eventfd_t ignored = 0;
    ::eventfd_read(m_wake.get(), &ignored);
}

void ConnectionImpl::loop()
{
    auto& session = *m_parts.session;
    std::list<std::shared_ptr<Task>> tasks;
    Error why{Errc::Unreachable, {}};
    auto const lost = [&](std::string const& what) {
        why.message = "The connection to " + name() + " was lost: " + what + ".";
    };
    for (;;) {
        session.beginTurn();
        if (auto const read = session.readTransport(); !read) {
            why = read.error();
            why.message = "The connection to " + name() + " was lost: " + why.message;
            pass(tasks);
            break;
        }
        pass(tasks);
        m_forced = session.forcedCommand();
        m_bytesIn = session.received();
        m_bytesOut = session.sent();
        if (m_closing) {
            why = {Errc::Cancelled, "The connection to " + name() + " was closed."};
            break;
        }
        if (!session.lost().empty()) {
            pass(tasks); // what came last
            auto const more = m_parts.carrier ? m_parts.carrier->problem() : std::string();
            lost(more.empty() ? session.lost() : more);
            break;
        }
        if (!keepAlive()) {
            lost("the server has not answered " + std::to_string(m_unanswered) + " keepalive probes");
            break;
        }
        wait(tasks);
    }
    finish(tasks, why);
}

void ConnectionImpl::finish(std::list<std::shared_ptr<Task>>& tasks, Error const& why)
{
    std::vector<std::function<void()>> callbacks;
    {
        std::lock_guard const lock(m_mutex);
        m_ended = true;
        m_why = why;
        tasks.splice(tasks.end(), m_posted);
        callbacks.swap(m_onClosed);
    }
    for (auto const& task : tasks)
        task->ended(why);
    tasks.clear();
    m_parts.session.reset();
    m_parts.carrier.reset();
    for (auto const& callback : callbacks)
        callback();
}

} // namespace termalin::ssh
