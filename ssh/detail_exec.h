#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "ssh/channel.h"
#include "ssh/connection.h"
#include "ssh/detail_task.h"

namespace termalin::ssh {

class ConnectionImpl;

inline constexpr std::string_view kMarkerName = "LC_TERMALIN_RUN";

/// One command on a channel of its own, from the opening to the end that ExecOutcome tells. The public
/// members are for the thread that called exec().
class ExecTask final : public Task {
public:
    /// `marker`: the value of kMarkerName in the command's environment; empty: none is set.
    ExecTask(ConnectionImpl& connection, ExecRequest request, std::string marker);
    ~ExecTask() override;

    enum class Waited : std::uint8_t { Ended, Timeout, Cancelled };
    Waited wait(Deadline deadline, std::stop_token const& stop);
    /// Waits for the end alone.
    bool endedWithin(std::chrono::milliseconds limit);

    /// Gives up what has not been handed over; true if so: it never will be. False: it has been.
    bool giveUp();
    /// Sends a signal with the channel's own request. The loop must be woken.
    void signal(std::string name);
    /// Ends the task as it stands, its channel given up. The loop must be woken.
    void finishNow(Completion completion);
    /// After the end, once.
    Result<ExecOutcome> take();

    [[nodiscard]] std::string const& command() const noexcept { return m_request.command; }
    [[nodiscard]] std::string const& marker() const noexcept { return m_marker; }
    /// The server has told how it ended, and only its output is still held open.
    [[nodiscard]] bool statusKnown() const;

    bool step(Session& session) override;
    void ended(Error const& why) override;
    [[nodiscard]] Deadline wakeAt() const override;
    [[nodiscard]] bool minds() const override { return true; }

private:
    Attempt<void> begin(Session& session);
    bool failToBegin(Error error);
    bool readOutput(Session& session);
    [[nodiscard]] bool silent(Session& session);
    bool sendSignals();
    bool finishIfTold();
    void noteStatus();
    void settle(Result<ExecOutcome> outcome);
    bool finish(Completion completion, std::string note);

    ConnectionImpl& m_connection;
    ExecRequest m_request;
    std::string m_marker;
    Deadline::Clock::time_point m_begun = Deadline::Clock::now();

    // The connection's thread only.
    std::optional<Channel> m_channel;
    bool m_prepared = false, m_marked = false, m_started = false, m_inputClosed = false;
    bool m_endOfOutput = false;
    std::optional<Error> m_broken;
    OutputBuffer m_output;
    std::optional<Deadline::Clock::time_point> m_statusAt;
    Deadline::Clock::time_point m_lastByte{};
    int m_probes = 0;                    ///< sent in this silence
    std::uint64_t m_receivedAtProbe = 0; ///< of the session, when the last was sent
    Deadline m_retry = Deadline::never();

    mutable std::mutex m_mutex; ///< guards what follows
    std::condition_variable_any m_changed;
    bool m_givenUp = false;
    bool m_handedOver = false;
    bool m_statusKnown = false;
    std::vector<std::string> m_signals;
    std::optional<Completion> m_finishNow;
    std::optional<Result<ExecOutcome>> m_outcome;
};

} // namespace termalin::ssh
