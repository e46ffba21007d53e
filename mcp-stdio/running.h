#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "core/deadline.h"
#include "core/error.h"
#include "core/hosts.h"
#include "core/result.h"
#include "mcp-stdio/call.h"

namespace termalin::mcp {

/// One piece of work that runs on a server for an agent, such as a command or an upload.
struct Work {
    std::string hostId;
    std::int64_t routeRevision = 0;            ///< Of the host as it was when this began.
    std::string sessionId;                     ///< Empty: on a connection of its own.
    std::function<bool(Host const&)> admitted; ///< Whether the host as it is now would admit it.
    std::shared_ptr<StopControl> control;      ///< Ends it.
};

/// What runs for agents at this moment, so that it can be ended when what was allowed no longer is. Thread
/// safe.
class Running {
    struct Entry {
        Work work;
        std::string why; ///< Why it was ended; empty while it was not.
    };

public:
    /// Listed as long as this lives.
    class Listed {
    public:
        Listed(Listed&& other) noexcept : m_in(std::exchange(other.m_in, nullptr)), m_number(other.m_number)
        {
        }
        Listed& operator=(Listed&&) = delete;
        Listed(Listed const&) = delete;
        Listed& operator=(Listed const&) = delete;
        ~Listed()
        {
            if (m_in != nullptr)
                m_in->remove(m_number);
        }
        /// One sentence on why it was ended; empty if it was not ended here.
        [[nodiscard]] std::string why() const { return m_in->why(m_number); }

    private:
        friend class Running;
        Listed(Running* in, std::int64_t number) : m_in(in), m_number(number) {}
        Running* m_in;
        std::int64_t m_number;
    };

    /// Whoever adds must look at the policy once more afterwards: a change that was acted on before this call
    /// did not see the work.
    [[nodiscard]] Listed add(Work work);

    [[nodiscard]] std::set<std::string> hostIds();
    void stopAll(StopReason reason, std::string const& why);
    /// Ends what `host`, as it is saved now, would not admit; all of it when the host is gone, or what is
    /// saved cannot be read.
    void judge(std::string const& hostId, Result<Host> const& host);
    /// Ends what runs in a session, with a note of its own.
    void stopSession(std::string const& sessionId, StopReason reason, std::string const& why);
    /// True once nothing runs in the session any more, false when the deadline passes or `stop` is requested.
    bool waitForSession(std::string const& sessionId, Deadline deadline, std::stop_token const& stop);
    /// The same for everything.
    bool waitForAll(Deadline deadline);

private:
    void remove(std::int64_t number);
    std::string why(std::int64_t number);
    /// Ends those for which `reasonTo` gives a sentence.
    void stopThose(StopReason reason, std::function<std::string(Work const&)> const& reasonTo);

    std::mutex m_mutex;
    std::condition_variable_any m_fewer;
    std::map<std::int64_t, Entry> m_entries; ///< guarded by m_mutex
    std::int64_t m_last = 0;                 ///< guarded by m_mutex
};

} // namespace termalin::mcp
