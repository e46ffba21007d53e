#pragma once

#include <memory>
#include <poll.h>
#include <vector>

#include "core/deadline.h"
#include "core/error.h"
#include "ssh/session.h"

namespace termalin::ssh {

/// A piece of work on a connection's thread. Every member is called on that thread only.
class Task {
public:
    Task() = default;
    virtual ~Task() = default;
    Task(Task const&) = delete;
    Task& operator=(Task const&) = delete;

    /// Goes on until it would block; called again whenever something may have changed: bytes came, a
    /// descriptor of polls() is ready, wakeAt() has passed, the connection was woken. True: it is done, and
    /// is forgotten. Must not block.
    virtual bool step(Session& session) = 0;

    /// The connection has ended, and `step` will not be called again. Whatever came before has been stepped
    /// through. Channels must be given up here at the latest: the session goes right after.
    virtual void ended(Error const& why) = 0;

    /// When step() wants to be called though nothing happens.
    [[nodiscard]] virtual Deadline wakeAt() const { return Deadline::never(); }

    /// Adds the descriptors it waits for besides the connection's own.
    virtual void polls(std::vector<pollfd>&) const {}

    /// False: step() sends in bulk without asking Session::congested() first, and so is held back while more
    /// than 256 KiB wait for the stream.
    [[nodiscard]] virtual bool minds() const { return false; }
};

} // namespace termalin::ssh
