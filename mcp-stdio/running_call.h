#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "core/deadline.h"
#include "mcp-stdio/rpc.h"
#include "mcp-stdio/services.h"

namespace termalin::mcp {

/// One call while it runs, and what it has told of its progress. Of Server alone.
class RunningCall : public Progress {
public:
    explicit RunningCall(rpc::RequestId requestId) : id(std::move(requestId)) {}

    void output(std::string_view bytes) override;
    void say(std::string_view message) override;

    /// The next notifications/progress line if one is due at `now`; moves the clock and the count on.
    [[nodiscard]] std::optional<std::string> dueProgress(Deadline::Clock::time_point now);
    /// When the next one is due, as things stand.
    [[nodiscard]] Deadline::Clock::time_point nextProgress();
    [[nodiscard]] bool wantsProgress() const noexcept { return !token.is_null(); }

    rpc::RequestId id;
    std::shared_ptr<StopControl> control = std::make_shared<StopControl>();
    Json token; ///< progressToken; null: the client wants none.
    std::shared_ptr<void> batch;
    ClientInfo client;
    AfterReply afterReply;
    bool shownDestructive = false;
    std::function<void()> arrived; ///< Called after the first news since the last message.

private:
    void noteArrival(std::unique_lock<std::mutex>& lock);

    std::mutex m_mutex;
    std::string m_tail;    ///< Of the output, raw.
    std::string m_message; ///< What the next message says.
    bool m_fresh = false;
    std::int64_t m_count = 0;
    Deadline::Clock::time_point m_last = Deadline::Clock::now(); ///< When the last one was sent.
    bool m_first = true;
};

} // namespace termalin::mcp
