#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "ssh/channel.h"
#include "ssh/detail_task.h"

namespace termalin::ssh {

/// What the helper is told of the command it is to stop.
struct HelperOrder {
    std::string marker;           ///< Value of the marker in the command's environment; empty: none was set.
    bool sameConnection = true;   ///< Its parent is the command's parent too.
    std::string command;          ///< As it was handed over.
    bool commandIsUnique = false; ///< No other command with this text ran on the connection.
};

/// A program on a channel of its own that finds the processes of one command on the server and ends them:
/// INT, TERM, KILL, looking again after each. What it may touch is proven to be the command's, see
/// detail_helper.cpp. The public members are for the thread that stops the command.
class HelperTask final : public Task {
public:
    explicit HelperTask(HelperOrder order);
    ~HelperTask() override;

    enum class Phase : std::uint8_t {
        Opening,
        Asked, ///< It was told to start; no sign of life yet.
        Looking,
        Refused, ///< The server gave no channel.
        Foreign, ///< Something else ran in its place, or nothing.
        Acting,  ///< It has found processes and begun to end them.
        Finished,
    };
    struct State {
        Phase phase = Phase::Opening;
        bool ownSeen = false; ///< The command's own process was alive.
        bool marked = false;  ///< It carried the marker.
        bool gone = false;    ///< Nothing is left.
        std::size_t left = 0; ///< How many are.
        std::string reason;   ///< Why nothing was touched.
    };
    /// Waits until the phase is beyond `phase` or the time is over.
    State waitBeyond(Phase phase, Deadline deadline);
    void giveUp();

    bool step(Session& session) override;
    void ended(Error const& why) override;
    [[nodiscard]] bool minds() const override { return true; }

private:
    bool finish(Phase phase);
    void release();
    bool talk();
    void line(std::string_view text);
    void set(Phase phase);
    [[nodiscard]] std::string script() const;

    HelperOrder m_order;
    std::uint32_t m_first, m_second;
    std::string m_sign; ///< begins each line of the helper's; itself never sent

    // The connection's thread only.
    Session* m_held = nullptr; ///< whose openings we hold back
    std::optional<Channel> m_channel;
    bool m_alone = false; ///< the command's channel was the only other one
    bool m_started = false, m_scriptEnded = false;
    std::string m_toSend;
    std::size_t m_sent = 0;
    std::string m_unread;

    mutable std::mutex m_mutex; ///< guards what follows
    std::condition_variable m_changed;
    State m_state;
    bool m_givenUp = false;
};

} // namespace termalin::ssh
