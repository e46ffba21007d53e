// The part of Server that runs beside receive(): replies, progress, and the end of calls.
#include "core/output_buffer.h"
#include "mcp-stdio/running_call.h"
#include "mcp-stdio/server.h"

namespace termalin::mcp {
namespace {

std::pair<int, char const*> mcpLevel(LogLevel level)
{
    switch (level) {
    case LogLevel::Debug: return {0, "debug"};
    case LogLevel::Info: return {1, "info"};
    case LogLevel::Warn: return {3, "warning"};
    case LogLevel::Error: return {4, "error"};
    }
    return {4, "error"};
}

} // namespace

void Server::answer(BatchPtr const& batch, std::optional<std::string> reply)
{
    std::lock_guard const lock(m_mutex);
    answerLocked(batch, std::move(reply));
}

void Server::answerLocked(BatchPtr const& batch, std::optional<std::string> reply)
{
    if (!batch) {
        if (reply)
            m_send(*std::move(reply));
        return;
    }
    if (reply)
        batch->replies += (batch->replies.empty() ? "" : ",") + *reply;
    if (--batch->pending == 0 && !batch->replies.empty())
        m_send('[' + batch->replies + ']');
}

void Server::finish(RunningCall& call, std::string reply)
{
    std::lock_guard const lock(m_mutex);
    auto const node = m_calls.extract(call.id.key); // the caller holds the call too
    std::optional<std::string> answered;
    if (call.control->reason() != StopReason::ClientCancelled) // MCP: a cancelled request gets no reply
        answered = std::move(reply);
    answerLocked(std::static_pointer_cast<Batch>(call.batch), std::move(answered));
    m_idle.notify_all();
}

void Server::sendProgress(std::stop_token const& stop)
{
    std::unique_lock lock(m_mutex);
    while (!stop.stop_requested()) {
        m_progressArrived = false;
        auto const next = sendDueProgress();
        m_wake.wait_until(lock, stop, next, [&] { return m_progressArrived; });
    }
}

/// Returns when to look again.
Deadline::Clock::time_point Server::sendDueProgress()
{
    auto const now = Deadline::Clock::now();
    auto next = now + std::chrono::minutes(10);
    for (auto const& [key, call] : m_calls) {
        if (!call->wantsProgress() || call->control->reason() == StopReason::ClientCancelled)
            continue;
        // A client that does not read would only find a heap of old news.
        if (auto line = call->dueProgress(now); line && !(m_options.congested && m_options.congested()))
            m_send(*std::move(line));
        next = std::min(next, call->nextProgress());
    }
    return next;
}

void Server::toolsChanged()
{
    std::vector<std::pair<std::string, Effect>> now;
    for (auto const& tool : m_tools)
        if (tool.effectNow)
            now.emplace_back(tool.name, tool.currentEffect(m_services));
    std::lock_guard const lock(m_mutex);
    if (!m_clientReady || m_shown.empty())
        return;
    for (auto const& [name, effect] : now)
        if (m_shown[name] != effect)
            return m_send(rpc::notificationLine("notifications/tools/list_changed", nullptr));
}

void Server::log(LogLevel level, std::string_view category, std::string_view text)
{
    auto const [severity, name] = mcpLevel(level);
    std::lock_guard const lock(m_mutex);
    if (!m_clientReady || severity < m_logThreshold || (m_options.congested && m_options.congested()))
        return;
    m_send(rpc::notificationLine("notifications/message",
                                 {{"level", name}, {"logger", category}, {"data", visible(text)}}));
}

void Server::stopAll(StopReason reason)
{
    std::vector<std::shared_ptr<RunningCall>> calls;
    {
        std::lock_guard const lock(m_mutex);
        m_stopped = reason;
        for (auto const& [key, call] : m_calls)
            calls.push_back(call);
    }
    for (auto const& call : calls) // without the lock: stop callbacks run in here
        call->control->request(reason);
}

bool Server::waitUntilIdle(Deadline deadline, std::stop_token const& stop)
{
    std::unique_lock lock(m_mutex);
    return m_idle.wait_until(lock, stop, deadline.at(), [this] { return m_calls.empty(); });
}

} // namespace termalin::mcp
