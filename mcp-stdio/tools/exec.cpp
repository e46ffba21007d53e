#include "mcp-stdio/services.h"
#include "mcp-stdio/tools/common.h"
#include "mcp-stdio/tools/tools.h"

namespace termalin::mcp {

Tool sshExec()
{
    static Arg<std::string> const command{
        .name = "command", .meaning = "One line for the server's shell", .limits = kCommandLimits};
    static Arg<std::int64_t> const timeoutSeconds{
        .name = "timeoutSeconds", .meaning = "Connecting included", .fallback = 50, .limits = kTimeoutLimits};
    return {
        .name = "ssh_exec",
        .title = "Run a command",
        .description =
            "Runs one command on a server over a connection of its own and returns stdout and stderr merged. "
            "No "
            "terminal and no input, so nothing that asks questions: use sudo -n, apt-get -y. cd and "
            "variables do not "
            "carry over: chain with `cd DIR && CMD`. An exit code other than 0 is a normal result. On "
            "timeout the "
            "command is stopped and what it printed is returned. Output over the cap (64 KiB) loses its "
            "middle: "
            "filter it on the server. For many commands on one server use session_open and session_exec.",
        .effect = Effect::Destructive,
        .needs = Needs::Nothing,
        .gate = Gate::HostPolicy,
        .args = {hostArg, command, timeoutSeconds},
        .outputSchema = execOutput(),
        .run = [](Args const&, Call const&) -> Result<Json> {
            return fail(Errc::Internal, "ssh_exec is not connected to its handler");
        },
        .maxResultChars = 200'000,
    };
}

} // namespace termalin::mcp
