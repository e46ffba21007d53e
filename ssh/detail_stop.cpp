#include "ssh/detail_stop.h"

#include <algorithm>
#include <array>

#include "ssh/detail_helper.h"
#include "ssh/detail_open.h"

namespace termalin::ssh {
namespace {

using namespace std::chrono_literals;
using Phase = HelperTask::Phase;

/// A helper that has not found anything by then shares the field with the channel's own signals.
constexpr auto kToFind = 2500ms;
/// The whole ladder. A helper's own three rungs take 2.5 s at most.
constexpr auto kWhole = 4s;

class Ladder {
public:
    Ladder(ConnectionImpl& connection, ExecTask& task)
        : m_connection(connection)
        , m_task(task)
        , m_helperEnd(Deadline::in(kToFind))
        , m_end(Deadline::in(kWhole))
    {
    }

    void climb()
    {
        if (m_connection.forcedCommand()) {
            m_note = "The server runs a fixed command for this key in place of any other, so no helper could "
                     "look after the processes.";
        } else if (!onSameConnection() && m_line) {
            onNewConnection();
        }
        if (!m_gone && !m_signalled && !m_task.endedWithin(0ms))
            signals();
        if (m_endedBySignal && !m_ownSeen)
            m_note += " The command itself has ended.";
    }

    /// Something was done that may have ended the command.
    [[nodiscard]] bool interfered() const noexcept { return m_interfered; }
    [[nodiscard]] Stopped stopped() const noexcept
    {
        return m_gone && m_ownSeen ? Stopped::Confirmed : Stopped::Unconfirmed;
    }
    [[nodiscard]] std::string const& note() const noexcept { return m_note; }

private:
    void audit(bool same) const
    {
        auto const& hook = m_connection.context().onHelper;
        if (hook)
            hook(m_connection.name(),
                 std::string("ends the processes of one command (INT, TERM, KILL) from ") +
                     (same ? "the same" : "a new") + " connection; marker " +
                     (m_task.marker().empty() ? "none" : m_task.marker()));
    }

    /// False when the server gives no second channel.
    bool onSameConnection()
    {
        audit(true);
        HelperOrder order;
        order.marker = m_task.marker();
        order.command = m_task.command();
        order.commandIsUnique = m_connection.timesUsed(order.command) == 1;
        auto const helper = std::make_shared<HelperTask>(std::move(order));
        m_connection.post(helper);
        return follow(m_connection, *helper);
    }

    void onNewConnection()
    {
        if (m_task.marker().empty() || m_connection.markers == ConnectionImpl::Markers::Refused) {
            m_note =
                "The server gives no second channel and takes no marker, so the command's processes could "
                "not be told from others; they may still be running.";
            return;
        }
        if (m_connection.neededPerson()) {
            m_note =
                "The server gives no second channel, and a new connection would need the person again, so "
                "nothing could look after the command's processes; they may still be running.";
            return;
        }
        audit(false);
        auto const opened = openRoute(m_connection.route(), m_connection.context(), m_helperEnd, {});
        if (!opened) {
            m_note = "The server gives no second channel, and a new connection to look after the command's "
                     "processes failed: " +
                     opened.error().message;
            return;
        }
        HelperOrder order;
        order.marker = m_task.marker();
        order.sameConnection = false;
        auto const helper = std::make_shared<HelperTask>(std::move(order));
        (*opened)->post(helper);
        follow(**opened, *helper);
    }

    bool follow(ConnectionImpl& connection, HelperTask& helper)
    {
        auto state = helper.waitBeyond(Phase::Looking, m_helperEnd);
        if (state.phase == Phase::Asked || state.phase == Phase::Looking) {
            // Start-up files of the account may take that long; until the end it may still get there.
            if (!m_task.endedWithin(0ms))
                signals();
            state = helper.waitBeyond(Phase::Looking, m_end);
        }
        if (state.phase == Phase::Refused || state.phase == Phase::Opening) {
            helper.giveUp();
            connection.wake();
            m_note = "The server gave the helper no channel, so the command's processes could not be looked "
                     "after; they may still be running.";
            m_line = connection.alive();
            return false;
        }
        if (state.phase == Phase::Acting) {
            m_interfered = true;
            m_ownSeen = state.ownSeen;
            if (state.marked)
                m_connection.markers = ConnectionImpl::Markers::Taken;
            else if (state.ownSeen && !m_task.marker().empty())
                m_connection.markers = ConnectionImpl::Markers::Refused;
            auto const marked = state.marked;
            state = helper.waitBeyond(Phase::Acting, m_end);
            m_gone = state.gone;
            if (m_gone && m_ownSeen)
                m_note = marked ? ""
                                : "The server takes no marker, so a process that had left the command's "
                                  "session before could not be found.";
            else if (m_gone)
                m_note = "The command's own process had ended before; what carried its marker was ended.";
            else
                m_note = std::to_string(state.left) + " of the command's processes could not be ended or may "
                                                      "still be running.";
        } else if (state.phase == Phase::Finished) {
            m_note = state.reason == "none"
                         ? "No process on the server could be proven to be this command's, so none was "
                           "touched; it may still be running."
                         : "The account's login shell or server does not let a helper look after the "
                           "command's processes; they may still be running.";
        } else {
            m_note = state.phase == Phase::Foreign
                         ? "The server ran something else in place of the helper that looks after the "
                           "command's processes; they may still be running."
                         : "The helper that looks after the command's processes did not answer in time; they "
                           "may still be running.";
        }
        if (state.phase != Phase::Finished) {
            helper.giveUp();
            connection.wake();
        }
        return true;
    }

    /// RFC 4254 6.9. OpenSSH passes it on to the command's process group; for root from 7.9 to 9.9, and for
    /// forced commands, it passes it by in silence.
    void signals()
    {
        struct Rung {
            char const* name;
            std::chrono::milliseconds wait;
        };
        static constexpr std::array kRungs{Rung{"INT", 500ms}, Rung{"TERM", 600ms}, Rung{"KILL", 300ms}};
        m_interfered = true;
        m_signalled = true;
        for (auto const& rung : kRungs) {
            m_task.signal(rung.name);
            m_connection.wake();
            auto const left =
                std::chrono::ceil<std::chrono::milliseconds>(m_end.at() - Deadline::Clock::now());
            if (m_task.endedWithin(std::clamp<std::chrono::milliseconds>(left, 0ms, rung.wait))) {
                m_endedBySignal = true;
                return;
            }
        }
    }

    ConnectionImpl& m_connection;
    ExecTask& m_task;
    Deadline m_helperEnd, m_end;
    bool m_line = true;
    bool m_interfered = false;
    bool m_signalled = false;
    bool m_endedBySignal = false;
    bool m_ownSeen = false;
    bool m_gone = false;
    std::string m_note;
};

} // namespace

Result<ExecOutcome> stopAndTake(ConnectionImpl& connection, ExecTask& task, Completion completion)
{
    auto const end = [&](Completion how, std::chrono::milliseconds grace) {
        if (!task.endedWithin(grace)) {
            task.finishNow(how);
            connection.wake();
            task.wait(Deadline::never(), {});
        }
        return task.take();
    };
    if (task.statusKnown())
        return end(Completion::Exit, 0ms);
    Ladder ladder(connection, task);
    ladder.climb();
    auto outcome = end(completion, 300ms); // its last words are on their way
    if (!outcome || !ladder.interfered())
        return outcome;
    outcome->completion = completion;
    outcome->stopped = ladder.stopped();
    outcome->note = ladder.note();
    return outcome;
}

} // namespace termalin::ssh
