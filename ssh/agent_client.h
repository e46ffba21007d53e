#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.h"
#include "core/result.h"
#include "core/unique_fd.h"

namespace termalin::ssh {

/// A key that an agent holds.
struct AgentIdentity {
    std::string blob;    ///< Key or certificate in wire form.
    std::string comment; ///< The agent's words, as they came.
};

/// Speaks to an ssh-agent (draft-miller-ssh-agent) over its Unix socket. One thread at a time. Every wait
/// ends with the deadline or the stop token; after an error the line is closed, and a further call fails.
class AgentClient {
public:
    /// Errors: NotConnected (nobody listens; the message says so), InvalidArgument (the path is too long for
    /// a socket), PermissionDenied, Timeout, Cancelled.
    static Result<std::unique_ptr<AgentClient>> connect(std::string const& socket, Deadline deadline,
                                                        std::stop_token const& stop);

    /// Errors: NotConnected (it hung up), Unsupported (its answer is not one), PermissionDenied (it refused),
    /// Timeout, Cancelled.
    Result<std::vector<AgentIdentity>> identities(Deadline deadline, std::stop_token const& stop);

    /// The signature in wire form, checked to be one by this key, of this algorithm, over these bytes: what
    /// is sent on to a server is never what merely came. May wait for a person. Errors: as identities();
    /// PermissionDenied when the agent or its person says no.
    Result<std::string> sign(std::string_view blob, std::string_view data, std::string_view algorithm,
                             Deadline deadline, std::stop_token const& stop);

private:
    explicit AgentClient(std::string socket, UniqueFd fd) : m_socket(std::move(socket)), m_fd(std::move(fd))
    {
    }

    Result<std::string> ask(std::string const& request, std::uint8_t expected, std::string_view attempted,
                            Deadline deadline, std::stop_token const& stop);
    Result<void> transfer(std::string_view out, std::string* in, std::size_t count,
                          std::string_view attempted, Deadline deadline, std::stop_token const& stop);

    std::string m_socket;
    UniqueFd m_fd;
};

} // namespace termalin::ssh
