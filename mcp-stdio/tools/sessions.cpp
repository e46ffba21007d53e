#include "mcp-stdio/services.h"
#include "mcp-stdio/tools/common.h"
#include "mcp-stdio/tools/tools.h"

namespace termalin::mcp {

Tool sessionOpen()
{
    using namespace schema;
    return {
        .name = "session_open",
        .title = "Open a session",
        .description =
            "Logs in to a server and keeps the connection, so that session_exec and tunnel_open need no new "
            "login. It belongs to you alone and ends with session_close or with this connection. At most "
            "32.",
        .effect = Effect::Additive,
        .needs = Needs::Nothing,
        .gate = Gate::HostPolicy,
        .args = {hostArg},
        .outputSchema = object({{"sessionId", text()}, {"hostId", text()}, {"host", text()}}),
        .run = [](Args const&, Call const&) -> Result<Json> {
            return fail(Errc::Internal, "session_open is not connected to its handler");
        },
    };
}

Tool sessionExec()
{
    static Arg<std::string> const command{
        .name = "command", .meaning = "One line for the server's shell", .limits = kCommandLimits};
    static Arg<std::int64_t> const timeoutSeconds{
        .name = "timeoutSeconds", .meaning = "", .fallback = 50, .limits = kTimeoutLimits};
    return {
        .name = "session_exec",
        .title = "Run a command in a session",
        .description =
            "As ssh_exec, on the connection of an open session: faster, but still a new shell each time, so "
            "cd and variables do not carry over. Several may run at once.",
        .effect = Effect::Destructive,
        .needs = Needs::Nothing,
        .gate = Gate::HostPolicy,
        .args = {sessionArg, command, timeoutSeconds},
        .outputSchema = execOutput(),
        .run = [](Args const&, Call const&) -> Result<Json> {
            return fail(Errc::Internal, "session_exec is not connected to its handler");
        },
        .maxResultChars = 200'000,
    };
}

Tool sessionClose()
{
    using namespace schema;
    return {
        .name = "session_close",
        .title = "Close a session",
        .description =
            "Disconnects a session of yours; its tunnels close with it and its commands are stopped.",
        .effect = Effect::Additive,
        .needs = Needs::Nothing,
        .gate = Gate::Open,
        .args = {sessionArg},
        .outputSchema = object({{"closed", flag()}}),
        .run = [](Args const&, Call const&) -> Result<Json> {
            return fail(Errc::Internal, "session_close is not connected to its handler");
        },
    };
}

Tool sessionList()
{
    using namespace schema;
    return {
        .name = "session_list",
        .title = "List sessions",
        .description = "Lists the sessions you have open.",
        .effect = Effect::ReadOnly,
        .needs = Needs::Nothing,
        .gate = Gate::Open,
        .outputSchema = object({{"sessions", list(object({{"sessionId", text()},
                                                          {"hostId", text()},
                                                          {"host", text()},
                                                          {"openedAt", text()},
                                                          {"lastUsedAt", text()}}))}}),
        .run = [](Args const&, Call const&) -> Result<Json> {
            return fail(Errc::Internal, "session_list is not connected to its handler");
        },
    };
}

} // namespace termalin::mcp
