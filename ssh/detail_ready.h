#pragma once

#include <chrono>

#include "ssh/detail_task.h"

namespace termalin::ssh {

/// Keeps one session channel open beforehand while nothing runs, for the next command: see
/// Session::keepReady(). Where the server gives none, commands open theirs as they come, and it is asked
/// again later, each time after twice the pause.
class ReadyTask final : public Task {
public:
    bool step(Session& session) override;
    void ended(Error const&) override {} // the session frees the channel
    [[nodiscard]] bool minds() const override { return true; }
    [[nodiscard]] Deadline wakeAt() const override { return m_notBefore; }

private:
    bool m_opening = false;
    std::chrono::seconds m_pause{1};
    Deadline m_notBefore = Deadline::never(); ///< never: there was no refusal
};

} // namespace termalin::ssh
