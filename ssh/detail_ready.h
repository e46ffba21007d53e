#pragma once

#include "ssh/detail_task.h"

namespace termalin::ssh {

/// Keeps one session channel open beforehand while nothing runs, for the next command: see
/// Session::keepReady(). Ends when the server gives none; commands then open theirs as they come.
class ReadyTask final : public Task {
public:
    bool step(Session& session) override;
    void ended(Error const&) override {} // the session frees the channel
    [[nodiscard]] bool minds() const override { return true; }

private:
    bool m_opening = false;
};

} // namespace termalin::ssh
