#pragma once

#include <string>
#include <sys/types.h>

#include "core/json.h"
#include "core/result.h"
#include "core/unique_fd.h"

namespace termalin::demo {

/// An MCP client as small as it can be: starts a server and asks it one thing after another.
class Client {
public:
    static Result<Client> start(std::string const& program);
    Client(Client const&) = delete;
    Client& operator=(Client const&) = delete;
    Client(Client&& other) noexcept;
    Client& operator=(Client&&) = delete;
    ~Client();

    /// Sends a request and gives the result of its answer. Waits for 60 s at most.
    /// Errors: Timeout; QueryFailed for a JSON-RPC error; NotConnected when the server has ended.
    Result<Json> request(std::string const& method, Json const& params);
    Result<void> notify(std::string const& method);
    /// Ends the server's input and waits for it. Errors: Internal unless it ends with 0.
    Result<void> finish();

private:
    Client(pid_t pid, UniqueFd in, UniqueFd out) : m_pid(pid), m_in(std::move(in)), m_out(std::move(out)) {}
    Result<void> send(Json const& message);
    Result<std::string> readLine();

    pid_t m_pid;
    UniqueFd m_in;  ///< the server's input
    UniqueFd m_out; ///< its output
    std::string m_buffer;
    int m_id = 0;
};

} // namespace termalin::demo
