#pragma once

#include <functional>
#include <string>

#include "core/deadline.h"
#include "core/result.h"
#include "mcp-stdio/agent_sessions.h"
#include "mcp-stdio/services.h"

/// What the handlers of several families share.
namespace termalin::mcp {

/// Lists a call's work on the host that the gate has admitted it to, so that it ends when the person no
/// longer allows it.
[[nodiscard]] Running::Listed listCall(Call const& call, std::string sessionId,
                                       std::function<bool(Host const&)> admitted);

/// `error`, or, when the work was ended by a change of what is allowed, Cancelled with the reason.
[[nodiscard]] Error explained(Error error, Running::Listed const& work);

/// Runs `command` on `connection`, judged once more by the host as it is now and the server's login shell.
/// Errors (nothing ran): what Connection::exec and the policy say.
[[nodiscard]] Result<ssh::ExecOutcome> runCommand(ssh::Connection& connection, Call const& call,
                                                  std::string const& command, Deadline deadline);

/// What ssh_exec and session_exec give. `why`: why the work was ended; may be empty.
[[nodiscard]] Json execResult(ssh::ExecOutcome const& outcome, std::string const& why);

} // namespace termalin::mcp
