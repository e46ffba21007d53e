#pragma once

#include <mutex>
#include <string>
#include <sys/types.h>
#include <thread>

#include "core/result.h"
#include "core/unique_fd.h"
#include "ssh/detail_connection.h"
#include "ssh/target.h"

namespace termalin::ssh {

/// A running ProxyCommand (ssh_config(5)): the person's shell runs it in a process group of its own, with a
/// socket as its input and output and no other descriptor of ours. The group ends with this object, and also
/// when this program is killed: a watcher in the group waits for the end of a pipe whose other end only we
/// hold.
class ProxyCommand final : public Carrier {
public:
    /// Errors: Unreachable when no shell can be started.
    static Result<std::unique_ptr<ProxyCommand>> start(Target const& target);
    ProxyCommand(ProxyCommand const&) = delete;
    ProxyCommand& operator=(ProxyCommand const&) = delete;
    ~ProxyCommand() override; ///< Within 0.3 s.

    /// The socket to talk over; once.
    [[nodiscard]] UniqueFd takeStream() { return std::move(m_stream); }
    /// How it ended and the last that it wrote to stderr; waits up to 0.2 s for that.
    [[nodiscard]] std::string problem() override;

private:
    ProxyCommand() = default;
    void readErrors();

    pid_t m_pid = -1;
    UniqueFd m_stream;
    UniqueFd m_lifeline;
    UniqueFd m_errors;
    UniqueFd m_stop; ///< eventfd; ends the reader
    std::mutex m_mutex;
    std::string m_said; ///< guarded by m_mutex; the last bytes of stderr
    std::thread m_reader;
};

} // namespace termalin::ssh
