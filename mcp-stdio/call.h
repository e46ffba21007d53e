#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace termalin::mcp {

struct Services;
struct Admission;

/// Why a call is to end before its time.
enum class StopReason : std::uint8_t {
    None,
    ClientCancelled, ///< notifications/cancelled: nobody waits for the reply, and none is sent.
    Person,          ///< Stop everything, or a stop of this one call.
    PolicyChanged,   ///< What was allowed when it began no longer is.
    Shutdown,        ///< The client has gone, or this program ends.
};

/// The means to end one call, with a reason. Thread safe; whoever may want to end it (the client's Server,
/// the policy watcher) shares it.
class StopControl {
public:
    /// The first reason stands; later ones are ignored.
    void request(StopReason reason)
    {
        auto none = StopReason::None;
        if (m_reason.compare_exchange_strong(none, reason))
            m_source.request_stop();
    }
    [[nodiscard]] StopReason reason() const noexcept { return m_reason.load(); }
    [[nodiscard]] std::stop_token token() const { return m_source.get_token(); }

private:
    std::atomic<StopReason> m_reason = StopReason::None;
    std::stop_source m_source;
};

/// Takes what a running call has to tell meanwhile. The Server decides when it becomes a
/// notifications/progress. Thread safe; returns at once.
class Progress {
public:
    virtual ~Progress() = default;
    /// Raw bytes as they come; their last line, cleaned, becomes the message.
    virtual void output(std::string_view bytes) = 0;
    /// A message as it stands; at most 200 characters are shown.
    virtual void say(std::string_view message) = 0;
};

/// Who calls.
struct ClientInfo {
    std::string name;    ///< As it claims in `initialize`, at most 255 characters, made safe to show.
    std::string version; ///< The same.
    std::string program; ///< The executable of our parent process; empty if it could not be read.
};

/// What a call has still to do when its reply has been written, and that concerns nobody who waits for it. Of
/// the call's own thread.
class AfterReply {
public:
    void add(std::function<void()> work) { m_work.push_back(std::move(work)); }
    /// Does it all, once, in order; what throws is logged.
    void run() noexcept;

private:
    std::vector<std::function<void()>> m_work;
};

/// What a handler may use besides its arguments. Valid as long as the handler runs; `control` may be kept.
struct Call {
    Services& services;
    std::stop_token stop; ///< control->token()
    std::shared_ptr<StopControl> control;
    Progress& progress;
    ClientInfo const& client;
    AfterReply& afterReply;
    Admission const& admission; ///< What the gate has found; empty while the gate itself is asked.
    /// The tools/list that the client fetched last showed this row as destructive: a precondition for writes
    /// of rows whose effect depends on grants.
    bool shownDestructive = false;
};

} // namespace termalin::mcp
