#include "mcp-stdio/running_call.h"

#include "core/output_buffer.h"

namespace termalin::mcp {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kTailBytes = 4096;
constexpr std::size_t kMaxMessage = 200;    // characters
constexpr auto kLeastInterval = 500ms;      // at most two a second
constexpr auto kGreatestInterval = 4'500ms; // at least every 5 s, with room for a busy machine

std::string lastLine(std::string_view bytes)
{
    OutputBuffer buffer(kTailBytes * 2);
    buffer.append(bytes);
    return buffer.lastLine(kMaxMessage);
}

} // namespace

void RunningCall::output(std::string_view bytes)
{
    if (!wantsProgress() || bytes.empty())
        return;
    std::unique_lock lock(m_mutex);
    if (bytes.size() >= kTailBytes) {
        m_tail.assign(bytes.substr(bytes.size() - kTailBytes));
    } else {
        if (m_tail.size() + bytes.size() > kTailBytes)
            m_tail.erase(0, m_tail.size() + bytes.size() - kTailBytes);
        m_tail.append(bytes);
    }
    noteArrival(lock);
}

void RunningCall::say(std::string_view message)
{
    if (!wantsProgress())
        return;
    std::unique_lock lock(m_mutex);
    m_tail.assign(message.substr(0, kTailBytes));
    noteArrival(lock);
}

void RunningCall::noteArrival(std::unique_lock<std::mutex>& lock)
{
    if (std::exchange(m_fresh, true))
        return;
    lock.unlock(); // the server's lock comes before this one
    if (arrived)
        arrived();
}

Deadline::Clock::time_point RunningCall::nextProgress()
{
    std::lock_guard const lock(m_mutex);
    if (!m_fresh)
        return m_last + kGreatestInterval;
    return m_first ? m_last : m_last + kLeastInterval;
}

std::optional<std::string> RunningCall::dueProgress(Deadline::Clock::time_point now)
{
    if (now < nextProgress())
        return std::nullopt;
    std::lock_guard const lock(m_mutex);
    if (std::exchange(m_fresh, false))
        m_message = lastLine(m_tail);
    m_first = false;
    m_last = now;
    Json params{{"progressToken", token}, {"progress", ++m_count}};
    if (!m_message.empty())
        params["message"] = m_message;
    return rpc::notificationLine("notifications/progress", params);
}

} // namespace termalin::mcp
